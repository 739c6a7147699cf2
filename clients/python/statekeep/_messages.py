"""Records of the messages that carry them, and messages of what a caller gives."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import get_args

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from statekeep._building import build
from statekeep._stored import reader, time_of
from statekeep.errors import UsageError
from statekeep.records import (
    Branch,
    Checkpoint,
    Entry,
    Event,
    NewCheckpoint,
    NewEvent,
    PurgeRecord,
    ScopeInfo,
    ScopeType,
    Thread,
    Write,
    scope_type_of,
)
from statekeep.v1 import memory_pb2, state_store_pb2
from statekeep.values import message_of

SCOPE_TYPES: tuple[ScopeType, ...] = get_args(ScopeType)

# Of the messages that the server sends, the records.
entry_of: Callable[[memory_pb2.MemoryEntry], Entry] = reader(Entry)
event_of: Callable[[state_store_pb2.Event], Event] = reader(Event)
checkpoint_of: Callable[[state_store_pb2.Checkpoint], Checkpoint] = reader(Checkpoint)


def timestamp_of(time: datetime | None) -> Timestamp | None:
    """The timestamp of an aware datetime."""
    if time is None:
        return None
    # The annotation binds no caller.
    if not isinstance(time, datetime) or time.tzinfo is None:  # type: ignore[redundant-expr]
        raise UsageError("a create_time is a datetime with a time zone, such as datetime.now(UTC)")
    message = Timestamp()
    message.FromDatetime(time)
    return message


def duration_of(time: float | timedelta | None, field: str) -> Duration | None:
    """The duration of so many seconds.

    Raises:
        UsageError: It is none; named is the field that it is for.
    """
    if time is None:
        return None
    message = Duration()
    try:
        message.FromTimedelta(time if isinstance(time, timedelta) else timedelta(seconds=time))
    except (TypeError, ValueError, OverflowError):
        allowed = "a timedelta or a finite number of seconds, below 86400 * 10**9"
        raise UsageError(f"{field} is {allowed}, not {time!r}", fields={field: f"is not {allowed}"}) from None
    return message


def scope_message(scope: str, scope_type: ScopeType) -> memory_pb2.Scope:
    """The message that names a scope."""
    if scope_type not in SCOPE_TYPES:
        raise UsageError(f"scope_type is one of 'namespace', 'flow' or 'execution', not {scope_type!r}")
    return build(memory_pb2.Scope, type=memory_pb2.ScopeType.Value(f"SCOPE_TYPE_{scope_type.upper()}"), name=scope)


def set_message(scope: memory_pb2.Scope, write: Write, request_id: str = "") -> memory_pb2.MemorySetRequest:
    """The message that writes a key."""
    return build(
        memory_pb2.MemorySetRequest,
        scope=scope,
        key=write.key,
        value=message_of(write.value),
        ttl=duration_of(write.ttl, "ttl"),
        expected_version=write.expected_version,
        labels=write.labels,
        execution_id=write.execution_id,
        flow_id=write.flow_id,
        flow_name=write.flow_name,
        request_id=request_id,
    )


def scope_info_of(message: memory_pb2.MemoryScopeInfo) -> ScopeInfo:
    """The record of a scope."""
    return ScopeInfo(message.scope.name, scope_type_of(message.scope), message.entry_count)


def purge_record_of(message: memory_pb2.MemoryPurgeRecord) -> PurgeRecord:
    """The record of a purge."""
    return PurgeRecord(
        scope=message.scope.name,
        scope_type=scope_type_of(message.scope),
        create_time=time_of(message.create_time),
        keys=tuple(message.keys),
        versions_deleted=message.versions_deleted,
        keep=message.keep,
        keys_affected=message.keys_affected,
    )


def event_message(event: NewEvent, thread_id: str = "", branch: str = "", sequence: int = 0) -> state_store_pb2.Event:
    """The message of an event to append."""
    return build(
        state_store_pb2.Event,
        id=event.id,
        thread_id=thread_id,
        branch_id=branch,
        sequence=sequence,
        type=event.type,
        node=event.node,
        parent_id=event.parent_id,
        data=None if event.data is None else message_of(event.data),
        error_type=event.error_type,
        message=event.message,
        create_time=timestamp_of(event.create_time),
        labels=event.labels,
    )


def checkpoint_message(checkpoint: NewCheckpoint, thread_id: str = "", branch: str = "") -> state_store_pb2.Checkpoint:
    """The message of a checkpoint to save."""
    return build(
        state_store_pb2.Checkpoint,
        id=checkpoint.id,
        thread_id=thread_id,
        branch_id=branch,
        event_id=checkpoint.event_id,
        sequence=checkpoint.sequence,
        state=message_of(checkpoint.state),
        active=message_of(checkpoint.active),
        status=checkpoint.status,
        create_time=timestamp_of(checkpoint.create_time),
        parent_id=checkpoint.parent_id,
        metadata=None if checkpoint.metadata is None else message_of(checkpoint.metadata),
        labels=checkpoint.labels,
    )


def branch_of(message: state_store_pb2.Branch) -> Branch:
    """The record of a branch."""
    return Branch(
        id=message.id,
        thread_id=message.thread_id,
        parent_branch_id=message.parent_branch_id,
        from_event_id=message.from_event_id,
        create_time=time_of(message.create_time) if message.HasField("create_time") else None,
        revision=message.revision,
    )


def thread_of(message: state_store_pb2.Thread) -> Thread:
    """The record of a thread."""
    return Thread(
        id=message.id,
        uid=message.uid,
        event_count=message.event_count,
        checkpoint_count=message.checkpoint_count,
        branch_count=message.branch_count,
        create_time=time_of(message.create_time),
        update_time=time_of(message.update_time),
        revision=message.revision,
    )
