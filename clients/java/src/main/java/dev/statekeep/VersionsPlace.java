package dev.statekeep;

import io.grpc.Deadline;
import java.util.Iterator;
import java.util.List;
import statekeep.v1.MemoryGrpc;
import statekeep.v1.MemoryOuterClass.MemoryEntry;
import statekeep.v1.MemoryOuterClass.MemoryHistoryRequest;
import statekeep.v1.MemoryOuterClass.MemoryHistoryResponse;

/**
 * A place among the versions of a key, counted in versions: this stream has no cursor of its own.
 */
final class VersionsPlace extends Place<MemoryHistoryResponse, Entry> {
  private final MemoryHistoryRequest request;
  // 0: none was taken yet.
  private long version;
  private long taken;

  VersionsPlace(MemoryHistoryRequest request) {
    super(0);
    this.request = request;
  }

  @Override
  ServerStream<MemoryHistoryResponse> begin(Connection connection, Deadline deadline) {
    MemoryHistoryRequest asked = request;
    if (version != 0) {
      if (isOver()) {
        return null;
      }
      // There may be versions on top by now, which would count.
      asked = request.toBuilder().setLimit(0).build();
    }
    return connection.stream(MemoryGrpc.getHistoryMethod(), asked, deadline);
  }

  @Override
  Iterator<Entry> take(MemoryHistoryResponse message) {
    // What is taken from a message is handed out before another is asked for.
    List<MemoryEntry> ahead = message.getEntriesList().stream().filter(this::isNext).toList();
    return walk(ahead, MemoryEntry::getRevision, Messages::entry, () -> moveToLast(ahead));
  }

  private void moveToLast(List<MemoryEntry> entries) {
    if (!entries.isEmpty()) {
      move(entries.get(entries.size() - 1).getRevision());
    }
  }

  private boolean isNext(MemoryEntry entry) {
    boolean isAhead =
        version == 0
            || (request.getOldestFirst()
                ? entry.getVersion() > version
                : entry.getVersion() < version);
    if (!isAhead || isOver()) {
      return false;
    }
    version = entry.getVersion();
    taken++;
    return true;
  }

  private boolean isOver() {
    return request.getLimit() > 0 && taken >= request.getLimit();
  }
}
