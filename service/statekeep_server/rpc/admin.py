"""The streams of Admin: partitions out of an engine, part by part, and into one, and an engine's file as a whole."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Protocol, TypeVar

from statekeep.v1 import admin_pb2 as pb
from statekeep.v1 import memory_pb2

from statekeep_server.core import memory, parts, state_store
from statekeep_server.core.errors import Reason, StatekeepError, invalid
from statekeep_server.core.journal import Call, LogState, Record, View
from statekeep_server.core.room import check_restored, check_whole
from statekeep_server.engines import Engine
from statekeep_server.engines.interface import Restore, Snapshot
from statekeep_server.rpc.handlers import Send

Answer = TypeVar("Answer")

_NAMES = 100  # partitions' names read at a time
_LOGS = 1_000  # logs' states read at a time
_PAGES = 4  # of a message: small records take their time, and others get their turn after each page
_BYTES = 255 * 2**10  # of a backup, in one message
_AT_ONCE = 100  # records restored before others get their turn


class Export:
    """Admin.Export over an engine."""

    def __init__(self, engine: Engine, now: Callable[[], Call]) -> None:
        self._engine = engine
        self._now = now

    async def run(self, request: pb.AdminExportRequest, send: Send) -> None:
        """Send what is asked for, in messages of about a chunk's size."""
        names = self._names(request)
        call = self._now()
        await self._engine.sweep(call.now)  # so that what has expired is nowhere in it
        async with aclosing(names), aclosing(self._parts(names, call.limits.chunk)) as messages:
            async for message in messages:
                await send(message)

    def _names(self, request: pb.AdminExportRequest) -> AsyncGenerator[str]:
        """Return the partitions that are asked for."""
        selection = request.WhichOneof("selection")
        if selection == "thread_id":
            return _just(state_store.partition(request.thread_id))
        if selection == "scope":
            return _just(memory.partition(request.scope))
        if not request.all:
            raise invalid("selection", "is missing; set thread_id, scope, or all to true")
        return self._all()

    async def _all(self) -> AsyncGenerator[str]:
        for prefix in (memory.PARTITIONS, state_store.PARTITIONS):
            after = ""
            while names := await self._engine.partitions(prefix, after, _NAMES):
                for name in names:
                    yield name
                after = names[-1]

    async def _parts(self, names: AsyncIterator[str], size: int) -> AsyncGenerator[bytes]:
        """Yield messages, each of the parts of one partition or of several small ones."""
        ready: list[bytes] = []
        room = size
        async for name in names:
            snapshot = await self._engine.snapshot(name)
            if snapshot is None:
                continue  # dropped since it was listed
            try:
                async for part in _partition_parts(name, snapshot, size):
                    if ready and len(part) > room:
                        yield b"".join(ready)
                        ready, room = [], size
                    ready.append(part)
                    room -= len(part)
            finally:
                await snapshot.close()
        if ready:
            yield b"".join(ready)


async def _just(name: str) -> AsyncGenerator[str]:
    yield name


async def _partition_parts(name: str, snapshot: Snapshot, size: int) -> AsyncGenerator[bytes]:
    yield parts.partition_part(name, snapshot.state)
    while logs := await snapshot.logs(_LOGS):
        for log in logs:
            yield parts.log_part(log)
    count = 0
    while records := await snapshot.records(size // _PAGES):
        count += len(records)
        for record in records:
            for part in parts.record_parts(record):
                yield part
        await asyncio.sleep(0)  # many small partitions, or a client that takes all, leave room for others
    yield parts.end_part(count)


class Backup:
    """Admin.Backup over an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run(self, send: Send) -> None:
        """Have the copy made, telling how far that is, and send it."""
        backup = await self._engine.backup()
        told = -1
        try:
            while not await backup.copy():
                # So few messages that they fit the window of a client that does not read: none holds up the copy.
                if (percent := 100 * backup.copied // backup.size) > told:
                    await send(pb.AdminBackupResponse(size=backup.size, copied=backup.copied).SerializeToString())
                    told = percent
            while data := await backup.read(_BYTES):
                answer = pb.AdminBackupResponse(data=data, size=backup.size, copied=backup.copied)
                await send(answer.SerializeToString())
        finally:
            await backup.close()


class Target(Protocol):
    """Where the records of a partition that comes in go."""

    async def add(self, logs: Sequence[LogState], records: Sequence[Record]) -> None:
        """Take logs' states and records."""

    async def finish(self) -> pb.ImportOutcome.ValueType:
        """Return what became of the partition, once all of it came."""

    async def close(self) -> None:
        """Let go of what is held for it."""


class Import:
    """Admin.Import over an engine: one stream of it."""

    def __init__(self, engine: Engine, now: Callable[[], Call]) -> None:
        self._engine = engine
        self._now = now
        self._skip_existing = False
        self._taken = 0
        self._arrival: parts.Arrival | None = None
        self._target: Target = Passed()
        self._logs: list[LogState] = []
        self._records: list[Record] = []
        self._done: list[pb.ImportedPartition] = []

    async def run(self, requests: AsyncIterator[pb.AdminImportRequest], send: Send) -> None:
        """Take the parts that come, and answer each message of them once they are stored."""
        first = True
        try:
            async for request in requests:
                if first:
                    self._skip_existing, first = request.skip_existing, False
                for part in request.parts:
                    await self._take(part)
                await self._flush()
                await send(self._answer())
            if self._arrival:
                raise invalid(self._path, "is missing: the stream ended within {name}", name=_shown(self._arrival))
        finally:
            await self._target.close()

    @property
    def _path(self) -> str:
        return f"parts[{self._taken}]"

    def _answer(self) -> bytes:
        answer = pb.AdminImportResponse(parts=self._taken, partitions=self._done)
        self._done = []
        return answer.SerializeToString()

    async def _take(self, part: pb.ExportedPart) -> None:
        kind = part.WhichOneof("part")
        if kind is None:
            raise invalid(self._path, "is empty, or of a kind that this server does not know")
        path = f"{self._path}.{kind}"
        if kind == "partition":
            await self._begin(part.partition, path)
        elif self._arrival is None:
            raise invalid(path, "comes before any partition")
        elif kind == "end":
            self._arrival.end(part.end, path)
            await self._finish(self._arrival)
        elif kind == "log":
            self._logs.append(self._arrival.log(part.log, path))
        elif record := self._arrival.record(kind, part, path):
            self._records.append(record)
        if len(self._records) + len(self._logs) >= _AT_ONCE:
            await self._flush()
        self._taken += 1

    async def _begin(self, header: pb.ExportedPartition, path: str) -> None:
        if self._arrival:
            raise invalid(path, "comes within {name}, before its end", name=_shown(self._arrival))
        arrival = parts.Arrival(header, path, self._now())
        snapshot = await self._engine.snapshot(arrival.partition)
        if snapshot is None:
            self._target = Restored(arrival, await self._engine.restore(arrival.partition, arrival.state), self._now)
        else:
            self._target = Compared(arrival, snapshot, self._now())
        self._arrival = arrival

    async def _flush(self) -> None:
        if self._logs or self._records:
            logs, records = self._logs, self._records
            self._logs, self._records = [], []
            await self._or_pass(self._target.add(logs, records))
            await asyncio.sleep(0)

    async def _finish(self, arrival: parts.Arrival) -> None:
        await self._flush()
        outcome = await self._or_pass(self._target.finish())
        done = pb.ImportedPartition(outcome=outcome or pb.IMPORT_OUTCOME_SKIPPED, records=arrival.records)
        parts.name_partition(done, arrival.partition)
        self._done.append(done)
        await self._target.close()
        self._arrival, self._target = None, Passed()

    async def _or_pass(self, step: Awaitable[Answer]) -> Answer | None:
        """Await a step; where it finds another partition of the name, and that is to be skipped, pass over this one."""
        try:
            return await step
        except StatekeepError as error:
            if error.reason is not Reason.PARTITION_EXISTS or not self._skip_existing:
                raise
        await self._target.close()
        self._target = Passed()
        return None


class Restored:
    """A partition that is not there yet."""

    def __init__(self, arrival: parts.Arrival, restore: Restore, now: Callable[[], Call]) -> None:
        self._arrival = arrival
        self._restore = restore
        self._now = now

    async def add(self, logs: Sequence[LogState], records: Sequence[Record]) -> None:
        """Restore them."""
        call = self._now()

        def decide(view: View) -> tuple[Sequence[LogState], Sequence[Record]]:
            parts.settle(view, logs, records)
            check_restored(view, records, call)
            return logs, records

        await self._restore.add(decide)

    async def finish(self) -> pb.ImportOutcome.ValueType:
        """Put the partition in its place."""
        call = self._now()
        if call.limits.scope_keys:

            def decide(view: View) -> tuple[Sequence[LogState], Sequence[Record]]:
                check_whole(view, call)
                return (), ()

            await self._restore.add(decide)
        if not await self._restore.finish():
            raise _exists(self._arrival, "was made meanwhile")
        return pb.IMPORT_OUTCOME_RESTORED

    async def close(self) -> None:
        """Forget what was not finished."""
        await self._restore.close()


class Compared:
    """A partition of that name is there: it may hold more by now, but nothing else."""

    def __init__(self, arrival: parts.Arrival, snapshot: Snapshot, call: Call) -> None:
        self._arrival = arrival
        self._snapshot = snapshot
        self._now = call.now
        self._size = call.limits.chunk
        self._page: Sequence[Record] = ()
        self._place = 0
        self._trimmed: dict[str, int] | None = None  # by log; read when the first record is missed

    async def add(self, logs: Sequence[LogState], records: Sequence[Record]) -> None:
        """Compare them with what is there."""
        self._check_state()
        for record in records:
            there = await self._next()
            if there and there.revision == record.revision:
                if not parts.same_record(record, there):
                    raise self._differs()
                self._place += 1
            elif (there and there.revision < record.revision) or not await self._was_there(record):
                raise self._differs()

    async def finish(self) -> pb.ImportOutcome.ValueType:
        """Say that all of it is there."""
        self._check_state()
        there = await self._next()
        if there and there.revision <= self._arrival.state.revision:
            raise self._differs()
        return pb.IMPORT_OUTCOME_UNCHANGED

    async def close(self) -> None:
        """Let go of the snapshot."""
        await self._snapshot.close()

    async def _next(self) -> Record | None:
        """Return the next record that is there."""
        while True:
            while self._place < len(self._page):
                record = self._page[self._place]
                if not 0 < record.expires <= self._now:
                    return record
                self._place += 1
            self._page, self._place = await self._snapshot.records(self._size), 0
            if not self._page:
                return None

    async def _was_there(self, record: Record) -> bool:
        """Whether a record that is not there was there once: it expired, or was trimmed since."""
        if 0 < record.expires <= self._now:
            return True
        if self._trimmed is None:
            self._trimmed = {}
            while logs := await self._snapshot.logs(_LOGS):
                self._trimmed |= {state.log: state.trimmed for state in logs}
        return record.number <= self._trimmed.get(record.log, -1)

    def _check_state(self) -> None:
        here, brought = self._snapshot.state, self._arrival.state
        if (here.life, here.create_time) != (brought.life, brought.create_time):
            raise _exists(self._arrival, "is there already, and is another one")
        if here.revision < brought.revision:
            raise _exists(self._arrival, "is there already, as it was earlier")

    def _differs(self) -> StatekeepError:
        return _exists(self._arrival, "is there already, and holds something else")


class Passed:
    """A partition that is passed over."""

    async def add(self, logs: Sequence[LogState], records: Sequence[Record]) -> None:
        """Take nothing."""

    async def finish(self) -> pb.ImportOutcome.ValueType:
        """Say so."""
        return pb.IMPORT_OUTCOME_SKIPPED

    async def close(self) -> None:
        """Do nothing."""


def _shown(arrival: parts.Arrival) -> str:
    """Return what an error calls a partition."""
    named = pb.ImportedPartition()
    parts.name_partition(named, arrival.partition)
    if named.HasField("scope"):
        kind = memory_pb2.ScopeType.Name(named.scope.type).removeprefix("SCOPE_TYPE_").lower()
        return f"Scope {named.scope.name} ({kind})"
    return f"Thread {named.thread_id}"


def _exists(arrival: parts.Arrival, how: str) -> StatekeepError:
    return StatekeepError(
        Reason.PARTITION_EXISTS,
        "{name} " + how + "; nothing of it was changed. Skip what exists, or import into a server without it",
        name=_shown(arrival),
    )
