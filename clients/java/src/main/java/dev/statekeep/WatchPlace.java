package dev.statekeep;

import io.grpc.Deadline;
import java.util.Iterator;
import statekeep.v1.MemoryGrpc;
import statekeep.v1.MemoryOuterClass.MemoryEntry;
import statekeep.v1.MemoryOuterClass.MemoryWatchRequest;
import statekeep.v1.MemoryOuterClass.MemoryWatchResponse;

/** A place among the writes of a scope. */
final class WatchPlace extends Place<MemoryWatchResponse, Entry> {
  private final MemoryWatchRequest request;
  private boolean began;

  WatchPlace(MemoryWatchRequest request) {
    super(request.getAfterRevision());
    this.request = request;
  }

  @Override
  ServerStream<MemoryWatchResponse> begin(Connection connection, Deadline deadline) {
    MemoryWatchRequest asked =
        began ? request.toBuilder().setAfterRevision(revision()).build() : request;
    return connection.stream(MemoryGrpc.getWatchMethod(), asked, deadline);
  }

  @Override
  Iterator<Entry> take(MemoryWatchResponse message) {
    began = true;
    return walk(
        message.getEntriesList(),
        MemoryEntry::getRevision,
        Messages::entry,
        toEnd(message.getRevision(), message.getCaughtUp()));
  }
}
