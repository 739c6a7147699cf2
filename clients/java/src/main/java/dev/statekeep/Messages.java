package dev.statekeep;

import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import statekeep.v1.MemoryOuterClass;
import statekeep.v1.MemoryOuterClass.MemoryEntry;
import statekeep.v1.MemoryOuterClass.MemoryPurgeRecord;
import statekeep.v1.MemoryOuterClass.ScopeType;
import statekeep.v1.StateStoreOuterClass;
import statekeep.v1.ValueOuterClass;

/** Turns the contract's messages into this package's records, and back. */
final class Messages {
  private Messages() {}

  static ValueOuterClass.Value message(Value value) {
    ValueOuterClass.Value.Builder message =
        ValueOuterClass.Value.newBuilder().setContentType(value.contentType());
    if (value instanceof Value.Json json) {
      message.setJson(json.text());
    } else if (value instanceof Value.Text text) {
      message.setText(text.text());
    } else if (value instanceof Value.Data data) {
      message.setData(ByteString.copyFrom(data.data()));
    }
    return message.build();
  }

  static Optional<Value> value(ValueOuterClass.Value message) {
    return switch (message.getKindCase()) {
      case JSON -> Optional.of(new Value.Json(message.getJson(), message.getContentType()));
      case TEXT -> Optional.of(new Value.Text(message.getText(), message.getContentType()));
      case DATA ->
          Optional.of(new Value.Data(message.getData().toByteArray(), message.getContentType()));
      case KIND_NOT_SET -> Optional.empty();
    };
  }

  static MemoryOuterClass.Scope message(Scope scope) {
    ScopeType type =
        switch (scope.type()) {
          case NAMESPACE -> ScopeType.SCOPE_TYPE_NAMESPACE;
          case FLOW -> ScopeType.SCOPE_TYPE_FLOW;
          case EXECUTION -> ScopeType.SCOPE_TYPE_EXECUTION;
        };
    return MemoryOuterClass.Scope.newBuilder().setType(type).setName(scope.name()).build();
  }

  static Scope scope(MemoryOuterClass.Scope message) {
    return switch (message.getType()) {
      case SCOPE_TYPE_FLOW -> Scope.flow(message.getName());
      case SCOPE_TYPE_EXECUTION -> Scope.execution(message.getName());
      default -> Scope.namespace(message.getName());
    };
  }

  static com.google.protobuf.Duration message(Duration duration) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(
            duration.isNegative() && duration.getNano() > 0
                ? duration.getSeconds() + 1
                : duration.getSeconds())
        .setNanos(
            duration.isNegative() && duration.getNano() > 0
                ? duration.getNano() - 1_000_000_000
                : duration.getNano())
        .build();
  }

  static Duration duration(com.google.protobuf.Duration message) {
    return Duration.ofSeconds(message.getSeconds(), message.getNanos());
  }

  static Timestamp message(Instant time) {
    return Timestamp.newBuilder()
        .setSeconds(time.getEpochSecond())
        .setNanos(time.getNano())
        .build();
  }

  static Instant time(Timestamp message) {
    return Instant.ofEpochSecond(message.getSeconds(), message.getNanos());
  }

  static Entry entry(MemoryEntry message) {
    return new Entry(
        scope(message.getScope()),
        message.getKey(),
        message.getVersion(),
        value(message.getValue()),
        message.getValueType(),
        message.getDeleted(),
        time(message.getCreateTime()),
        optional(message.hasExpireTime(), time(message.getExpireTime())),
        message.getEntryId(),
        optional(message.hasExecutionId(), message.getExecutionId()),
        optional(message.hasFlowId(), message.getFlowId()),
        optional(message.hasFlowName(), message.getFlowName()),
        Map.copyOf(message.getLabelsMap()),
        message.getRevision());
  }

  static PurgeRecord purgeRecord(MemoryPurgeRecord message) {
    return new PurgeRecord(
        scope(message.getScope()),
        time(message.getCreateTime()),
        List.copyOf(message.getKeysList()),
        message.getVersionsDeleted(),
        message.getKeep(),
        message.getKeysAffected());
  }

  static ScopeInfo scopeInfo(MemoryOuterClass.MemoryScopeInfo message) {
    return new ScopeInfo(scope(message.getScope()), message.getEntryCount());
  }

  static Event event(StateStoreOuterClass.Event message) {
    return new Event(
        message.getId(),
        message.getThreadId(),
        message.getBranchId(),
        message.getSequence(),
        message.getType(),
        optional(message.hasNode(), message.getNode()),
        optional(message.hasParentId(), message.getParentId()),
        value(message.getData()),
        optional(message.hasErrorType(), message.getErrorType()),
        optional(message.hasMessage(), message.getMessage()),
        time(message.getCreateTime()),
        Map.copyOf(message.getLabelsMap()),
        message.getRevision());
  }

  static Checkpoint checkpoint(StateStoreOuterClass.Checkpoint message) {
    return new Checkpoint(
        message.getId(),
        message.getThreadId(),
        message.getBranchId(),
        message.getEventId(),
        message.getSequence(),
        value(message.getState()).orElse(Value.json("null")),
        value(message.getActive()).orElse(Value.json("[]")),
        message.getStatus(),
        time(message.getCreateTime()),
        optional(message.hasParentId(), message.getParentId()),
        value(message.getMetadata()),
        Map.copyOf(message.getLabelsMap()),
        message.getRevision());
  }

  static Branch branch(StateStoreOuterClass.Branch message) {
    return new Branch(
        message.getId(),
        message.getThreadId(),
        message.getParentBranchId(),
        message.getFromEventId(),
        optional(message.hasCreateTime(), time(message.getCreateTime())),
        message.getRevision());
  }

  static ThreadInfo thread(StateStoreOuterClass.Thread message) {
    return new ThreadInfo(
        message.getId(),
        message.getUid(),
        message.getEventCount(),
        message.getCheckpointCount(),
        message.getBranchCount(),
        time(message.getCreateTime()),
        time(message.getUpdateTime()),
        message.getRevision());
  }

  static <M, T> List<T> all(List<M> messages, Function<M, T> convert) {
    return messages.stream().map(convert).toList();
  }

  static <T> Optional<T> optional(boolean isThere, T field) {
    return isThere ? Optional.of(field) : Optional.empty();
  }
}
