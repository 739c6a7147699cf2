"""Versioned memory as Kitaru's users know it: ``from statekeep import memory``.

Configure a scope once, then set and get. Inside a :class:`statekeep.flow` the scope is the flow's. All calls are
eager and block; the module may be used from every thread. It connects to ``STATEKEEP_ADDRESS`` (default
``127.0.0.1:50051``) with ``STATEKEEP_TOKEN``, unless :func:`use` says otherwise.
"""
# ruff: noqa: A001 # set and list are the names that users of the original know

import builtins
import threading
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypedDict

from statekeep._borrowed import Borrowed, ClientOrAddress
from statekeep._calls import Calls
from statekeep._memory import Memory
from statekeep._messages import SCOPE_TYPES
from statekeep._names import memory_key, memory_name
from statekeep._scopes import Process, Scope, current, inferred, refuse_in_checkpoint, running
from statekeep._waiting import Blocking
from statekeep.errors import UsageError
from statekeep.records import Entry
from statekeep.records import ScopeType as MemoryScopeType

__all__ = [
    "MemoryEntry",
    "MemoryScopeType",
    "configure",
    "delete",
    "get",
    "history",
    "list",
    "set",
    "use",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """One version of a key, without its value: ``get`` reads that.

    ``value_type`` is object, array, string, number, boolean, null, text or a media type. ``artifact_id`` names
    this version among all versions of all keys.
    """

    key: str
    value_type: str
    version: int
    scope: str
    scope_type: MemoryScopeType
    created_at: datetime
    is_deleted: bool
    artifact_id: str
    execution_id: str | None
    flow_id: str | None = None
    flow_name: str | None = None


def configure(scope: str | None = None, *, scope_type: MemoryScopeType | None = None) -> None:
    """Sets the scope that the calls after it work in: the running flow's, or outside a flow the process's.

    Args:
        scope: The scope's name. None takes the running flow's, or its execution's.
        scope_type: ``namespace``, ``flow`` or ``execution``; None: ``namespace``.

    Raises:
        UsageError: Neither is given, or one is malformed, or a namespace has no name.
        ContextError: No flow runs to take the name of; or inside a checkpoint.
        StateError: The running flow has no execution id to take.
    """
    refuse_in_checkpoint("configure")
    configured = _scope(scope, scope_type)
    flow = running.get()
    if flow is None:
        Process.scope = configured
    else:
        running.set(replace(flow, scope=configured))


def set(key: str, value: Any) -> None:
    """Writes a new version of a key. See :mod:`statekeep.values` for what a value can be."""
    memory, scope = _begin("set")
    memory.set(memory_key(key), value, scope=scope.name, scope_type=scope.type, **_writer(scope))


def get(key: str, *, version: int | None = None) -> Any | None:
    """The value of a key, or of one version of it; None where it is not there or deleted."""
    memory, scope = _begin("get")
    key = memory_key(key)
    if version is not None and (type(version) is not int or version < 1):
        raise UsageError("Memory version must be an integer >= 1.")
    entry = memory.get(key, scope=scope.name, scope_type=scope.type, version=version)
    return None if entry is None else entry.value


def list() -> builtins.list[MemoryEntry]:
    """The newest version of each key that has a value, sorted by key."""
    memory, scope = _begin("list")
    return [_entry(entry) for entry in memory.list(scope=scope.name, scope_type=scope.type)]


def history(key: str) -> builtins.list[MemoryEntry]:
    """Every version of a key, tombstones too, newest first."""
    memory, scope = _begin("history")
    return [_entry(entry) for entry in memory.history(memory_key(key), scope=scope.name, scope_type=scope.type)]


def delete(key: str) -> MemoryEntry | None:
    """Hides a key behind a tombstone, and returns that, or the one that stood there; None: there was no key."""
    memory, scope = _begin("delete")
    entry = memory.delete(memory_key(key), scope=scope.name, scope_type=scope.type, **_writer(scope))
    return None if entry is None else _entry(entry)


def use(client: ClientOrAddress) -> None:
    """Makes the module work through a client, or at an address; None: as the environment says."""
    with _lock:
        before = _connected.pop() if _connected else None
        if client is not None:
            _connected.append(Borrowed(client))
    if before is not None:
        before.close()


_lock = threading.Lock()
_connected: builtins.list[Borrowed] = []


def _begin(call: str) -> tuple[Memory, Scope]:
    """What every call begins with: it is allowed here, it has a scope, and there is a client."""
    refuse_in_checkpoint(call)
    scope = current(call)
    name = memory_name("scope", scope.name)
    with _lock:
        if not _connected:
            _connected.append(Borrowed(None))
        connection = _connected[0].connection
    return Memory(Calls(connection, Blocking())), Scope(name, scope.type)


class _Writer(TypedDict):
    """Who writes a version, as the calls of the client take it."""

    execution_id: str | None
    flow_id: str | None
    flow_name: str | None


def _writer(scope: Scope) -> _Writer:
    """The running flow's execution; and the flow where the scope is its own, or its execution's."""
    flow = running.get()
    own = flow if flow and scope in (Scope(flow.id, "flow"), Scope(flow.execution_id or "", "execution")) else None
    return {
        "execution_id": flow.execution_id if flow else None,
        "flow_id": own.id if own else None,
        "flow_name": own.name if own else None,
    }


def _scope(name: str | None, scope_type: MemoryScopeType | None) -> Scope:
    if name is None and scope_type is None:
        raise UsageError("statekeep.memory.configure() requires `scope=` or `scope_type=`.")
    kind = _scope_type("namespace" if scope_type is None else scope_type)
    if name is None and kind == "namespace":
        raise UsageError("statekeep.memory.configure(scope_type='namespace') requires an explicit `scope=` value.")
    return Scope(memory_name("scope", inferred(kind) if name is None else name), kind)


def _scope_type(given: str) -> MemoryScopeType:
    for kind in SCOPE_TYPES:
        if str(given).strip().lower() == kind:
            return kind
    raise UsageError("Memory scope_type must be one of 'namespace', 'flow', or 'execution'.")


def _entry(entry: Entry) -> MemoryEntry:
    return MemoryEntry(
        key=entry.key,
        value_type=entry.value_type,
        version=entry.version,
        scope=entry.scope,
        scope_type=entry.scope_type,
        created_at=entry.create_time,
        is_deleted=entry.deleted,
        artifact_id=entry.entry_id,
        execution_id=entry.execution_id,
        flow_id=entry.flow_id,
        flow_name=entry.flow_name,
    )
