package dev.statekeep;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * The items of a list, whose pages are fetched as they are needed. It may be gone through more than
 * once: each time asks the server anew.
 *
 * @param <T> the items
 */
public final class Pages<T> implements Iterable<T> {
  private final Function<String, Page<T>> fetch;

  Pages(Function<String, Page<T>> fetch) {
    this.fetch = fetch;
  }

  @Override
  public Iterator<T> iterator() {
    return new Walk<>(fetch);
  }

  /**
   * The items as a Java stream.
   *
   * @return the stream
   */
  public Stream<T> stream() {
    return StreamSupport.stream(spliterator(), false);
  }

  /** One page, and the token of the next: empty after the last. */
  record Page<T>(List<T> items, String next) {}

  private static final class Walk<T> implements Iterator<T> {
    private final Function<String, Page<T>> fetch;
    private Page<T> page;
    private int taken;

    private Walk(Function<String, Page<T>> fetch) {
      this.fetch = fetch;
    }

    @Override
    public boolean hasNext() {
      while (page == null || taken == page.items.size()) {
        if (page != null && page.next.isEmpty()) {
          return false;
        }
        page = fetch.apply(page == null ? "" : page.next);
        taken = 0;
      }
      return true;
    }

    @Override
    public T next() {
      if (!hasNext()) {
        throw new NoSuchElementException("there are no more items");
      }
      return page.items.get(taken++);
    }
  }
}
