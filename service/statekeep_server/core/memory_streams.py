"""The streams of Memory: the history of a key, and the watch over a scope."""

from typing import NamedTuple

from statekeep.v1 import memory_pb2 as pb

from statekeep_server.core import streams
from statekeep_server.core.errors import invalid
from statekeep_server.core.identifiers import memory_key
from statekeep_server.core.journal import KEY, Call, View
from statekeep_server.core.memory import partition, shown, visible
from statekeep_server.core.streams import Cursor, Step
from statekeep_server.core.wire import varint

_CAUGHT_UP = b"\x10\x01"  # MemoryWatchResponse.caught_up, field 2
_REVISION = b"\x18"  # MemoryWatchResponse.revision, field 3
_LOOKED_AT = 5_000  # records that one step of a watch looks at, so that a rare prefix does not hold up the server


class _Rest(NamedTuple):
    """What of a key's history is still to be sent: the versions between two revisions, and how many of them."""

    after: int
    before: int
    left: int | None


class KeyHistory:
    """Memory.History: every version of a key as it was when the stream began."""

    follows = False
    heartbeat = 0.0

    def __init__(self, request: pb.MemoryHistoryRequest) -> None:
        if request.limit < 0:
            raise invalid("limit", "is {limit}; give 0 for all, or how many", limit=request.limit)
        self.partition = partition(request.scope)
        self._log = KEY + memory_key(request.key, "key")
        self._request = request

    def step(self, view: View, call: Call, place: _Rest | None) -> Step[_Rest]:
        """Return the next versions."""
        rest = place or _Rest(0, view.revision + 1, self._request.limit or None)
        frames: list[bytes] = []
        room = call.limits.chunk
        oldest_first = self._request.oldest_first
        for record in view.scan(self._log, after=rest.after, before=rest.before, newest_first=not oldest_first):
            if not visible(record, call.now):
                continue
            frame = shown(record, self._request.include_values)
            if frames and len(frame) > room:
                return Step([b"".join(frames)], rest)
            frames.append(frame)
            room -= len(frame)
            left = rest.left and rest.left - 1
            if left == 0:
                break
            rest = _Rest(record.revision, rest.before, left) if oldest_first else _Rest(0, record.revision, left)
        return Step([b"".join(frames)] if frames else (), rest, done=True)

    def revision(self, place: _Rest) -> int:
        """Return the revision after which there is more to send."""
        return place.after

    def beat(self, place: _Rest) -> bytes:
        """Return nothing: this stream has no heartbeats."""
        return b""


class ScopeWatch:
    """Memory.Watch: the writes of a scope, in order, from any revision on."""

    follows = True

    def __init__(self, request: pb.MemoryWatchRequest) -> None:
        self.partition = partition(request.scope)
        self.heartbeat = streams.heartbeat(request.heartbeat)
        self._after = streams.after_revision(request.after_revision) if request.HasField("after_revision") else None
        self._prefix = KEY + request.prefix
        self._include_values = request.include_values

    def step(self, view: View, call: Call, place: Cursor | None) -> Step[Cursor]:
        """Return the next versions."""
        cursor = streams.resume(view, place) if place else self._begin(view)
        frames, revision = self._read(view, call, cursor.revision)
        caught_up = revision >= cursor.target
        after = cursor._replace(revision=revision, caught_up=caught_up)
        quiet = revision >= view.revision
        if caught_up and not cursor.caught_up:
            frames += _CAUGHT_UP, self.beat(after)
        elif frames:
            frames.append(self.beat(after))
        return Step([b"".join(frames)] if frames else (), after, quiet=quiet)

    def revision(self, place: Cursor) -> int:
        """Return the revision up to which everything was sent."""
        return place.revision

    def beat(self, place: Cursor) -> bytes:
        """Return a message that carries nothing but the revision."""
        return _REVISION + varint(place.revision)

    def _begin(self, view: View) -> Cursor:
        return streams.begin(view, view.revision if self._after is None else self._after)

    def _read(self, view: View, call: Call, after: int) -> tuple[list[bytes], int]:
        """Return the frames of a message, and the revision up to which nothing more is to be sent."""
        frames: list[bytes] = []
        room = call.limits.chunk
        last = after
        for looked_at, record in enumerate(view.journal(KEY, after)):
            if looked_at >= _LOOKED_AT:
                return frames, last
            if record.log.startswith(self._prefix) and visible(record, call.now):
                frame = shown(record, self._include_values)
                if frames and len(frame) > room:
                    return frames, last
                frames.append(frame)
                room -= len(frame)
            last = record.revision
        return frames, max(last, view.revision)
