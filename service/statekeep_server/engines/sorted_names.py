"""A sorted set of names that is read without a lock: what a reader holds never changes."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache

_BLOCK = 512


class SortedNames:
    """Sorted names in blocks of a few hundred, each replaced as a whole by the one writer at a time.

    sortedcontainers.SortedSet does the same, but changes in place, so readers on other threads would need the lock.
    """

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: tuple[tuple[str, ...], ...] = ()

    def add(self, name: str) -> None:
        """Add a name that is not there."""
        blocks = self._blocks
        if not blocks:
            self._blocks = _alone(name)
            return
        at = max(0, bisect_right(blocks, name, key=_first) - 1)
        block = blocks[at]
        place = bisect_left(block, name)
        grown = (*block[:place], name, *block[place:])
        half = len(grown) // 2
        parts = (grown[:half], grown[half:]) if len(grown) > _BLOCK else (grown,)
        self._blocks = (*blocks[:at], *parts, *blocks[at + 1 :])

    def discard(self, name: str) -> None:
        """Remove a name where it is there."""
        blocks = self._blocks
        at = max(0, bisect_right(blocks, name, key=_first) - 1)
        if not blocks or name not in blocks[at]:
            return
        rest = tuple(other for other in blocks[at] if other != name)
        self._blocks = (*blocks[:at], *((rest,) if rest else ()), *blocks[at + 1 :])

    def after(self, name: str, prefix: str) -> Iterator[str]:
        """Yield the names that start with `prefix` and are greater than `name`, as they are now."""
        blocks = self._blocks
        start = max(name, prefix)
        at = max(0, bisect_right(blocks, start, key=_first) - 1)
        for block in blocks[at:]:
            for other in block[bisect_left(block, start) :]:
                if not other.startswith(prefix):
                    return
                if other != name:
                    yield other


@lru_cache(maxsize=64)
def _alone(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the blocks of one name. Most threads have the same, of the main branch, and share this."""
    return ((name,),)


def _first(block: tuple[str, ...]) -> str:
    return block[0]
