"""Backup from a real server: its messages, clients that die or do not read, a second one, and a server that stops."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from rpc_support import (
    MIB,
    PATIENCE,
    Stubs,
    call_many,
    check_refusal,
    connected,
    events_in,
    next_of,
    refused,
    set_of,
    until,
)
from server_process import ServerProcess, environment
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value

StartServer = Callable[..., ServerProcess]
BACKUP = admin.AdminBackupRequest()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def process(start_server: StartServer, directory: Path) -> ServerProcess:
    """Give a server on a file."""
    return start_server("--store", f"sqlite:{directory / 'state.db'}")


@pytest.fixture
def own(process: ServerProcess) -> Iterator[Stubs]:
    with connected(process.address) as stubs:
        yield stubs


def fill(own: Stubs, mebibytes: int) -> None:
    for _ in range(mebibytes):
        events = [state.Event(type="note", data=Value(text="x" * 2**14)) for _ in range(64)]
        own.state.AppendEvents(state.AppendEventsRequest(thread_id="large", events=events))


def whole(own: Stubs) -> bytes:
    return b"".join(message.data for message in own.admin.Backup(BACKUP, timeout=PATIENCE))


def once_free(own: Stubs) -> bytes:
    """Return the backup after one that ends without its client: that takes a moment."""
    taken: list[bytes] = []

    def free() -> bool:
        try:
            taken.append(whole(own))
        except grpc.RpcError as error:
            check_refusal(error, "LIMIT_REACHED")
        return bool(taken)

    until("the backup before it has ended", free)
    return taken[0]


def left(directory: Path) -> set[str]:
    """Return what is beside the file of a server that runs, and is not the server's."""
    return {path.name for path in directory.iterdir()} - {
        "state.db", "state.db-wal", "state.db-shm", "state.db.lock"
    }  # fmt: skip


def held(process: ServerProcess) -> list[str]:
    """Return the copies that the server has open, which may have no name any more."""
    targets = []
    for descriptor in Path(f"/proc/{process.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            targets.append(os.readlink(descriptor))
    return [target for target in targets if "backup" in Path(target).name]


def nothing_left(process: ServerProcess, directory: Path) -> None:
    until("the copy is closed", lambda: not held(process))
    assert left(directory) == set()


def test_the_messages_tell_how_far_the_copy_is_and_then_bring_it_in_order(
    own: Stubs, process: ServerProcess, directory: Path
) -> None:
    fill(own, 24)
    messages = list(own.admin.Backup(BACKUP, timeout=PATIENCE))
    size = messages[0].size
    assert {message.size for message in messages} == {size}
    assert sum(len(message.data) for message in messages) == size > 24 * MIB
    assert max(message.ByteSize() for message in messages) <= 256 * 2**10
    with_data = [bool(message.data) for message in messages]
    assert with_data == sorted(with_data)
    copied = [message.copied for message in messages if not message.data]
    assert len(copied) > 3
    assert copied == sorted(set(copied))
    assert {message.copied for message in messages if message.data} == {size}
    assert b"".join(message.data for message in messages).startswith(b"SQLite format 3\0")
    assert left(directory) == set()


def test_another_server_answers_from_a_backup_as_the_first_did(
    own: Stubs, start_server: StartServer, tmp_path: Path
) -> None:
    first = own.memory.Set(set_of("s", "k", request_id="first"))
    call_many(own.state.AppendNextEvent, [next_of(f"t{n % 5}", f"e{n}") for n in range(200)])
    (tmp_path / "other.db").write_bytes(whole(own))
    own.memory.Set(set_of("s", "later"))
    with connected(start_server("--store", f"sqlite:{tmp_path / 'other.db'}").address) as other:
        assert other.memory.Set(set_of("s", "k", request_id="first")) == first
        for thread in range(5):
            assert events_in(other, f"t{thread}") == events_in(own, f"t{thread}")
        assert other.state.AppendNextEvent(next_of("t0")).event.sequence == 41


def test_a_client_that_does_not_read_holds_up_nobody_but_the_next_backup_and_costs_little(
    own: Stubs, process: ServerProcess, directory: Path
) -> None:
    fill(own, 40)
    whole(own)  # what a backup takes in memory once is taken
    before = process.rss()
    nothing_left(process, directory)
    stream = own.admin.Backup(BACKUP, timeout=60)
    for message in stream:
        if message.data:
            break
    assert held(process)
    refused("LIMIT_REACHED", own.admin.Backup, BACKUP, limit="backups at once", max=1)
    call_many(own.state.AppendNextEvent, [next_of("other", f"e{number}") for number in range(200)])
    assert process.rss() < before + 30 * MIB
    assert left(directory) == set()
    stream.cancel()
    nothing_left(process, directory)
    assert len(once_free(own)) > 40 * MIB


_BACK_UP_AND_WAIT = """
import sys, time
import grpc
from statekeep.v1 import admin_pb2, admin_pb2_grpc
stub = admin_pb2_grpc.AdminStub(grpc.insecure_channel(sys.argv[1]))
for message in stub.Backup(admin_pb2.AdminBackupRequest()):
    if bool(message.data) == (sys.argv[2] == "sends"):
        print("it began", flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("when", ["copies", "sends"])
def test_a_client_that_is_killed_leaves_nothing(own: Stubs, process: ServerProcess, directory: Path, when: str) -> None:
    fill(own, 40)
    command = [sys.executable, "-c", _BACK_UP_AND_WAIT, process.address, when]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
        try:
            assert client.stdout
            assert client.stdout.readline() == b"it began\n"
        finally:
            client.send_signal(signal.SIGKILL)
    nothing_left(process, directory)
    assert len(once_free(own)) > 40 * MIB
    assert "Traceback" not in process.stderr


def test_a_server_that_stops_or_is_killed_in_a_backup_leaves_its_file_alone(
    start_server: StartServer, directory: Path
) -> None:
    for end, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -9)):
        process = start_server("--store", f"sqlite:{directory / 'state.db'}", "--grace", "2s")
        with connected(process.address) as own:
            fill(own, 20)
            stream = own.admin.Backup(BACKUP, timeout=60)
            assert next(stream).size
            process.signal(end)
            assert process.wait(30) == code
            stream.cancel()
        assert end == signal.SIGKILL or left(directory) == set()
    again = start_server("--store", f"sqlite:{directory / 'state.db'}")
    assert left(directory) == set()
    with connected(again.address) as own:
        assert len(whole(own)) > 40 * MIB


def test_a_server_in_memory_says_what_to_do_instead(start_server: StartServer) -> None:
    with connected(start_server().address) as own:
        refusal = refused("NOT_SUPPORTED", own.admin.Backup, BACKUP)
        assert "statekeep export --all" in refusal.message
