"""How the SQLite engine writes: one transaction, in which many changes are decided, one after the other.

Each is decided on what the ones before it left. The numbers of partitions and logs are kept as drafts in memory and
written once, at the end; rows wait too, and go to the file in blocks, or as soon as someone looks for them there.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, TypeVar

import apsw

from statekeep_server.core import journal
from statekeep_server.core.journal import APPEND_ONLY, COUNTED, KEY, Change, Record
from statekeep_server.engines.sqlite_cache import Cache
from statekeep_server.engines.sqlite_view import (
    PER_SEGMENT,
    Chunks,
    Cursor,
    LogState,
    PartitionState,
    SqliteView,
    Tail,
    load_log,
    load_partition,
    record_of,
    stored_name,
)

Answer = TypeVar("Answer")

SEGMENT = 256 * 2**10
"""Bytes of the events in a segment, about: one message of a stream."""

_ROOM = 4 * 2**20  # bytes of rows that wait for the file at most
_ROOM_REMOVED = 16 * 2**20  # bytes of records that one transaction of a sweep removes, about
_SWEPT_AT_ONCE = 1_000  # records that one transaction of a sweep removes
_CLEANED_AT_ONCE = 2_000  # rows of dropped partitions that one transaction removes; fewer where they are large
_BLOCK = 64  # rows of one statement: it gives the interpreter up once, and another thread may keep that for long

_EXPIRED = (  # without the frames, which may be large, and of which nothing is asked
    "SELECT p.name, l.name, length(r.frame), r.revision, r.number, x'', r.id, r.value_size, r.deleted, r.expires "
    "FROM records r CROSS JOIN logs l ON l.id = r.log CROSS JOIN partitions p ON p.id = l.partition "
    "WHERE r.expires > 0 AND r.expires <= ? AND p.name < x'FF' ORDER BY r.expires LIMIT ?"
)

_SEGMENT_SIZE = "SELECT count(*), coalesce(sum(length(frame)), 0) FROM events WHERE place BETWEEN ? AND ?"
_CLEANABLE = "SELECT place, length(frame) FROM records WHERE log = ? LIMIT ?"


class Ids:
    """The ids that rows get next: above all that the file holds. Those of a transaction that failed are not used."""

    def __init__(self, connection: apsw.Connection) -> None:
        def newest(sql: str) -> int:
            found: int | None = connection.execute(sql).fetchone()[0]  # type: ignore[index]  # max() is always there
            return found or 0

        self.partition = max(newest("SELECT max(id) FROM partitions"), newest("SELECT max(partition) FROM dropped"))
        self.log = newest("SELECT max(id) FROM logs")
        self.segment = newest("SELECT max(id) FROM segments")
        self.highest = newest("SELECT highest FROM file")
        """What every new life lies above."""


class Transaction:
    """One transaction, to be flushed and committed by its owner, or thrown away."""

    def __init__(self, connection: apsw.Connection, cache: Cache, ids: Ids) -> None:
        self._connection = connection
        self._cache = cache
        self._chunks = Chunks(0)  # what is not committed must not be kept
        self._ids = ids
        self.highest = ids.highest
        self.drafts: dict[str, PartitionState] = {}
        self.changed: dict[str, bool] = {}
        """The partitions that changed, in order, and whether those who wait for them are to hear of it."""
        self.applying = False
        """Whether an error that is raised now comes from what was decided, not from the decision."""
        self.dropped = False
        """Whether a partition was dropped, whose rows are to be cleaned."""
        self._unsaved_partitions: dict[str, PartitionState] = {}
        self._unsaved_logs: dict[tuple[int, str], LogState] = {}
        self._owned: set[int] = set()  # the logs that were copied to be changed here, or begun
        self._tails: dict[int, tuple[LogState, list[int], list[bytes]]] = {}
        self._segments: list[tuple[int, int, int, int]] = []
        self._events: list[tuple[int, int, int, bytes]] = []
        self._event_ids: list[tuple[int, str, int]] = []
        self._records: list[tuple[object, ...]] = []
        self._waiting = 0  # bytes of rows

    def write(self, partition: str, decide: Callable[[SqliteView], Change[Answer]]) -> Answer:
        """Make the change that is decided, and return its answer. Raises what `decide` raises."""
        draft = self._draft(partition)
        now = time.time_ns() // 1000
        if not draft.id:
            draft.life = draft.revision = max(now, self.highest + 1)
            draft.oldest = draft.life + 1
        view = SqliteView(draft, self._run, self._chunks, self._connection.execute)
        try:
            change = decide(view)
        finally:
            view.close()
        self.applying = True
        if change.drop:
            if draft.id:
                self._drop(partition, draft)
        elif change.records or (change.trims and draft.id):
            self._apply(partition, draft, change, now)
        self.applying = False
        return change.answer

    def add_to_stage(
        self,
        stage: str,
        state: journal.PartitionState,
        decide: Callable[[SqliteView], tuple[Sequence[journal.LogState], Sequence[Record]]],
    ) -> None:
        """Add what is decided to a partition that nobody sees yet. Raises what `decide` raises."""
        draft = self._stage(stage, state)
        view = SqliteView(draft, self._run, self._chunks, self._connection.execute)
        try:
            logs, records = decide(view)
        finally:
            view.close()
        self.applying = True
        self._number_stage(draft)
        for given in logs:
            log = self._touch(draft, given.log)
            log.number, log.trimmed, log.born = given.trimmed, given.trimmed, given.born
        for record in records:
            self._append(draft, record)
            draft.revision = record.revision
        self._touch_partition(stage, draft, audible=False)
        if self._waiting > _ROOM:
            self.flush()
        self.applying = False

    def finish_stage(self, stage: str, name: str, state: journal.PartitionState) -> bool:
        """Give a partition that nobody sees yet its state and its name; False where that is taken."""
        if self._draft(name).id:
            return False
        self.applying = True
        draft = self._stage(stage, state)
        self._number_stage(draft)
        draft.revision = state.revision
        self._touch_partition(stage, draft, audible=False)
        self.flush()
        self._connection.execute("UPDATE partitions SET name = ? WHERE id = ?", (stored_name(name), draft.id))
        self.drafts[stage] = PartitionState()
        self.drafts[name] = load_partition(self._run, name) or PartitionState()
        self.changed[name] = True
        self.highest = max(self.highest, state.life, state.revision)
        self.applying = False
        return True

    def drop_stage(self, stage: str) -> None:
        """End a partition that nobody ever saw."""
        draft = self._draft(stage)
        if draft.id:
            self._remove(stage, draft, audible=False)

    def sweep(self, now: int) -> int:
        """Remove records that have expired, some at a time, and return how many."""
        self.flush()
        removed, room = 0, _ROOM_REMOVED
        by_partition: dict[str, list[Record]] = {}
        rows: list[Any] = self._connection.execute(_EXPIRED, (now, _SWEPT_AT_ONCE)).fetchall()
        for name, log, size, *rest in rows:
            if room <= 0:
                break
            by_partition.setdefault(name.decode(), []).append(record_of(log, rest))
            removed, room = removed + 1, room - size
        for name, records in by_partition.items():
            draft = self._draft(name)
            self._trim(draft, records)
            self._touch_partition(name, draft, audible=False)
        return removed

    def vacuum(self, pages: int) -> int:
        """Take free pages out of the file, and return how many those were. It is shorter after the next checkpoint."""
        self.flush()
        before: int = self._connection.pragma("freelist_count")
        self._connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()  # it takes one out at each step
        after: int = self._connection.pragma("freelist_count")
        return before - after

    def clean(self) -> bool:
        """Remove rows of dropped partitions, some at a time, and return whether there may be more."""
        self.flush()
        run = self._connection.execute
        room = _CLEANED_AT_ONCE
        while room > 0:
            partition = run("SELECT partition FROM dropped LIMIT 1").fetchone()
            if partition is None:
                return False
            log = run("SELECT id FROM logs WHERE partition = ? LIMIT 1", partition).fetchone()
            if log is None:
                run("DELETE FROM dropped WHERE partition = ?", partition)
                room -= 1
            else:
                room -= self._clean_log(log[0], room)
        return True

    def flush(self) -> None:
        """Write what waits to the file."""
        self._insert("INSERT INTO segments", 4, self._segments)
        self._insert("INSERT INTO events", 4, self._events)
        self._insert("INSERT OR IGNORE INTO event_ids", 3, self._event_ids)
        self._insert(_INTO_RECORDS, 10, self._records)
        self._insert("INSERT INTO logs", 14, [_log_row(*item) for item in self._unsaved_logs.items()], _UPSERT_LOG)
        partitions = [_partition_row(*item) for item in self._unsaved_partitions.items()]
        self._insert("INSERT INTO partitions", 10, partitions, _UPSERT_PARTITION)
        for log, revisions, frames in self._tails.values():
            _extend_tail(log, revisions, frames)
        for waiting in (self._segments, self._events, self._event_ids, self._records):
            waiting.clear()
        self._unsaved_logs, self._unsaved_partitions, self._tails = {}, {}, {}
        self._waiting = 0

    def finish(self) -> None:
        """Write all that waits, to be committed."""
        self.flush()
        if self.highest != self._ids.highest:
            self._connection.execute("UPDATE file SET highest = ?", (self.highest,))

    def publish(self) -> None:
        """Show what was committed."""
        self._ids.highest = self.highest
        for draft in self.drafts.values():
            for log in draft.logs.values():
                log.fresh = None
        self._cache.publish((name, self.drafts[name]) for name in self.changed)

    def _run(self, sql: str, bindings: Sequence[object]) -> Cursor:
        """Read what was written so far."""
        self._flush_rows()
        return self._connection.execute(sql, bindings)

    def _flush_rows(self) -> None:
        if self._unsaved_partitions or self._unsaved_logs:
            self.flush()

    def _draft(self, name: str) -> PartitionState:
        draft = self.drafts.get(name)
        if draft is None:
            state = self._cache.get(name) or load_partition(self._run, name)
            draft = self.drafts[name] = state.draft() if state else PartitionState()
        return draft

    def _stage(self, stage: str, state: journal.PartitionState) -> PartitionState:
        draft = self._draft(stage)
        if not draft.id:
            draft.life = draft.revision = state.life
            draft.oldest, draft.create_time, draft.update_time = state.oldest, state.create_time, state.update_time
        return draft

    def _number_stage(self, draft: PartitionState) -> None:
        if not draft.id:
            self._ids.partition += 1
            draft.id = self._ids.partition

    def _touch_partition(self, name: str, draft: PartitionState, *, audible: bool = True) -> None:
        draft.changes += 1
        self._unsaved_partitions[name] = draft
        self.changed[name] = audible or self.changed.get(name, False)

    def _touch(self, draft: PartitionState, name: str) -> LogState:
        """Return a log to be changed."""
        found, known = draft.log(name)
        if not known:
            found = load_log(self._run, draft.id, name)
        if found is None:
            self._ids.log += 1
            found = LogState(self._ids.log)
        elif found.id not in self._owned:
            found = found.copy()
        self._owned.add(found.id)
        draft.logs[name] = found
        self._unsaved_logs[draft.id, name] = found
        return found

    def _apply(self, name: str, draft: PartitionState, change: Change[Any], now: int) -> None:
        if not draft.id:
            self._ids.partition += 1
            draft.id = self._ids.partition
            self.highest = max(self.highest, draft.life)
        for record in change.records:
            self._append(draft, record)
        if change.records:
            draft.revision = change.records[-1].revision
        if change.trims:
            self._trim(draft, change.trims)
        draft.oldest = max(draft.oldest, change.oldest)
        draft.create_time = draft.create_time or now
        draft.update_time = now
        self._touch_partition(name, draft)
        if self._waiting > _ROOM:
            self.flush()

    def _append(self, draft: PartitionState, record: Record) -> None:
        log = self._touch(draft, record.log)
        log.born = log.born or record.revision
        log.newest = record.revision
        log.count += 1
        draft.kept += record.log[0] in COUNTED
        log.number = max(log.number, record.number)
        if record.id:
            log.named = True
            log.fresh = log.fresh or {}
            log.fresh[record.id] = record
        self._waiting += len(record.frame)
        if record.log[0] in APPEND_ONLY:
            self._append_event(log, record)
            return
        was_alive = _alive(log)
        log.head = record if record.number > log.trimmed else None
        if record.log[0] == KEY:
            draft.alive += _alive(log) - was_alive
        frame, number, id = record.frame, record.number, record.id  # noqa: A001 (the contract's name)
        row = (draft.id, record.log[0], log.id, record.revision, number, id)
        self._records.append((*row, record.value_size, int(record.deleted), record.expires, frame))

    def _append_event(self, log: LogState, record: Record) -> None:
        size = len(record.frame)
        if not log.segment or (log.size and log.size + size > SEGMENT) or log.filled == PER_SEGMENT:
            self._ids.segment += 1
            log.segment, log.filled, log.size = self._ids.segment, 0, 0
            self._segments.append((log.segment, log.id, record.revision, log.count - 1))
        place = log.segment * PER_SEGMENT + log.filled
        log.filled += 1
        log.size += size
        self._events.append((place, record.revision, record.number, record.frame))
        if record.id:
            self._event_ids.append((log.id, record.id, place))
        tail = self._tails.get(log.id)
        if tail is None:
            tail = self._tails[log.id] = (log, [], [])
        tail[1].append(record.revision)
        tail[2].append(record.frame)

    def _trim(self, draft: PartitionState, records: Sequence[Record]) -> None:
        self._flush_rows()
        rows = []
        for record in records:
            log = self._touch(draft, record.log)
            was_alive = _alive(log)
            log.count -= 1
            draft.kept -= record.log[0] in COUNTED
            log.trimmed = max(log.trimmed, record.number)
            if log.head is not None and log.head.number <= log.trimmed:
                log.head = None
            if record.log[0] == KEY:
                draft.alive += _alive(log) - was_alive
            if log.fresh and log.fresh.get(record.id) == record:
                del log.fresh[record.id]
            rows.append((log.id, record.revision))
        self._connection.executemany("DELETE FROM records WHERE log = ? AND revision = ?", rows)

    def _drop(self, name: str, draft: PartitionState) -> None:
        self.highest = max(self.highest, draft.revision)
        self._remove(name, draft, audible=True)

    def _remove(self, name: str, draft: PartitionState, *, audible: bool) -> None:
        """End a partition. Its rows go later, for they may be many."""
        self.flush()
        self._connection.execute("DELETE FROM partitions WHERE id = ?", (draft.id,))
        self._connection.execute("INSERT INTO dropped VALUES (?)", (draft.id,))
        self.drafts[name] = PartitionState()
        self.changed[name] = audible
        self.dropped = True

    def _clean_log(self, log: int, room: int) -> int:
        """Remove rows of a log, and the log itself once it has none; return how much of the room that took."""
        run = self._connection.execute
        run(
            "DELETE FROM event_ids WHERE log = ?1 AND id IN (SELECT id FROM event_ids WHERE log = ?1 LIMIT ?2)",
            (log, room),
        )
        removed = self._connection.changes() + self._clean_records(log, room)
        while removed < room and (segment := run("SELECT id FROM segments WHERE log = ? LIMIT 1", (log,)).fetchone()):
            first = segment[0] * PER_SEGMENT
            sizes: list[Any] = run(_SEGMENT_SIZE, (first, first + PER_SEGMENT - 1)).fetchall()
            run("DELETE FROM events WHERE place BETWEEN ? AND ?", (first, first + PER_SEGMENT - 1))
            run("DELETE FROM segments WHERE id = ?", segment)
            removed += _weight(*sizes[0])
        if removed < room:
            run("DELETE FROM logs WHERE id = ?", (log,))
            removed += 1
        return removed

    def _clean_records(self, log: int, room: int) -> int:
        found: list[Any] = self._connection.execute(_CLEANABLE, (log, room)).fetchall()
        weights = list(accumulate(_weight(1, size) for _, size in found))
        places = [(place,) for place, _ in found[: bisect_left(weights, room) + 1]]
        self._connection.executemany("DELETE FROM records WHERE place = ?", places)
        return weights[len(places) - 1] if places else 0

    def _insert(self, into: str, columns: int, rows: Sequence[Sequence[object]], end: str = "") -> None:
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            values: list[Any] = list(chain.from_iterable(block))
            self._connection.execute(_insertion(into, columns, len(block), end), values)


@lru_cache(maxsize=1_000)
def _insertion(into: str, columns: int, rows: int, end: str) -> str:
    one = f"({', '.join('?' * columns)})"
    return f"{into} VALUES {', '.join([one] * rows)} {end}"


_INTO_RECORDS = "INSERT INTO records (partition, kind, log, revision, number, id, value_size, deleted, expires, frame)"
_UPSERT_LOG = """\
ON CONFLICT (id) DO UPDATE SET number = excluded.number, trimmed = excluded.trimmed, newest = excluded.newest,
count = excluded.count, named = excluded.named, head = excluded.head, expires = excluded.expires,
segment = excluded.segment, filled = excluded.filled, size = excluded.size"""
_UPSERT_PARTITION = """\
ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, oldest = excluded.oldest,
update_time = excluded.update_time, alive = excluded.alive, changes = excluded.changes, kept = excluded.kept"""


def _log_row(key: tuple[int, str], log: LogState) -> tuple[object, ...]:
    partition, name = key
    head, expires = (log.head.revision, log.head.expires) if log.head else (0, 0)
    expires = expires if name[0] == KEY and _alive(log) else 0
    numbers = (log.number, log.trimmed, log.born, log.newest, log.count)
    return (log.id, partition, name, *numbers, int(log.named), head, expires, log.segment, log.filled, log.size)


def _partition_row(name: str, state: PartitionState) -> tuple[object, ...]:
    times = (state.create_time, state.update_time)
    counts = (state.alive, state.changes, state.kept)
    return (state.id, stored_name(name), state.life, state.revision, state.oldest, *times, *counts)


def _weight(rows: int, size: int) -> int:
    """Return as how many rows it counts to remove so many of so many bytes."""
    return rows + size // 8192


def _alive(log: LogState) -> bool:
    return log.head is not None and not log.head.deleted


def _extend_tail(log: LogState, revisions: list[int], frames: list[bytes]) -> None:
    if log.tail is None:
        # What came before is not known here, but for a log that begins.
        log.tail = Tail(revisions[0] - 1, [], [])
    log.tail = log.tail.extended(revisions, frames)


def changed_names(changed: dict[str, bool]) -> Iterable[str]:
    """Return the partitions whose followers are to be woken."""
    return (name for name, audible in changed.items() if audible)
