"""The command that copies a server's file while it serves: backup."""

import argparse
import fcntl
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from statekeep_server.cli.progress import ProgressLine
from statekeep_server.cli.talk import Commands, add_command, fail

if TYPE_CHECKING:
    from statekeep import Client


def add(commands: Commands) -> None:
    """Add the command."""
    backup = add_command(
        commands, "backup", backup_to, "copy the file that a server keeps all in", records=False, in_parts=True
    )
    backup.add_argument("path", type=Path, metavar="PATH", help="the file to write, on this side of the connection")
    backup.add_argument("--force", action="store_true", help="replace PATH where it is there")


def backup_to(client: "Client", options: argparse.Namespace) -> int:
    """Copy the file of a server that was started with --store sqlite:…, while it serves.

    The copy is of one moment, and checked. It is put at PATH once it is whole, and never in part; a server can be
    started on it: statekeep serve --store sqlite:PATH. One that keeps all in memory has no file: use export --all.
    """
    # What ends a job that takes too long must not leave the half of a file behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    path = Path(os.path.realpath(options.path))
    if options.path == Path("-"):
        return fail("statekeep backup: a backup is not written to stdout; give the path of a file")
    if reason := _why_not(path, force=options.force):
        return fail(f"statekeep backup: {options.path} {reason}")
    try:
        with _in_place(path, replace=options.force) as file, closing(ProgressLine(sys.stderr)) as line:
            size = client.admin.backup(file, progress=line)
    except FileExistsError:
        return fail(f"statekeep backup: {options.path} was made meanwhile, and is left as it is; give another path")
    except OSError as error:
        return fail(f"statekeep backup: {options.path} cannot be written: {error.strerror}")
    print(f"{size} bytes are in {options.path}")
    return 0


def _why_not(path: Path, *, force: bool) -> str:
    """Return why a file may not be written; empty where it may."""
    from statekeep_server.engines.sqlite_file import BESIDE

    if path.name.endswith(BESIDE):  # to replace it would lose what was written last, or let two servers at the file
        return "has the name of what stands beside a store; give another path, such as backup.db"
    if path.is_dir():
        return f"is a directory; give the path of a file in it, such as {path / 'backup.db'}"
    if not path.parent.is_dir():
        return f"cannot be written: there is no directory {path.parent}; make it first"
    if path.exists() and not path.is_file():
        return "is no regular file"
    if path.exists() and not force:
        return "is there already; give another path, or --force to replace it"
    if _is_held(path):
        return "is the file of a server that runs; give another path"
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        return f"cannot be written: {log} beside it belongs to a file that was there before; give another path"
    return ""


def _is_held(path: Path) -> bool:
    """Whether a server has a file, by the lock that it holds on another beside it."""
    try:
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def _in_place(path: Path, *, replace: bool) -> Iterator[BinaryIO]:
    """Give a file that comes to its path once it is whole and on disk, and is gone where the block fails."""
    descriptor, name = tempfile.mkstemp(".partial", f".{path.name}.", path.parent)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not replace:
            _reserve(path, name)
        os.replace(name, path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _reserve(path: Path, name: str) -> None:
    """Take a path that nobody has; FileExistsError where somebody does."""
    try:
        os.link(name, path)  # whole at once, so that nobody ever sees an empty file
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
