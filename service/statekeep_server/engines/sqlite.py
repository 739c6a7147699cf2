"""The SQLite engine: partitions in one file on disk, for as long as the file is kept.

One thread writes. It takes all writes that wait, decides them one after the other in one transaction, and answers when
that is on disk: many callers share one sync. Reads are answered from memory where what they ask for is there, and else
by a few threads, each with a connection of its own, that see the file as of one commit and never wait for the writer.
"""

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from time import perf_counter_ns
from typing import Any, NamedTuple, TypeVar

import apsw

from statekeep_server.core import journal
from statekeep_server.core.errors import Reason, StatekeepError, limit_reached
from statekeep_server.core.journal import Change
from statekeep_server.counting import Distribution
from statekeep_server.engines.bells import LocalBell, Tower
from statekeep_server.engines.interface import Commits, Stats, StoreError
from statekeep_server.engines.sqlite_backup import SqliteBackup
from statekeep_server.engines.sqlite_cache import Cache
from statekeep_server.engines.sqlite_file import BUSY, StoreFile, why
from statekeep_server.engines.sqlite_restore import SqliteRestore
from statekeep_server.engines.sqlite_snapshot import SqliteSnapshot, begin
from statekeep_server.engines.sqlite_transaction import Ids, Transaction, changed_names
from statekeep_server.engines.sqlite_view import (
    STAGES,
    Chunks,
    NotCached,
    PartitionState,
    SqliteView,
    load_partition,
    not_cached,
)
from statekeep_server.engines.tally import Tally

Answer = TypeVar("Answer")

CACHE = 64 * 2**20
"""Bytes of partitions' states that are kept in memory, about."""
CHUNKS = 64 * 2**20
"""Bytes of chunks of history that are kept in memory."""
READERS = 4
"""Threads that read the file."""
SNAPSHOTS = 32
"""Snapshots that may be open at once, each with a connection."""
RETRY_AFTER = 1.0  # seconds; what a caller is told where the file cannot be written or read
KEPT_FREE, KEPT_SHARE = 64, 16
"""Free pages that stay in the file: so many, or one of so many of all its pages, whichever is more."""
VACUUMED_AT_ONCE = 128
"""Free pages that one transaction takes out of the file."""
VACUUMS = 1_000
"""Such transactions that are made one after the other at most, before what else is to be removed has its turn."""
CHECKPOINT_AFTER = 8
"""Such transactions, after which the log is copied into the file."""
_GROUP = 512  # writes of one transaction at most

_NAMES = "SELECT name FROM partitions WHERE name > ? AND name >= ? AND name < x'FF' ORDER BY name LIMIT ?"

_KINDS = "SELECT substr(name, 1, 1), count(*) FROM partitions WHERE name < x'FF' GROUP BY 1"
_RECORDS = "SELECT coalesce(sum(count), 0) FROM logs WHERE partition NOT IN (SELECT partition FROM dropped)"

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # writes of a commit
_TIMES = tuple(round(ms * 1e6) for ms in (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500))
_LOOKED_AT = 2_000  # rows that one step of a walk over all looks at
_IDLE = (
    "SELECT max(id) FROM (SELECT id FROM partitions WHERE id > ? ORDER BY id LIMIT ?)",
    "SELECT name FROM partitions WHERE id > ? AND id <= ? AND update_time < ? AND substr(name, 1, length(?4)) = ?4",
)
_CROWDED = (
    "SELECT max(id) FROM (SELECT id FROM logs WHERE id > ? ORDER BY id LIMIT ?)",
    "SELECT p.name, l.name FROM logs l CROSS JOIN partitions p ON p.id = l.partition WHERE l.id > ? AND l.id <= ? "
    "AND l.count > ? AND substr(l.name, 1, 1) = ? AND p.name < x'FF'",
)

_LEFT = """\
INSERT INTO dropped SELECT id FROM partitions WHERE name >= x'FF';
DELETE FROM partitions WHERE name >= x'FF'
"""

log = logging.getLogger(__name__)


class _Job(NamedTuple):
    """Something to be done within a transaction, and who waits for it."""

    run: Callable[[Transaction], Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop


class _Outcome(NamedTuple):
    answer: Any
    error: BaseException | None = None


class _CommitError(Exception):
    """What was decided is not on disk, for all of a group alike."""


class SqliteEngine:
    """Partitions in a file. Raises StoreError where that cannot be used."""

    name = "sqlite"
    durable = True
    held = 0

    def __init__(self, path: str, *, cache: int = CACHE, chunks: int = CHUNKS) -> None:
        self._file = StoreFile(path)
        self._cache = Cache(cache)
        self._chunks = Chunks(chunks)
        self._tower = Tower()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._letting_go = threading.Lock()
        self._closed = False
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._snapshots: set[SqliteSnapshot] = set()
        self._opening = 0  # snapshots that are being opened
        self._backup: SqliteBackup | None = None  # the one that is under way
        self._stages = count(1)
        self._tally = Tally()
        self._expired = 0
        self._commit_sizes, self._commit_times, self._commits_failed = Distribution(_SIZES), Distribution(_TIMES), 0
        self.restored = 0
        self._readers = ThreadPoolExecutor(READERS, "statekeep-reader")
        self._writer = threading.Thread(target=self._write_all, name="statekeep-writer", daemon=True)
        try:
            self._connection = self._file.connect(writing=True)
            _drop_left(self._connection)
            self._ids = Ids(self._connection)
        except apsw.Error as error:
            self._file.close()
            raise StoreError(f"{path} cannot be used: {why(error)}") from error
        self._cleaning = True  # there may be partitions whose rows are still to be removed
        self._cutting = False  # the log is cut after the next commit
        self._log_is_long = False  # it could not be cut when it should
        self._failing = False  # the last write failed: nothing is tried by itself until one succeeds
        self._shown = threading.Event()  # unset from a commit until what it changed can be seen in memory too
        self._shown.set()
        self._writer.start()

    async def read(self, partition: str, query: Callable[[SqliteView], Answer]) -> Answer:
        """Return what a query finds: on this loop where memory has all it asks for, else on a thread that reads."""
        state = self._cache.get(partition)
        if state is not None and not (epoch := state.epoch) & 1 and not self._closed:
            try:
                answer = query(SqliteView(state, not_cached, self._chunks))
            except NotCached:
                pass
            except Exception:
                if state.epoch == epoch:
                    raise
            else:
                if state.epoch == epoch:
                    return answer
        return await self._on_reader(lambda connection: self._query(connection, partition, query))

    async def write(self, partition: str, decide: Callable[[SqliteView], Change[Answer]]) -> Answer:
        """Make a change; it is on disk when this returns."""
        answer: Answer = await self._on_writer(lambda transaction: transaction.write(partition, decide))
        return answer

    async def partitions(self, prefix: str, after: str, limit: int) -> list[str]:
        """Return a page of the partitions' names."""

        def names(connection: apsw.Connection) -> list[str]:
            rows = connection.execute(_NAMES, (after.encode(), prefix.encode(), limit))
            found = [str(row[0], "utf-8") for row in rows]
            return [name for name in found if name.startswith(prefix)]

        return await self._on_reader(names)

    def bell(self, partition: str) -> LocalBell:
        """Return a bell for the running event loop."""
        return self._tower.bell(partition)

    async def sweep(self, now: int) -> int:
        """Remove what has expired, some records at a time, with room for other writes in between."""
        removed = 0
        while gone := await self._on_writer(lambda transaction: transaction.sweep(now)):
            removed += gone
            self._expired += gone
        return removed

    async def stats(self) -> Stats:
        """Return what there is to tell."""
        counted = await self._tally.counted(lambda: self._on_reader(self._count))
        return Stats(
            counted.partitions,
            counted.records,
            counted.bytes,
            expired=self._expired,
            writable=not (self._failing or self._closed),
            commits=Commits(self._commit_sizes, self._commit_times, self._commits_failed),
        )

    def _count(self, connection: apsw.Connection) -> tuple[dict[str, int], int, int]:
        partitions = {str(kind, "utf-8"): number for kind, number in connection.execute(_KINDS)}
        (records,) = connection.execute(_RECORDS).fetchone() or (0,)
        return partitions, records, self._file.size()

    async def idle(self, prefix: str, before: int) -> AsyncIterator[list[str]]:
        """Look through the table of partitions, some rows at a time."""
        async for rows in self._walk(_IDLE, before, prefix.encode()):
            yield [str(name, "utf-8") for (name,) in rows]

    async def crowded(self, kind: str, count: int) -> AsyncIterator[list[tuple[str, str]]]:
        """Look through the table of logs, some rows at a time."""
        async for rows in self._walk(_CROWDED, count, kind):
            yield [(str(name, "utf-8"), log) for name, log in rows]

    async def _walk(self, statements: tuple[str, str], *bindings: object) -> AsyncIterator[list[Any]]:
        """Yield what the second statement finds between two ids, of which the first tells the end."""
        until: int | None = 0
        while until is not None:
            until, rows = await self._on_reader(partial(_look, statements, until, bindings))
            yield rows

    async def reclaim(self) -> int:
        """Shorten the file by what is free in it, a step at a time with room for writes in between, and empty its log.

        Not while rows wait to be removed, and not where little is free: a file that grows and shrinks again keeps
        its room.
        """
        if self._cleaning:
            return 0
        free, pages, size = await self._on_reader(_room)
        given = 0
        if free > max(KEPT_FREE, pages // KEPT_SHARE):
            given = await self._vacuum(min(-(-free // VACUUMED_AT_ONCE), VACUUMS))
        if given or self._log_is_long:
            await self._on_reader(_checkpoint)
            await self._on_writer(self._cut_log_next)
        return given * size

    async def _vacuum(self, steps: int) -> int:
        """Take free pages out of the file, in so many steps at most, and return how many those were."""
        given = 0
        for step in range(steps):
            gone = await self._on_writer(lambda transaction: transaction.vacuum(VACUUMED_AT_ONCE))
            given += gone
            if not gone:
                break
            if step % CHECKPOINT_AFTER == 0:
                # It is copied beside the writes here; where the log gets long, one of them would have to wait for it.
                await self._on_reader(_checkpoint)
        return given

    async def snapshot(self, partition: str) -> SqliteSnapshot | None:
        """Return a partition as it is now. It keeps a connection until it is closed."""
        opening = asyncio.ensure_future(self._on_reader(lambda _: self._open_snapshot(partition)))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_release)
            raise

    async def restore(self, partition: str, state: journal.PartitionState) -> SqliteRestore:
        """Begin to put a partition together, in the file, where nobody finds it."""
        return SqliteRestore(partition, f"{STAGES}{next(self._stages)}", state, self._on_writer, self._count_restored)

    def _count_restored(self) -> None:
        self.restored += 1

    async def backup(self) -> SqliteBackup:
        """Begin a backup of the file. Nothing is copied yet."""
        with self._closing:
            if self._closed:
                raise _unavailable("is closed")
            if self._backup:
                raise limit_reached("backups at once", 1, "try again when the one that is under way is over")
            self._backup = SqliteBackup(self._file, self._backed_up)
            return self._backup

    async def close(self) -> None:
        """Finish the writes that wait, and let the file go."""
        with self._closing:
            begun, self._closed = self._closed, True
            if not begun:
                self._jobs.put(None)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.join()
        self._readers.shutdown(wait=True)
        for snapshot in list(self._snapshots):
            snapshot.release()
        if backup := self._backup:
            backup.release()
        with self._letting_go:  # close may be called twice, at once
            for connection in (*self._connections, self._connection):
                connection.close(True)
            self._file.close()

    def _backed_up(self, backup: SqliteBackup) -> None:
        if self._backup is backup:
            self._backup = None

    # --- reading

    async def _on_reader(self, job: Callable[[apsw.Connection], Answer]) -> Answer:
        if self._closed:
            raise _unavailable("is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, job)
        except RuntimeError:
            if self._closed:
                raise _unavailable("is closed") from None
            raise

    def _read(self, job: Callable[[apsw.Connection], Answer]) -> Answer:
        try:
            connection: apsw.Connection | None = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self._file.connect(writing=False)
                with self._closing:
                    self._connections.append(connection)
            return job(connection)
        except apsw.Error as error:
            log.error("the store cannot be read: %s", error)
            raise _unavailable(f"cannot be read: {why(error)}") from error

    def _query(self, connection: apsw.Connection, partition: str, query: Callable[[SqliteView], Answer]) -> Answer:
        commits = self._cache.commits
        connection.execute("BEGIN")
        try:
            state = load_partition(connection.execute, partition) or PartitionState()
            view = SqliteView(state, connection.execute, self._chunks)
            try:
                answer = query(view)
            finally:
                view.close()
        finally:
            if connection.in_transaction:
                connection.execute("COMMIT")
        self._cache.offer(partition, state, commits)
        if self._cache.differs(partition, state):
            # The file may be ahead of what others are answered from. Who has heard of a commit must find it there.
            self._shown.wait()
        return answer

    def _open_snapshot(self, partition: str) -> SqliteSnapshot | None:
        with self._closing:
            if len(self._snapshots) + self._opening >= SNAPSHOTS:
                raise _unavailable(f"has {SNAPSHOTS} snapshots open, which is all it may")
            self._opening += 1
        snapshot = None
        try:
            connection = self._file.connect(writing=False)
            try:
                found = begin(connection, partition)
            except BaseException:
                connection.close(True)
                raise
            if found is None:
                connection.close(True)
                return None
            snapshot = SqliteSnapshot(connection, *found, self._step, self._snapshots.discard)
            return snapshot
        finally:
            with self._closing:
                self._opening -= 1
                if snapshot is not None:
                    self._snapshots.add(snapshot)

    async def _step(self, job: Callable[[], Answer]) -> Answer:
        return await self._on_reader(lambda _: job())

    # --- writing

    async def _on_writer(self, run: Callable[[Transaction], Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._closing:
            if self._closed:
                raise _unavailable("is closed")
            self._jobs.put(_Job(run, future, loop))
        return await future

    def _write_all(self) -> None:
        """Take what waits and write it, until there is nothing more to come: the writer's thread."""
        jobs: list[_Job] = []
        more = True
        try:
            while more:
                jobs, more = self._take()
                _settle(jobs, self._write_group(jobs))
                jobs = []  # they hold what callers sent, and the next may be long in coming
        except Exception:
            log.exception("the writer failed, and nothing is written any more; start the server again")
        finally:
            self._refuse(jobs)

    def _refuse(self, jobs: list[_Job]) -> None:
        """Take no more writes, and answer those that wait."""
        self._shown.set()
        with self._closing:
            self._closed = True
        with suppress(Empty):
            while job := self._jobs.get_nowait():
                jobs.append(job)
        _settle(jobs, [_Outcome(None, _unavailable("is closed"))] * len(jobs))

    def _take(self) -> tuple[list[_Job], bool]:
        jobs: list[_Job] = []
        try:
            job = self._jobs.get(block=self._failing or not self._cleaning)
            while job is not None:
                jobs.append(job)
                if len(jobs) == _GROUP:
                    return jobs, True
                job = self._jobs.get_nowait()
        except Empty:
            return jobs, True
        return jobs, False

    def _write_group(self, jobs: Sequence[_Job]) -> list[_Outcome]:
        """Write a group in one transaction, or each of it in its own where one of them cannot be written."""
        transaction = Transaction(self._connection, self._cache, self._ids)
        begun = perf_counter_ns()
        try:
            outcomes = self._attempt(transaction, jobs)
        except _CommitError as failed:
            return self._failed(jobs, failed.__cause__)
        except Exception as failed:  # noqa: BLE001 (whatever it is, it must not end the writer)
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self._write_group([job])]
            return self._failed(jobs, failed)
        if transaction.changed:  # one that changed nothing tells nothing of the disk
            self._failing = False
        if jobs:
            self._commit_sizes.note(len(jobs))
            self._commit_times.note(perf_counter_ns() - begun)
        if self._cutting:
            self._cut_log()
        transaction.publish()
        self._shown.set()
        for partition in changed_names(transaction.changed):
            self._tower.ring(partition)
        return outcomes

    def _failed(self, jobs: Sequence[_Job], error: BaseException | None) -> list[_Outcome]:
        self._failing = True
        self._commits_failed += 1
        log.error("the store cannot be written: %s", error, exc_info=None if isinstance(error, apsw.Error) else error)
        what = f"cannot be written: {why(error)}" if isinstance(error, apsw.Error) else "cannot keep this"
        return [_Outcome(None, _unavailable(what)) for _ in jobs]

    def _attempt(self, transaction: Transaction, jobs: Iterable[_Job]) -> list[_Outcome]:
        self._roll_back()  # of what failed so badly that it could not be undone then
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            outcomes = [_decided(job, transaction) for job in jobs]
            transaction.finish()
            cleaning = self._cleaning and transaction.clean()
            self._commit()
        except BaseException:
            self._roll_back()
            raise
        self._cleaning = cleaning or transaction.dropped
        return outcomes

    def _cut_log_next(self, _: Transaction) -> None:
        self._cutting = True

    def _cut_log(self) -> None:
        """Let the file be as long as what is in it, and the log beside it empty. Who reads is not waited for."""
        self._cutting = False
        self._connection.set_busy_timeout(0)
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._log_is_long = False
        except apsw.Error as error:
            self._log_is_long = True
            if not isinstance(error, apsw.BusyError):
                log.warning("the store's log could not be cut, which is tried again: %s", why(error))
        finally:
            self._connection.set_busy_timeout(BUSY)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _commit(self) -> None:
        self._shown.clear()
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            self._shown.set()
            raise _CommitError from error


def _drop_left(connection: apsw.Connection) -> None:
    """Drop partitions that were not whole when the process that put them together ended."""
    if connection.execute("SELECT 1 FROM partitions WHERE name >= x'FF' LIMIT 1").fetchone():
        with connection:
            connection.execute(_LEFT)


def _look(
    statements: tuple[str, str], after: int, bindings: Sequence[Any], connection: apsw.Connection
) -> tuple[int | None, list[Any]]:
    """Return the id up to which rows were looked at, None where there were none, and what was found among them."""
    until: Any = connection.execute(statements[0], (after, _LOOKED_AT)).fetchall()[0][0]
    if until is None:
        return None, []
    return until, connection.execute(statements[1], (after, until, *bindings)).fetchall()


def _room(connection: apsw.Connection) -> tuple[int, int, int]:
    """Return how many pages of the file are free, how many there are, and the bytes of each."""
    return connection.pragma("freelist_count"), connection.pragma("page_count"), connection.pragma("page_size")


def _checkpoint(connection: apsw.Connection) -> None:
    """Copy what the log holds into the file, as far as no reader needs it there."""
    with suppress(apsw.BusyError):  # another is at it
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def _release(opening: "asyncio.Future[SqliteSnapshot | None]") -> None:
    """Close a snapshot that nobody waits for any more."""
    if not opening.cancelled() and not opening.exception() and (snapshot := opening.result()):
        snapshot.release()


def _decided(job: _Job, transaction: Transaction) -> _Outcome:
    """Return what a job came to; raises where the transaction cannot go on."""
    if job.future.cancelled():
        return _Outcome(None)
    try:
        return _Outcome(job.run(transaction))
    except apsw.Error:
        raise
    except Exception as error:  # the caller's
        if transaction.applying:
            raise
        return _Outcome(None, error)


def _settle(jobs: Iterable[_Job], outcomes: Iterable[_Outcome]) -> None:
    """Answer those who wait, each on its own loop, with one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], _Outcome]]] = defaultdict(list)
    for job, outcome in zip(jobs, outcomes, strict=True):
        by_loop[job.loop].append((job.future, outcome))
    for loop, done in by_loop.items():
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_finish, done)


def _finish(done: Iterable[tuple["asyncio.Future[Any]", _Outcome]]) -> None:
    for future, outcome in done:
        if future.done():
            continue
        if outcome.error is None:
            future.set_result(outcome.answer)
        else:
            future.set_exception(outcome.error)


def _unavailable(what: str) -> StatekeepError:
    return StatekeepError(
        Reason.STORE_UNAVAILABLE, "The store {what}; try again later", retry_after=RETRY_AFTER, what=what
    )
