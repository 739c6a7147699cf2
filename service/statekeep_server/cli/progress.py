"""A line on a terminal that says how far something has come."""

import shutil
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from statekeep.records import Progress

_EVERY = 0.1  # seconds between two looks of the line
_BAR = 24  # characters
_DOING = {"export": "exported", "check": "checked", "import": "imported", "copy": "copied", "backup": "backed up"}


class ProgressLine:
    """The line, written again over itself; nothing where the output is no terminal.

    `total` is how many bytes there are to go through, 0 where that is not known.
    """

    def __init__(self, output: TextIO, total: int = 0) -> None:
        self._output = output
        self._total = total
        self._shown_at = 0.0
        self._on = output.isatty()

    def __call__(self, progress: "Progress") -> None:
        """Show how far it has come."""
        now = time.monotonic()
        if not self._on or now < self._shown_at + _EVERY:
            return
        self._shown_at = now
        self._write(f"{_bar(progress.size, progress.total or self._total)}{_line(progress)}")

    def close(self) -> None:
        """Take the line away."""
        if self._shown_at:
            self._write("")

    def _write(self, text: str) -> None:
        # To the start of the line, and clear what was there; what did not fit one line could not be cleared.
        self._output.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
        self._output.flush()


def _bar(size: int, total: int) -> str:
    if not total:
        return ""
    part = min(1.0, size / total)
    return f"[{'#' * round(part * _BAR):<{_BAR}}] {part:4.0%}  "


def _line(progress: "Progress") -> str:
    done = f"{_DOING[progress.doing]} "
    if progress.doing not in ("copy", "backup"):
        done += f"{progress.partitions:,} scopes and threads, {progress.records:,} records, "
    return f"{done}{progress.size / 1e6:,.1f} MB"
