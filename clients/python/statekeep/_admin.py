"""Admin as a client sees it: scopes and threads, whole, to a file and from one, and the server's file itself."""

# ruff: noqa: ASYNC109 # the timeout is gRPC's own deadline, which the server sees too

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, BinaryIO, Literal

import grpc

from statekeep import _sync
from statekeep._building import build
from statekeep._calls import Calls
from statekeep._export_file import Line, Writer, read
from statekeep._messages import scope_message
from statekeep._stored import time_of
from statekeep._waiting import Messages
from statekeep.errors import ExportFileError, InternalError, StatekeepError, UsageError
from statekeep.records import Exported, Imported, Progress, ScopeType, ServerInfo
from statekeep.v1 import admin_pb2, memory_pb2

_BATCH = 256 * 2**10  # bytes of lines that one message of an import is made of
_LINES_BEFORE = 2  # the first part is on line 2
_AT_PART = re.compile(r"parts\[([0-9]+)\]")


Report = Callable[[Progress], None]


class AsyncAdmin:
    """Moves scopes and threads, whole, between servers and files, and backs up a server's own file.

    Every ``timeout`` is in seconds, for the whole of it; None is none. Every call may raise a
    :class:`statekeep.StatekeepError`; what fails midway is not tried again by itself.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._stub = calls.connection.admin

    async def export(
        self,
        file: BinaryIO,
        *,
        thread: str | None = None,
        scope: str | None = None,
        scope_type: ScopeType = "namespace",
        everything: bool = False,
        progress: Report | None = None,
        timeout: float | None = None,
    ) -> Exported:
        """Writes a thread, a scope, or everything to a file: JSON Lines, see docs/export-format.md.

        Each is as it was at one moment; two of them need not be of the same moment. A file whose export did not
        end well has no last line, and an import refuses it. Of a thread or scope that is not there nothing is
        written.

        Args:
            file: Opened for bytes. It is written to between two messages, on the event loop where there is one.
            thread: The thread to export, or
            scope: the scope, or
            everything: True for every thread and scope. Give one of the three.
            scope_type: The scope's type.
            progress: Called as it goes on.
            timeout: Seconds.
        """
        if (thread is not None) + (scope is not None) + bool(everything) != 1:
            raise UsageError("give one of thread, scope and everything=True")
        if thread is not None:
            request = build(admin_pb2.AdminExportRequest, thread_id=thread)
        elif scope is not None:
            request = build(admin_pb2.AdminExportRequest, scope=scope_message(scope, scope_type))
        else:
            request = admin_pb2.AdminExportRequest(all=True)
        writer = Writer(file)
        with self._stream(self._stub.Export, request, timeout) as messages:
            while (message := await messages.next()) is not None:
                for part in message.parts:
                    writer.write(part)
                if progress:
                    progress(Progress("export", writer.partitions, writer.records, writer.size))
        if writer.partitions or everything:
            writer.finish()
        return Exported(writer.partitions, writer.records, writer.size)

    async def import_(
        self,
        file: BinaryIO,
        *,
        skip_existing: bool = False,
        progress: Report | None = None,
        timeout: float | None = None,
    ) -> Imported:
        """Brings in what an export wrote. Running it again after it broke off completes it.

        A file that can be read twice is checked first, and nothing is imported of one that is damaged or cut short. Of
        a pipe, each scope and thread is checked before it comes in, and those before the damage stay.

        Args:
            file: Opened for bytes. It is read by a thread of its own.
            skip_existing: Whether to pass over scopes and threads that are there already and hold something else.
            progress: Called as it goes on, from that thread.
            timeout: Seconds.

        Raises:
            ExportFileError: The file cannot be imported: ``line`` in the metadata says where it is wrong.
            PartitionExistsError: A scope or thread is there already, and holds something else. It was left as it is,
                those before it came in, those after it did not.
        """
        source = _Source(file, skip_existing, progress)
        done = _Done()
        try:
            with self._stream(self._stub.Import, iter(source), timeout) as messages:
                while (message := await messages.next()) is not None:
                    for partition in message.partitions:
                        done.add(partition)
        except StatekeepError as error:
            raise (source.error or _with_line(error)) from None
        if source.error:
            raise source.error
        return Imported(done.restored, done.records, done.unchanged, tuple(done.skipped))

    async def backup(self, file: BinaryIO, *, progress: Report | None = None, timeout: float | None = None) -> int:
        """Writes a copy of the server's own file, all scopes and threads as they were at one moment.

        Another server can be started on it: see docs/operations.md. Where this fails, what was written is no backup.

        Args:
            file: Opened for bytes. It is written to between two messages, on the event loop where there is one.
            progress: Called as it goes on.
            timeout: Seconds.

        Returns:
            How many bytes were written.

        Raises:
            NotSupportedError: The server keeps nothing in a file. Export everything instead.
            LimitReachedError: Another backup is under way.
            StoreUnavailableError: The server has no room for the copy that it makes, or its file is damaged.
        """
        written = size = 0
        with self._stream(self._stub.Backup, admin_pb2.AdminBackupRequest(), timeout) as messages:
            while (message := await messages.next()) is not None:
                file.write(message.data)
                written += len(message.data)
                size = message.size
                if progress:
                    doing: Literal["copy", "backup"] = "backup" if written else "copy"
                    progress(Progress(doing, 0, 0, written or message.copied, size))
        if not 0 < written == size:
            raise InternalError(f"the server sent {written} of {size} bytes, and no error")
        return written

    async def info(self, *, timeout: float | None = None) -> ServerInfo:
        """What the server is, and what it takes: its version, engine, limits, how long it is up.

        Args:
            timeout: Seconds; None is the client's.
        """
        answer = await self._calls.answer(self._stub.GetInfo, admin_pb2.AdminGetInfoRequest(), timeout)
        return ServerInfo(
            version=answer.version,
            engine=answer.engine,
            start_time=time_of(answer.start_time),
            uptime=answer.uptime.ToTimedelta(),
            limits=MappingProxyType({limit.name: limit.value for limit in answer.limits}),
            capabilities=frozenset(answer.capabilities),
        )

    @contextmanager
    def _stream(self, method: Any, request: Any, timeout: float | None) -> Iterator[Messages[Any]]:
        """A stream that ends with the context, and fails with the errors of this package."""
        messages = self._calls.messages(method, request, timeout, reopened=False)
        try:
            yield messages
        except grpc.RpcError as failure:
            raise self._calls.error_of(failure) from None
        finally:
            messages.cancel()
            messages.join()


class _Done:
    """What became of the partitions so far."""

    def __init__(self) -> None:
        self.restored = self.records = self.unchanged = 0
        self.skipped: list[str] = []

    def add(self, partition: admin_pb2.ImportedPartition) -> None:
        """Counts one."""
        if partition.outcome == admin_pb2.IMPORT_OUTCOME_RESTORED:
            self.restored += 1
            self.records += partition.records
        elif partition.outcome == admin_pb2.IMPORT_OUTCOME_UNCHANGED:
            self.unchanged += 1
        else:
            self.skipped.append(_name(partition))


class _Source:
    """The messages of an import. gRPC iterates over them on a thread of its own, and would log what it raises there."""

    def __init__(self, file: BinaryIO, skip_existing: bool, progress: Report | None) -> None:
        self._file = file
        self._skip_existing = skip_existing
        self._progress = progress
        self.error: Exception | None = None
        """What ended the messages early."""

    def __iter__(self) -> Iterator[admin_pb2.AdminImportRequest]:
        try:
            if self._file.seekable():
                start = self._file.tell()
                for _ in self._batches("check"):
                    pass
                self._file.seek(start)
            for batch in self._batches("import"):
                yield admin_pb2.AdminImportRequest(
                    parts=[line.part for line in batch], skip_existing=self._skip_existing
                )
        except Exception as error:  # noqa: BLE001 (raised again by who waits for the answers)
            self.error = error

    def _batches(self, doing: Literal["check", "import"]) -> Iterator[list[Line]]:
        """Yields lines, as many as one message takes. Of a damaged file those before the damage come too."""
        batch: list[Line] = []
        room = _BATCH
        try:
            for line in self._lines(doing):
                if batch and line.size > room:
                    yield batch
                    batch, room = [], _BATCH
                batch.append(line)
                room -= line.size
        except ExportFileError:
            yield batch
            raise
        yield batch

    def _lines(self, doing: Literal["check", "import"]) -> Iterator[Line]:
        """Yields the lines, and tells how far that has come."""
        partitions = records = size = told = 0
        for line in read(self._file):
            yield line
            size += line.size
            if line.part.HasField("end"):
                partitions += 1
                records += line.part.end.records
            if self._progress and size >= told + _BATCH:
                self._progress(Progress(doing, partitions, records, size))
                told = size
        if self._progress:
            self._progress(Progress(doing, partitions, records, size))


def _name(partition: admin_pb2.ImportedPartition) -> str:
    """What an import calls a scope or thread."""
    if partition.HasField("scope"):
        kind = memory_pb2.ScopeType.Name(partition.scope.type).removeprefix("SCOPE_TYPE_").lower()
        return f"scope {partition.scope.name} ({kind})"
    return f"thread {partition.thread_id}"


def _with_line(error: StatekeepError) -> StatekeepError:
    """The error with the line of the file that is at fault, where it names a part."""
    for path in error.fields:
        if match := _AT_PART.match(path):
            line = int(match[1]) + _LINES_BEFORE
            return ExportFileError(
                f"line {line}: {error.message}",
                reason=error.reason,
                metadata={**error.metadata, "line": str(line)},
                fields=error.fields,
            )
    return error


class Admin:
    """As :class:`AsyncAdmin`, blocking."""

    def __init__(self, calls: Calls) -> None:
        self._methods = AsyncAdmin(calls)

    export = _sync.call(AsyncAdmin.export)
    import_ = _sync.call(AsyncAdmin.import_)
    backup = _sync.call(AsyncAdmin.backup)
    info = _sync.call(AsyncAdmin.info)
