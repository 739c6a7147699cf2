"""The stream of StateStore: a branch's events, and on request its ancestors' and its checkpoints."""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain
from typing import NamedTuple

from statekeep.v1 import state_store_pb2 as pb

from statekeep_server.core import streams
from statekeep_server.core.errors import invalid
from statekeep_server.core.journal import BRANCHES, CHECKPOINTS, EVENTS, Call, Record, View
from statekeep_server.core.state_store import branch_name, find_event, partition
from statekeep_server.core.streams import Cursor, Step
from statekeep_server.core.wire import body, retag, varint

_CHECKPOINTS = b"\x12"  # StreamHistoryResponse.checkpoints, field 2
_CAUGHT_UP = b"\x18\x01"  # StreamHistoryResponse.caught_up, field 3
_REVISION = b"\x20"  # StreamHistoryResponse.revision, field 4


class _Window(NamedTuple):
    """The part of a log that belongs to the line: its records up to a revision."""

    log: str
    until: int


class _Place(NamedTuple):
    """Where a stream is: its cursor, how many events it may still send, and the windows that are still to be read."""

    cursor: Cursor
    left: int | None
    line: tuple[_Window, ...]


class _Part(NamedTuple):
    """Messages, how many events they hold, and the last record's revision.

    `complete` says that it is all there is, `limited` that the limit holds an event back.
    """

    messages: Sequence[bytes]
    events: int
    revision: int
    complete: bool
    limited: bool


_NEVER = 2**63
# What is read before the first message is sent, at most: to go to and fro for each costs more than the message.
_AHEAD, _BYTES_AHEAD = 16, 4 * 2**20  # messages, and bytes of them all but the last


class BranchHistory:
    """StateStore.StreamHistory.

    Along a line of branches revisions only grow, since a branch is forked while it is still empty: one revision is
    the cursor for all of it.
    """

    def __init__(self, request: pb.StreamHistoryRequest) -> None:
        self.partition = partition(request.thread_id)
        self.follows = request.follow
        self.heartbeat = streams.heartbeat(request.heartbeat)
        self._branch = branch_name(request.branch_id)
        self._after = streams.after_revision(request.after_revision)
        self._limit = _count("limit", request.limit)
        self._last = _count("last", request.last)
        if self._last and (self._after or self._limit):
            raise invalid("last", "does not go together with after_revision or limit; leave those at 0")
        self._ancestors = request.include_ancestors
        self._checkpoints = request.include_checkpoints
        self._ahead = 1 if self.follows else _AHEAD

    def step(self, view: View, call: Call, place: _Place | None) -> Step[_Place]:
        """Return the next messages."""
        if place is None:
            place = self._begin(view)
        cursor = streams.resume(view, place.cursor)
        end = view.revision if cursor.caught_up else cursor.target
        if cursor.caught_up and cursor.revision >= end:
            return Step((), place._replace(cursor=cursor), quiet=True)
        part = (self._merged if self._checkpoints else self._events)(view, call, place, end)
        left = place.left and place.left - part.events
        done = part.limited or (part.complete and (not self.follows or left == 0))
        quiet = part.complete and end == view.revision
        revision = max(cursor.revision, end if part.complete else part.revision)
        after = Cursor(revision, cursor.target, cursor.life, cursor.oldest, cursor.caught_up or part.complete)
        reached = _Place(after, left, tuple(window for window in place.line if window.until > revision))
        messages = part.messages
        if after.caught_up and not cursor.caught_up:
            messages = [*messages[:-1], b"".join((*messages[-1:], _CAUGHT_UP, self.beat(reached)))]
        return Step(messages, reached, done, quiet)

    def revision(self, place: _Place) -> int:
        """Return the revision up to which everything was sent."""
        return place.cursor.revision

    def beat(self, place: _Place) -> bytes:
        """Return a message that carries nothing but the revision."""
        return _REVISION + varint(place.cursor.revision)

    def _begin(self, view: View) -> _Place:
        cursor = streams.begin(view, self._after)
        line: tuple[_Window, ...] = (_Window(EVENTS + self._branch, _NEVER),)
        if self._ancestors:
            line = (*_ancestors(view, self._branch), *line)
        if self._last:
            cursor = cursor._replace(revision=_start_of_last(view, line, self._last))
        return _Place(cursor, self._limit, line)

    def _events(self, view: View, call: Call, place: _Place, end: int) -> _Part:
        """Return the next chunks of events, as the engine keeps them."""
        messages: list[bytes] = []
        events, last, left, size = 0, place.cursor.revision, place.left, 0
        for number, (log, until) in enumerate(place.line, 1):
            while chunk := view.chunk(log, last, min(until, end), left):
                messages.append(chunk.message)
                events += chunk.records
                size += len(chunk.message)
                last = chunk.revision
                left = left and left - chunk.records
                more = not chunk.complete or any(self._scan(view, place.line[number:], last, end))
                enough = len(messages) == self._ahead or size >= _BYTES_AHEAD
                if not more or left == 0 or enough:
                    return _Part(messages, events, last, not more, limited=more and left == 0)
                if chunk.complete:
                    break
        return _Part(messages, events, last, complete=True, limited=False)

    def _merged(self, view: View, call: Call, place: _Place, end: int) -> _Part:
        """Return the next events and checkpoints, by revision."""
        parts: list[bytes] = []
        events = last = size = 0
        for is_event, record in self._records(view, place, end):
            full = size > 0 and size + len(record.frame) > call.limits.chunk
            limited = is_event and events == place.left
            if full or limited:
                return _Part(_made(parts, last), events, last, complete=False, limited=limited)
            parts.append(record.frame if is_event else retag(_CHECKPOINTS, record.frame))
            events += is_event
            size += len(record.frame)
            last = record.revision
        return _Part(_made(parts, last), events, last, complete=True, limited=False)

    def _scan(self, view: View, line: Sequence[_Window], after: int, end: int) -> Iterator[Record]:
        return chain.from_iterable(view.scan(log, after=after, before=min(until, end) + 1) for log, until in line)

    def _records(self, view: View, place: _Place, end: int) -> Iterator[tuple[bool, Record]]:
        after = place.cursor.revision
        events = ((True, record) for record in self._scan(view, place.line, after, end))
        checkpoints = ((False, record) for record in view.scan(CHECKPOINTS + self._branch, after=after, before=end + 1))
        return merge(events, checkpoints, key=_revision)


def _made(parts: Sequence[bytes], last: int) -> Sequence[bytes]:
    """Return a message of framed records, the last of this revision; none where there are none."""
    return [b"".join((*parts, _REVISION, varint(last)))] if parts else ()


def _revision(item: tuple[bool, Record]) -> int:
    return item[1].revision


def _count(name: str, number: int) -> int | None:
    if number < 0:
        raise invalid(name, "is {number}; give 0 for all, or how many events", number=number)
    return number or None


def _ancestors(view: View, branch_id: str) -> list[_Window]:
    """Return what a branch inherits, oldest ancestor first."""
    windows: list[_Window] = []
    while record := view.find(BRANCHES, branch_id):
        branch = pb.Branch.FromString(body(record.frame))
        branch_id = branch.parent_branch_id
        forked_at = find_event(view, branch_id, branch.from_event_id)
        if forked_at is not None:  # it always is: events are never taken away
            windows.append(_Window(EVENTS + branch_id, forked_at.revision))
    return windows[::-1]


def _start_of_last(view: View, line: Sequence[_Window], count: int) -> int:
    """Return the revision after which the line's last `count` events begin."""
    after = 0
    for log, until in reversed(line):
        found, after = view.back(log, count, min(until, view.revision))
        count -= found
        if not count:
            return after
    return 0
