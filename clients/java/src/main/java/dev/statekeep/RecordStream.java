package dev.statekeep;

import io.grpc.Deadline;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Records as the server streams them. A lost connection is made again, and the read goes on where
 * it was: nothing is left out, nothing comes twice.
 *
 * <p>It is there once the server has answered, so a follower sees whatever is written from then on.
 * One thread reads; any thread may {@link #close()} it. It must be closed, for the call goes on
 * until then or until its end.
 *
 * @param <T> the records
 */
public final class RecordStream<T> implements Iterator<T>, AutoCloseable {
  private static final long FOREVER = Long.MAX_VALUE;

  private final Connection connection;
  private final Place<?, T> place;
  private final Patience patience;
  private final Deadline deadline;
  private final CountDownLatch closed = new CountDownLatch(1);
  private volatile boolean closedWithClient;
  private volatile boolean abandoned; // by its reader, who wants no more of what came
  private Iterator<T> items = Collections.emptyIterator();
  // Nanoseconds on the clock before which there is no new call.
  private long notBefore = System.nanoTime();

  private RecordStream(
      Connection connection, Place<?, T> place, Patience patience, Deadline deadline) {
    this.connection = connection;
    this.place = place;
    this.patience = patience;
    this.deadline = deadline;
  }

  /** Opens a stream, and returns once the server has answered. A deadline of null is none. */
  static <T> RecordStream<T> open(
      Connection connection, Place<?, T> place, Patience patience, Deadline deadline) {
    RecordStream<T> stream = new RecordStream<>(connection, place, patience, deadline);
    connection.add(stream);
    stream.fill(FOREVER);
    return stream;
  }

  /**
   * Waits until there is a record.
   *
   * @return true; false after the last one, or once the stream is closed
   * @throws StatekeepException the read failed, and cannot go on
   */
  @Override
  public boolean hasNext() {
    while (!has()) {
      if (!fill(FOREVER)) {
        return false;
      }
    }
    return true;
  }

  @Override
  public T next() {
    if (!hasNext()) {
      throw new NoSuchElementException("the stream has ended");
    }
    return items.next();
  }

  /**
   * Waits for a record for some time.
   *
   * @param timeout how long
   * @return the next record; empty where none came in that time, or the stream has ended
   * @throws StatekeepException the read failed, and cannot go on
   */
  public Optional<T> poll(Duration timeout) {
    long nanos = Math.max(Calls.nanos(timeout), 0);
    long began = System.nanoTime();
    while (!has()) {
      if (!fill(Math.max(nanos - (System.nanoTime() - began), 0))) {
        return Optional.empty();
      }
    }
    return Optional.of(items.next());
  }

  /**
   * The rest of it as a Java stream, which closes this one when it is closed.
   *
   * @return the stream
   */
  public Stream<T> stream() {
    int characteristics = Spliterator.ORDERED | Spliterator.NONNULL;
    return StreamSupport.stream(Spliterators.spliteratorUnknownSize(this, characteristics), false)
        .onClose(this::close);
  }

  /**
   * The revision up to which everything was handed out: the cursor to keep where a later read is to
   * go on.
   *
   * @return the revision
   */
  public long revision() {
    return place.revision();
  }

  /**
   * Whether all that was there when the read began was handed out.
   *
   * @return whether the next record will be a new one
   */
  public boolean caughtUp() {
    return place.caughtUp();
  }

  /** Ends the read and its call: no record comes after it. Closing again does nothing. */
  @Override
  public void close() {
    abandoned = true;
    end();
  }

  private void end() {
    closed.countDown();
    place.cancel();
  }

  /** Whether a record came that may be handed out. */
  private boolean has() {
    return !abandoned && items.hasNext();
  }

  /** Ends it because the client was closed: its reader is told so. */
  void closeWithClient() {
    closedWithClient = true;
    end();
  }

  /** Waits for a message, up to so many nanoseconds. False where none came, or none is to come. */
  private boolean fill(long nanos) {
    long began = System.nanoTime();
    while (!isClosed()) {
      long left = nanos == FOREVER ? FOREVER : nanos - (System.nanoTime() - began);
      try {
        if (!place.isOpen() && !reopen(left)) {
          if (isClosed()) {
            break;
          }
          return false;
        }
        Iterator<T> came = place.poll(left);
        if (came != null) {
          patience.progress();
          items = came;
          return true;
        }
        if (place.ended()) {
          end();
        } else if (left != FOREVER) {
          return false;
        }
      } catch (StatusRuntimeException failure) {
        lose(failure);
      } catch (InterruptedException interrupted) {
        end();
        Thread.currentThread().interrupt();
        throw new StatekeepException.Cancelled(
            "the thread was interrupted", StatekeepException.Details.NONE, interrupted);
      }
    }
    if (closedWithClient) {
      // A history cut short would look complete.
      throw StatekeepException.closed();
    }
    return false;
  }

  /**
   * Waits until a new call is due, and begins it. False where the time was up before, or there is
   * nothing to ask.
   */
  private boolean reopen(long left) throws InterruptedException {
    long pause = notBefore - System.nanoTime();
    if (pause > 0 && closed.await(Math.min(pause, left), TimeUnit.NANOSECONDS)) {
      return false;
    }
    if (pause > left) {
      return false;
    }
    connection.checkOpen();
    if (!place.open(connection, deadline)) {
      end();
      return false;
    }
    if (isClosed()) {
      // By another thread, which did not see this call.
      place.cancel();
    }
    return true;
  }

  private void lose(StatusRuntimeException failure) {
    place.drop();
    if (isClosed()) {
      return;
    }
    StatekeepException error = connection.failed(failure);
    if (!(error instanceof StatekeepException.Unavailable unavailable)) {
      end();
      throw error;
    }
    try {
      notBefore = System.nanoTime() + patience.pause(unavailable);
    } catch (StatekeepException over) {
      end();
      throw over;
    }
  }

  private boolean isClosed() {
    return closed.getCount() == 0;
  }
}
