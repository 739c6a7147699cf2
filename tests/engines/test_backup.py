"""A backup of an engine: of one moment whatever is written meanwhile, sound, and with nothing left of it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest
from engines.engine_support import New, Store, races
from engines.export_support import Kept
from statekeep.v1.value_pb2 import Value
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.journal import PartitionState
from statekeep_server.engines import StoreError, open_engine
from statekeep_server.engines.interface import Backup
from statekeep_server.engines.memory import MemoryEngine
from statekeep_server.engines.sqlite import SqliteEngine
from statekeep_server.engines.sqlite_backup import PAGES_AT_ONCE
from stores import check_left

Open = Callable[[Path], SqliteEngine]
PAGE = 4096
MOST_STEPS = 1_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "state.db"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Give the path of a backup."""
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "state.db"


@pytest.fixture
def open_file(runner: asyncio.Runner) -> Iterator[Open]:
    opened: list[SqliteEngine] = []

    def open_it(path: Path) -> SqliteEngine:
        engine = open_engine(f"sqlite:{path}")
        assert isinstance(engine, SqliteEngine)
        opened.append(engine)
        return engine

    yield open_it
    for engine in opened:
        runner.run(engine.close())


@pytest.fixture
def engine(open_file: Open, path: Path) -> SqliteEngine:
    return open_file(path)


@pytest.fixture
def kept(engine: SqliteEngine, runner: asyncio.Runner) -> Kept:
    return Kept(engine, runner)


def fill(kept: Kept, mebibytes: int) -> None:
    for number in range(mebibytes):
        kept.append("large", f"e{number}", data=Value(data=bytes([number]) * 2**20))
    kept.set("s", json="-0.0", labels={"a": "b"}, request_id="r")
    kept.save("large", "c")


async def bytes_of(backup: Backup) -> bytes:
    """Return a backup that is copied, piece by piece."""
    pieces = []
    while piece := await backup.read(100_000):
        pieces.append(piece)
    return b"".join(pieces)


async def taken(engine: SqliteEngine, meanwhile: Callable[[int], None] = lambda step: None) -> tuple[bytes, int]:
    """Take a backup, and return it with how many steps it took."""
    backup = await engine.backup()
    try:
        for step in range(1, MOST_STEPS):
            if await backup.copy():
                whole = await bytes_of(backup)
                assert len(whole) == backup.size == backup.copied
                return whole, step
            assert 0 < backup.copied < backup.size
            await asyncio.to_thread(meanwhile, step)
        raise AssertionError("the copy does not end")
    finally:
        await backup.close()


def beside(path: Path) -> set[str]:
    return {found.name for found in path.parent.iterdir()}


def left(path: Path) -> set[str]:
    """Return what is beside a file that is open, and does not belong to it."""
    return beside(path) - {path.name + end for end in ("", "-wal", "-shm", ".lock")}


def test_a_backup_is_of_one_moment_and_ends_though_each_of_its_steps_is_followed_by_a_write(
    kept: Kept, engine: SqliteEngine, runner: asyncio.Runner, copy: Path, open_file: Open
) -> None:
    fill(kept, 20)
    before = kept.export()

    def write(step: int) -> None:
        with asyncio.Runner() as own:
            Kept(engine, own, kept.now).append("large", f"meanwhile {step}", data=Value(data=b"x" * 100_000))

    whole, steps = runner.run(taken(engine, write))
    assert 5 <= steps <= len(whole) // (PAGES_AT_ONCE * PAGE) + 1
    copy.write_bytes(whole)
    restored = Kept(open_file(copy), runner, kept.now)
    assert restored.export() == before
    assert kept.export() != before
    assert restored.append("large", "goes on").sequence == 21


def test_writers_at_full_speed_go_on_and_the_backup_holds_all_up_to_one_of_their_writes(
    kept: Kept, engine: SqliteEngine, runner: asyncio.Runner, copy: Path, open_file: Open
) -> None:
    fill(kept, 16)
    over = threading.Event()
    written: list[int] = [0]

    def write() -> None:
        with asyncio.Runner() as own:
            writer = Kept(engine, own, kept.now)
            while not over.is_set() and written[0] < 100_000:
                writer.append("busy", f"e{written[0]}")
                written[0] += 1

    thread = threading.Thread(target=write)
    counts: list[int] = []
    thread.start()
    try:
        with races():
            whole, _ = runner.run(taken(engine, lambda step: counts.append(written[0])))
    finally:
        over.set()
        thread.join(30)
    assert not thread.is_alive()
    assert counts == sorted(counts)
    assert counts[0] < written[0]
    copy.write_bytes(whole)
    restored = Kept(open_file(copy), runner, kept.now)
    found = restored.history("busy")
    assert found == [f"e{number}" for number in range(len(found))]
    assert len(found) <= counts[0] + 1
    assert restored.export(thread_id="large") == kept.export(thread_id="large")


def test_a_backup_is_one_file_that_its_engine_opens_as_its_own(
    kept: Kept, engine: SqliteEngine, runner: asyncio.Runner, copy: Path, open_file: Open
) -> None:
    fill(kept, 1)
    copy.write_bytes(runner.run(taken(engine))[0])
    opened = open_file(copy)
    connection = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("auto_vacuum") == 2
    assert connection.pragma("integrity_check") == "ok"
    connection.close()
    again = runner.run(taken(opened))[0]
    runner.run(opened.close())
    check_left(copy.parent)
    copy.write_bytes(again)
    assert Kept(open_file(copy), runner, kept.now).export() == kept.export()


def test_what_is_put_together_apart_does_not_come_with_a_backup(
    engine: SqliteEngine, store: Store, runner: asyncio.Runner, copy: Path, open_file: Open
) -> None:
    store.append("there", New())
    restore = runner.run(engine.restore("unfinished", PartitionState(10, 20, 11, 1, 1)))
    runner.run(restore.add(lambda view: ((), [New().at(12, 1)])))
    copy.write_bytes(runner.run(taken(engine))[0])
    runner.run(restore.close())
    opened = open_file(copy)
    assert runner.run(opened.partitions("", "", 10)) == ["there"]


def test_a_backup_beside_the_log_of_the_file_it_replaced_is_refused_untouched(
    kept: Kept, engine: SqliteEngine, runner: asyncio.Runner, path: Path, open_file: Open
) -> None:
    fill(kept, 1)
    whole, _ = runner.run(taken(engine))
    kept.append("large", "after the backup")
    log = path.with_name("state.db-wal")
    left_by_a_kill = log.read_bytes()
    runner.run(engine.close())
    path.write_bytes(whole)
    log.write_bytes(left_by_a_kill)
    with pytest.raises(StoreError, match=r"state\.db is a backup, and .*state\.db-wal beside it belongs to the file"):
        open_file(path)
    assert (path.read_bytes(), log.read_bytes()) == (whole, left_by_a_kill)
    log.unlink()
    assert Kept(open_file(path), runner, kept.now).history("large") == ["e0"]


def test_a_second_backup_has_to_wait_for_the_first(
    kept: Kept, engine: SqliteEngine, runner: asyncio.Runner, path: Path
) -> None:
    fill(kept, 6)
    first = runner.run(engine.backup())
    assert not runner.run(first.copy())
    with pytest.raises(StatekeepError) as caught:
        runner.run(engine.backup())
    assert caught.value.reason is Reason.LIMIT_REACHED
    assert caught.value.metadata == {"limit": "backups at once", "max": "1"}
    runner.run(first.close())
    assert left(path) == set()
    second = runner.run(engine.backup())
    assert not runner.run(second.copy())
    runner.run(first.close())
    assert left(path) == {"state.db.backup-under-way"}, "the end of one ended the other"
    assert (path.parent / "state.db.backup-under-way").stat().st_mode & 0o077 == 0
    while not runner.run(second.copy()):
        pass
    assert left(path) == set(), "a copy that is whole has a name still"
    assert len(runner.run(bytes_of(second))) == second.size
    runner.run(second.close())


def test_a_caller_that_is_cancelled_in_a_step_leaves_nothing(
    kept: Kept, engine: SqliteEngine, runner: asyncio.Runner, path: Path
) -> None:
    fill(kept, 12)

    async def cancelled(turns: int) -> None:
        async def take() -> None:
            await taken(engine)

        task = asyncio.create_task(take())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    for turns in (1, 2, 3, 5, 8, 20, 50):
        runner.run(cancelled(turns))
        assert left(path) == set()
    assert runner.run(taken(engine))[1] > 1


def test_an_engine_that_closes_ends_its_backup(
    kept: Kept, engine: SqliteEngine, runner: asyncio.Runner, path: Path
) -> None:
    fill(kept, 6)
    backup = runner.run(engine.backup())
    assert not runner.run(backup.copy())
    runner.run(engine.close())
    check_left(path.parent)
    with pytest.raises(StatekeepError) as caught:
        runner.run(backup.copy())
    assert caught.value.reason is Reason.STORE_UNAVAILABLE
    runner.run(backup.close())
    with pytest.raises(StatekeepError):
        runner.run(engine.backup())


def test_what_a_crash_left_of_a_backup_is_gone_with_the_next_start(path: Path, open_file: Open) -> None:
    for end in ("", "-wal", "-journal"):
        (path.parent / f"state.db.backup-under-way{end}").write_bytes(b"the half of a copy")
    (path.parent / "state.db.backup").write_bytes(b"somebody's own")
    open_file(path)
    assert left(path) == {"state.db.backup"}


def test_a_damaged_store_gives_no_backup(
    kept: Kept, engine: SqliteEngine, runner: asyncio.Runner, path: Path, open_file: Open
) -> None:
    for number in range(200):
        kept.set("s", f"k{number}", json='"' + "x" * 5_000 + '"')
    runner.run(engine.close())
    pages = path.stat().st_size // PAGE
    with path.open("r+b") as file:
        file.seek(pages // 2 * PAGE)
        file.write(b"\xff" * PAGE * 3)
    opened = open_file(path)
    for _ in range(2):
        with pytest.raises(StatekeepError) as caught:
            runner.run(taken(opened))
        assert caught.value.reason is Reason.STORE_UNAVAILABLE
        assert "the store is damaged" in caught.value.message
        assert left(path) == set()


def test_an_engine_in_memory_says_what_to_do_instead(runner: asyncio.Runner) -> None:
    with pytest.raises(StatekeepError, match="statekeep export --all") as caught:
        runner.run(MemoryEngine().backup())
    assert caught.value.reason is Reason.NOT_SUPPORTED
