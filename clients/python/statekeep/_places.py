"""Where each kind of stream stands, and how it goes on from there."""

from collections.abc import Callable, Iterator, Sequence
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


class _Line:
    """A line of records that is counted in revisions."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.caught_up = False
        self._began = False

    def _walk(self, records: Sequence[Record], message: Message) -> Iterator[Record]:
        """Hands out a message's records, and moves on with each; to the message's end with its last."""
        self._began = True
        if records:
            return self._steps(records, message)
        self._move(message)
        return iter(())

    def _steps(self, records: Sequence[Record], message: Message) -> Iterator[Record]:
        for record in records[:-1]:
            self.revision = record.revision
            yield record
        self._move(message)
        yield from records[-1:]

    def _move(self, message: Message) -> None:
        self.revision = message.revision
        self.caught_up |= message.caught_up


class HistoryPlace(_Line, Generic[Item]):
    """A place on a branch: events, and checkpoints among them where the request asks for both."""

    def __init__(
        self,
        request: state_store_pb2.StreamHistoryRequest,
        item_of: Callable[[StateRecord], Item],
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
        stored: list[StateRecord] = [*message.events, *message.checkpoints]
        records = sorted(stored, key=lambda record: record.revision)
        return map(self._hand_out, self._walk(records, message))

    def _hand_out(self, record: StateRecord) -> Item:
        self._events += isinstance(record, state_store_pb2.Event)
        return self._item_of(record)


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
        return map(entry_of, self._walk(message.entries, message))


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
