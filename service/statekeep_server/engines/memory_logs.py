"""The two forms in which the in-memory engine keeps a log.

One writer at a time changes a log. A reader beside it may see anything, or fail: it reads again, see memory.py.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from statekeep_server.core.journal import Chunk, LogState, Record
from statekeep_server.core.wire import RECORD_TAG, body, field, varint
from statekeep_server.engines.id_index import IdIndex, mark_of, places_of

SEGMENT = 256 * 2**10
"""Bytes in a sealed segment, about: one message of a stream."""

_REVISION = b"\x20"  # StreamHistoryResponse.revision, field 4
_revision_of = attrgetter("revision")
_number_of = attrgetter("number")
_id_of = attrgetter("id")
_FEW = 64  # records that are looked through; and where one record in so many goes, each is looked up
_NO_ENDS = array("I")  # one for all: an array takes 80 bytes, and most logs never seal a segment


class RecordLog:
    """A log of records as objects, from which some may be trimmed: a key's versions, checkpoints, branches."""

    __slots__ = ("_by_number", "_ids", "alive", "born", "number", "records", "trimmed")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.number = 0
        """The highest number there ever was."""
        self.trimmed = 0
        """The highest number of a record that was trimmed."""
        self.born = 0
        """The revision of the first record ever."""
        self.alive = False
        """Whether the head is there and not deleted; kept by the partition, which counts them."""
        self._by_number: list[Record] | None = None  # None while the records are in this order themselves
        self._ids: dict[str, Record] | None = None

    def append(self, record: Record) -> None:
        """Add a record."""
        self.born = self.born or record.revision
        if record.id:
            self._ids = self._ids or {}
            self._ids[record.id] = record
        records = self.records
        if self._by_number is None and records and record.number < records[-1].number:
            self._by_number = sorted(records, key=_number_of)
        if self._by_number is not None:
            place = bisect_right(self._by_number, record.number, key=_number_of)
            self._by_number.insert(place, record)
        records.append(record)
        self.number = max(self.number, record.number)

    def restore(self, state: LogState) -> None:
        """Become what a log was that lost records; those that it still had are appended after this."""
        self.trimmed = self.number = state.trimmed
        self.born = state.born

    def trim(self, revisions: AbstractSet[int]) -> None:
        """Take away the records with these revisions, which are all there."""
        records = self.records
        if records[len(revisions) - 1].revision == max(revisions):  # the oldest, as a limit of versions takes them
            gone = records[: len(revisions)]
            del records[: len(revisions)]
            if self._by_number is not None:
                self._by_number = sorted(records, key=_number_of)
        elif len(revisions) * _FEW < len(records):
            places = [bisect_left(records, revision, key=_revision_of) for revision in sorted(revisions, reverse=True)]
            gone = [records.pop(place) for place in places]
            self._unsort(gone)
        else:
            gone = [record for record in records if record.revision in revisions]
            self.records = [record for record in records if record.revision not in revisions]
            if self._by_number is not None:
                self._by_number = sorted(self.records, key=_number_of)
        for record in gone:
            self.trimmed = max(self.trimmed, record.number)
            if self._ids and self._ids.get(record.id) is record:
                del self._ids[record.id]

    def _unsort(self, gone: Iterable[Record]) -> None:
        by_number = self._by_number
        if by_number is None:
            return
        for record in gone:
            place = bisect_left(by_number, record.number, key=_number_of)
            while by_number[place] is not record:
                place += 1
            del by_number[place]

    @property
    def named(self) -> bool:
        """Whether any record may be found by an id."""
        return self._ids is not None

    def count(self) -> int:
        """Return how many records there are."""
        return len(self.records)

    def head(self) -> Record | None:
        """Return the newest record; None where one with a higher number was trimmed."""
        return self.records[-1] if self.records and self.records[-1].number > self.trimmed else None

    def upto(self, number: int) -> Record | None:
        """Return the record with the highest number not above `number`, of equals the newest."""
        records = self.records if self._by_number is None else self._by_number
        place = bisect_right(records, number, key=_number_of)
        return records[place - 1] if place else None

    def find(self, id: str) -> Record | None:  # noqa: A002 (the field's name in the contract)
        """Return the record with this id."""
        return self._ids.get(id) if self._ids else None

    def scan(self, after: int, until: int, newest_first: bool) -> Iterator[Record]:
        """Yield the records with after < revision <= until."""
        records = self.records
        start = bisect_right(records, after, key=_revision_of)
        stop = bisect_right(records, until, key=_revision_of)
        places = range(stop - 1, start - 1, -1) if newest_first else range(start, stop)
        return (records[place] for place in places)


class _Sealed(NamedTuple):
    """The segments, `stops` being the place after each one's last record."""

    segments: tuple[bytes, ...]
    stops: tuple[int, ...]

    @property
    def records(self) -> int:
        """How many records are in segments."""
        return self.stops[-1] if self.stops else 0


_NOTHING = _Sealed((), ())


class EventLog:
    """A log that is only appended to, as the bytes of the messages that a stream sends.

    The newest records are frames in a list, the *tail*. When it reaches 256 KiB it is sealed: its frames become one
    segment, a whole StreamHistoryResponse with its revision, which is then sent without a copy.
    """

    __slots__ = (
        "_ends",
        "_first",
        "_ids",
        "_last_tail_chunk",
        "_numbers",
        "_revisions",
        "_sealed",
        "_tail",
        "_tail_size",
        "born",
        "name",
        "number",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.born = 0
        self._first = 0
        self._numbers: array[int] | None = None  # None while they count up from `_first` without a gap
        self._revisions = array("q")
        self._sealed = _NOTHING
        self._tail: list[bytes] = []
        self._ends = _NO_ENDS  # where each sealed record ends in its segment
        self._tail_size = 0
        self._ids: array[int] | IdIndex | None = None  # the marks of few records by place, or an index of many
        self._last_tail_chunk: tuple[int, int, Chunk] | None = None

    def append(self, record: Record) -> None:
        """Add a record."""
        if not self.born:
            self._begin(record)
        if self._tail_size and self._tail_size + len(record.frame) > SEGMENT:
            self._seal()
        place = len(self._revisions)
        if record.id:
            self._index(record.id, place)
        number = record.number
        if self._numbers is None and number != self._first + place:
            self._numbers = array("q", range(self._first, self._first + place))
        if self._numbers is not None:
            self._numbers.append(number)
        self._tail.append(record.frame)
        self._tail_size += len(record.frame)
        self._revisions.append(record.revision)
        if number > self.number:
            self.number = number

    def extend(self, records: Sequence[Record]) -> int:
        """Add records, and return how many bytes their frames take."""
        if not self.born:
            self._begin(records[0])
        frames = [record.frame for record in records]
        size = sum(map(len, frames))
        following = range(self.number + 1, self.number + 1 + len(records))
        if (
            self._numbers is not None
            or self._tail_size + size > SEGMENT
            or any(map(_id_of, records))
            or list(map(_number_of, records)) != list(following)
        ):
            for record in records:
                self.append(record)
            return size
        self._tail += frames
        self._tail_size += size
        self._revisions.extend(map(_revision_of, records))
        self.number = following[-1]
        return size

    @property
    def named(self) -> bool:
        """Whether any record may be found by an id."""
        return self._ids is not None

    def count(self) -> int:
        """Return how many records there are."""
        return len(self._revisions)

    def size(self) -> int:
        """Return how many bytes the frames take."""
        return sum(map(len, self._sealed.segments)) + self._tail_size

    def find(self, id: str) -> Record | None:  # noqa: A002 (the field's name in the contract)
        """Return the record with this id."""
        ids = self._ids
        if ids is None:
            return None
        start = field(RECORD_TAG, id.encode())  # an id is field 1 of its message, and comes first
        for place in ids.find(id) if isinstance(ids, IdIndex) else places_of(id, ids):
            record = self._record(place)
            if body(record.frame).startswith(start):
                return record
        return None

    def scan(self, after: int, until: int, newest_first: bool) -> Iterator[Record]:
        """Yield the records with after < revision <= until."""
        start, stop = bisect_right(self._revisions, after), bisect_right(self._revisions, until)
        places = range(stop - 1, start - 1, -1) if newest_first else range(start, stop)
        return map(self._record, places)

    def back(self, count: int, until: int) -> tuple[int, int]:
        """Count back from a revision: how many records there were, and the revision before the first of them."""
        stop = bisect_right(self._revisions, until)
        start = max(0, stop - count)
        return stop - start, self._revisions[start] - 1 if start < stop else until

    def chunk(self, after: int, until: int, count: int | None) -> Chunk | None:
        """Return the first records with after < revision <= until, about 256 KiB and `count` at most."""
        start, stop = bisect_right(self._revisions, after), bisect_right(self._revisions, until)
        if start >= stop:
            return None
        limit = stop if count is None else min(stop, start + count)
        sealed = self._sealed
        if start >= sealed.records:
            return self._tail_chunk(start, limit, complete=limit == stop)
        segment = bisect_right(sealed.stops, start)
        limit = min(limit, sealed.stops[segment])
        return Chunk(
            self._slice(sealed, segment, start, limit),
            limit - start,
            self._revisions[limit - 1],
            limit == stop,
        )

    def _begin(self, first: Record) -> None:
        self.born = first.revision
        self._first = first.number
        self.number = first.number - 1

    def _index(self, id: str, place: int) -> None:  # noqa: A002 (the field's name in the contract)
        ids = self._ids
        if isinstance(ids, IdIndex):
            ids.add(mark_of(id), place)
            return
        if ids is None:
            ids = self._ids = array("I")
        ids.extend([0] * (place - len(ids)))  # records without an id in between
        ids.append(mark_of(id))
        if place >= _FEW:
            self._ids = IdIndex()
            for known, mark in enumerate(ids):
                self._ids.add(mark, known)

    def _slice(self, sealed: _Sealed, segment: int, start: int, limit: int) -> bytes:
        first = sealed.stops[segment - 1] if segment else 0
        if (start, limit) == (first, sealed.stops[segment]):
            return sealed.segments[segment]
        begin = self._ends[start - 1] if start > first else 0
        frames = sealed.segments[segment][begin : self._ends[limit - 1]]
        return frames + _REVISION + varint(self._revisions[limit - 1])

    def _tail_chunk(self, start: int, limit: int, *, complete: bool) -> Chunk:
        # Many followers ask for the same few records, so the last answer is kept.
        last = self._last_tail_chunk
        if last and last[:2] == (start, limit):
            return last[2]._replace(complete=complete)
        revision = self._revisions[limit - 1]
        before = self._sealed.records
        message = b"".join(self._tail[start - before : limit - before]) + _REVISION + varint(revision)
        chunk = Chunk(message, limit - start, revision, complete)
        self._last_tail_chunk = (start, limit, chunk)
        return chunk

    def _seal(self) -> None:
        segments, stops = self._sealed
        message = b"".join(self._tail) + _REVISION + varint(self._revisions[-1])
        if not stops:
            self._ends = array("I")
        self._ends.extend(accumulate(map(len, self._tail)))
        self._sealed, self._tail = _Sealed((*segments, message), (*stops, len(self._revisions))), []
        self._tail_size = 0
        self._last_tail_chunk = None

    def _record(self, place: int) -> Record:
        number = self._first + place if self._numbers is None else self._numbers[place]
        return Record("", self._revisions[place], number, self._frame(place))

    def _frame(self, place: int) -> bytes:
        sealed = self._sealed
        if place >= sealed.records:
            return self._tail[place - sealed.records]
        segment = bisect_right(sealed.stops, place)
        first = sealed.stops[segment - 1] if segment else 0
        begin = self._ends[place - 1] if place > first else 0
        return sealed.segments[segment][begin : self._ends[place]]
