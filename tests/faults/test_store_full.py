"""A disk without room: writes are refused as a whole, reads go on, and with room again all is as before."""

import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rpc_support import Stubs, connected, key_of, next_of, refused, scope, set_of, stream_of
from server_process import ServerProcess
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1.value_pb2 import Value

StartServer = Callable[..., ServerProcess]

PATIENCE = 20.0
_LARGE = '"' + "x" * 200_000 + '"'


class SmallDisk:
    """A disk in memory, of a few megabytes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ballast = directory / "ballast"

    def limit(self, process: ServerProcess) -> None:
        """Take all the room that is left."""
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                return

    def widen(self, process: ServerProcess) -> None:
        """Give the room back."""
        self._ballast.unlink()


class SmallFiles:
    """A disk on which no file may grow any more."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def limit(self, process: ServerProcess) -> None:
        """Let no file get larger than the largest is."""
        self.limit_to(process, max(path.stat().st_size for path in self.directory.iterdir()))

    def limit_to(self, process: ServerProcess, largest: int) -> None:
        """Let no file get larger than so many bytes."""
        resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))

    def widen(self, process: ServerProcess) -> None:
        """Let them grow again."""
        resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


@pytest.fixture(params=["full disk", "file size limit"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk | SmallFiles]:
    """Give a disk that can be filled."""
    if request.param == "file size limit":
        yield SmallFiles(tmp_path)
        return
    mount = shutil.which("mount")
    how = ["-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)]
    if not mount or subprocess.run([mount, *how], capture_output=True).returncode:
        pytest.skip("NOT TESTED: no disk can be mounted here; the limit on file sizes stands in for a full one")
    yield SmallDisk(tmp_path)
    subprocess.run(["umount", "-l", str(tmp_path)], check=True, timeout=PATIENCE)


def names(disk: SmallDisk | SmallFiles) -> set[str]:
    return {path.name for path in disk.directory.iterdir() if path.name != "ballast"}


def versions(own: Stubs) -> list[int]:
    request = memory.MemoryHistoryRequest(scope=scope("s"), key="large", oldest_first=True)
    return [entry.version for answer in own.memory.History(request) for entry in answer.entries]


def test_without_room_writes_are_refused_reads_go_on_and_with_room_all_is_as_before(
    start_server: StartServer, disk: SmallDisk | SmallFiles
) -> None:
    process = start_server("--store", f"sqlite:{disk.directory / 'state.db'}")
    large = memory.MemorySetRequest(scope=scope("s"), key="large", value=Value(json=_LARGE))
    batch = memory.MemoryBatchSetRequest(
        sets=[
            memory.MemorySetRequest(scope=scope("s"), key=f"k{number}", value=Value(json=_LARGE))
            for number in range(20)
        ]
    )
    with connected(process.address) as own:
        own.memory.Set(set_of("s", "k"))
        own.state.AppendNextEvent(next_of("t", "first"))
        own.memory.Set(large)
        disk.limit(process)
        refusal = refused("STORE_UNAVAILABLE", own.memory.BatchSet, batch)
        assert refusal.retry_after
        refused("STORE_UNAVAILABLE", own.memory.BatchSet, batch)
        assert own.memory.Get(key_of("s", "k")).entry.version == 1
        assert not own.memory.Get(key_of("s", "k0")).HasField("entry"), "a part of what was refused is there"
        assert versions(own) == [1]
        assert [event.id for answer in own.state.StreamHistory(stream_of("t")) for event in answer.events] == ["first"]
        disk.widen(process)
        assert own.memory.Set(large).entry.version == 2
        assert len(own.memory.BatchSet(batch).entries) == 20
        assert own.state.AppendNextEvent(next_of("t", "second")).event.sequence == 2
    process.process.kill()
    process.wait(10)
    again = start_server("--store", f"sqlite:{disk.directory / 'state.db'}")
    with connected(again.address) as own:
        assert versions(own) == [1, 2]
        assert own.memory.Get(key_of("s", "k19")).entry.version == 1
    again.stop()


def test_without_room_for_its_copy_a_backup_is_refused_and_leaves_nothing(
    start_server: StartServer, disk: SmallDisk | SmallFiles
) -> None:
    process = start_server("--store", f"sqlite:{disk.directory / 'state.db'}")
    with connected(process.address) as own:
        for number in range(8):
            own.memory.Set(memory.MemorySetRequest(scope=scope("s"), key=f"k{number}", value=Value(json=_LARGE)))
        before = names(disk)
        if isinstance(disk, SmallFiles):
            disk.limit_to(process, 1_000_000)  # the copy is larger
        else:
            disk.limit(process)
        for _ in range(2):
            refusal = refused("STORE_UNAVAILABLE", own.admin.Backup, admin.AdminBackupRequest())
            assert "No backup can be made" in refusal.message
            assert names(disk) == before
        assert own.memory.Get(key_of("s", "k7")).entry.version == 1
        disk.widen(process)
        size = sum(len(message.data) for message in own.admin.Backup(admin.AdminBackupRequest()))
        assert size > 1_600_000
        assert own.memory.Set(set_of("s", "k")).entry.version == 1
        assert names(disk) == before
