"""The in-memory engine: partitions in a dictionary, each with a lock for the one who writes.

Readers take no lock. A partition counts its changes in an `epoch`, which is odd while one is under way, and a read that
overlapped a change is made again: so all that a read saw is of one moment.
"""

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush, merge
from itertools import groupby, islice
from operator import attrgetter
from threading import Lock
from typing import NoReturn, TypeVar

from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.journal import APPEND_ONLY, COUNTED, KEY, Change, Chunk, LogState, PartitionState, Record
from statekeep_server.engines.bells import LocalBell, Tower
from statekeep_server.engines.interface import Stats
from statekeep_server.engines.memory_logs import EventLog, RecordLog
from statekeep_server.engines.sorted_names import SortedNames
from statekeep_server.engines.tally import Tally

Answer = TypeVar("Answer")

_LOCK_FREE_TRIES = 8
_AT_ONCE = 1_000  # records that one round of a sweep removes before others get their turn
_STEPS = 32  # of counting, before others get their turn
_LOOKED_AT = 500  # names that a walk over all looks at before others get their turn
_revision_of = attrgetter("revision")
_log_of = attrgetter("log")

# What things take in memory besides their frames, about: a test compares it with what Python says.
PARTITION, LOG, EVENT_LOG, RECORD, EVENT = 800, 200, 100, 300, 44  # bytes

# What a partition has that holds events alone, as most threads do: empty, shared by all, and never written to.
_NO_LOGS: dict[str, RecordLog] = {}
_NO_EXPIRIES: dict[str, int] = {}
_NO_DEADLINES: list[tuple[int, int, str]] = []
_NO_JOURNAL: list[Record] = []


class Partition:
    """One partition's logs, and the journal of those records that are kept as objects."""

    __slots__ = (
        "_events",
        "_holes",
        "_journal",
        "_oldest",
        "alive",
        "create_time",
        "deadlines",
        "dropped",
        "epoch",
        "expiring",
        "kept",
        "life",
        "lock",
        "names",
        "records",
        "revision",
        "size",
        "update_time",
    )

    def __init__(self, life: int) -> None:
        self.life = life
        self.revision = life
        self._oldest = 0  # until something is trimmed that cursors may need
        self.create_time = 0
        self.update_time = 0
        self.lock = Lock()
        self.dropped = False
        self.epoch = 0
        # One log by itself, as most threads have, for a dictionary of one takes 200 bytes; several in a dictionary.
        self._events: EventLog | dict[str, EventLog] | None = None
        self.records = _NO_LOGS
        self.names = SortedNames()
        self.alive = 0
        """How many keys have a value, the expired ones that are still kept among them."""
        self.kept = 0
        """How many records of the `COUNTED` kinds there are."""
        self.size = PARTITION
        """Bytes that it takes, about."""
        self.expiring = _NO_EXPIRIES
        """When those keys' values expire."""
        self.deadlines = _NO_DEADLINES
        """A heap of when records expire, with their revision and log."""
        self._journal = _NO_JOURNAL
        self._holes: set[int] | None = None  # revisions in the journal that were trimmed; an empty set takes 216 bytes

    def apply(self, change: Change[Answer], now: int) -> None:
        """Make a change. The caller holds the lock."""
        self.epoch += 1
        records = change.records
        if len(records) > 1:
            for name, run in groupby(records, _log_of):
                self._extend(name, list(run))
        elif records:
            self._append(records[0])
        if records:
            self.revision = records[-1].revision
        if change.trims:
            self._trim(change.trims)
        if change.oldest > self._oldest:
            self._oldest = change.oldest
        self.create_time = self.create_time or now
        self.update_time = now
        self.epoch += 1

    @property
    def oldest(self) -> int:
        """The lowest revision that a cursor may have."""
        return self._oldest or (self.life and self.life + 1)

    def event_log(self, name: str) -> EventLog | None:
        """Return a log of events, where it is there."""
        events = self._events
        if isinstance(events, dict):
            return events.get(name)
        return events if events is not None and events.name == name else None

    def event_logs(self) -> Sequence[EventLog]:
        """Return all logs of events."""
        events = self._events
        if events is None:
            return ()
        return list(events.values()) if isinstance(events, dict) else (events,)

    def state(self) -> PartitionState:
        """Return what it is besides its records."""
        return PartitionState(self.life, self.revision, self.oldest, self.create_time, self.update_time)

    def trimmed_logs(self) -> list[LogState]:
        """Return the logs whose state their records do not tell, sorted."""
        return [
            LogState(name, log.trimmed, log.born)
            for name in self.names.after("", "")
            if (log := self.records.get(name))
            and (log.trimmed or not log.records or log.born != log.records[0].revision)
        ]

    def all_records(self) -> Iterator[Record]:
        """Yield the records that there are now, in order of revision, also where others come and go meanwhile."""
        events = [_named(log.name, log.scan(0, self.revision, newest_first=False)) for log in self.event_logs()]
        holes = self._holes or ()
        kept = [record for record in self._journal if record.revision not in holes]
        return merge(kept, *events, key=_revision_of)

    def restore(self, logs: Sequence[LogState], records: Sequence[Record]) -> None:
        """Add what comes from another engine. Nobody sees the partition yet."""
        for state in logs:
            self._log(state.log).restore(state)
        for record in records:
            self._append(record)
            self.revision = record.revision

    def complete(self, state: PartitionState) -> None:
        """Give a restored partition its state."""
        self.revision, self._oldest = state.revision, state.oldest
        self.create_time, self.update_time = state.create_time, state.update_time

    def expire(self, now: int) -> int:
        """Remove records that have expired, some at a time, and return how many. The caller holds the lock."""
        gone: list[Record] = []
        while self.deadlines and self.deadlines[0][0] <= now and len(gone) < _AT_ONCE:
            _, revision, name = heappop(self.deadlines)
            gone += self.records[name].scan(revision - 1, revision, newest_first=False)
        if gone:
            self.epoch += 1
            self._trim(gone)
            self.epoch += 1
        return len(gone)

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield how many records there are, and the bytes of their frames, some at a time."""
        for events in self.event_logs():
            yield events.count(), events.size()
        journal, holes = self._journal, self._holes or ()
        for start in range(0, len(journal), _AT_ONCE):
            part = [record for record in journal[start : start + _AT_ONCE] if record.revision not in holes]
            yield len(part), sum(len(record.frame) for record in part)

    def journal(self, kind: str, after: int) -> Iterator[Record]:
        """Yield the records of a kind with a greater revision, in order."""
        journal, holes = self._journal, self._holes or ()
        for place in range(bisect_right(journal, after, key=_revision_of), len(journal)):
            record = journal[place]
            if record.log.startswith(kind) and record.revision not in holes:
                yield record

    def _extend(self, name: str, records: Sequence[Record]) -> None:
        """Append records of one log."""
        if name[0] not in APPEND_ONLY:
            for record in records:
                self._append(record)
            return
        events = self.event_log(name) or self._begin_event_log(name)
        self.size += events.extend(records) + EVENT * len(records)
        self.kept += len(records)

    def _append(self, record: Record) -> None:
        name = record.log
        if name[0] in COUNTED:
            self.kept += 1
        if name[0] in APPEND_ONLY:
            events = self.event_log(name) or self._begin_event_log(name)
            events.append(record)
            self.size += len(record.frame) + EVENT
            return
        log = self.records.get(name) or self._log(name)
        log.append(record)
        self._journal.append(record)
        self.size += len(record.frame) + RECORD
        if record.expires:
            heappush(self.deadlines, (record.expires, record.revision, name))
        if name[0] == KEY:
            self._note_head(name, log, log.head())

    def _begin_event_log(self, name: str) -> EventLog:
        begun = EventLog(name)
        if isinstance(self._events, dict):
            self._events[name] = begun
        else:
            self._events = begun if self._events is None else {self._events.name: self._events, name: begun}
        self.names.add(name)
        self.size += EVENT_LOG
        return begun

    def _log(self, name: str) -> RecordLog:
        log = self.records.get(name)
        if log is None:
            if self.records is _NO_LOGS:
                self.records, self.expiring, self.deadlines, self._journal = {}, {}, [], []
            log = self.records[name] = RecordLog()
            self.names.add(name)
            self.size += LOG + len(name)
        return log

    def _trim(self, records: Sequence[Record]) -> None:
        by_log: defaultdict[str, set[int]] = defaultdict(set)
        for record in records:
            by_log[record.log].add(record.revision)
            self.kept -= record.log[0] in COUNTED
            self.size -= len(record.frame) + RECORD
        for name, revisions in by_log.items():
            log = self.records[name]
            log.trim(revisions)
            if name[0] == KEY:
                self._note_head(name, log, log.head())
        holes = self._holes = self._holes or set()
        holes.update(record.revision for record in records)
        if len(holes) <= len(self._journal) // 2:
            self._empty(records)
        else:
            self._journal = [record for record in self._journal if record.revision not in holes]
            self._holes = None
            self.deadlines = [
                (record.expires, record.revision, record.log) for record in self._journal if record.expires
            ]
            heapify(self.deadlines)

    def _empty(self, records: Sequence[Record]) -> None:
        """Leave of trimmed records no more than their place in the journal: their values would stay in memory."""
        journal = self._journal
        for record in records:
            place = bisect_left(journal, record.revision, key=_revision_of)
            journal[place] = Record(record.log, record.revision, 0, b"")

    def _note_head(self, name: str, log: RecordLog, head: Record | None) -> None:
        alive = head is not None and not head.deleted
        self.alive += alive - log.alive
        log.alive = alive
        if head is not None and alive and head.expires:
            self.expiring[name] = head.expires
        elif self.expiring:
            self.expiring.pop(name, None)


def _named(log: str, records: Iterator[Record]) -> Iterator[Record]:
    """Yield records of an event log with the log's name, which it does not keep with each."""
    return (Record(log, record.revision, record.number, record.frame) for record in records)


class PartitionView:
    """A partition as it is while nobody changes it."""

    __slots__ = ("_partition", "revision")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.revision = partition.revision

    @property
    def exists(self) -> bool:
        return bool(self._partition.create_time)

    @property
    def life(self) -> int:
        return self._partition.life

    @property
    def oldest(self) -> int:
        return self._partition.oldest

    @property
    def alive(self) -> int:
        return self._partition.alive

    @property
    def kept(self) -> int:
        return self._partition.kept

    @property
    def create_time(self) -> int:
        return self._partition.create_time

    @property
    def update_time(self) -> int:
        return self._partition.update_time

    def head(self, log: str) -> Record | None:
        records = self._partition.records.get(log)
        return records.head() if records else None

    def upto(self, log: str, number: int) -> Record | None:
        records = self._partition.records.get(log)
        return records.upto(number) if records else None

    def find(self, log: str, id: str) -> Record | None:  # noqa: A002 (the field's name in the contract)
        found = self._log(log)
        return found.find(id) if found else None

    def named(self, log: str) -> bool:
        found = self._log(log)
        return found is not None and found.named

    def number(self, log: str) -> int:
        found = self._log(log)
        return found.number if found else 0

    def count(self, log: str) -> int:
        found = self._log(log)
        return found.count() if found else 0

    def expired(self, log: str, now: int) -> int:
        deadlines, found = self._partition.deadlines, self._partition.records.get(log)
        if not found or not deadlines or deadlines[0][0] > now:
            return 0
        return sum(0 < record.expires <= now for record in found.records)

    def born(self, log: str) -> int:
        found = self._log(log)
        return found.born if found else 0

    def live(self, kind: str, now: int) -> int:
        if kind != KEY:
            raise ValueError(f"no live ones are counted of kind {kind!r}")
        expired = sum(expires <= now for expires in list(self._partition.expiring.values()))
        return self._partition.alive - expired

    def scan(
        self, log: str, *, after: int = 0, before: int | None = None, newest_first: bool = False
    ) -> Iterator[Record]:
        found = self._log(log)
        until = self.revision if before is None else before - 1
        return found.scan(after, until, newest_first) if found else iter(())

    def chunk(self, log: str, after: int, until: int, count: int | None = None) -> Chunk | None:
        events = self._partition.event_log(log)
        return events.chunk(after, until, count) if events else None

    def back(self, log: str, count: int, until: int) -> tuple[int, int]:
        events = self._partition.event_log(log)
        return events.back(count, until) if events else (0, until)

    def logs(self, prefix: str, after: str = "") -> Iterator[str]:
        return self._partition.names.after(after, prefix)

    def journal(self, kind: str, after: int) -> Iterator[Record]:
        return self._partition.journal(kind, after)

    def _log(self, name: str) -> EventLog | RecordLog | None:
        partition = self._partition
        return partition.event_log(name) or partition.records.get(name)


_NOWHERE = Partition(0)


class MemorySnapshot:
    """A partition as it was: records never change, so references to them are all that is copied.

    Events need not even that, for their logs are only appended to.
    """

    def __init__(self, partition: Partition) -> None:
        self.state = partition.state()
        self._lock = partition.lock
        self._logs = iter(partition.trimmed_logs())
        self._records = partition.all_records()

    async def logs(self, count: int) -> list[LogState]:
        return list(islice(self._logs, count))

    async def records(self, size: int) -> list[Record]:
        page: list[Record] = []
        with self._lock:
            for record in self._records:
                page.append(record)
                size -= len(record.frame)
                if size <= 0:
                    break
        return page

    async def close(self) -> None:
        self._logs, self._records = iter(()), iter(())


class MemoryRestore:
    """A partition that is in no engine yet."""

    def __init__(self, engine: "MemoryEngine", name: str, state: PartitionState) -> None:
        self._engine = engine
        self._name = name
        self._state = state
        self._partition = Partition(state.life)
        self._counted = 0

    async def add(self, decide: Callable[[PartitionView], tuple[Sequence[LogState], Sequence[Record]]]) -> None:
        self._partition.restore(*decide(PartitionView(self._partition)))
        self._count(self._partition.size)

    async def finish(self) -> bool:
        self._partition.complete(self._state)
        self._count(0)
        return self._engine.put(self._name, self._partition)

    async def close(self) -> None:
        """Count it no more; what nobody holds any more is gone."""
        self._count(0)

    def _count(self, size: int) -> None:
        """Have the engine count this as a part of what it keeps."""
        self._engine.hold(size - self._counted)
        self._counted = size


class MemoryEngine:
    """Partitions for as long as the process lives."""

    name = "memory"
    durable = False

    def __init__(self) -> None:
        self._lock = Lock()  # of the dictionary of partitions, and of the highest revision
        self._partitions: dict[str, Partition] = {}
        self._names = SortedNames()
        self._highest = 0  # revision that any life, ended or begun, had when it was noted
        self.restored = 0
        self._mortal: set[str] = set()  # partitions with records that expire
        self._sizing = Lock()
        self.held = 0
        """Bytes that all partitions take in memory, about, those that are being put together among them."""
        self._tower = Tower()
        self._tally = Tally()
        self._expired = 0
        self._closed = False

    async def read(self, partition: str, query: Callable[[PartitionView], Answer]) -> Answer:
        """Return what a query finds, without a lock unless changes keep coming in between."""
        found = self._partitions.get(partition, _NOWHERE)
        for _ in range(_LOCK_FREE_TRIES):
            epoch = found.epoch
            try:
                answer = query(PartitionView(found))
            except Exception:
                if found.epoch == epoch and not epoch & 1:
                    raise
                continue
            if found.epoch == epoch and not epoch & 1:
                return answer
        with found.lock:
            return query(PartitionView(found))

    async def write(self, partition: str, decide: Callable[[PartitionView], Change[Answer]]) -> Answer:
        """Make a change under the partition's lock."""
        while True:
            found = self._partitions.get(partition)
            if found is None:
                with self._lock:
                    if partition in self._partitions:
                        continue
                    return self._begin(partition, decide)
            with found.lock:
                if not found.dropped:
                    return self._change(partition, found, decide)

    async def partitions(self, prefix: str, after: str, limit: int) -> list[str]:
        """Return a page of the partitions' names."""
        return list(islice(self._names.after(after, prefix), limit))

    def bell(self, partition: str) -> LocalBell:
        """Return a bell for the running event loop."""
        return self._tower.bell(partition)

    async def sweep(self, now: int) -> int:
        """Remove what has expired, some records at a time, with room for others in between."""
        removed = 0
        for name in list(self._mortal):
            partition = self._partitions.get(name)
            while partition and (gone := self._expire(name, partition, now)):
                removed += gone
                await asyncio.sleep(0)
            if partition is None:
                with self._lock:  # one of that name may have begun since
                    if name not in self._partitions:
                        self._mortal.discard(name)
        return removed

    async def idle(self, prefix: str, before: int) -> AsyncIterator[list[str]]:
        """Look through the partitions, some at a time."""
        async for page in self._pages(prefix):
            yield [
                name
                for name in page
                if (found := self._partitions.get(name)) is not None and 0 < found.update_time < before
            ]

    async def crowded(self, kind: str, count: int) -> AsyncIterator[list[tuple[str, str]]]:
        """Look through the logs of all partitions, some at a time."""
        async for page in self._pages(""):
            for name in page:
                found = self._partitions.get(name)
                if found is None or not found.records:
                    continue
                logs = found.names.after("", kind)
                while some := list(islice(logs, _LOOKED_AT)):
                    yield [(name, log) for log in some if len(found.records[log].records) > count]
                    await asyncio.sleep(0)

    async def _pages(self, prefix: str) -> AsyncIterator[list[str]]:
        """Yield the partitions' names in pages, with room for others in between."""
        after = ""
        while page := await self.partitions(prefix, after, _LOOKED_AT):
            yield page
            after = page[-1]
            await asyncio.sleep(0)

    async def reclaim(self) -> int:
        """Do nothing: what nobody holds any more is free."""
        return 0

    def _expire(self, name: str, partition: Partition, now: int) -> int:
        with partition.lock:
            before = partition.size
            gone = partition.expire(now)
            if not partition.dropped:
                self.hold(partition.size - before)
            if not partition.deadlines and not partition.dropped:
                self._mortal.discard(name)
        self._expired += gone
        return gone

    async def snapshot(self, partition: str) -> MemorySnapshot | None:
        """Return a partition as it is now."""
        found = self._partitions.get(partition)
        if found is None:
            return None
        with found.lock:
            return None if found.dropped else MemorySnapshot(found)

    async def restore(self, partition: str, state: PartitionState) -> MemoryRestore:
        """Begin to put a partition together."""
        return MemoryRestore(self, partition, state)

    async def backup(self) -> NoReturn:
        """Refuse: there is no file to be copied."""
        raise StatekeepError(
            Reason.NOT_SUPPORTED,
            "A server that keeps all in memory has no file to back up; save it with statekeep export --all",
        )

    def put(self, name: str, partition: Partition) -> bool:
        """Put a whole partition in its place; False where that is taken."""
        with self._lock:
            if name in self._partitions:
                return False
            self.hold(partition.size)  # before others see it and add to it
            self._partitions[name] = partition
            if partition.deadlines:
                self._mortal.add(name)
            self._names.add(name)
            self.restored += 1
        self._tower.ring(name)
        return True

    def hold(self, size: int) -> None:
        """Count bytes that were added, or taken away."""
        with self._sizing:
            self.held += size

    async def stats(self) -> Stats:
        """Return what there is to tell."""
        counted = await self._tally.counted(self._count)
        return Stats(
            counted.partitions, counted.records, counted.bytes, expired=self._expired, writable=not self._closed
        )

    async def _count(self) -> tuple[Counter[str], int, int]:
        """Count what there is, with room for others in between."""
        partitions: Counter[str] = Counter()
        records = size = steps = 0
        for name, partition in list(self._partitions.items()):
            partitions[name[0]] += 1
            for some, their_size in partition.sizes():
                records += some
                size += their_size
                steps += 1
                if steps % _STEPS == 0:
                    await asyncio.sleep(0)
        return partitions, records, size

    async def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._partitions = {}
            self._names = SortedNames()
            self.held = 0

    def _begin(self, name: str, decide: Callable[[PartitionView], Change[Answer]]) -> Answer:
        """Decide on a partition that is not there, and begin it where something is to be kept."""
        now = time.time_ns() // 1000
        # A life's revisions begin at the clock, above those of every life of this name before it: none comes twice, and
        # a cursor of an earlier life, even of an earlier process, lies below the first of this one.
        partition = Partition(max(now, self._highest + 1))
        change = decide(PartitionView(partition))
        if change.records:
            self._highest = partition.life
            partition.apply(change, now)
            self.hold(partition.size)  # as in `put`
            self._partitions[name] = partition
            if partition.deadlines:
                self._mortal.add(name)
            self._names.add(name)
            self._tower.ring(name)
        return change.answer

    def _change(self, name: str, partition: Partition, decide: Callable[[PartitionView], Change[Answer]]) -> Answer:
        change = decide(PartitionView(partition))
        if change.drop:
            self._drop(name, partition)
        elif change.records or change.trims:
            before = partition.size
            partition.apply(change, time.time_ns() // 1000)
            self.hold(partition.size - before)
            if partition.deadlines:
                self._mortal.add(name)
        else:
            return change.answer
        self._tower.ring(name)
        return change.answer

    def _drop(self, name: str, partition: Partition) -> None:
        with self._lock:
            partition.dropped = True
            self._highest = max(self._highest, partition.revision)
            del self._partitions[name]
            self._names.discard(name)
        self.hold(-partition.size)
