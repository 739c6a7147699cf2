"""The SQLite engine: what is its own, beside what every engine does."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from engines.engine_support import (
    MAIN,
    NEVER,
    SAVED,
    New,
    Store,
    appending,
    chunks,
    dropping,
    events_in,
    key,
    records,
    whole,
)
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.journal import KEY, Change, PartitionState, Record, View
from statekeep_server.core.wire import frame, varint
from statekeep_server.engines import StoreError, sqlite_file
from statekeep_server.engines.sqlite import SNAPSHOTS, SqliteEngine
from statekeep_server.engines.sqlite_view import Sealed, SqliteView
from stores import check_left

VERSION_1 = Path(__file__).with_name("store_of_version_1.sql")

Open = Callable[..., SqliteEngine]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def open_file(path: Path, runner: asyncio.Runner) -> Iterator[Open]:
    """Open the test's file; what is still open at the end is closed."""
    opened: list[SqliteEngine] = []

    def open_it(**how: int) -> SqliteEngine:
        opened.append(SqliteEngine(str(path), **how))
        return opened[-1]

    yield open_it
    for engine in opened:
        runner.run(engine.close())
    check_left(path.parent)


@pytest.fixture
def engine(open_file: Open) -> SqliteEngine:
    return open_file()


def everything(view: View) -> list[object]:
    logs = list(view.logs(""))
    return [
        view.life,
        view.revision,
        view.oldest,
        view.create_time,
        view.update_time,
        view.live(KEY, 0),
        logs,
        [(view.number(log), view.count(log), view.born(log), view.head(log)) for log in logs],
        [list(view.scan(log)) for log in logs],
        list(view.journal(KEY, 0)),
        chunks(view),
    ]


async def outcomes(engine: SqliteEngine, *decides: Callable[[View], Change]) -> list[object]:
    """Have decisions on one partition made at once, and return the answer or error of each."""
    writes = [engine.write("p", decide) for decide in decides]
    return await asyncio.gather(*writes, return_exceptions=True)


def unavailable(outcome: object) -> bool:
    return isinstance(outcome, StatekeepError) and outcome.reason == Reason.STORE_UNAVAILABLE


def test_only_the_owner_reads_what_is_kept(store: Store, path: Path) -> None:
    store.append("p", New())
    kept = [one for one in path.parent.iterdir() if one.suffix != ".lock"]
    assert {one.name for one in kept} >= {"state.db", "state.db-wal"}
    assert [one.name for one in kept if one.stat().st_mode & 0o077] == []


# --- writing in groups


def test_writes_that_wait_share_commits(engine: SqliteEngine, store: Store) -> None:
    before = engine._cache.commits
    store.run(outcomes(engine, *[appending(New())] * 300))
    assert engine._cache.commits - before < 30
    assert store.look("p", lambda view: [record.number for record in view.scan(MAIN)]) == list(range(1, 301))


def test_each_of_a_group_sees_those_before_it_in_all_that_it_looks_at(engine: SqliteEngine, store: Store) -> None:
    news = [New(id="e"), New(key("k")), New(SAVED, 4, "c", "x" * 300_000), New(id="f", text="x" * 300_000), New()]

    def looking(at: int) -> Callable[[View], Change[list[object]]]:
        def decide(view: View) -> Change[list[object]]:
            seen = [
                view.count(MAIN),
                len(list(view.scan(MAIN))),
                sum(chunk.records for chunk in chunks(view)),
                view.back(MAIN, 100, NEVER)[0],
                len(list(view.journal(KEY, 0))),
                view.find(MAIN, "e") is not None,
                view.find(SAVED, "c") is not None,
                view.upto(SAVED, NEVER) is not None,
                view.head(key("k")) is not None,
                list(view.logs("")),
            ]
            return Change(seen, records(view, [news[at]]))

        return decide

    seen = store.run(outcomes(engine, *(looking(at) for at in range(5))))
    no, yes = [False] * 4, [True] * 4
    assert seen == [
        [0, 0, 0, 0, 0, *no, []],
        [1, 1, 1, 1, 0, True, False, False, False, [MAIN]],
        [1, 1, 1, 1, 1, True, False, False, True, [MAIN, key("k")]],
        [1, 1, 1, 1, 1, *yes, [SAVED, MAIN, key("k")]],
        [2, 2, 2, 2, 1, *yes, [SAVED, MAIN, key("k")]],
    ]


def unstorable(view: View) -> Change[str]:
    """Decide what no file takes: a number beyond 64 bits."""
    return Change("kept", [Record(MAIN, view.revision + 1, 2**70, b"\x0a\x00")])


def test_a_change_that_cannot_be_kept_takes_no_other_with_it(engine: SqliteEngine, store: Store) -> None:
    found = store.run(outcomes(engine, appending(New(id="a")), unstorable, appending(New(id="b"))))
    assert unavailable(found[1])
    assert [record.number for records in (found[0], found[2]) for record in records] == [1, 2]
    assert store.look("p", lambda view: view.count(MAIN)) == 2
    assert store.look("p", lambda view: view.find(MAIN, "b").number) == 2


def test_a_decision_that_fails_in_a_group_leaves_the_others(engine: SqliteEngine, store: Store) -> None:
    def failing(view: View) -> Change[None]:
        raise LookupError("refused")

    first, failed, last = store.run(outcomes(engine, appending(New()), failing, appending(New())))
    assert isinstance(failed, LookupError)
    assert (first[0].number, last[0].number) == (1, 2)


def test_where_a_commit_fails_nothing_stays_and_all_are_told_so(engine: SqliteEngine, store: Store) -> None:
    store.append("p", New(id="old"), New(key("k")))
    before = store.look("p", everything)

    def refusing(view: View) -> Change[None]:
        raise LookupError(f"there are {view.count(MAIN)}")  # it may have counted what did not stay

    engine._connection.set_commit_hook(lambda: True)
    found = store.run(outcomes(engine, appending(New(id="new"), New(key("n"))), refusing, dropping))
    assert [unavailable(outcome) for outcome in found] == [True] * 3
    assert store.look("p", everything) == before
    assert store.look("p", lambda view: view.find(MAIN, "new")) is None
    engine._connection.set_commit_hook(None)
    assert store.append("p", New())[0].number == 2


def test_what_is_not_committed_is_read_by_nobody(engine: SqliteEngine, store: Store) -> None:
    store.append("p", New(), New(key("k")))
    seen: list[object] = []

    async def look() -> list[object]:
        return [await engine.read("p", look) for look in (everything, lambda view: view.head(key("k")))]

    def while_committing() -> bool:
        seen.append(asyncio.run(look()))
        return False

    before = store.run(look())
    engine._connection.set_commit_hook(while_committing)
    store.append("p", New(), New(key("k")))
    engine._connection.set_commit_hook(None)
    assert seen == [before]
    assert store.run(look()) != before


def test_a_chunk_of_a_later_moment_is_not_shown_in_an_earlier_view(engine: SqliteEngine, store: Store) -> None:
    """Between a commit and the moment it is shown, a reader of the file is ahead of what is in memory."""
    store.append("p", *[New(text="x" * 100_000)] * 3)
    earlier = engine._cache.get("p").draft()
    store.append("p", *[New(text="x" * 100_000)] * 4)
    engine._chunks.put(1, 0, Sealed(store.look("p", lambda view: view.chunk(MAIN, 0, NEVER)), NEVER))
    assert sum(chunk.records for chunk in store.look("p", chunks)) == 7
    connection = engine._connection.execute
    for revision in [earlier.revision - 2, earlier.revision - 1]:
        log = engine._cache.get("p").log(MAIN)[0].copy()
        log.newest = revision
        earlier.logs[MAIN] = log
        view = SqliteView(earlier, connection, engine._chunks)
        assert chunks(view)[-1].revision == revision
        view.close()


def test_what_is_looked_at_in_a_transaction_that_fails_is_not_kept(engine: SqliteEngine, store: Store) -> None:
    def decide(view: View) -> Change[int]:
        return Change(len(chunks(view)), records(view, [New(text="x" * 200_000)] * 3))

    engine._connection.set_commit_hook(lambda: True)
    assert all(map(unavailable, store.run(outcomes(engine, decide, decide))))
    engine._connection.set_commit_hook(None)
    assert not engine._chunks._kept
    store.append("p", New(id="other"))
    assert [event.id for chunk in store.look("p", chunks) for event in events_in(chunk)] == ["other"]


def test_a_write_that_was_given_up_while_it_waited_is_not_made(engine: SqliteEngine, store: Store) -> None:
    async def give_up() -> None:
        writing = asyncio.ensure_future(engine.write("p", appending(New())))
        giving_up = asyncio.ensure_future(engine.write("p", appending(New(id="given up"))))
        await asyncio.sleep(0)
        giving_up.cancel()
        await writing

    store.run(give_up())
    numbers = store.look("p", lambda view: [record.number for record in view.scan(MAIN)])
    assert numbers in ([1], [1, 2])  # it may have begun before
    assert store.append("p", New())[0].number == len(numbers) + 1


@pytest.mark.timeout(20)
def test_a_writer_that_fails_leaves_nobody_waiting(
    engine: SqliteEngine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(drafts: object) -> None:
        raise MemoryError

    monkeypatch.setattr(engine._cache, "publish", fail)
    assert all(map(unavailable, store.run(outcomes(engine, *[appending(New())] * 5))))
    assert all(map(unavailable, store.run(outcomes(engine, appending(New())))))


@pytest.mark.timeout(60)
def test_who_heard_of_a_commit_from_the_file_finds_it_in_memory(
    engine: SqliteEngine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has a commit a moment before memory has: who follows a stream could not resume on what it was told."""
    store.append("p", New())
    committed, asked, go_on = threading.Event(), threading.Event(), threading.Event()
    publish = engine._cache.publish

    def publish_late(drafts: Any) -> None:
        committed.set()
        assert go_on.wait(30)
        publish(drafts)

    def ask_the_file(view: View) -> int:
        chunks(view)  # not in memory, and so looked for in the file
        asked.set()
        return view.revision

    async def read_in_between() -> tuple[bool, int, int]:
        writing = asyncio.ensure_future(engine.write("p", appending(New())))
        await asyncio.to_thread(committed.wait, 30)
        reading = asyncio.ensure_future(engine.read("p", ask_the_file))
        await asyncio.to_thread(asked.wait, 30)
        await asyncio.wait({reading}, timeout=0.3)
        early = reading.done()
        go_on.set()
        heard = await reading
        found = await engine.read("p", lambda view: view.revision)
        await writing
        return early, heard, found

    engine._cache._states.clear()
    before = store.look("p", lambda view: view.revision)
    monkeypatch.setattr(engine._cache, "publish", publish_late)
    early, heard, found = store.run(read_in_between())
    assert not early
    assert (heard, found) == (before + 1, before + 1)


def test_rows_that_could_not_be_removed_are_removed_once_the_file_can_be_written(
    engine: SqliteEngine, store: Store, path: Path
) -> None:
    store.append("p", *(New(id=f"e{number}") for number in range(6_000)))
    failures: list[bool] = []

    def fail_after_the_drop() -> bool:
        failures.append(True)
        return len(failures) > 1

    engine._connection.set_commit_hook(fail_after_the_drop)
    store.drop("p")
    assert unavailable(store.run(outcomes(engine, appending(New())))[0])
    engine._connection.set_commit_hook(None)
    store.append("p", New())
    ends = time.monotonic() + 20
    while rows(path)["dropped"] and time.monotonic() < ends:
        store.append("p", New(SAVED, 1))
    assert rows(path)["event_ids"] == 0
    assert rows(path)["events"] == 1


def test_a_closed_engine_refuses_to_write_and_to_read(engine: SqliteEngine, store: Store) -> None:
    store.append("p", New())
    store.run(engine.close())
    for call in (lambda: store.append("p", New()), lambda: store.look("p", everything), store.partitions):
        with pytest.raises(StatekeepError, match="The store is closed"):
            call()


# --- memory


def test_what_is_kept_in_memory_is_bounded_and_answers_are_right_all_the_same(open_file: Open, runner: object) -> None:
    engine = open_file(cache=100_000, chunks=600_000)
    store = Store(engine, runner)  # type: ignore[arg-type]
    for number in range(300):
        store.append(f"p{number % 30}", New(key(f"k{number}"), text="x" * 1_000), New(text="x" * 3_000))
    assert engine._cache._weight == sum(state.weight for state in engine._cache._states.values()) <= 100_000
    for number in range(300):
        found = store.look(f"p{number % 30}", lambda view, number=number: view.head(key(f"k{number}")))
        assert found is not None
        assert len(found.frame) > 1_000
    assert engine._cache._weight <= 100_000
    store.append("one", *(New(key(f"k{number}"), text="x" * 1_000) for number in range(300)))
    assert engine._cache._weight <= 100_000
    assert store.look("one", lambda view: [view.number(key(f"k{number}")) for number in range(301)]) == [1] * 300 + [0]
    store.append("long", *[New(text="x" * 20_000)] * 200)
    for _ in range(2):
        assert sum(chunk.records for chunk in store.look("long", chunks)) == 200
    kept = [len(sealed.chunk.message) for sealed in engine._chunks._kept.values()]
    assert engine._chunks._size == sum(kept) <= 600_000
    assert kept


def test_what_is_in_memory_is_answered_on_the_callers_thread(engine: SqliteEngine, store: Store) -> None:
    store.append("p", New(key("k")), New())
    engine._readers.shutdown()
    record = store.look("p", lambda view: view.head(key("k")))
    assert record is not None
    assert store.look("p", lambda view: view.chunk(MAIN, record.revision, NEVER).records) == 1


def test_a_read_fills_the_memory_for_the_next(open_file: Open, engine: SqliteEngine, store: Store) -> None:
    store.append("p", New(key("k")))
    store.run(engine.close())
    again = open_file()
    store.engine = again
    assert store.look("p", lambda view: view.head(key("k"))) is not None
    again._readers.shutdown()
    assert store.look("p", lambda view: view.number(key("k"))) == 1


# --- on disk


def test_a_file_that_is_opened_again_holds_all_that_was_written(
    open_file: Open, engine: SqliteEngine, store: Store
) -> None:
    store.append("p", *(New(id=f"e{number}", text="x" * 20_000) for number in range(40)), *[New(key("k"))] * 3)
    kept = store.append("p", New(SAVED, 5, "c1"), New(SAVED, 3, "c2"), New(key("d"), deleted=True), New(id="last"))
    store.trim("p", SAVED, kept[0].revision, oldest=kept[1].revision)
    before = store.look("p", everything)
    store.run(engine.close())
    store.engine = open_file()
    assert store.look("p", everything) == before
    assert store.append("p", New())[0].number == 42
    assert store.look("p", lambda view: view.find(MAIN, "e7").number) == 8


@pytest.mark.parametrize("ended", ["dropped", "kept"])
def test_revisions_go_on_above_all_that_the_file_gave_also_where_the_clock_went_back(
    open_file: Open, engine: SqliteEngine, store: Store, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    old = store.append("p", *[New()] * 1000)[-1].revision
    if ended == "dropped":
        store.drop("p")
    store.run(engine.close())
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 3600 * 10**9)
    store.engine = open_file()
    assert store.append("p", New())[0].revision > old
    store.drop("p")
    assert store.append("p", New())[0].revision > old + 1


def rows(path: Path) -> dict[str, int]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = ["partitions", "logs", "segments", "events", "event_ids", "records", "dropped"]
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}  # noqa: S608
    finally:
        connection.close()


@pytest.mark.parametrize("restart", [False, True])
def test_a_dropped_partition_leaves_no_row_behind(
    open_file: Open, engine: SqliteEngine, store: Store, path: Path, restart: bool
) -> None:
    for start in range(0, 6_000, 1_000):
        store.append("p", *(New(id=f"e{number}", text="x" * 100) for number in range(start, start + 1_000)))
    store.append("p", *(New(key(f"k{number}")) for number in range(3_000)))
    store.drop("p")
    assert store.partitions() == []
    if restart:
        store.run(engine.close())
        store.engine = open_file()
    store.append("p", New())
    ends = time.monotonic() + 20
    while rows(path)["dropped"] and time.monotonic() < ends:
        store.append("p", New(SAVED, 1))
    found = rows(path)
    assert found.pop("records") == store.look("p", lambda view: view.count(SAVED))
    assert found == {"partitions": 1, "logs": found["logs"], "segments": 1, "events": 1, "event_ids": 0, "dropped": 0}
    assert found["logs"] <= 2


# --- partitions on their way in and out


STATE = PartitionState(life=100, revision=130, oldest=101, create_time=5_000, update_time=6_000)
KILLED = """
import asyncio, os, signal, sys
from statekeep_server.core.journal import PartitionState, Record
from statekeep_server.core.wire import frame
from statekeep_server.engines.sqlite import SqliteEngine

async def restore():
    engine = SqliteEngine(sys.argv[1])
    restore = await engine.restore("p", PartitionState(100, 130, 101, 5_000, 6_000))
    await restore.add(lambda view: ([], [Record("emain", 110, 1, frame(b""), "e"), Record("kk", 111, 1, frame(b""))]))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(restore())
"""


def test_what_a_killed_process_was_restoring_is_gone_when_the_file_is_opened_again(
    open_file: Open, path: Path, runner: asyncio.Runner
) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    before = rows(path)
    assert (before["partitions"], before["events"], before["records"]) == (1, 1, 1)
    store = Store(open_file(), runner)
    assert store.partitions() == []
    assert not store.look("p", lambda view: view.exists)
    assert rows(path)["partitions"] == 0
    ends = time.monotonic() + 20
    while sum(rows(path).values()) and time.monotonic() < ends:
        store.write("p", lambda view: Change(None))
    assert sum(rows(path).values()) == 0


def test_a_restore_that_is_given_up_leaves_no_row_and_is_never_swept(
    engine: SqliteEngine, store: Store, path: Path
) -> None:
    restore = store.run(engine.restore("p", STATE))
    store.run(restore.add(lambda view: ([], [New().at(110, 1), New(key("k"), expires=1).at(111, 1)])))
    assert store.sweep(NEVER) == 0
    assert store.partitions() == []
    store.run(restore.close())
    ends = time.monotonic() + 20
    while sum(rows(path).values()) and time.monotonic() < ends:
        store.write("q", lambda view: Change(None))
    assert sum(rows(path).values()) == 0


def test_a_restore_takes_no_place_that_a_writer_takes_in_the_same_transaction(
    engine: SqliteEngine, store: Store
) -> None:
    async def race() -> tuple[list[Record], bool]:
        restore = await engine.restore("p", STATE)
        await restore.add(lambda view: ([], [New(id="theirs").at(110, 1)]))
        answers = await asyncio.gather(engine.write("p", appending(New(id="mine"))), restore.finish())
        await restore.close()
        return answers[0], answers[1]

    written, finished = store.run(race())
    assert not finished
    assert store.look("p", lambda view: list(view.scan(MAIN)))[0].frame == written[0].frame
    assert store.look("p", lambda view: view.count(MAIN)) == 1


def test_a_partition_that_is_dropped_and_restored_at_once_is_the_restored_one(
    engine: SqliteEngine, store: Store
) -> None:
    async def again() -> list[bool]:
        found = []
        for number in range(2):
            restore = await engine.restore("p", STATE)
            await restore.add(lambda view, number=number: ([], [New(id=f"e{number}").at(110, 1)]))  # type: ignore[misc]
            if number:
                found.append(await engine.read("p", lambda view: view.find(MAIN, "e0") is not None))
                found.append((await asyncio.gather(engine.write("p", dropping), restore.finish()))[1])
            else:
                found.append(await restore.finish())
        return found

    assert store.run(again()) == [True, True, True]
    assert store.look("p", lambda view: [whole(one.frame).id for one in view.scan(MAIN)]) == ["e1"]


def test_snapshots_are_bounded_and_a_closed_one_makes_room(engine: SqliteEngine, store: Store) -> None:
    store.append("p", New())
    opened = [store.run(engine.snapshot("p")) for _ in range(SNAPSHOTS)]
    with pytest.raises(StatekeepError) as refused:
        store.run(engine.snapshot("p"))
    assert unavailable(refused.value)
    assert opened[0] is not None
    store.run(opened[0].close())
    assert store.run(engine.snapshot("p")) is not None


def test_events_of_many_logs_come_in_order_across_their_segments(engine: SqliteEngine, store: Store) -> None:
    made = []
    for number in range(60):
        logs = [f"e{name}" for name in range(number % 7 + 1)]
        made += store.append("p", *(New(log, text="x" * 20_000) for log in logs), New("e0"), New(key("k")))
    snapshot = store.run(engine.snapshot("p"))
    assert snapshot is not None
    found: list[tuple[str, int]] = []
    while page := store.run(snapshot.records(100_000)):
        found += [(record.log, record.revision) for record in page]
    assert found == [(record.log, record.revision) for record in made]


def test_a_chunk_is_joined_byte_for_byte(engine: SqliteEngine, store: Store) -> None:
    frames = [
        frame(bytes(range(256)) * 40),
        frame(b"\x00"),
        frame(b""),
        frame("é\U0001f4be".encode()),
        frame(b"\xff" * 9),
    ]

    def decide(view: View) -> Change[list[Record]]:
        made = [Record(MAIN, view.revision + at, at, framed) for at, framed in enumerate(frames * 20, 1)]
        return Change(made, made)

    made = store.write("p", decide)
    for count in (None, 7):
        chunk = store.look("p", lambda view, count=count: view.chunk(MAIN, 0, NEVER, count))
        joined = b"".join(record.frame for record in made[:count])
        assert chunk.message == joined + b"\x20" + varint(made[:count][-1].revision)


# --- versions of the schema


def version_1(path: Path) -> None:
    """Make a file as the first version of the schema had it."""
    connection = apsw.Connection(str(path))
    connection.execute(VERSION_1.read_text())
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


def check_version_1(store: Store) -> None:
    """See that all is there of what the file of version 1 holds."""
    assert store.partitions() == ["p", "q\x001"]
    assert store.look("p", lambda view: [event.id for chunk in chunks(view) for event in events_in(chunk)]) == [
        "e1",
        "e2",
        "",
    ]
    assert store.look("p", lambda view: view.find(MAIN, "e2").number) == 2
    assert store.look("p", lambda view: view.head(key("k")).number) == 2
    assert store.look("p", lambda view: view.head(key("d")).deleted) is True
    assert store.look("p", lambda view: [view.live(KEY, now) for now in (0, NEVER)]) == [2, 1]
    assert store.look("p", lambda view: (view.alive, view.kept)) == (2, 7)  # versions and events are counted in it
    assert store.look("q\x001", lambda view: (view.alive, view.kept)) == (1, 1)
    assert store.look("p", lambda view: view.upto(SAVED, NEVER).id) == "c1"
    assert store.look("p", lambda view: view.find("r", "req").number) == 1
    assert [record.number for record in store.append("p", New(), New(key("k")))] == [4, 3]


def test_a_file_of_version_1_is_opened_with_all_it_holds(path: Path, open_file: Open, runner: object) -> None:
    version_1(path)
    check_version_1(Store(open_file(), runner))  # type: ignore[arg-type]


def test_a_file_of_version_1_is_brought_to_the_newest_version(
    path: Path, open_file: Open, runner: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    version_1(path)
    step = "ALTER TABLE file ADD COLUMN note TEXT; UPDATE file SET note = 'migrated'"
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", [*sqlite_file.MIGRATIONS, step])
    engine = open_file()
    check_version_1(Store(engine, runner))  # type: ignore[arg-type]
    assert engine._connection.execute("SELECT note FROM file").fetchall() == [("migrated",)]
    assert engine._connection.pragma("user_version") == len(sqlite_file.MIGRATIONS)


def test_a_migration_that_fails_leaves_the_file_of_its_version(
    path: Path, open_file: Open, runner: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    version_1(path)
    failing = "ALTER TABLE file ADD COLUMN note TEXT; UPDATE events SET number = NULL"
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_file, "MIGRATIONS", [*sqlite_file.MIGRATIONS, failing])
        patched.setattr(sqlite_file, "schema_of", lambda version: schema_of_version_1)
        schema_of_version_1 = sqlite_file._schema(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY))
        with pytest.raises(StoreError, match="NOT NULL"):
            open_file()
    check_version_1(Store(open_file(), runner))  # type: ignore[arg-type]


def test_a_new_file_has_the_schema_of_the_newest_version(open_file: Open, path: Path) -> None:
    engine = open_file()
    assert sqlite_file._schema(engine._connection) == sqlite_file.schema_of(len(sqlite_file.MIGRATIONS))
    assert engine._connection.pragma("application_id") == sqlite_file.APPLICATION_ID
    assert engine._connection.pragma("auto_vacuum") == 2
    assert engine._connection.pragma("synchronous") == 2
    assert engine._connection.pragma("journal_mode") == "wal"
