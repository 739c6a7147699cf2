"""Counting all that an engine keeps: not at every write, but when it is asked for, and rarely where it takes long."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

REST = 50  # times as long as counting took, before it is counted again: 2% of a processor at most


class Counted(NamedTuple):
    """What was counted: partitions by the first character of their names, records, and their bytes."""

    partitions: Mapping[str, int]
    records: int
    bytes: int


class Tally:
    """The last count, for as long as it may be told again."""

    def __init__(self) -> None:
        self._last = Counted({}, 0, 0)
        self._until = 0.0

    async def counted(self, count: Callable[[], Awaitable[tuple[Mapping[str, int], int, int]]]) -> Counted:
        """Return a count, made anew where the last one is not new enough."""
        begun = time.perf_counter()
        if begun >= self._until:
            self._last = Counted(*await count())
            now = time.perf_counter()
            self._until = now + REST * (now - begun)
        return self._last
