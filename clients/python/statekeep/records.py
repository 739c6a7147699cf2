"""What Statekeep keeps, as frozen Python records.

A value stands in a record as it is kept (``raw``) and is read as a Python object from it (``value``, ``data``,
``state``, …), anew each time: so a record is never changed by what its reader does to the object, and a
number that Python would round is still there in the raw JSON text. Times are aware, in UTC.

Entries, events and checkpoints that came from a server read their fields from the message when they are asked for
them. Each keeps all that came in the same message with it: a page, or about 256 KiB of a stream. To keep a few of many
for long, keep copies (``copy.copy``), which hold their own fields alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias, cast
from uuid import uuid4

from statekeep import _stored
from statekeep._stored import Stored, object_in, optional, stored
from statekeep.v1 import memory_pb2
from statekeep.values import Raw, object_of

ScopeType: TypeAlias = Literal["namespace", "flow", "execution"]


def scope_type_of(message: memory_pb2.Scope) -> ScopeType:
    """The type of a scope, by the name this package uses."""
    name = memory_pb2.ScopeType.Name(message.type).removeprefix("SCOPE_TYPE_").lower()
    return cast("ScopeType", name)


@stored(
    scope=attrgetter("scope.name"),
    scope_type=lambda message: scope_type_of(message.scope),
    raw=_stored.value("value"),
    create_time=_stored.time("create_time"),
    expire_time=_stored.optional_time("expire_time"),
    execution_id=optional("execution_id"),
    flow_id=optional("flow_id"),
    flow_name=optional("flow_name"),
    labels=_stored.labels,
)
@dataclass(frozen=True)
class Entry(Stored):
    """One version of a key.

    ``raw`` is None on a tombstone, and where the read asked for no values. ``revision`` is what
    ``memory.watch(after_revision=…)`` counts in.
    """

    __slots__ = ()

    scope: str
    scope_type: ScopeType
    key: str
    version: int
    raw: Raw | None
    value_type: str
    deleted: bool
    create_time: datetime
    expire_time: datetime | None
    entry_id: str
    execution_id: str | None
    flow_id: str | None
    flow_name: str | None
    labels: Mapping[str, str]
    revision: int

    @property
    def value(self) -> Any:
        """The value as a Python object; None where there is none."""
        return object_in(self, "value", "raw")


@dataclass(frozen=True, slots=True)
class Write:
    """One key of ``memory.set_many``: its value, and what ``memory.set`` takes with it."""

    key: str
    value: Any
    ttl: float | timedelta | None = None
    expected_version: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    execution_id: str | None = None
    flow_id: str | None = None
    flow_name: str | None = None


@dataclass(frozen=True, slots=True)
class ScopeInfo:
    """A scope with the number of its keys that have a value."""

    scope: str
    scope_type: ScopeType
    entry_count: int


@dataclass(frozen=True, slots=True)
class Purged:
    """What one purge removed."""

    versions_deleted: int
    keys_affected: int


@dataclass(frozen=True, slots=True)
class PurgeRecord:
    """What a scope remembers of a purge."""

    scope: str
    scope_type: ScopeType
    create_time: datetime
    keys: tuple[str, ...]
    versions_deleted: int
    keep: int
    keys_affected: int


@dataclass(frozen=True, slots=True)
class Instance:
    """A scratch instance that was opened, with the keys that were there before and are gone."""

    id: str
    cleared: tuple[str, ...]
    expire_time: datetime | None


@dataclass(frozen=True, slots=True)
class ScratchItem:
    """A value of a scratch instance under its key, as kept: trimmed."""

    key: str
    raw: Raw

    @property
    def value(self) -> Any:
        """The value as a Python object."""
        return object_of(self.raw)


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append. Its id is made here, so that sending it again changes nothing.

    ``data`` None is no data; ``Json("null")`` is a JSON null. Without ``create_time`` the server's clock counts.
    """

    type: str
    data: Any = None
    node: str | None = None
    parent_id: str | None = None
    error_type: str | None = None
    message: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    create_time: datetime | None = None
    id: str = field(default_factory=lambda: str(uuid4()))


@stored(
    node=optional("node"),
    parent_id=optional("parent_id"),
    raw=_stored.value("data"),
    error_type=optional("error_type"),
    message=optional("message"),
    create_time=_stored.time("create_time"),
    labels=_stored.labels,
)
@dataclass(frozen=True)
class Event(Stored):
    """Something that happened in a thread, as stored. ``revision`` is what a cursor counts in."""

    __slots__ = ()

    id: str
    thread_id: str
    branch_id: str
    sequence: int
    type: str
    node: str | None
    parent_id: str | None
    raw: Raw | None
    error_type: str | None
    message: str | None
    create_time: datetime
    labels: Mapping[str, str]
    revision: int

    @property
    def data(self) -> Any:
        """The details as a Python object; None where there are none."""
        return object_in(self, "data", "raw")


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch of events was stored."""

    first_sequence: int
    last_sequence: int
    ids: tuple[str, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A snapshot to save: of ``state``, taken at an event. Saving an id again replaces what it held."""

    event_id: str
    sequence: int
    state: Any
    active: Any = ()
    status: str = "running"
    parent_id: str | None = None
    metadata: Any = None
    labels: Mapping[str, str] = field(default_factory=dict)
    create_time: datetime | None = None
    id: str = field(default_factory=lambda: str(uuid4()))


@stored(
    raw_state=_stored.value("state"),
    raw_active=_stored.value("active"),
    create_time=_stored.time("create_time"),
    parent_id=optional("parent_id"),
    raw_metadata=_stored.value("metadata"),
    labels=_stored.labels,
)
@dataclass(frozen=True)
class Checkpoint(Stored):
    """A whole snapshot of a thread's state, as stored."""

    __slots__ = ()

    id: str
    thread_id: str
    branch_id: str
    event_id: str
    sequence: int
    raw_state: Raw | None
    raw_active: Raw | None
    status: str
    create_time: datetime
    parent_id: str | None
    raw_metadata: Raw | None
    labels: Mapping[str, str]
    revision: int

    @property
    def state(self) -> Any:
        """The state as a Python object."""
        return object_in(self, "state", "raw_state")

    @property
    def active(self) -> Any:
        """The tasks still to run at that point: a list."""
        return object_in(self, "active", "raw_active")

    @property
    def metadata(self) -> Any:
        """The metadata as a Python object; None where there is none."""
        return object_in(self, "metadata", "raw_metadata")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a thread, and where and when it was forked: ``main`` and what was never forked have no time."""

    id: str
    thread_id: str
    parent_branch_id: str
    from_event_id: str
    create_time: datetime | None
    revision: int


@dataclass(frozen=True, slots=True)
class Forked:
    """A new branch, with its first checkpoint and event where the fork brought them."""

    branch: Branch
    checkpoint: Checkpoint | None
    event: Event | None


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread. ``uid`` tells it from one of the same id deleted before it."""

    id: str
    uid: str
    event_count: int
    checkpoint_count: int
    branch_count: int
    create_time: datetime
    update_time: datetime
    revision: int


@dataclass(frozen=True, slots=True)
class DeletedThread:
    """What deleting a thread removed."""

    events_deleted: int
    checkpoints_deleted: int


class Progress(NamedTuple):
    """How far an export, import or backup has come: what it does, and the partitions, records and bytes so far.

    ``total`` is how many bytes there are, 0 where that is not known. A backup counts bytes alone: in ``copy`` those
    that the server copied, then in ``backup`` those that came here.
    """

    doing: Literal["export", "check", "import", "copy", "backup"]
    partitions: int
    records: int
    size: int
    total: int = 0


class Exported(NamedTuple):
    """What an export wrote: how many scopes and threads, records, and bytes."""

    partitions: int
    records: int
    size: int


class Imported(NamedTuple):
    """What became of the scopes and threads in a file.

    ``restored`` came in, with ``records``; of ``unchanged`` all was there already; ``skipped`` names those that were
    passed over, since others of their names are there.
    """

    restored: int
    records: int
    unchanged: int
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server is, and what it takes.

    ``engine`` is what keeps its state, such as ``"sqlite"``. ``limits`` are those in force, by name, in bytes, seconds,
    or how many. ``capabilities`` are what not every server can, such as ``"durable"``: what is kept outlives it.
    """

    version: str
    engine: str
    start_time: datetime
    uptime: timedelta
    limits: Mapping[str, float]
    capabilities: frozenset[str]
