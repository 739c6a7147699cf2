"""`statekeep backup`, as it is run at a prompt, against real servers: its file is there whole, or not at all."""

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
import statekeep
from rpc_support import until
from server_process import ServerProcess, environment
from statekeep.v1 import admin_pb2, admin_pb2_grpc
from statekeep_server.engines.sqlite_file import BESIDE

StartServer = Callable[..., ServerProcess]
COMMAND = (sys.executable, "-m", "statekeep_server")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "state.db"


@pytest.fixture
def source(start_server: StartServer, store: Path) -> ServerProcess:
    """Give a server that keeps a little of everything in a file."""
    process = start_server("--store", f"sqlite:{store}")
    with statekeep.Client(process.address) as client:
        client.memory.set("k", statekeep.Json('{"a": -0.0}'), scope="app")
        client.memory.delete("k", scope="app")
        for number in range(3):
            client.state.append_next("chat", statekeep.NewEvent("message", {"n": number}))
    return process


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Give the path of a backup, in a folder of its own."""
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "monday.db"


def run(address: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments), "--address", address],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(address: str, *arguments: str | Path) -> str:
    """Run a backup that must fail with one line, and return that line."""
    done = run(address, "backup", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("statekeep backup: ")
    return line


def export(address: str) -> str:
    done = run(address, "export", "--all")
    assert done.returncode == 0
    return done.stdout


def test_a_backup_put_in_the_place_of_a_lost_file_brings_all_back(
    source: ServerProcess, start_server: StartServer, store: Path, target: Path
) -> None:
    before = export(source.address)
    done = run(source.address, "backup", target)
    assert done.returncode == 0
    assert (done.stdout, done.stderr) == (f"{target.stat().st_size} bytes are in {target}\n", "")
    assert [path.name for path in target.parent.iterdir()] == ["monday.db"]
    assert target.stat().st_mode & 0o077 == 0, "others can read it"
    with statekeep.Client(source.address) as client:
        client.memory.set("k", "too late", scope="app")
    source.stop()
    store.unlink()
    store.write_bytes(target.read_bytes())
    again = start_server("--store", f"sqlite:{store}")
    assert export(again.address) == before
    again.stop()
    straight = start_server("--store", f"sqlite:{target}")
    assert export(straight.address) == before


def test_a_backup_in_the_place_of_a_file_whose_server_was_killed_is_refused_until_its_log_is_gone(
    source: ServerProcess, start_server: StartServer, store: Path, target: Path
) -> None:
    before = export(source.address)
    assert run(source.address, "backup", target).returncode == 0
    source.process.kill()
    source.wait(10)
    store.write_bytes(target.read_bytes())
    with pytest.raises(AssertionError, match=r"state\.db is a backup, and .*remove state\.db-wal and state\.db-shm"):
        start_server("--store", f"sqlite:{store}")
    for end in ("-wal", "-shm"):
        store.with_name(store.name + end).unlink()
    assert export(start_server("--store", f"sqlite:{store}").address) == before


def test_a_file_that_is_there_is_replaced_by_force_alone(source: ServerProcess, target: Path) -> None:
    target.write_bytes(b"somebody's own")
    assert "is there already; give another path, or --force" in refused(source.address, target)
    assert target.read_bytes() == b"somebody's own"
    assert run(source.address, "backup", target, "--force").returncode == 0
    assert target.read_bytes().startswith(b"SQLite format 3\0")
    link = target.with_name("newest.db")
    link.symlink_to(target)
    assert run(source.address, "backup", link, "--force").returncode == 0
    assert link.is_symlink()


def test_the_file_of_a_server_that_runs_is_not_replaced_even_by_force(
    source: ServerProcess, store: Path, target: Path
) -> None:
    inode = store.stat().st_ino
    target.symlink_to(store)
    for path in (store, target):
        assert "is the file of a server that runs" in refused(source.address, path, "--force")
    assert store.stat().st_ino == inode
    store.with_name("other.db-wal").write_bytes(b"what was written last")
    assert "other.db-wal beside it belongs to a file" in refused(source.address, store.with_name("other.db"))


def test_what_stands_beside_a_store_is_not_replaced_even_by_force(
    source: ServerProcess, store: Path, target: Path
) -> None:
    beside = [path for path in store.parent.iterdir() if path.name.startswith(store.name) and path != store]
    assert {store.name + "-wal", store.name + ".lock"} <= {path.name for path in beside}
    inodes = [path.stat().st_ino for path in beside]
    others = [target.with_name(target.name + end) for end in BESIDE]  # of a server that does not run, or elsewhere
    target.symlink_to(beside[0])
    for path in (*beside, *others, target):
        assert "has the name of what stands beside a store" in refused(source.address, path, "--force")
    assert [path.stat().st_ino for path in beside] == inodes
    assert not any(path.exists() for path in others)


def test_a_backup_is_not_written_to_stdout(source: ServerProcess) -> None:
    assert "give the path of a file" in refused(source.address, "-")


def test_a_place_that_cannot_be_used_is_told(source: ServerProcess, target: Path) -> None:
    assert "is a directory; give the path of a file in it" in refused(source.address, target.parent)
    assert "there is no directory" in refused(source.address, target / "none" / "backup.db")
    assert "is no regular file" in refused(source.address, "/dev/null", "--force")
    assert "cannot be written: File name too long" in refused(source.address, target.with_name("x" * 250))
    assert list(target.parent.iterdir()) == []


def test_a_server_in_memory_and_one_that_is_not_there_leave_no_file(start_server: StartServer, target: Path) -> None:
    assert "statekeep export --all" in refused(start_server().address, target)
    assert "monday.db" not in refused(f"unix:{target.parent}/nobody.sock", target)
    assert list(target.parent.iterdir()) == []


class Stalled(admin_pb2_grpc.AdminServicer):
    """A server that sends a part of a backup, and then waits."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def Backup(self, request: Any, context: Any) -> Iterator[admin_pb2.AdminBackupResponse]:  # noqa: N802 (gRPC's)
        yield admin_pb2.AdminBackupResponse(data=b"x" * 200_000, size=400_000, copied=400_000)
        self.over.wait(60)


@pytest.fixture
def stalled() -> Iterator[str]:
    """Give the address of a server that stalls."""
    servicer = Stalled()
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads)
        admin_pb2_grpc.add_AdminServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}"
        servicer.over.set()
        server.stop(None).wait(20)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_a_backup_that_is_ended_midway_leaves_neither_the_file_nor_a_part(
    stalled: str, target: Path, number: signal.Signals, code: int
) -> None:
    def begun() -> bool:
        return any(path.stat().st_size >= 200_000 for path in target.parent.glob(".monday.db.*.partial"))

    command = [*COMMAND, "backup", str(target), "--address", stalled]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            until("a part is there", begun, within=30)
            assert not target.exists()
            process.send_signal(number)
            assert process.wait(30) == code
        finally:
            process.kill()
    assert list(target.parent.iterdir()) == []


def test_progress_is_shown_on_a_terminal_and_taken_away_at_the_end(source: ServerProcess, target: Path) -> None:
    leader, follower = pty.openpty()
    try:
        subprocess.run(
            [*COMMAND, "backup", str(target), "--address", source.address],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=follower,
            timeout=60,
            check=True,
        )
        shown = os.read(leader, 10_000).decode()
    finally:
        os.close(follower)
        os.close(leader)
    assert "backed up 0.1 MB" in shown
    assert "% " in shown
    assert shown.endswith("\r\x1b[K")
