"""Plain counts, which cost a call next to nothing; what they mean to Prometheus is made of them at a scrape."""

from bisect import bisect_left
from collections.abc import Sequence


class Distribution:
    """How many values fell between which bounds. To be noted from one thread at a time."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = tuple(bounds)
        """The highest value of each bucket but the last, which has none."""
        self.counts = [0] * (len(bounds) + 1)
        """How many values each bucket has."""
        self.total = 0
        """The sum of all values."""

    def note(self, value: int) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> "Distribution":
        """Return it as it is now."""
        copy = Distribution(self.bounds)
        copy.counts, copy.total = list(self.counts), self.total
        return copy
