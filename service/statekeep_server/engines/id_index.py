"""An index from ids to places that costs about 10 bytes an id, and never has to be rebuilt as a whole."""

from array import array
from collections.abc import Iterator

_LOAD = 32  # ids a bucket holds on average before another is added


def mark_of(id: str) -> int:  # noqa: A002 (the field's name in the contract)
    """Return what stands for an id: 32 bits of its hash."""
    return hash(id) & 0xFFFFFFFF


def places_of(id: str, marks: "array[int]") -> Iterator[int]:  # noqa: A002 (the field's name in the contract)
    """Yield the places at which an id's mark stands."""
    mark, at = mark_of(id), -1
    for _ in range(marks.count(mark)):
        at = marks.index(mark, at + 1)
        yield at


class IdIndex:
    """Places by their id's hash, in buckets of a linear hash table: it grows by one bucket at a time.

    It keeps no ids: `find` gives the places that may be meant, and the caller looks at what is there.
    Source: W. Litwin, "Linear hashing: a new tool for file and table addressing", VLDB 1980.
    """

    __slots__ = ("_buckets", "_count", "_mask")

    def __init__(self) -> None:
        self._buckets: list[tuple[array[int], array[int]]] = [(array("I"), array("I"))]
        self._count = 0
        self._mask = 0  # of the round under way: buckets below len - mask - 1 are split already

    def add(self, mark: int, place: int) -> None:
        """Remember where an id is, by its mark."""
        marks, places = self._buckets[self._bucket(mark)]
        marks.append(mark)
        places.append(place)
        self._count += 1
        if self._count > _LOAD * len(self._buckets):
            self._split()

    def find(self, id: str) -> Iterator[int]:  # noqa: A002 (the field's name in the contract)
        """Yield the places where an id may be."""
        marks, places = self._buckets[self._bucket(mark_of(id))]
        return (places[at] for at in places_of(id, marks))

    def _bucket(self, mark: int) -> int:
        bucket = mark & (self._mask << 1 | 1)
        return bucket if bucket < len(self._buckets) else mark & self._mask

    def _split(self) -> None:
        buckets, mask = self._buckets, self._mask
        lower = len(buckets) - mask - 1
        upper = len(buckets)
        wider = mask << 1 | 1
        parts = {lower: (array("I"), array("I")), upper: (array("I"), array("I"))}
        for mark, place in zip(*buckets[lower], strict=True):
            marks, places = parts[mark & wider]
            marks.append(mark)
            places.append(place)
        buckets.append(parts[upper])
        buckets[lower] = parts[lower]
        if len(buckets) == wider + 1:
            self._mask = wider
