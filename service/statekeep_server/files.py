"""Files that hold secrets and are read again when they change."""

import logging
import os
import stat
from pathlib import Path
from typing import TypeAlias

from statekeep_server.config import ConfigError

Stamp: TypeAlias = "tuple[int, int, int, int] | None"
"""What changes when a file does; None where there is none."""

log = logging.getLogger(__name__)


def stamp(path: Path) -> Stamp:
    """Return a file's stamp: one system call, which follows links, as those that a Kubernetes secret is made of."""
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


class UnreadableError(ConfigError):
    """A file that cannot be read now, and perhaps can a moment later."""


def read(path: Path, flag: str) -> bytes:
    """Return what a file holds; UnreadableError, which names the setting, where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableError(f"{flag}: {path} cannot be read: {error.strerror}") from error


def warn_where_open(path: Path, flag: str) -> None:
    """Log a warning where every user of the machine may read a file, or change it."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        log.warning("%s: every user of this machine may read or change %s; chmod o-rw it", flag, path)
