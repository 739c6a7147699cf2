"""What the machine, or the container, lets this process have."""

from collections.abc import Iterable
from pathlib import Path

_FILES = ("memory.max", "memory/memory.limit_in_bytes")  # of cgroup v2, and of v1
_CGROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 2**60  # v1 writes a number near 2**63 where there is none


def memory_limit(directory: Path = _CGROUPS, files: Iterable[str] = _FILES) -> int:
    """Return the bytes of memory that this process's container may take; 0 where that is not limited or not known."""
    for name in files:
        try:
            given = (directory / name).read_text().strip()
        except OSError:
            continue
        if given.isdecimal() and int(given) < _NO_LIMIT:
            return int(given)
    return 0
