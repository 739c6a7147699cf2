package dev.statekeep;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * How long to go on trying while no message comes.
 *
 * <p>A read tries a few times. One that follows, once it had its first message, tries for {@code
 * retryFor} from the first failure since a message came, or without an end where that is null.
 */
final class Patience {
  private static final int TRIES = 5;
  private static final long FIRST_PAUSE = Duration.ofMillis(50).toNanos();
  private static final long LONGEST_PAUSE = Duration.ofMillis(2500).toNanos();
  // 50 ms doubled so often is over the longest pause.
  private static final int DOUBLINGS = 6;

  private final boolean follows;
  private final Duration retryFor;
  private boolean began;
  private int tries;
  private long lostAt;

  private Patience(boolean follows, Duration retryFor) {
    this.follows = follows;
    this.retryFor = retryFor;
  }

  static Patience reading() {
    return new Patience(false, null);
  }

  static Patience following(Duration retryFor) {
    return new Patience(true, retryFor);
  }

  /** A message came. */
  void progress() {
    began = true;
    tries = 0;
  }

  /** Nanoseconds to wait before the next try. Throws the error where there is to be none. */
  long pause(StatekeepException.Unavailable error) {
    long now = System.nanoTime();
    if (tries == 0) {
      lostAt = now;
    }
    tries++;
    if (isOver(now)) {
      throw error;
    }
    long own = Math.min(FIRST_PAUSE << Math.min(tries - 1, DOUBLINGS), LONGEST_PAUSE);
    long atLeast = error.retryDelay().map(Duration::toNanos).orElse(own);
    // Up to twice as long, or everyone who lost the same server would come back at once.
    return (long) (atLeast * (1 + ThreadLocalRandom.current().nextDouble()));
  }

  private boolean isOver(long now) {
    if (!follows || !began) {
      return tries >= TRIES;
    }
    return retryFor != null && now - lostAt >= Calls.nanos(retryFor);
  }
}
