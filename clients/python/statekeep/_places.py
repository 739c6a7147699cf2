"""Where each kind of stream stands, and how it goes on from there."""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, length_hint
from typing import Any, Generic, TypeAlias, TypeVar

from statekeep._calls import Calls
from statekeep._messages import entry_of
from statekeep._waiting import Messages
from statekeep.records import Entry
from statekeep.v1 import memory_pb2, state_store_pb2

Item = TypeVar("Item")
StateRecord: TypeAlias = state_store_pb2.Event | state_store_pb2.Checkpoint
Message: TypeAlias = state_store_pb2.StreamHistoryResponse | memory_pb2.MemoryWatchResponse
Record = TypeVar("Record", StateRecord, memory_pb2.MemoryEntry)


class _Chunk:
    """A message's records while they are handed out: nothing is done for each, the iterator knows where it is."""

    def __init__(self, records: Sequence[Any], before: tuple[int, bool], after: tuple[int, bool]) -> None:
        self._records = list(records)
        self.left = iter(self._records)  # a list's, which knows how many are left; a message's own may not
        self._before = before
        self._after = after

    @property
    def place(self) -> tuple[int, bool]:
        """The revision up to which all was handed out, and whether it has caught up: the message's, after all of it."""
        left = length_hint(self.left)
        if not left:
            return self._after
        revision, caught_up = self._before
        taken = len(self._records) - left
        return self._records[taken - 1].revision if taken else revision, caught_up


class _Line:
    """A line of records that is counted in revisions. It moves with each record that is handed out."""

    def __init__(self, revision: int) -> None:
        self._began = False
        # One object, so that another thread that asks for the revision finds what belongs together.
        self._chunk = _Chunk((), (revision, False), (revision, False))

    @property
    def revision(self) -> int:
        return self._chunk.place[0]

    @property
    def caught_up(self) -> bool:
        return self._chunk.place[1]

    def _hand_out(self, records: Sequence[Record], message: Message) -> Iterator[Record]:
        """Goes on with a message's records, when those before are all handed out."""
        self._began = True
        before = self._chunk.place
        self._chunk = _Chunk(records, before, (message.revision, before[1] or message.caught_up))
        return self._chunk.left


class HistoryPlace(_Line, Generic[Item]):
    """A place on a branch: events, and checkpoints among them where the request asks for both."""

    def __init__(
        self,
        request: state_store_pb2.StreamHistoryRequest,
        item_of: Callable[[Any], Item],
    ) -> None:
        super().__init__(request.after_revision)
        self._request = request
        self._item_of = item_of
        # A read of the last n that does not follow is over after n, also where it had to go on.
        self._limit = request.limit or (0 if request.follow else request.last)
        self._events = 0

    def open(self, calls: Calls, timeout: float | None) -> Messages[Any] | None:
        request = state_store_pb2.StreamHistoryRequest()
        request.CopyFrom(self._request)
        if self._began:
            if self._limit and self._events >= self._limit:
                return None
            request.after_revision = self.revision
            request.last = 0
            request.limit = max(self._limit - self._events, 0)
        return calls.messages(calls.connection.state.StreamHistory, request, timeout, reopened=True)

    def take(self, message: state_store_pb2.StreamHistoryResponse) -> Iterator[Item]:
        self._events += len(message.events)
        records: Sequence[StateRecord] = message.events
        if message.checkpoints:
            records = sorted([*message.events, *message.checkpoints], key=attrgetter("revision"))
        return map(self._item_of, self._hand_out(records, message))


class WatchPlace(_Line):
    """A place among the writes of a scope."""

    def __init__(self, request: memory_pb2.MemoryWatchRequest) -> None:
        super().__init__(request.after_revision)
        self._request = request

    def open(self, calls: Calls, timeout: float | None) -> Messages[Any] | None:
        request = memory_pb2.MemoryWatchRequest()
        request.CopyFrom(self._request)
        if self._began:
            request.after_revision = self.revision
        return calls.messages(calls.connection.memory.Watch, request, timeout, reopened=True)

    def take(self, message: memory_pb2.MemoryWatchResponse) -> Iterator[Entry]:
        return map(entry_of, self._hand_out(message.entries, message))


class VersionsPlace:
    """A place among the versions of a key, counted in versions: this stream has no cursor of its own."""

    def __init__(self, request: memory_pb2.MemoryHistoryRequest) -> None:
        self.revision = 0
        self.caught_up = False
        self._request = request
        self._version: int | None = None
        self._handed_out = 0

    def open(self, calls: Calls, timeout: float | None) -> Messages[Any] | None:
        request = memory_pb2.MemoryHistoryRequest()
        request.CopyFrom(self._request)
        if self._version is not None:
            if self._is_over():
                return None
            request.limit = 0  # there may be versions on top by now, which would count
        return calls.messages(calls.connection.memory.History, request, timeout, reopened=True)

    def take(self, message: memory_pb2.MemoryHistoryResponse) -> Iterator[Entry]:
        for entry in message.entries:
            if self._is_ahead(entry.version) and not self._is_over():
                self._version = entry.version
                self._handed_out += 1
                self.revision = entry.revision
                yield entry_of(entry)

    def _is_ahead(self, version: int) -> bool:
        if self._version is None:
            return True
        return version > self._version if self._request.oldest_first else version < self._version

    def _is_over(self) -> bool:
        return 0 < self._request.limit <= self._handed_out
