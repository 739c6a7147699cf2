package dev.statekeep;

import io.grpc.Deadline;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.function.Function;
import statekeep.v1.StateStoreGrpc;
import statekeep.v1.StateStoreOuterClass.StreamHistoryRequest;
import statekeep.v1.StateStoreOuterClass.StreamHistoryResponse;

/**
 * A place on a branch: its events, and its checkpoints among them where the request asks for both.
 */
final class HistoryPlace<T extends StateRecord> extends Place<StreamHistoryResponse, T> {
  private final StreamHistoryRequest request;
  private final Function<StateRecord, T> cast;
  private final long limit;
  private boolean began;
  private long events;

  HistoryPlace(StreamHistoryRequest request, Function<StateRecord, T> cast) {
    super(request.getAfterRevision());
    this.request = request;
    this.cast = cast;
    // A read of the last n that does not follow is over after n, also where it had to go on.
    long last = request.getFollow() ? 0 : request.getLast();
    this.limit = request.getLimit() == 0 ? last : request.getLimit();
  }

  @Override
  ServerStream<StreamHistoryResponse> begin(Connection connection, Deadline deadline) {
    StreamHistoryRequest asked = request;
    if (began) {
      if (limit > 0 && events >= limit) {
        return null;
      }
      asked =
          request.toBuilder()
              .setAfterRevision(revision())
              .clearLast()
              .setLimit(Math.max(limit - events, 0))
              .build();
    }
    return connection.stream(StateStoreGrpc.getStreamHistoryMethod(), asked, deadline);
  }

  @Override
  Iterator<T> take(StreamHistoryResponse message) {
    began = true;
    List<StateRecord> records = new ArrayList<>(message.getEventsCount());
    message.getEventsList().forEach(event -> records.add(Messages.event(event)));
    if (message.getCheckpointsCount() > 0) {
      message.getCheckpointsList().forEach(one -> records.add(Messages.checkpoint(one)));
      records.sort(Comparator.comparingLong(StateRecord::revision));
    }
    return walk(
        records,
        StateRecord::revision,
        this::handOut,
        toEnd(message.getRevision(), message.getCaughtUp()));
  }

  private T handOut(StateRecord one) {
    if (one instanceof Event) {
      events++;
    }
    return cast.apply(one);
  }
}
