package dev.statekeep;

import io.grpc.Deadline;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.function.ToLongFunction;

/**
 * Where a read stands: what it has handed out, and so how it goes on from there in another call.
 *
 * @param <M> the messages of its calls
 * @param <T> what it hands out
 */
abstract class Place<M, T> {
  private volatile long revision;
  private volatile boolean caughtUp;
  private volatile ServerStream<M> stream;

  Place(long revision) {
    this.revision = revision;
  }

  /** Begins the call that goes on from here; null where there is nothing more to ask for. */
  abstract ServerStream<M> begin(Connection connection, Deadline deadline);

  /** Hands out what a message brings, and moves on with each item. */
  abstract Iterator<T> take(M message);

  long revision() {
    return revision;
  }

  boolean caughtUp() {
    return caughtUp;
  }

  boolean isOpen() {
    return stream != null;
  }

  /** Opens a call. False where there is nothing more to ask for. */
  boolean open(Connection connection, Deadline deadline) {
    stream = begin(connection, deadline);
    return stream != null;
  }

  /**
   * Waits for a message, up to so many nanoseconds. Null where none came, or the call has ended.
   */
  Iterator<T> poll(long nanos) throws InterruptedException {
    M message = stream.poll(nanos);
    return message == null ? null : take(message);
  }

  boolean ended() {
    return stream.ended();
  }

  /** Gives up the call. */
  void drop() {
    stream = null;
  }

  void cancel() {
    ServerStream<M> open = stream;
    if (open != null) {
      open.cancel();
    }
  }

  void move(long to) {
    revision = to;
  }

  /**
   * Walks a message's records, and moves on with each; to the message's own revision with the last.
   */
  <R> Iterator<T> walk(
      List<R> records, ToLongFunction<R> revisionOf, Function<R, T> convert, Runnable atEnd) {
    if (records.isEmpty()) {
      atEnd.run();
      return Collections.emptyIterator();
    }
    return new Iterator<>() {
      private int next;

      @Override
      public boolean hasNext() {
        return next < records.size();
      }

      @Override
      public T next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        R one = records.get(next++);
        if (hasNext()) {
          move(revisionOf.applyAsLong(one));
        } else {
          atEnd.run();
        }
        return convert.apply(one);
      }
    };
  }

  /** To the end of a message of a stream that has cursors. */
  Runnable toEnd(long messageRevision, boolean messageCaughtUp) {
    return () -> {
      revision = messageRevision;
      caughtUp |= messageCaughtUp;
    };
  }
}
