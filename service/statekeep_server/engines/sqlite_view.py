"""How the SQLite engine reads: what is known of a partition in memory, and a view that asks the file for the rest."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple, Protocol

from statekeep_server.core.journal import APPEND_ONLY, KEY, Chunk, Record
from statekeep_server.core.wire import varint

PER_SEGMENT = 8192
"""Places that a segment has. It ends at 256 KiB, and a record takes more than 32 bytes."""

STAGES = "\udcff"
"""What the names of partitions that are not whole yet begin with: byte 0xFF in the file, which no UTF-8 holds."""

_REVISION = b"\x20"  # StreamHistoryResponse.revision, field 4
_TAIL = 64 * 2**10  # bytes of a log's newest events that are kept in memory
_TAIL_RECORDS = 256
_LOG_SIZE, _PARTITION_SIZE = 700, 900  # bytes that one takes in memory beside its records, about

# These statements are put together from the names of columns alone; what is looked for is bound to them.
# ruff: noqa: S608
_RECORD = "r.revision, r.number, r.frame, r.id, r.value_size, r.deleted, r.expires"
_PARTITION = (
    "SELECT id, life, revision, oldest, create_time, update_time, alive, changes, kept FROM partitions WHERE name = ?"
)
_LOG = (
    "SELECT l.id, l.number, l.trimmed, l.born, l.newest, l.count, l.named, l.segment, l.filled, l.size, "
    f"{_RECORD} FROM logs l LEFT JOIN records r ON r.log = l.id AND r.revision = l.head "
    "WHERE l.partition = ? AND l.name = ?"
)
_UPTO = (
    f"SELECT {_RECORD} FROM records r WHERE r.log = ? AND r.number <= ? ORDER BY r.number DESC, r.revision DESC LIMIT 1"
)
_BY_ID = f"SELECT {_RECORD} FROM records r WHERE r.log = ? AND r.id = ? AND r.id <> '' ORDER BY r.revision DESC LIMIT 1"
_EVENT_BY_ID = (
    "SELECT e.revision, e.number, e.frame FROM event_ids i JOIN events e ON e.place = i.place "
    "WHERE i.log = ? AND i.id = ?"
)
_SCAN = f"SELECT {_RECORD} FROM records r WHERE r.log = ? AND r.revision > ? AND r.revision < ? ORDER BY r.revision"
JOURNAL = (
    f"SELECT l.name, {_RECORD} FROM records r CROSS JOIN logs l ON l.id = r.log "
    "WHERE r.partition = ? AND r.kind = ? AND r.revision > ? ORDER BY r.revision"
)
_NAMES = "SELECT name FROM logs WHERE partition = ? AND name > ? AND name >= ? ORDER BY name"
_EXPIRED = "SELECT count(*) FROM logs WHERE partition = ? AND expires > 0 AND expires <= ?"
_EXPIRED_OF_LOG = (  # one look tells whether any has expired at all; `+` keeps to the log's rows, where many have
    "SELECT count(*) FROM records WHERE EXISTS (SELECT 1 FROM records WHERE expires > 0 AND expires <= ?1) "
    "AND log = ?2 AND +expires > 0 AND +expires <= ?1"
)
_SEGMENTS = (
    "SELECT id FROM segments WHERE log = ?1 AND first <= ?3 "
    "AND first >= coalesce((SELECT max(first) FROM segments WHERE log = ?1 AND first <= ?2), 0) ORDER BY first"
)
_SEGMENTS_BACK = "SELECT id, before FROM segments WHERE log = ? AND first <= ? ORDER BY first DESC"
_EVENTS = (
    "SELECT revision, number, frame FROM events "
    "WHERE place BETWEEN ? AND ? AND revision > ? AND revision < ? ORDER BY place"
)
_SOME = "FROM events WHERE place BETWEEN ? AND ? AND revision > ? AND revision <= ?"
_JOIN = "SELECT CAST(group_concat(frame, '') AS BLOB), count(*), max(revision), max(place)"
_JOINED = f"{_JOIN} {_SOME}"  # a table is read in order of its rowid, here place
_FIRST_JOINED = f"{_JOIN} FROM (SELECT frame, revision, place {_SOME} ORDER BY place LIMIT ?)"
_NEXT = "SELECT revision FROM events WHERE place = ?"
_NEXT_SEGMENT = "SELECT first FROM segments WHERE log = ? AND first > ? ORDER BY first LIMIT 1"
_LAST_UPTO = "SELECT max(place) FROM events WHERE place BETWEEN ? AND ? AND revision <= ?"


class NotCached(BaseException):  # a signal, no error: nothing that catches errors may catch it
    """A query asks for what is not in memory."""


class Cursor(Protocol):
    """What a statement yields, row by row."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def close(self) -> None: ...


Run = Callable[[str, Sequence[object]], Cursor]


def not_cached(sql: str, bindings: Sequence[object]) -> Cursor:
    """Run no statement: what is asked for is not in memory."""
    raise NotCached


class Tail:
    """The newest events of a log, all those after a revision. It never changes."""

    __slots__ = ("after", "frames", "newest", "revisions", "size")

    def __init__(self, after: int, revisions: list[int], frames: list[bytes]) -> None:
        self.after = after
        self.revisions = revisions
        self.frames = frames
        self.newest = revisions[-1] if revisions else after
        self.size = sum(map(len, frames))

    def extended(self, revisions: list[int], frames: list[bytes]) -> "Tail":
        """Return it with more events at its end, and without its oldest where it gets too large."""
        revisions, frames = self.revisions + revisions, self.frames + frames
        size, keep = 0, 0
        for frame in reversed(frames):
            size += len(frame)
            if size > _TAIL or keep == _TAIL_RECORDS:
                break
            keep += 1
        gone = len(frames) - keep
        return (
            Tail(revisions[gone - 1], revisions[gone:], frames[gone:]) if gone else Tail(self.after, revisions, frames)
        )

    def chunk(self, after: int, until: int, count: int | None) -> Chunk | None:
        """Return the first events with after < revision <= until; `after` is not before this tail's."""
        start, stop = bisect_right(self.revisions, after), bisect_right(self.revisions, until)
        if start >= stop:
            return None
        limit = stop if count is None else min(stop, start + count)
        revision = self.revisions[limit - 1]
        message = b"".join(self.frames[start:limit]) + _REVISION + varint(revision)
        return Chunk(message, limit - start, revision, limit == stop)


class Sealed(NamedTuple):
    """A chunk that ends with its segment, and the revision of the event after it: it never changes."""

    chunk: Chunk
    next: int


class Chunks:
    """Sealed chunks by log and the revision they begin after, bounded in bytes; those used last stay."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._kept: OrderedDict[tuple[int, int], Sealed] = OrderedDict()
        self._size = 0

    def get(self, log: int, after: int) -> Sealed | None:
        """Return the chunk of a log that begins after a revision."""
        sealed = self._kept.get((log, after))
        if sealed is not None:
            with suppress(KeyError):  # it was let go of a moment ago
                self._kept.move_to_end((log, after))
        return sealed

    def put(self, log: int, after: int, sealed: Sealed) -> None:
        """Keep a chunk."""
        with self._lock:
            if self._kept.setdefault((log, after), sealed) is sealed:
                self._size += len(sealed.chunk.message)
            while self._size > self._limit:
                self._size -= len(self._kept.popitem(last=False)[1].chunk.message)


class LogState:
    """A log's numbers, and its head."""

    __slots__ = (
        "born",
        "count",
        "filled",
        "fresh",
        "head",
        "id",
        "named",
        "newest",
        "number",
        "segment",
        "size",
        "tail",
        "trimmed",
    )

    def __init__(self, id: int) -> None:  # noqa: A002 (the field's name in the schema)
        self.id = id
        self.number = 0
        self.trimmed = 0
        self.born = 0
        self.newest = 0
        self.count = 0
        self.named = False
        self.head: Record | None = None
        self.segment = 0
        self.filled = 0
        self.size = 0
        self.tail: Tail | None = None
        self.fresh: dict[str, Record] | None = None
        """Records by id that are not in the file yet."""

    def copy(self) -> "LogState":
        """Return a copy, to be changed."""
        other = LogState(self.id)
        other.number, other.trimmed, other.born, other.newest = self.number, self.trimmed, self.born, self.newest
        other.count, other.named, other.head, other.tail = self.count, self.named, self.head, self.tail
        other.segment, other.filled, other.size = self.segment, self.filled, self.size
        return other

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory."""
        head = len(self.head.frame) if self.head else 0
        return _LOG_SIZE + head + (self.tail.size + 100 * len(self.tail.frames) if self.tail else 0)


class PartitionState:
    """A partition's numbers, and those of its logs that are known."""

    __slots__ = (
        "alive",
        "base",
        "changes",
        "complete",
        "create_time",
        "epoch",
        "id",
        "kept",
        "life",
        "logs",
        "oldest",
        "revision",
        "update_time",
        "weight",
    )

    def __init__(self, life: int = 0) -> None:
        self.id = 0
        self.life = life
        self.revision = life
        self.oldest = life and life + 1
        self.create_time = 0
        self.update_time = 0
        self.alive = 0
        self.kept = 0
        self.changes = 0
        self.logs: dict[str, LogState] = {}
        self.complete = True
        """Whether a log that is not known here is not there at all."""
        self.base: PartitionState | None = None
        """What this is a draft of; it knows what is unchanged."""
        self.epoch = 0
        """Odd while it is being changed, where readers see it."""
        self.weight = _PARTITION_SIZE

    def take(self, other: "PartitionState") -> None:
        """Take over another's numbers, but not its logs."""
        self.id, self.life, self.revision, self.oldest = other.id, other.life, other.revision, other.oldest
        self.create_time, self.update_time = other.create_time, other.update_time
        self.alive, self.kept, self.changes = other.alive, other.kept, other.changes

    def draft(self) -> "PartitionState":
        """Return a draft of what this may become."""
        other = PartitionState()
        other.take(self)
        other.base = self
        other.complete = False
        return other

    def log(self, name: str) -> tuple[LogState | None, bool]:
        """Return a log, and whether that is known: None and True where it is not there at all."""
        found = self.logs.get(name)
        if found is None and self.base is not None:
            found = self.base.logs.get(name)
        # In this order: `complete` ends before the first log is forgotten.
        return found, found is not None or (self.complete if self.base is None else self.base.complete)


def stored_name(name: str) -> bytes:
    """Return a partition's name as it is in the file."""
    return name.encode(errors="surrogateescape")


def load_partition(run: Run, name: str) -> PartitionState | None:
    """Read a partition's numbers."""
    row = run(_PARTITION, (stored_name(name),)).fetchone()
    if row is None:
        return None
    state = PartitionState()
    state.complete = False
    state.id, state.life, state.revision, state.oldest = row[:4]
    state.create_time, state.update_time, state.alive, state.changes, state.kept = row[4:]
    return state


class SqliteView:
    """A partition, as its state and one snapshot of the file say.

    `run` reads the file; `stored` too, but may miss what is in a log's `fresh`.
    """

    __slots__ = ("_chunks", "_cursors", "_run", "_state", "_stored", "life", "oldest", "revision")

    def __init__(self, state: PartitionState, run: Run, chunks: Chunks, stored: Run | None = None) -> None:
        self._state = state
        self._run = run
        self._stored = stored or run
        self._chunks = chunks
        self._cursors: set[Cursor] | None = None
        self.life = state.life
        self.revision = state.revision
        self.oldest = state.oldest

    @property
    def exists(self) -> bool:
        return bool(self._state.create_time)

    @property
    def alive(self) -> int:
        return self._state.alive

    @property
    def kept(self) -> int:
        return self._state.kept

    @property
    def create_time(self) -> int:
        return self._state.create_time

    @property
    def update_time(self) -> int:
        return self._state.update_time

    def head(self, log: str) -> Record | None:
        found = self._log(log)
        return found.head if found else None

    def upto(self, log: str, number: int) -> Record | None:
        found = self._log(log)
        if not found or not found.count:
            return None
        head = found.head
        if head is not None and head.number == found.number <= number:
            return head
        row = self._run(_UPTO, (found.id, number)).fetchone()
        return record_of(log, row) if row else None

    def find(self, log: str, id: str) -> Record | None:  # noqa: A002 (the field's name in the contract)
        found = self._log(log)
        if not found or not found.named or not id:
            return None
        if found.fresh and (record := found.fresh.get(id)):
            return record
        if log[0] in APPEND_ONLY:
            row = self._stored(_EVENT_BY_ID, (found.id, id)).fetchone()
            return Record(log, *row) if row else None
        row = self._stored(_BY_ID, (found.id, id)).fetchone()
        return record_of(log, row) if row else None

    def named(self, log: str) -> bool:
        found = self._log(log)
        return found is not None and found.named

    def number(self, log: str) -> int:
        found = self._log(log)
        return found.number if found else 0

    def count(self, log: str) -> int:
        found = self._log(log)
        return found.count if found else 0

    def expired(self, log: str, now: int) -> int:
        found = self._log(log)
        return self._run(_EXPIRED_OF_LOG, (now, found.id)).fetchone()[0] if found and found.count else 0

    def born(self, log: str) -> int:
        found = self._log(log)
        return found.born if found else 0

    def live(self, kind: str, now: int) -> int:
        if kind != KEY:
            raise ValueError(f"no live ones are counted of kind {kind!r}")
        if not self._state.alive:
            return 0
        expired: int = self._run(_EXPIRED, (self._state.id, now)).fetchone()[0]
        return self._state.alive - expired

    def scan(
        self, log: str, *, after: int = 0, before: int | None = None, newest_first: bool = False
    ) -> Iterator[Record]:
        found = self._log(log)
        before = self.revision + 1 if before is None else before
        if not found or not found.count or before <= found.born or after >= found.newest:
            return iter(())
        if log[0] in APPEND_ONLY:
            return self._scan_events(log, found, after, before, newest_first)
        rows = self._rows(_SCAN + " DESC" * newest_first, (found.id, after, before))
        return (record_of(log, row) for row in rows)

    def chunk(self, log: str, after: int, until: int, count: int | None = None) -> Chunk | None:
        found = self._log(log) if log[0] in APPEND_ONLY else None
        if not found or after >= found.newest or until < found.born or after >= until:
            return None
        until = min(until, found.newest)  # a chunk that is kept may be of a later moment than this view
        tail = found.tail
        if tail and after >= tail.after and tail.newest == found.newest:
            return tail.chunk(after, until, count)
        sealed = self._chunks.get(found.id, after)
        if sealed and sealed.chunk.revision <= until and (count is None or sealed.chunk.records <= count):
            return sealed.chunk._replace(complete=sealed.next > until)
        segments = self._run(_SEGMENTS + " LIMIT 2", (found.id, after + 1, until)).fetchall()
        for (segment,) in segments:
            first = segment * PER_SEGMENT
            bounds = (first, first + PER_SEGMENT - 1, after, until)
            joined = self._run(_JOINED, bounds) if count is None else self._run(_FIRST_JOINED, (*bounds, count))
            frames, records, revision, place = joined.fetchone()
            if records:
                message = frames + _REVISION + varint(revision)
                return self._finished(Chunk(message, records, revision, complete=True), found, after, until, place)
        return None

    def back(self, log: str, count: int, until: int) -> tuple[int, int]:
        found = self._log(log) if log[0] in APPEND_ONLY else None
        if not found or not count or until < found.born:
            return 0, until
        segments = self._rows(_SEGMENTS_BACK, (found.id, until))
        segment, before = next(segments)
        first = segment * PER_SEGMENT
        last: int = self._run(_LAST_UPTO, (first, first + PER_SEGMENT - 1, until)).fetchone()[0]
        stop = before + last - first + 1
        start = max(0, stop - count)
        while before > start:
            segment, before = next(segments)
        place = segment * PER_SEGMENT + start - before
        return stop - start, self._run(_NEXT, (place,)).fetchone()[0] - 1

    def logs(self, prefix: str, after: str = "") -> Iterator[str]:
        if not self._state.id:
            return
        for (name,) in self._rows(_NAMES, (self._state.id, after, prefix)):
            if not name.startswith(prefix):
                return
            yield name

    def journal(self, kind: str, after: int) -> Iterator[Record]:
        if not self._state.id or after >= self.revision:
            return iter(())
        rows = self._rows(JOURNAL, (self._state.id, kind, after))
        return (record_of(row[0], row[1:]) for row in rows)

    def close(self) -> None:
        """End it: nothing that it gave may be iterated any further."""
        for cursor in list(self._cursors or ()):
            cursor.close()

    def _log(self, name: str) -> LogState | None:
        found, known = self._state.log(name)
        if not known:
            found = load_log(self._run, self._state.id, name) if self._state.id else None
            if found:
                self._state.logs[name] = found
        return found

    def _rows(self, sql: str, bindings: Sequence[object]) -> Iterator[Any]:
        cursor = self._run(sql, bindings)
        if self._cursors is None:
            self._cursors = set()
        cursors = self._cursors
        cursors.add(cursor)
        try:
            yield from cursor
        finally:
            cursors.discard(cursor)
            cursor.close()

    def _scan_events(self, log: str, found: LogState, after: int, before: int, newest_first: bool) -> Iterator[Record]:
        down = " DESC" * newest_first
        segments = self._run(_SEGMENTS + down, (found.id, after + 1, before - 1)).fetchall()
        for (segment,) in segments:
            first = segment * PER_SEGMENT
            bounds = (first, first + PER_SEGMENT - 1, after, before)
            for row in self._rows(_EVENTS + down, bounds):
                yield Record(log, *row)

    def _finished(self, chunk: Chunk, found: LogState, after: int, until: int, place: int) -> Chunk:
        """Return a chunk with what comes after it looked up: whether that is still asked for, and where it is."""
        if chunk.revision == found.newest:
            return chunk
        row = self._run(_NEXT, (place + 1,)).fetchone() if (place + 1) % PER_SEGMENT else None
        if row is not None:
            return chunk._replace(complete=row[0] > until)
        (following,) = self._run(_NEXT_SEGMENT, (found.id, chunk.revision)).fetchone()
        self._chunks.put(found.id, after, Sealed(chunk, following))
        return chunk._replace(complete=following > until)


def load_log(run: Run, partition: int, name: str) -> LogState | None:
    """Read a log's numbers and its head."""
    row = run(_LOG, (partition, name)).fetchone()
    if row is None:
        return None
    state = LogState(row[0])
    state.number, state.trimmed, state.born, state.newest, state.count = row[1:6]
    state.named = bool(row[6])
    state.segment, state.filled, state.size = row[7:10]
    if row[10] is not None:
        state.head = record_of(name, row[10:])
    return state


def record_of(log: str, row: Sequence[Any]) -> Record:
    """Return the record of a row with the columns of `_RECORD`."""
    revision, number, frame, id, value_size, deleted, expires = row  # noqa: A001 (the field's name in the contract)
    return Record(log, revision, number, frame, id, value_size, bool(deleted), expires)
