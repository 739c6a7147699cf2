"""Who may have a store's file: one server at a time, and only a file that is sound and its own."""

import json
import os
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest
from rpc_support import connected, key_of, set_of
from server_process import COMMAND, LOOPBACK, START_WITHIN, ServerProcess, environment, run_to_its_end
from statekeep_server.engines.sqlite_file import BESIDE

StartServer = Callable[..., ServerProcess]


def refused(path: Path | str, code: int = 1) -> str:
    """Run a server that must refuse a store with one line, and return that line."""
    ended = run_to_its_end("--store", f"sqlite:{path}", "--listen", LOOPBACK)
    assert ended.returncode == code, ended
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("statekeep serve: ")
    return line


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def filled(path: Path, start_server: StartServer) -> None:
    """Make a store that holds something."""
    process = start_server("--store", f"sqlite:{path}")
    with connected(process.address) as own:
        for number in range(200):
            own.memory.Set(set_of("s", f"k{number}", '"' + "x" * 500 + '"'))
    process.stop()


def sound(path: Path) -> bool:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def test_what_is_set_is_there_after_a_restart_and_one_file_holds_it(start_server: StartServer, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(path, start_server)
    assert [found.name for found in tmp_path.iterdir()] == ["state.db"]
    process = start_server("--store", f"sqlite:{path}")
    with connected(process.address) as own:
        assert own.memory.Get(key_of("s", "k7")).entry.version == 1
        assert own.memory.Set(set_of("s", "k7")).entry.version == 2


@pytest.mark.parametrize("how", ["the same path", "a link to it"])
def test_a_second_server_is_told_who_holds_the_file(start_server: StartServer, tmp_path: Path, how: str) -> None:
    path = tmp_path / "state.db"
    holder = start_server("--store", f"sqlite:{path}")
    other = path
    if how == "a link to it":
        other = tmp_path / "link.db"
        other.symlink_to(path)
    line = refused(other)
    assert f"is held by process {holder.process.pid} on {socket.gethostname()}" in line
    with connected(holder.address) as own:
        assert own.memory.Set(set_of("s", "k")).entry.version == 1


def test_a_server_that_was_killed_holds_nothing(start_server: StartServer, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'state.db'}"
    first = start_server("--store", store)
    with connected(first.address) as own:
        own.memory.Set(set_of("s", "k"))
    first.process.kill()
    first.wait(10)
    second = start_server("--store", store)
    with connected(second.address) as own:
        assert own.memory.Get(key_of("s", "k")).entry.version == 1


@pytest.mark.parametrize("empty", [True, False], ids=["an empty file", "no file"])
def test_of_eight_servers_that_start_at_once_one_serves(tmp_path: Path, empty: bool) -> None:
    path = tmp_path / "state.db"
    if empty:
        path.touch()
    servers = [
        subprocess.Popen(
            [*COMMAND, "--store", f"sqlite:{path}", "--listen", LOOPBACK],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    try:
        with ThreadPoolExecutor(8) as pool:
            lines = list(pool.map(lambda server: server.stdout.readline(), servers, timeout=START_WITHIN * 2))
        serving = [server for server, line in zip(servers, lines, strict=True) if line]
        assert len(serving) == 1, lines
        (ready,) = (json.loads(line) for line in lines if line)
        for server in servers:
            if server not in serving:
                assert server.wait(10) == 1
                assert f"is held by process {serving[0].pid}" in server.stderr.read()
        with connected(ready["listen"][0]) as own:
            assert own.memory.Set(set_of("s", "k")).entry.version == 1
    finally:
        for server in servers:
            server.terminate()
            server.wait(20)
            server.stdout.close()
            server.stderr.close()
    assert [found.name for found in tmp_path.iterdir()] == ["state.db"]
    assert sound(path)


# --- what is no store of ours is left as it is


def other_program(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE notes (text); INSERT INTO notes VALUES ('mine')")
    connection.close()


def other_program_in_wal_mode(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE notes (text)")
    connection.close()


def pragma(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        connection = apsw.Connection(str(path))
        connection.execute(statement)
        connection.close()

    return change


def zeros(start: int, count: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(start)
            file.write(bytes(count))

    return change


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


NOT_OURS = {
    "text": (lambda path: path.write_text("to do: everything\n" * 100), "of another program"),
    "a few bytes": (lambda path: path.write_bytes(b"SQLite"), "of another program"),
    "of another program": (other_program, "of another program"),
    "of another program, in WAL mode": (other_program_in_wal_mode, "of another program"),
}
WRONG = {
    "of a newer schema": (pragma("PRAGMA user_version = 999"), "version 999, newer than"),
    "without a version": (pragma("PRAGMA user_version = 0"), "damaged"),
    "without its magic": (zeros(0, 16), "damaged"),
    "without its schema": (zeros(100, 2000), "damaged"),
    "without a table": (pragma("DROP TABLE events"), "damaged"),
    "without an index": (pragma("DROP INDEX records_by_id"), "damaged"),
    "cut short": (cut, "damaged"),
    "with pages of zeros": (zeros(4096, 40 * 4096), "damaged"),
}


@pytest.mark.parametrize(("make", "said"), NOT_OURS.values(), ids=NOT_OURS)
def test_a_file_that_is_not_ours_is_refused_untouched(
    tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    path = tmp_path / "state.db"
    make(path)
    before = contents(tmp_path)
    line = refused(path)
    assert str(path) in line
    assert said in line
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("spoil", "said"), WRONG.values(), ids=WRONG)
def test_a_file_that_is_newer_or_damaged_is_refused_untouched(
    start_server: StartServer, tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "state.db"
    filled(path, start_server)
    spoil(path)
    before = contents(tmp_path)
    line = refused(path)
    assert str(path) in line
    assert said in line
    assert contents(tmp_path) == before


def test_a_log_without_its_file_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "state.db-wal").write_bytes(b"what was written last")
    before = contents(tmp_path)
    assert "state.db-wal is" in refused(tmp_path / "state.db")
    assert contents(tmp_path) == before


# --- places that cannot be used


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "is a directory; give the path of a file in it" in refused(tmp_path)
    assert contents(tmp_path) == {}


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    line = refused(tmp_path / "none" / "state.db")
    assert f"there is no directory {tmp_path / 'none'}" in line
    assert contents(tmp_path) == {}


def test_what_is_no_regular_file_is_refused() -> None:
    assert "is no regular file" in refused("/dev/null")


@pytest.mark.parametrize("end", BESIDE)
def test_the_name_of_what_stands_beside_a_store_is_refused(tmp_path: Path, end: str) -> None:
    assert "has the name of what stands beside a store" in refused(tmp_path / f"state.db{end}")
    assert contents(tmp_path) == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in refused(tmp_path / "state.db")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("path", ["", " "])
def test_a_store_without_a_path_is_wrong_use(path: str) -> None:
    assert "such as sqlite:/data/state.db" in refused(path, code=2)


def test_a_name_that_means_memory_to_sqlite_is_refused_and_a_path_to_a_file_of_it_is_taken(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "give memory: to keep nothing on disk" in refused(":memory:", code=2)
    assert list(contents(tmp_path)) == []
    start_server("--store", "sqlite:./:memory:").stop()
    assert list(contents(tmp_path)) == [":memory:"]


def test_a_server_that_cannot_listen_lets_the_file_go(start_server: StartServer, tmp_path: Path) -> None:
    taken = start_server()
    ended = run_to_its_end("--store", f"sqlite:{tmp_path / 'state.db'}", "--listen", taken.address)
    assert ended.returncode == 1
    assert "cannot listen" in ended.stderr
    assert list(contents(tmp_path)) == ["state.db"]
