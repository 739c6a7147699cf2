"""A copy of the file as it was at one moment, made beside it while others read and write, and then read from there."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NamedTuple, TypeVar

import apsw

from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.engines.sqlite_file import StoreFile, why

Answer = TypeVar("Answer")

PAGES_AT_ONCE = 1_024
"""Pages, of 4 KiB, that one step copies: some 10 ms, after which a caller that is gone can end it."""
_OPERATIONS = 10_000  # of SQLite, between two looks whether the check is still wanted

log = logging.getLogger(__name__)


class SqliteBackup:
    """A copy of the file. Each step runs on a thread that nobody else waits for.

    The source is read within one read transaction: so the copy is of one moment, and does not begin anew with each
    commit of the writer, as SQLite's backup otherwise does.
    """

    def __init__(self, file: StoreFile, gone: Callable[[Any], None]) -> None:
        self.size = 0
        self.copied = 0
        self._file = file
        self._gone = gone
        self._lock = Lock()  # a step whose caller was cancelled may still be under way
        self._ended = False  # set at once, for a step that is under way
        self._released = False
        self._open = ExitStack()
        self._copying: _Copying | None = None
        self._copy: BinaryIO = BytesIO()  # nothing, until the copy is whole

    async def copy(self) -> bool:
        """Copy some more; True once the copy is whole, sound, and ready to be read."""
        return await self._step(self._copy_on)

    async def read(self, size: int) -> bytes:
        """Return the next bytes of the copy, none at its end."""
        return await self._step(lambda: self._copy.read(size))

    async def close(self) -> None:
        """End it, and leave nothing of the copy. It may be closed twice."""
        # Whoever closes it since a message could not be sent is cancelled next, and would take the thread's job along.
        await asyncio.shield(asyncio.to_thread(self.release))

    def release(self) -> None:
        """End it, once a step that is under way is over."""
        self._ended = True
        with self._lock:
            if self._released:
                return  # the next one may be at it already
            self._released = True
            try:
                self._open.close()
                self._file.remove_copy()
            finally:
                self._gone(self)

    async def _step(self, step: Callable[[], Answer]) -> Answer:
        def locked() -> Answer:
            with self._lock:
                if self._ended:
                    raise _impossible("the store is closed")
                return step()

        try:
            return await asyncio.to_thread(locked)
        except apsw.Error as error:
            log.error("no backup could be made: %s", error)
            raise _impossible(why(error)) from error
        except OSError as error:
            log.error("no backup could be made: %s", error)
            raise _impossible(error.strerror or "the disk failed") from error

    def _copy_on(self) -> bool:
        if self._copying is None:
            self._copying = self._begin()
        copying = self._copying
        copying.backup.step(PAGES_AT_ONCE)
        self.copied = self.size - self.size * copying.backup.remaining // max(1, copying.backup.page_count)
        if not copying.backup.done:
            return False
        self._finish(copying)
        return True

    def _begin(self) -> "_Copying":
        source = self._file.connect(writing=False)
        self._open.callback(source.close, True)
        source.execute("BEGIN; SELECT 1 FROM file").fetchall()  # the read begins the transaction
        self.size = source.pragma("page_count") * source.pragma("page_size")
        _check_room(self._file.path.parent, self.size)
        target = self._file.create_copy()
        self._open.callback(target.close, True)
        backup = target.backup("main", source, "main")
        self._open.callback(backup.close, True)
        return _Copying(source, target, backup)

    def _finish(self, copying: "_Copying") -> None:
        """Check the copy and make it ready to be read. Its name goes at once, so that nothing can leave it behind."""
        copying.backup.finish()
        copying.source.close()  # from here on the log beside the file can be folded into it again
        copying.target.set_progress_handler(lambda: self._ended, _OPERATIONS)
        copying.target.pragma("journal_mode", "delete")  # the mark of a copy: see StoreFile
        found = copying.target.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            log.error("the store is damaged: %s", found)
            raise _impossible("the store is damaged; restore an earlier backup, or export what can be read")
        copying.target.close()
        self._copy = self._open.enter_context(self._file.open_copy())
        self._file.remove_copy()


class _Copying(NamedTuple):
    source: apsw.Connection
    target: apsw.Connection
    backup: apsw.Backup


def _check_room(directory: Path, size: int) -> None:
    """Refuse a copy that would fill the disk, which those who write need too."""
    disk = os.statvfs(directory)
    free = disk.f_bavail * disk.f_frsize
    if size >= free:
        raise _impossible(f"the copy takes {size} bytes beside the store for a while, and {free} are free")


def _impossible(what: str) -> StatekeepError:
    return StatekeepError(Reason.STORE_UNAVAILABLE, "No backup can be made: {what}", what=what)
