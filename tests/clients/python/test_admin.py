"""Export and import through the Python client, blocking and asynchronous."""

import asyncio
import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import statekeep
from server_process import ServerProcess
from statekeep import errors
from statekeep._export_file import read
from statekeep.records import Exported, Imported, Progress
from statekeep.v1 import admin_pb2 as pb

StartServer = Callable[..., ServerProcess]


@pytest.fixture
def target(start_server: StartServer) -> str:
    """The address of an empty server."""
    return start_server().address


@pytest.fixture
def filled(client: statekeep.Client, name: str) -> str:
    """A name of which there are a scope and a thread."""
    client.memory.set("k", {"a": 1}, scope=name)
    client.memory.set("k", statekeep.Json("-0.0"), scope=name, scope_type="flow")
    for number in range(10):
        client.state.append_next(name, statekeep.NewEvent("note", number))
    return name


def exported(client: statekeep.Client, **what: Any) -> bytes:
    file = io.BytesIO()
    client.admin.export(file, **what)
    return file.getvalue()


def test_a_thread_moves_to_another_server(client: statekeep.Client, filled: str, target: str) -> None:
    file = io.BytesIO()
    done = client.admin.export(file, thread=filled)
    assert done == Exported(1, 10, len(file.getvalue()))
    file.seek(0)
    with statekeep.Client(target) as other:
        assert other.admin.import_(file) == Imported(1, 10, 0, ())
        assert [event.data for event in other.state.history(filled)] == list(range(10))
        assert exported(other, everything=True) == file.getvalue()
        file.seek(0)
        assert other.admin.import_(file) == Imported(0, 0, 1, ())


def test_a_scope_is_named_with_its_type(client: statekeep.Client, filled: str) -> None:
    for scope_type in ("namespace", "flow"):
        file = exported(client, scope=filled, scope_type=scope_type)
        values = [line.part.entry.value.json for line in read(io.BytesIO(file)) if line.part.HasField("entry")]
        assert values == ['{"a":1}' if scope_type == "namespace" else "-0.0"]


def test_the_asynchronous_client_does_the_same(client: statekeep.Client, filled: str, target: str) -> None:
    async def move() -> tuple[bytes, Imported]:
        async with statekeep.AsyncClient(client.connection.address) as one, statekeep.AsyncClient(target) as other:
            file = io.BytesIO()
            await one.admin.export(file, thread=filled)
            file.seek(0)
            return file.getvalue(), await other.admin.import_(file)

    file, done = asyncio.run(move())
    assert done == Imported(1, 10, 0, ())
    assert file == exported(client, thread=filled)


def test_an_import_begins_where_the_file_stands(client: statekeep.Client, filled: str, target: str) -> None:
    file = io.BytesIO(b"before" + exported(client, thread=filled))
    file.seek(6)
    with statekeep.Client(target) as other:
        assert other.admin.import_(file).restored == 1


@pytest.mark.parametrize("what", [{}, {"thread": "t", "scope": "s"}, {"thread": "t", "everything": True}])
def test_an_export_of_nothing_in_particular_is_refused(client: statekeep.Client, what: dict[str, Any]) -> None:
    file = io.BytesIO()
    with pytest.raises(errors.UsageError, match="one of thread, scope and everything"):
        client.admin.export(file, **what)
    assert file.getvalue() == b""


def test_what_the_server_refuses_leaves_the_file_alone(client: statekeep.Client) -> None:
    file = io.BytesIO()
    with pytest.raises(errors.InvalidFieldError):
        client.admin.export(file, thread=" t")
    assert file.getvalue() == b""


def test_progress_is_told(client: statekeep.Client, name: str, target: str) -> None:
    for number in range(8):
        client.state.append_next(name, statekeep.NewEvent("note", "x" * 200_000), branch=f"b{number}")
    told: list[Progress] = []
    file = io.BytesIO()
    done = client.admin.export(file, thread=name, progress=told.append)
    assert len(told) > 3
    assert told[-1].doing == "export"
    assert told[-1][1:3] == done[:2]
    told.clear()
    file.seek(0)
    with statekeep.Client(target) as other:
        other.admin.import_(file, progress=told.append)
    assert [one.doing for one in told] == sorted(one.doing for one in told)
    assert {one.doing for one in told} == {"check", "import"}
    assert told[-1][1:3] == (1, 8)
    sizes = [one.size for one in told if one.doing == "import"]
    assert sizes == sorted(sizes)


def test_a_damaged_file_is_refused_before_anything_is_imported(
    client: statekeep.Client, filled: str, target: str
) -> None:
    files = exported(client, scope=filled), exported(client, thread=filled)
    for file in files:
        broken = file.replace(b'"revision":1', b'"revision":2', 1)
        with statekeep.Client(target) as other:
            with pytest.raises(errors.ExportFileError, match=r"line [0-9]+: the checksum") as caught:
                other.admin.import_(io.BytesIO(broken))
            assert int(caught.value.metadata["line"]) == len(file.splitlines()) - 1
            assert list(other.state.threads()) == []


class Pipe(io.BytesIO):
    """A file that is read once."""

    def seekable(self) -> bool:
        return False


def test_of_a_pipe_what_came_before_the_damage_stays(client: statekeep.Client, name: str, target: str) -> None:
    for thread in ("a", "b"):
        client.state.append_next(name + thread, statekeep.NewEvent("note"))
    parts = [line.part for thread in ("a", "b") for line in read(io.BytesIO(exported(client, thread=name + thread)))]
    from statekeep._export_file import Writer

    file = io.BytesIO()
    writer = Writer(file)
    for part in parts:
        writer.write(part)
    with statekeep.Client(target) as other:
        with pytest.raises(errors.ExportFileError, match="cut short"):
            other.admin.import_(Pipe(file.getvalue()))
        assert [thread.id for thread in other.state.threads()] == [name + "a", name + "b"]
        writer.finish()
        assert other.admin.import_(Pipe(file.getvalue())) == Imported(0, 0, 2, ())


def test_another_thread_of_the_name_is_refused_or_skipped(client: statekeep.Client, filled: str, target: str) -> None:
    file = exported(client, thread=filled)
    with statekeep.Client(target) as other:
        other.state.append_next(filled, statekeep.NewEvent("mine"))
        with pytest.raises(errors.PartitionExistsError) as caught:
            other.admin.import_(io.BytesIO(file))
        assert caught.value.metadata["name"] == f"Thread {filled}"
        assert other.admin.import_(io.BytesIO(file), skip_existing=True) == Imported(0, 0, 0, (f"thread {filled}",))
        assert [event.type for event in other.state.history(filled)] == ["mine"]


class Broken(io.BytesIO):
    """A file that cannot be read."""

    def readline(self, size: int | None = -1) -> bytes:
        raise OSError(5, "Input/output error")


def test_an_error_of_the_file_reaches_the_caller(
    client: statekeep.Client, filled: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(OSError, match="Input/output"):
        client.admin.import_(Broken())

    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        client.admin.export(Full(), thread=filled)
    assert caplog.records == []


def test_what_progress_raises_reaches_the_caller(client: statekeep.Client, filled: str, target: str) -> None:
    def refuse(progress: Progress) -> None:
        raise LookupError(progress.doing)

    with pytest.raises(LookupError, match="export"):
        client.admin.export(io.BytesIO(), thread=filled, progress=refuse)
    with statekeep.Client(target) as other:
        with pytest.raises(LookupError, match="check"):
            other.admin.import_(io.BytesIO(exported(client, thread=filled)), progress=refuse)
        assert list(other.state.threads()) == []


class Waiting(io.BytesIO):
    """A pipe whose writer takes its time after the first line."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.waits = threading.Event()
        self.go_on = threading.Event()

    def seekable(self) -> bool:
        return False

    def readline(self, size: int | None = -1) -> bytes:
        if self.tell():
            self.waits.set()
            self.go_on.wait(20)
        return super().readline(size)


def test_an_import_can_be_cancelled_and_a_client_closed_under_it(
    client: statekeep.Client, filled: str, target: str
) -> None:
    file = exported(client, thread=filled)

    async def cancelled(pipe: Waiting) -> None:
        async with statekeep.AsyncClient(target) as other:
            task = asyncio.create_task(other.admin.import_(pipe))
            await asyncio.to_thread(pipe.waits.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    def closed(pipe: Waiting) -> None:
        other = statekeep.Client(target)
        closer = threading.Thread(target=lambda: (pipe.waits.wait(20), other.close()))
        closer.start()
        with pytest.raises(errors.ClosedError):
            other.admin.import_(pipe)
        closer.join(20)

    for run in (lambda pipe: asyncio.run(cancelled(pipe)), closed):
        pipe = Waiting(file)
        run(pipe)
        pipe.go_on.set()
    with statekeep.Client(target) as other:
        assert list(other.state.threads()) == []


def test_a_timeout_ends_an_import(client: statekeep.Client, filled: str) -> None:
    pipe = Waiting(exported(client, thread=filled))
    with pytest.raises(errors.DeadlineExceededError):
        client.admin.import_(pipe, timeout=0.2)
    pipe.go_on.set()


def test_an_export_from_a_server_that_goes_away_has_no_last_line(start_server: StartServer) -> None:
    process = start_server()
    with statekeep.Client(process.address) as client:
        for number in range(100):
            client.state.append_next("t", statekeep.NewEvent("note", "x" * 100_000), branch=f"b{number}")
        file = io.BytesIO()

        def stop(progress: Progress) -> None:
            process.process.kill()

        with pytest.raises(errors.UnavailableError):
            client.admin.export(file, thread="t", progress=stop)
    with pytest.raises(errors.ExportFileError, match="cut short"):
        list(read(io.BytesIO(file.getvalue())))


def test_a_part_of_a_newer_server_is_not_silently_left_out(play: Any) -> None:
    def newer(request: pb.AdminExportRequest, context: Any) -> Iterator[pb.AdminExportResponse]:
        yield pb.AdminExportResponse(parts=[pb.ExportedPart.FromString(b"\xfa\x07\x00")])

    with (
        statekeep.Client(play({"Admin.Export": newer})) as client,
        pytest.raises(errors.ExportFileError, match="newer client"),
    ):
        client.admin.export(io.BytesIO(), everything=True)


def test_a_file_on_disk_is_read_and_written(client: statekeep.Client, filled: str, target: str, tmp_path: Any) -> None:
    path = tmp_path / "thread.jsonl"
    with path.open("wb") as file:
        size = client.admin.export(file, thread=filled).size
    assert os.stat(path).st_size == size
    with path.open("rb") as file, statekeep.Client(target) as other:
        assert other.admin.import_(file).records == 10


@pytest.fixture
def on_disk(start_server: StartServer, tmp_path: Path) -> Iterator[statekeep.Client]:
    """A client of a server that keeps a thread in a file."""
    process = start_server("--store", f"sqlite:{tmp_path / 'state.db'}")
    with statekeep.Client(process.address) as client:
        for number in range(8):
            client.state.append_next("t", statekeep.NewEvent("note", "x" * 1_000_000), branch=f"b{number}")
        yield client


def test_a_backup_is_a_file_that_another_server_opens(
    on_disk: statekeep.Client, start_server: StartServer, tmp_path: Path
) -> None:
    told: list[Progress] = []
    path = tmp_path / "backup.db"
    with path.open("wb") as file:
        size = on_disk.admin.backup(file, progress=told.append)
    assert size == path.stat().st_size > 8_000_000
    assert [one.doing for one in told] == sorted((one.doing for one in told), key=("copy", "backup").index)
    assert {one.doing for one in told} == {"copy", "backup"}
    assert {one.total for one in told} == {size}
    sizes = [one.size for one in told if one.doing == "backup"]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == size
    with statekeep.Client(start_server("--store", f"sqlite:{path}").address) as other:
        assert exported(other, everything=True) == exported(on_disk, everything=True)


def test_the_asynchronous_client_backs_up_too(on_disk: statekeep.Client) -> None:
    async def back_up() -> bytes:
        async with statekeep.AsyncClient(on_disk.connection.address) as client:
            file = io.BytesIO()
            assert await client.admin.backup(file) == len(file.getvalue())
            return file.getvalue()

    assert asyncio.run(back_up()).startswith(b"SQLite format 3\0")


def test_a_server_without_a_file_has_an_error_of_its_own(client: statekeep.Client) -> None:
    file = io.BytesIO()
    with pytest.raises(errors.NotSupportedError, match="statekeep export --all"):
        client.admin.backup(file)
    assert file.getvalue() == b""


def test_a_backup_whose_file_fails_makes_room_for_the_next(on_disk: statekeep.Client) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        on_disk.admin.backup(Full())
    size = 0
    ends = time.monotonic() + 20
    while not size and time.monotonic() < ends:
        with suppress(errors.LimitReachedError):  # the server hears of the end a moment later
            size = on_disk.admin.backup(io.BytesIO())
    assert size > 8_000_000


@pytest.mark.parametrize("sent", [b"", b"half"])
def test_a_backup_that_is_shorter_than_was_said_is_none(play: Any, sent: bytes) -> None:
    def short(request: pb.AdminBackupRequest, context: Any) -> Iterator[pb.AdminBackupResponse]:
        yield pb.AdminBackupResponse(data=sent, size=8)

    with (
        statekeep.Client(play({"Admin.Backup": short})) as client,
        pytest.raises(errors.InternalError, match=f"{len(sent)} of 8 bytes"),
    ):
        client.admin.backup(io.BytesIO())
