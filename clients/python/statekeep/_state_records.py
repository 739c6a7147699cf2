"""The records of nodestep's interface, and the messages that carry them. What goes in comes out equal."""

import base64
import json
import time
from dataclasses import dataclass, field
from fractions import Fraction
from uuid import uuid4

from google.protobuf.timestamp_pb2 import Timestamp

from statekeep._building import build
from statekeep._places import StateRecord
from statekeep.v1 import state_store_pb2, value_pb2
from statekeep.values import Data, Json, Text, message_of, raw_of_message

# Labels for what the message has no place for: a created_at that no timestamp holds exactly (it counts whole
# nanoseconds, from year 1 to 9999), and an active_json that is no JSON list.
CREATED_AT = "statekeep.created_at"
ACTIVE_JSON = "statekeep.active_json"

_FIRST_SECOND = -62_135_596_800
_LAST_SECOND = 253_402_300_799


def _new_id() -> str:
    return str(uuid4())


@dataclass(kw_only=True)
class HistoryEvent:
    """Something that happened in a thread. ``created_at`` is in seconds since 1970, ``data_json`` JSON text."""

    id: str = field(default_factory=_new_id)
    thread_id: str
    branch_id: str = "main"
    sequence: int
    type: str
    node: str | None = None
    parent_id: str | None = None
    data_json: str | None = None
    error_type: str | None = None
    message: str | None = None
    created_at: float = field(default_factory=time.time)


@dataclass(kw_only=True)
class CheckpointRecord:
    """A whole snapshot of a thread's state, taken at an event; ``active_json`` lists the tasks still to run."""

    id: str = field(default_factory=_new_id)
    thread_id: str
    branch_id: str = "main"
    event_id: str
    sequence: int
    state_json: str
    active_json: str = "[]"
    status: str = "running"
    created_at: float = field(default_factory=time.time)


@dataclass(kw_only=True)
class BranchRecord:
    """A branch of a thread, and the event it was forked at."""

    id: str = field(default_factory=_new_id)
    thread_id: str
    parent_branch_id: str = "main"
    from_event_id: str
    created_at: float = field(default_factory=time.time)


@dataclass(kw_only=True)
class History:
    """A branch's events and checkpoints, each in the order they were stored."""

    thread_id: str
    branch_id: str
    events: list[HistoryEvent] = field(default_factory=list)
    checkpoints: list[CheckpointRecord] = field(default_factory=list)


def event_message(event: HistoryEvent) -> state_store_pb2.Event:
    """The message of an event."""
    create_time, labels = _carried(event.created_at)
    return build(
        state_store_pb2.Event,
        id=event.id,
        thread_id=event.thread_id,
        branch_id=event.branch_id,
        sequence=event.sequence,
        type=event.type,
        node=event.node,
        parent_id=event.parent_id,
        data=None if event.data_json is None else _value(event.data_json),
        error_type=event.error_type,
        message=event.message,
        create_time=create_time,
        labels=labels,
    )


def checkpoint_message(checkpoint: CheckpointRecord) -> state_store_pb2.Checkpoint:
    """The message of a checkpoint."""
    create_time, labels = _carried(checkpoint.created_at)
    active, more_labels = _active(checkpoint.active_json)
    return build(
        state_store_pb2.Checkpoint,
        id=checkpoint.id,
        thread_id=checkpoint.thread_id,
        branch_id=checkpoint.branch_id,
        event_id=checkpoint.event_id,
        sequence=checkpoint.sequence,
        state=_value(checkpoint.state_json),
        active=active,
        status=checkpoint.status,
        create_time=create_time,
        labels=labels | more_labels,
    )


def event_record(message: state_store_pb2.Event) -> HistoryEvent:
    """The record of a stored event."""
    return HistoryEvent(
        id=message.id,
        thread_id=message.thread_id,
        branch_id=message.branch_id,
        sequence=message.sequence,
        type=message.type,
        node=message.node if message.HasField("node") else None,
        parent_id=message.parent_id if message.HasField("parent_id") else None,
        data_json=_json(message.data),
        error_type=message.error_type if message.HasField("error_type") else None,
        message=message.message if message.HasField("message") else None,
        created_at=_created_at(message),
    )


def checkpoint_record(message: state_store_pb2.Checkpoint) -> CheckpointRecord:
    """The record of a stored checkpoint."""
    return CheckpointRecord(
        id=message.id,
        thread_id=message.thread_id,
        branch_id=message.branch_id,
        event_id=message.event_id,
        sequence=message.sequence,
        state_json=_json(message.state) or "",
        active_json=message.labels.get(ACTIVE_JSON, _json(message.active) or ""),
        status=message.status,
        created_at=_created_at(message),
    )


def record_of(message: StateRecord) -> HistoryEvent | CheckpointRecord:
    """The record of an event or a checkpoint."""
    return event_record(message) if isinstance(message, state_store_pb2.Event) else checkpoint_record(message)


def branch_record(message: state_store_pb2.Branch) -> BranchRecord:
    """The record of a branch."""
    return BranchRecord(
        id=message.id,
        thread_id=message.thread_id,
        parent_branch_id=message.parent_branch_id,
        from_event_id=message.from_event_id,
        created_at=_seconds(message.create_time),
    )


def _value(text: str) -> value_pb2.Value:
    """JSON where it is JSON; other text, which the original takes as well, as text."""
    return message_of(Json(text) if _is_json(text) else Text(text))


def _is_json(text: str) -> bool:
    try:
        parsed = json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
        # What JSON may escape, but no server takes: a lone surrogate; and what is nested too deep.
        message_of(parsed)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _json(message: value_pb2.Value) -> str | None:
    raw = raw_of_message(message)
    if isinstance(raw, Data):
        # Another client's bytes, the way protobuf writes bytes in JSON.
        return json.dumps(base64.b64encode(raw.data).decode())
    return None if raw is None else raw.text


def _active(text: str) -> tuple[value_pb2.Value | None, dict[str, str]]:
    """The tasks to run, with the label that carries them where they are no list."""
    value = _value(text)
    return (value, {}) if value.json.lstrip().startswith("[") else (None, {ACTIVE_JSON: text})


def _carried(created_at: float) -> tuple[Timestamp | None, dict[str, str]]:
    """A time as timestamp, with the label that carries it where the timestamp does not hold it exactly."""
    message = Timestamp()
    label = {CREATED_AT: repr(float(created_at))}
    if not _FIRST_SECOND <= created_at < _LAST_SECOND:
        return None, label
    message.FromNanoseconds(round(Fraction(created_at) * 10**9))
    return message, {} if _seconds(message) == created_at else label


def _created_at(message: StateRecord) -> float:
    exact = message.labels.get(CREATED_AT)
    return _seconds(message.create_time) if exact is None else float(exact)


def _seconds(message: Timestamp) -> float:
    # Division of whole numbers rounds once, and so finds the float that went in.
    return message.ToNanoseconds() / 10**9
