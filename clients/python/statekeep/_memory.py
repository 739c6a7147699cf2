"""Memory as a client sees it: versioned values under keys, in scopes."""

# ruff: noqa: ASYNC109 # the timeout is gRPC's own deadline, which the server sees too

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

from statekeep import _sync
from statekeep._building import build
from statekeep._calls import AsyncPages, Calls
from statekeep._messages import (
    duration_of,
    entry_of,
    purge_record_of,
    scope_info_of,
    scope_message,
    set_message,
)
from statekeep._places import VersionsPlace, WatchPlace
from statekeep._reading import AsyncReading, Patience
from statekeep.records import Entry, Purged, PurgeRecord, ScopeInfo, ScopeType, Write
from statekeep.v1 import memory_pb2


class AsyncMemory:
    """Versioned values under keys, in scopes that outlive a program.

    Keys and scopes are trimmed and consist of letters, digits and ``._-/``. Every ``timeout`` is in seconds;
    None takes the client's. Every call may raise a :class:`statekeep.StatekeepError`.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._stub = calls.connection.memory

    async def set(
        self,
        key: str,
        value: Any,
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        ttl: float | timedelta | None = None,
        expected_version: int | None = None,
        labels: Mapping[str, str] | None = None,
        execution_id: str | None = None,
        flow_id: str | None = None,
        flow_name: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Entry:
        """Writes a new version of a key, and returns it without its value.

        Args:
            key: The key.
            value: See :mod:`statekeep.values` for what a value can be.
            scope: The scope's name.
            scope_type: The scope's type.
            ttl: Seconds until the version expires; None: never.
            expected_version: The key's current version, 0 where it has no value; None: any.
            labels: Kept with the version.
            execution_id: Who writes.
            flow_id: The flow that writes.
            flow_name: The name of the flow that writes.
            request_id: A write with an id that was used already gets the first answer and writes nothing;
                None makes one up, so that a retry is safe.
            timeout: Seconds.

        Raises:
            VersionMismatchError: The current version is not the expected one.
        """
        write = Write(
            key, value, ttl, expected_version, labels or {}, execution_id, flow_id, flow_name
        )  # fmt: skip
        request = set_message(scope_message(scope, scope_type), write, request_id or str(uuid4()))
        return entry_of((await self._calls.answer(self._stub.Set, request, timeout)).entry)

    async def set_many(
        self,
        writes: Iterable[Write],
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> list[Entry]:
        """Writes several keys of one scope, all or none; returns the new versions without their values.

        Raises:
            VersionMismatchError: One of the current versions is not the expected one.
        """
        name = scope_message(scope, scope_type)
        request = build(
            memory_pb2.MemoryBatchSetRequest,
            sets=[set_message(name, write) for write in writes],
            request_id=request_id or str(uuid4()),
        )
        answer = await self._calls.answer(self._stub.BatchSet, request, timeout)
        return [entry_of(entry) for entry in answer.entries]

    async def get(
        self,
        key: str,
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        version: int | None = None,
        include_deleted: bool = False,
        timeout: float | None = None,
    ) -> Entry | None:
        """The newest version of a key, or the one given; None where it is not there, deleted or expired.

        With ``include_deleted`` a tombstone is returned.
        """
        request = build(
            memory_pb2.MemoryGetRequest,
            scope=scope_message(scope, scope_type),
            key=key,
            version=version,
            include_deleted=include_deleted,
        )
        answer = await self._calls.answer(self._stub.Get, request, timeout)
        return entry_of(answer.entry) if answer.HasField("entry") else None

    async def get_many(
        self,
        keys: Iterable[str],
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        timeout: float | None = None,
    ) -> dict[str, Entry]:
        """The newest versions of those of the keys that have a value, by key, from one point in time.

        Raises:
            LimitReachedError: The values do not fit one message.
        """
        request = build(memory_pb2.MemoryBatchGetRequest, scope=scope_message(scope, scope_type), keys=keys)
        answer = await self._calls.answer(self._stub.BatchGet, request, timeout)
        return {entry.key: entry_of(entry) for entry in answer.entries}

    async def delete(
        self,
        key: str,
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        expected_version: int | None = None,
        execution_id: str | None = None,
        flow_id: str | None = None,
        flow_name: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Entry | None:
        """Hides a key behind a tombstone, and returns that, or the one that stood there already.

        None where the key never had a value. What may stand with the tombstone is as for ``set``.

        Raises:
            VersionMismatchError: The current version is not the expected one.
        """
        request = build(
            memory_pb2.MemoryDeleteRequest,
            scope=scope_message(scope, scope_type),
            key=key,
            expected_version=expected_version,
            execution_id=execution_id,
            flow_id=flow_id,
            flow_name=flow_name,
            request_id=request_id or str(uuid4()),
        )
        answer = await self._calls.answer(self._stub.Delete, request, timeout)
        return entry_of(answer.entry) if answer.HasField("entry") else None

    async def purge(
        self,
        key: str | None = None,
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        all_keys: bool = False,
        keep: int = 0,
        include_deleted: bool = False,
        timeout: float | None = None,
    ) -> Purged:
        """Removes for good all but the ``keep`` newest versions of a key, or of every key.

        A tombstone counts as a version. With ``all_keys`` deleted keys are passed over, or with
        ``include_deleted`` removed whole. A lost connection is not tried again: the answer would be wrong.
        """
        request = build(
            memory_pb2.MemoryPurgeRequest,
            scope=scope_message(scope, scope_type),
            key=key,
            all_keys=all_keys,
            keep=keep,
            include_deleted=include_deleted,
        )
        answer = await self._calls.answer(self._stub.Purge, request, timeout)
        return Purged(answer.versions_deleted, answer.keys_affected)

    def list(
        self,
        prefix: str = "",
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        include_values: bool = False,
        include_deleted: bool = False,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncPages[Entry]:
        """Iterates over the newest versions of the keys that have a value, sorted by key.

        ``prefix`` is literal. ``page_size`` 0 leaves it to the server; ``timeout`` is for each page.
        """
        name = scope_message(scope, scope_type)

        async def fetch(token: str) -> tuple[list[Entry], str]:
            request = build(
                memory_pb2.MemoryListRequest,
                scope=name,
                prefix=prefix,
                page_size=page_size,
                page_token=token,
                include_values=include_values,
                include_deleted=include_deleted,
            )
            answer = await self._calls.answer(self._stub.List, request, timeout)
            return [entry_of(entry) for entry in answer.entries], answer.next_page_token

        return AsyncPages(fetch)

    def purges(
        self,
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncPages[PurgeRecord]:
        """Iterates over what was purged in a scope, newest first."""
        name = scope_message(scope, scope_type)

        async def fetch(token: str) -> tuple[list[PurgeRecord], str]:
            request = build(memory_pb2.MemoryListPurgesRequest, scope=name, page_size=page_size, page_token=token)
            answer = await self._calls.answer(self._stub.ListPurges, request, timeout)
            return [purge_record_of(purge) for purge in answer.purges], answer.next_page_token

        return AsyncPages(fetch)

    def scopes(self, *, page_size: int = 0, timeout: float | None = None) -> AsyncPages[ScopeInfo]:
        """Iterates over the scopes that hold a key with a value, by name, then namespace, flow, execution."""

        async def fetch(token: str) -> tuple[list[ScopeInfo], str]:
            request = build(memory_pb2.MemoryListScopesRequest, page_size=page_size, page_token=token)
            answer = await self._calls.answer(self._stub.ListScopes, request, timeout)
            return [scope_info_of(scope) for scope in answer.scopes], answer.next_page_token

        return AsyncPages(fetch)

    def history(
        self,
        key: str,
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        oldest_first: bool = False,
        include_values: bool = False,
        limit: int = 0,
        timeout: float | None = None,
    ) -> AsyncReading[Entry]:
        """Iterates over every version of a key, tombstones too, newest first unless asked otherwise.

        ``limit`` 0 is all of them. ``timeout`` is for the whole read; None is none.
        """
        request = build(
            memory_pb2.MemoryHistoryRequest,
            scope=scope_message(scope, scope_type),
            key=key,
            oldest_first=oldest_first,
            include_values=include_values,
            limit=limit,
        )
        return AsyncReading(self._calls, VersionsPlace(request), Patience(follows=False), timeout)

    def watch(
        self,
        prefix: str = "",
        *,
        scope: str,
        scope_type: ScopeType = "namespace",
        after_revision: int | None = None,
        include_values: bool = True,
        heartbeat: float | timedelta | None = None,
        retry_for: float | None = None,
    ) -> AsyncReading[Entry]:
        """Follows the writes of a scope until it is closed.

        Args:
            prefix: Only keys that begin with it, literally.
            scope: The scope's name.
            scope_type: The scope's type.
            after_revision: Goes on after this revision; 0 begins with all there is. None: only what is
                written from now on, which is when the watch is entered as a context or first asked.
            include_values: Whether entries carry their values.
            heartbeat: Seconds between signs of life, at least 0.1, which move ``revision``; None: none.
            retry_for: Seconds for which a lost connection is tried again; None: without an end.

        Raises:
            RevisionGoneError: What followed ``after_revision`` was removed.
            RevisionAheadError: ``after_revision`` was never reached.
        """
        request = build(
            memory_pb2.MemoryWatchRequest,
            scope=scope_message(scope, scope_type),
            prefix=prefix,
            after_revision=after_revision,
            include_values=include_values,
            heartbeat=duration_of(heartbeat, "heartbeat"),
        )
        return AsyncReading(
            self._calls, WatchPlace(request), Patience(follows=True, retry_for=retry_for)
        )  # fmt: skip


class Memory:
    """As :class:`AsyncMemory`, blocking."""

    def __init__(self, calls: Calls) -> None:
        self._methods = AsyncMemory(calls)

    set = _sync.call(AsyncMemory.set)
    set_many = _sync.call(AsyncMemory.set_many)
    get = _sync.call(AsyncMemory.get)
    get_many = _sync.call(AsyncMemory.get_many)
    delete = _sync.call(AsyncMemory.delete)
    purge = _sync.call(AsyncMemory.purge)
    list = _sync.pages(AsyncMemory.list)
    purges = _sync.pages(AsyncMemory.purges)
    scopes = _sync.pages(AsyncMemory.scopes)
    history = _sync.reading(AsyncMemory.history)
    watch = _sync.reading(AsyncMemory.watch)
