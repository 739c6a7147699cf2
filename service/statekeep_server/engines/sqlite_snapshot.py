"""A partition as one read transaction on a connection of its own sees it, in order of revision, page by page."""

import asyncio
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, merge
from itertools import islice
from operator import attrgetter
from threading import Lock
from typing import Any, Protocol, TypeVar

import apsw

from statekeep_server.core.journal import APPEND_ONLY, LogState, PartitionState, Record
from statekeep_server.engines.sqlite_view import JOURNAL, PER_SEGMENT, load_partition, record_of

Answer = TypeVar("Answer")

_TRIMMED = (
    "SELECT name, trimmed, born FROM logs l WHERE partition = ?1 AND "
    "(trimmed > 0 OR count = 0 OR born <> (SELECT min(revision) FROM records WHERE log = l.id)) ORDER BY name"
)
_NEXT_KIND = "SELECT kind FROM records WHERE partition = ? AND kind > ? ORDER BY kind LIMIT 1"
_EVENT_LOGS = (
    "SELECT l.born, l.id, l.name, (SELECT s.id FROM segments s WHERE s.log = l.id ORDER BY s.first LIMIT 1) "
    "FROM logs l WHERE l.partition = ? AND l.name >= ? AND l.name < ?"
)
_EVENTS_FROM = "SELECT revision, number, frame, place FROM events WHERE place BETWEEN ? AND ? ORDER BY place"
_NEXT_SEGMENT = "SELECT first, id FROM segments WHERE log = ? AND first > ? ORDER BY first LIMIT 1"
_revision_of = attrgetter("revision")


class OnReader(Protocol):
    """Runs a step on a thread that may wait for the disk."""

    async def __call__(self, job: Callable[[], Answer]) -> Answer:
        """Return what the step returned."""


class SqliteSnapshot:
    """A partition as it was. While it is open the file's log cannot be folded into the file, and grows."""

    def __init__(
        self,
        connection: apsw.Connection,
        partition: int,
        state: PartitionState,
        run: OnReader,
        gone: Callable[[Any], None],
    ) -> None:
        self.state = state
        self._connection = connection
        self._run = run
        self._gone = gone
        self._lock = Lock()  # a step whose caller was cancelled may still be under way
        self._logs = _trimmed_logs(connection, partition)
        self._records = _all_records(connection, partition)

    async def logs(self, count: int) -> list[LogState]:
        """Return the next logs whose state their records do not tell."""

        def page() -> list[LogState]:
            with self._lock:
                return list(islice(self._logs, count))

        return await self._run(page)

    async def records(self, size: int) -> list[Record]:
        """Return the next records by revision."""

        def page() -> list[Record]:
            found: list[Record] = []
            room = size
            with self._lock:
                for record in self._records:
                    found.append(record)
                    room -= len(record.frame)
                    if room <= 0:
                        break
            return found

        return await self._run(page)

    async def close(self) -> None:
        """End it. It may be closed twice."""
        # Whoever closes it since a message could not be sent is cancelled next, and would take the thread's job along.
        await asyncio.shield(asyncio.to_thread(self.release))

    def release(self) -> None:
        """End the transaction, once a step that is under way is over."""
        with self._lock:
            self._logs, self._records = iter(()), iter(())
            self._connection.close(True)
        self._gone(self)


def begin(connection: apsw.Connection, partition: str) -> tuple[int, PartitionState] | None:
    """Begin a read transaction, and return the partition's id and state as it sees them."""
    connection.execute("BEGIN")
    found = load_partition(connection.execute, partition)
    if found is None:
        return None
    times = (found.create_time, found.update_time)
    return found.id, PartitionState(found.life, found.revision, found.oldest, *times)


def _trimmed_logs(connection: apsw.Connection, partition: int) -> Iterator[LogState]:
    for row in connection.execute(_TRIMMED, (partition,)):
        state = LogState(*row)
        if state.log[0] not in APPEND_ONLY:
            yield state


def _all_records(connection: apsw.Connection, partition: int) -> Iterator[Record]:
    kinds = [_records(connection, partition, kind) for kind in _kinds(connection, partition)]
    yield from merge(_events(connection, partition), *kinds, key=_revision_of)


def _kinds(connection: apsw.Connection, partition: int) -> Iterator[str]:
    kind = ""
    while row := connection.execute(_NEXT_KIND, (partition, kind)).fetchone():
        kind = str(row[0])
        yield kind


def _records(connection: apsw.Connection, partition: int, kind: str) -> Iterator[Record]:
    for row in connection.execute(JOURNAL, (partition, kind, 0)):
        yield record_of(row[0], row[1:])


def _events(connection: apsw.Connection, partition: int) -> Iterator[Record]:
    """Yield the events of all logs: from the log whose turn it is, up to where another's turn comes.

    A partition may have many event logs, so none of them keeps a statement or a record between its turns.
    """
    turns: list[tuple[int, int, str, int]] = []  # the next event's revision, its log's id and name, and its place
    for letter in APPEND_ONLY:
        bounds = (partition, letter, chr(ord(letter) + 1))
        for revision, log, name, segment in connection.execute(_EVENT_LOGS, bounds):
            turns.append((revision, log, name, segment * PER_SEGMENT))
    heapify(turns)
    while turns:
        revision, log, name, place = heappop(turns)
        until = turns[0][0] if turns else None
        end = place - place % PER_SEGMENT + PER_SEGMENT - 1
        rows = connection.execute(_EVENTS_FROM, (place, end))
        for revision, number, frame, place in rows:
            if until is not None and revision > until:
                heappush(turns, (revision, log, name, place))
                break
            yield Record(name, revision, number, frame)
        else:
            if following := connection.execute(_NEXT_SEGMENT, (log, revision)).fetchone():
                heappush(turns, (following[0], log, name, following[1] * PER_SEGMENT))
        rows.close()
