"""What is too old or too many goes, whatever keeps it, and its room is given back."""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from engines.engine_support import MAIN, NEVER, SAVED, New, Store, appending, at_once, key
from engines.export_support import Kept
from statekeep.v1 import memory_pb2
from statekeep_server.core import memory, state_store
from statekeep_server.core.journal import KEY, PURGES, Call, Change, Limits, View
from statekeep_server.core.scratch import Scratch
from statekeep_server.engines import Engine, sqlite_file
from statekeep_server.engines.memory import MemoryEngine
from statekeep_server.engines.sqlite import SqliteEngine
from statekeep_server.sweeper import Sweeper, Swept

MIB = 2**20
HOUR = 3600 * 1_000_000
SCOPE = memory_pb2.Scope(name="s", type=memory_pb2.SCOPE_TYPE_NAMESPACE)


def gathered(store: Store, pages: AsyncIterator[Any]) -> list[Any]:
    async def gather() -> list[Any]:
        return [found async for page in pages for found in page]

    return store.run(gather())


def idle(store: Store, before: int, prefix: str = "") -> list[str]:
    return sorted(gathered(store, store.engine.idle(prefix, before)))


def crowded(store: Store, count: int, kind: str = KEY) -> list[tuple[str, str]]:
    return sorted(gathered(store, store.engine.crowded(kind, count)))


def sweep(store: Store, limits: Limits | None = None, *, now: int | None = None, **how: float) -> Swept:
    """Sweep once, as a server does that was started with these limits."""
    swept = Swept()
    sweeper = Sweeper(store.engine, Scratch(0), limits or Limits(), **how)
    now = time.time_ns() // 1000 if now is None else now
    store.run(sweeper.sweep(now, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000, swept))
    return swept


def written_last(store: Store, partition: str) -> int:
    return store.look(partition, lambda view: view.update_time)


# --- what is found


def test_partitions_are_idle_that_were_written_last_before_a_time(store: Store) -> None:
    for partition in ("ta", "tb", "mx"):
        store.append(partition, New())
    assert idle(store, NEVER) == ["mx", "ta", "tb"]
    assert idle(store, NEVER, "t") == ["ta", "tb"]
    assert idle(store, written_last(store, "tb"), "t") == ["ta"]
    assert idle(store, written_last(store, "ta"), "t") == []
    store.append("ta", New())
    assert idle(store, written_last(store, "ta"), "t") == ["tb"]


def test_a_partition_that_ended_is_not_idle(store: Store) -> None:
    store.append("t", New())
    store.drop("t")
    assert idle(store, NEVER) == []


def test_idle_ones_are_found_among_very_many(store: Store) -> None:
    async def write() -> None:
        for start in range(0, 4_500, 500):
            await asyncio.gather(*[store.engine.write(f"t{n:05}", appending(New())) for n in range(start, start + 500)])

    store.run(write())
    assert idle(store, NEVER) == [f"t{number:05}" for number in range(4_500)]
    assert idle(store, 1) == []


def test_logs_are_crowded_that_hold_more_than_so_many_records(store: Store) -> None:
    store.append("p", *[New(key("a"))] * 3, *[New(key("b"))] * 2, *[New(SAVED)] * 5, *[New(MAIN)] * 5)
    store.append("q", *[New(key("a"))] * 4)
    assert crowded(store, 1) == [("p", key("a")), ("p", key("b")), ("q", key("a"))]
    assert crowded(store, 3) == [("q", key("a"))]
    assert crowded(store, 4) == []
    store.trim(
        "q", key("a"), *[record.revision for record in store.look("q", lambda view: list(view.scan(key("a"))))[:1]]
    )
    assert crowded(store, 3) == []
    store.drop("p")
    assert crowded(store, 0) == [("q", key("a"))]


def test_expired_records_that_are_still_there_are_counted(store: Store) -> None:
    store.append("p", New(key("a"), expires=10), New(key("a"), expires=20), New(key("a")), New(key("b"), expires=10))
    counts: list[int] = []

    def count(view: View) -> Change[None]:
        counts[:] = [view.expired(key("a"), now) for now in (9, 10, 20)] + [view.expired(key("none"), 20)]
        return Change(None)

    store.write("p", count)
    assert counts == [0, 1, 2, 0]
    assert store.look("p", lambda view: view.expired(key("a"), 20)) == 2
    store.sweep(10)
    assert store.look("p", lambda view: view.expired(key("a"), 20)) == 1


# --- threads


def test_idle_threads_go_and_those_in_use_and_scopes_stay(store: Store) -> None:
    for partition in ("told", "tnew", "mscope"):
        store.append(partition, New(MAIN), New(key("k")))
    later = time.time_ns() // 1000 + 2 * HOUR
    begun = written_last(store, "told")

    def at(now: int) -> int:
        swept = Swept()
        sweeper = Sweeper(store.engine, Scratch(0), Limits(), thread_ttl=3600)
        # As if all that time had passed by a clock which nobody sets, too.
        steady = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000 + now - time.time_ns() // 1000
        store.run(sweeper.sweep(now, steady, swept))
        return swept.threads

    assert at(begun + HOUR) == 0
    assert at(begun + HOUR + 1) == 1
    assert store.partitions() == ["mscope", "tnew"]
    assert at(later) == 1
    assert store.partitions() == ["mscope"]
    assert at(later) == 0


def test_without_a_ttl_no_thread_goes(store: Store) -> None:
    store.append("t", New())
    assert not sweep(store, now=NEVER)
    assert store.partitions() == ["t"]


def test_a_clock_that_is_set_forward_or_back_takes_no_fresh_thread(store: Store) -> None:
    store.append("t", New())
    sweeper = Sweeper(store.engine, Scratch(0), Limits(), thread_ttl=3600)
    now, steady = time.time_ns() // 1000, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    swept = Swept()
    for days in (-30, 30, -1, 400):
        store.run(sweeper.sweep(now + days * 24 * HOUR, steady, swept))
    assert swept == Swept()
    store.run(sweeper.sweep(now + 400 * 24 * HOUR + HOUR + HOUR, steady + HOUR + HOUR, swept))
    assert swept == Swept(threads=1)


def test_a_thread_that_is_written_at_the_last_moment_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append("tidle", New())
    store.append("twoken", New())
    engine = store.engine
    found = engine.idle

    async def then_written(prefix: str, before: int) -> AsyncIterator[Any]:
        async for page in found(prefix, before):
            if "twoken" in page:
                await engine.write("twoken", appending(New(text="awake")))
            yield page

    monkeypatch.setattr(engine, "idle", then_written)
    before = max(written_last(store, "tidle"), written_last(store, "twoken")) + 1
    swept = Swept()
    sweeper = Sweeper(engine, Scratch(0), Limits(), thread_ttl=3600)
    steady = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000 + before + HOUR - time.time_ns() // 1000
    store.run(sweeper.sweep(before + HOUR, steady, swept))
    assert swept.threads == 1
    assert store.partitions() == ["twoken"]
    assert store.look("twoken", lambda view: view.count(MAIN)) == 2


def test_a_thread_that_begins_again_shares_nothing_with_the_one_that_went(store: Store) -> None:
    store.append("t", New(id="old"), New(SAVED, id="old"))
    before = store.look("t", lambda view: (view.life, view.revision))
    assert store.write("t", lambda view: state_store.drop_idle(view, NEVER))
    store.append("t", New(id="new"))
    after = store.look("t", lambda view: (view.life, view.oldest, view.find(MAIN, "old"), view.number(SAVED)))
    assert after[0] > before[1]
    assert after[1] > before[1]
    assert after[2:] == (None, 0)


def test_many_threads_go_in_one_sweep_and_their_rows_too(store: Store, tmp_path: Path) -> None:
    async def write() -> None:
        for start in range(0, 3_000, 500):
            names = [f"t{number}" for number in range(start, start + 500)]
            await asyncio.gather(*[store.engine.write(name, appending(New(id="e"), New(SAVED))) for name in names])

    store.run(write())
    dropped = Swept()
    sweeper = Sweeper(store.engine, Scratch(0), Limits(), thread_ttl=1)
    now, steady = time.time_ns() // 1000, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    store.run(sweeper.sweep(now + HOUR, steady + HOUR, dropped))
    assert dropped.threads == 3_000
    assert store.partitions() == []
    if isinstance(store.engine, SqliteEngine):
        wait_until_clean(store)
        with apsw.Connection(str(tmp_path / "state.db"), flags=apsw.SQLITE_OPEN_READONLY) as connection:
            for table in ("partitions", "dropped", "logs", "segments", "events", "event_ids", "records"):
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table  # noqa: S608


# --- versions


def call(versions: int) -> Call:
    return Call(1_900_000_000_000_000, Limits(max_versions=versions))


def write_version(engine: Engine, versions: int, name: str = "k", **fields: Any) -> Any:
    request = memory_pb2.MemorySetRequest(scope=SCOPE, key=name, **fields)
    request.value.json = fields.pop("json", "1")
    return engine.write(memory.partition(SCOPE), lambda view: memory.set_key(view, request, call(versions)))


def versions_of(store: Store, name: str = "k") -> list[int]:
    return store.look(memory.partition(SCOPE), lambda view: [record.number for record in view.scan(KEY + name)])


def test_writes_keep_the_newest_versions(store: Store) -> None:
    for _ in range(6):
        store.run(write_version(store.engine, 3))
    assert versions_of(store) == [4, 5, 6]
    assert store.look(memory.partition(SCOPE), lambda view: (view.number(key("k")), view.live(KEY, 0))) == (6, 1)


def test_writes_of_one_group_keep_the_newest_versions(store: Store) -> None:
    async def write() -> None:
        await asyncio.gather(*[write_version(store.engine, 3, name) for name in ("a", "b") * 20])

    store.run(write())
    assert versions_of(store, "a") == versions_of(store, "b") == [18, 19, 20]


def test_a_sweep_trims_keys_that_were_written_without_the_limit_once(store: Store) -> None:
    for name in ("a", "b"):
        for _ in range(5):
            store.run(write_version(store.engine, 0, name))
    store.run(write_version(store.engine, 0, "c"))
    assert not sweep(store)
    assert sweep(store, Limits(max_versions=2)) == Swept(versions=6)
    assert [versions_of(store, name) for name in "abc"] == [[4, 5], [4, 5], [1]]
    assert not sweep(store, Limits(max_versions=2))
    assert store.look(memory.partition(SCOPE), lambda view: view.count(PURGES)) == 0
    store.run(write_version(store.engine, 2, "a"))
    assert versions_of(store, "a") == [5, 6]


def test_an_import_brings_all_versions_and_the_next_sweep_trims_them(
    engine: Engine, other: Engine, runner: asyncio.Runner
) -> None:
    source, target = Kept(engine, runner), Kept(other, runner)
    for number in range(5):
        source.set("s", json=str(number))
    store = Store(other, runner)
    sweeper = Sweeper(other, Scratch(0), Limits(max_versions=2))
    first, second = Swept(), Swept()
    runner.run(sweeper.sweep(source.now, 0, first))
    target.bring(source.export())
    assert versions_of(store) == [1, 2, 3, 4, 5]
    assert target.export() == source.export()
    runner.run(sweeper.sweep(source.now, 0, second))
    assert (first, second) == (Swept(), Swept(versions=3))
    assert versions_of(store) == [4, 5]


def test_eight_writers_of_one_key_make_each_version_once_and_no_reader_sees_more_than_are_kept(
    engine: Engine, store: Store, provoked: None
) -> None:
    each, keep = 25, 3
    writing = threading.Event()
    writing.set()
    left = [8]
    lock = threading.Lock()

    async def write() -> list[int]:
        made = []
        try:
            for _ in range(each):
                answer = await write_version(engine, keep)
                made.append(memory_pb2.MemorySetResponse.FromString(answer).entry.version)
        finally:
            with lock:
                left[0] -= 1
                if not left[0]:
                    writing.clear()
        return made

    async def read() -> list[int]:
        seen = [0]
        while writing.is_set():
            history = await engine.read(
                memory.partition(SCOPE), lambda view: [one.number for one in view.scan(key("k"))]
            )
            if history:
                assert history == list(range(max(1, history[-1] - keep + 1), history[-1] + 1))
                assert history[-1] >= seen[-1]
                seen.append(history[-1])
        return []

    answers = at_once(*[write] * 8, *[read] * 2)
    assert sorted(number for made in answers for number in made) == list(range(1, 8 * each + 1))
    assert versions_of(store) == [198, 199, 200]


# --- room


def fill(store: Store, partition: str, size: int, *, log: str = MAIN, record: int = 20_000, expires: int = 0) -> None:
    """Write about `size` bytes."""
    for start in range(0, size // record, 50):
        count = min(50, size // record - start)
        store.append(partition, *[New(log, text="x" * record, expires=expires)] * count)


def purge(store: Store, partition: str, log: str) -> None:
    store.write(partition, lambda view: Change(None, (), list(view.scan(log))))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def on_disk(database: Path, runner: asyncio.Runner) -> Iterator[Store]:
    engine = SqliteEngine(str(database))
    yield Store(engine, runner)
    runner.run(engine.close())


def sizes(database: Path) -> tuple[int, int]:
    """Return the bytes of the file, and of its log."""
    return database.stat().st_size, database.with_name("state.db-wal").stat().st_size


def shrunk(store: Store, database: Path, to: int) -> int:
    """Sweep until the file is that short and its log is empty, and return the bytes that were given back."""
    given = 0
    for _ in range(500):
        given += store.run(store.engine.reclaim())
        if sizes(database)[0] <= to and sizes(database)[1] < MIB:
            return given
        store.run(asyncio.sleep(0.02))  # rows of dropped partitions go meanwhile
    raise AssertionError(f"the file stays at {sizes(database)}")


def drop_it(store: Store) -> None:
    store.drop("tlarge")


def purge_it(store: Store) -> None:
    purge(store, "mlarge", key("k"))


def expire_it(store: Store) -> None:
    store.sweep(10)


@pytest.mark.parametrize(
    ("partition", "log", "expires", "remove"),
    [
        ("tlarge", MAIN, 0, drop_it),
        ("tlarge", SAVED, 0, drop_it),
        ("mlarge", key("k"), 0, purge_it),
        ("mlarge", key("k"), 10, expire_it),
    ],
    ids=["events", "checkpoints", "a purge", "expiry"],
)
def test_a_file_gets_as_short_as_it_was_before(
    on_disk: Store, database: Path, partition: str, log: str, expires: int, remove: Callable[[Store], None]
) -> None:
    on_disk.append("tkept", *[New(text="y" * 1000)] * 100)
    base = sizes(database)[0]
    fill(on_disk, partition, 20 * MIB, log=log, expires=expires)
    on_disk.append("tkept", *[New(text="z" * 1000)] * 100)  # lies behind what goes, and has to move
    assert sum(sizes(database)) > 15 * MIB
    remove(on_disk)
    assert shrunk(on_disk, database, base + MIB - 1) > 15 * MIB
    assert on_disk.look("tkept", lambda view: view.count(MAIN)) == 200
    on_disk.run(on_disk.engine.close())
    with apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY) as connection:
        assert connection.pragma("integrity_check") == "ok"
    assert database.stat().st_size < base + MIB


def test_a_file_in_which_little_is_free_keeps_its_room(on_disk: Store, database: Path) -> None:
    fill(on_disk, "tlarge", 8 * MIB)
    fill(on_disk, "tsmall", 200_000)
    on_disk.drop("tsmall")
    wait_until_clean(on_disk)
    assert on_disk.run(on_disk.engine.reclaim()) == 0


def wait_until_clean(store: Store) -> None:
    assert isinstance(store.engine, SqliteEngine)
    for _ in range(2_000):
        if not store.engine._cleaning:
            return
        store.run(asyncio.sleep(0.01))
    raise AssertionError("rows of dropped partitions stay")


def test_writes_go_on_while_a_file_gets_shorter(on_disk: Store, database: Path) -> None:
    fill(on_disk, "tlarge", 20 * MIB)
    on_disk.drop("tlarge")
    wait_until_clean(on_disk)

    async def reclaim_and_write() -> tuple[int, int]:
        reclaiming = asyncio.ensure_future(on_disk.engine.reclaim())
        written = 0
        while not reclaiming.done():
            await on_disk.engine.write("t", appending(New()))
            written += 1
        return await reclaiming, written

    given, written = on_disk.run(reclaim_and_write())
    assert given > 15 * MIB
    assert written > 10
    assert on_disk.look("t", lambda view: view.count(MAIN)) == written


def test_a_reader_that_stays_is_not_waited_for_and_the_log_is_cut_when_it_is_gone(
    database: Path, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY", 300_000)  # who waits for a reader waits for five minutes
    store = Store(SqliteEngine(str(database)), runner)
    store.append("tkept", New())
    base = sizes(database)[0]
    fill(store, "tlarge", 4 * MIB)
    snapshot = store.run(store.engine.snapshot("tlarge"))
    assert snapshot
    store.drop("tlarge")
    wait_until_clean(store)
    began = time.monotonic()
    assert store.run(store.engine.reclaim()) > 3 * MIB
    assert time.monotonic() - began < 150
    assert sizes(database)[1] > 0
    count = 0
    while page := store.run(snapshot.records(MIB)):
        count += len(page)
    assert count == 4 * MIB // 20_000
    store.run(snapshot.close())
    assert store.run(store.engine.reclaim()) == 0
    assert sizes(database)[0] < base + MIB
    assert sizes(database)[1] == 0
    store.run(store.engine.close())


def test_files_are_made_so_that_they_can_get_shorter(on_disk: Store, database: Path) -> None:
    with apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY) as connection:
        assert connection.pragma("auto_vacuum") == 2


def test_a_file_that_lost_the_way_to_get_shorter_is_served_all_the_same(database: Path, runner: asyncio.Runner) -> None:
    first = SqliteEngine(str(database))
    Store(first, runner).append("tkept", New(id="e"))
    runner.run(first.close())
    connection = apsw.Connection(str(database))
    for statement in (
        "PRAGMA journal_mode = DELETE",
        "PRAGMA auto_vacuum = NONE",
        "VACUUM",
        "PRAGMA journal_mode = WAL",
    ):
        connection.execute(statement).fetchall()
    assert (connection.pragma("journal_mode", "wal"), connection.pragma("auto_vacuum")) == ("wal", 0)
    connection.close()
    store = Store(SqliteEngine(str(database)), runner)
    fill(store, "tlarge", 2 * MIB)
    store.drop("tlarge")
    wait_until_clean(store)
    assert store.run(store.engine.reclaim()) == 0
    assert store.look("tkept", lambda view: view.count(MAIN)) == 1
    runner.run(store.engine.close())


def held(engine: object) -> int:
    """Return the bytes of all that an engine holds, but for what belongs to the program."""
    seen: set[int] = set()
    rest: list[Any] = [engine]
    size = 0
    while rest:
        one = rest.pop()
        if id(one) in seen or isinstance(one, type | type(sys) | type(held)):
            continue
        seen.add(id(one))
        size += sys.getsizeof(one)
        rest += gc.get_referents(one)
    return size


def test_in_memory_nothing_is_held_of_what_went(runner: asyncio.Runner) -> None:
    engine = MemoryEngine()
    store = Store(engine, runner)
    store.append("tkept", New())
    store.append("mkept", *[New(key(f"other-{number}")) for number in range(1_000)])
    base = held(engine)
    fill(store, "tlarge", 20 * MIB)
    fill(store, "mlarge", 5 * MIB, log=key("k"), expires=10)
    fill(store, "mkept", 5 * MIB, log=key("k"))
    assert held(engine) > base + 25 * MIB
    store.drop("tlarge")
    store.sweep(10)
    purge(store, "mkept", key("k"))
    assert held(engine) < base + 100_000


def test_in_memory_versions_over_the_limit_are_not_held(runner: asyncio.Runner) -> None:
    engine = MemoryEngine()
    store = Store(engine, runner)
    for number in range(100):
        store.run(write_version(engine, 2, f"other-{number}"))
    base = held(engine)
    for _ in range(40):
        request = memory_pb2.MemorySetRequest(scope=SCOPE, key="k")
        request.value.text = "x" * 100_000
        store.run(engine.write(memory.partition(SCOPE), lambda view, sent=request: memory.set_key(view, sent, call(2))))
    assert versions_of(store) == [39, 40]
    assert held(engine) < base + 300_000
