"""Thread histories as nodestep's users know them: :class:`StateStore` and its records."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self
from uuid import uuid4

from grpc import StatusCode

from statekeep._borrowed import Borrowed, ClientOrAddress
from statekeep._building import build
from statekeep._calls import AsyncPages, Calls
from statekeep._places import HistoryPlace
from statekeep._reading import AsyncReading, Patience
from statekeep._state import MAIN, State
from statekeep._state_records import (
    BranchRecord,
    CheckpointRecord,
    History,
    HistoryEvent,
    branch_record,
    checkpoint_message,
    checkpoint_record,
    event_message,
    record_of,
)
from statekeep._sync import Reading
from statekeep._waiting import Awaiting, Blocking
from statekeep.errors import (
    BranchExistsError,
    BranchNotFoundError,
    EventExistsError,
    EventNotFoundError,
    StatekeepError,
    ThreadNotFoundError,
)
from statekeep.v1 import state_store_pb2

__all__ = [
    "BranchRecord",
    "CheckpointRecord",
    "History",
    "HistoryEvent",
    "StateStore",
    "StateStoreError",
    "StateUpdateError",
]


class StateStoreError(StatekeepError):
    """A name or id is taken, or there is no such thread or branch. The cause is the server's own error."""

    default_code = StatusCode.ALREADY_EXISTS


class StateUpdateError(StatekeepError):
    """An event is not on its branch. The cause is the server's own error."""

    default_code = StatusCode.NOT_FOUND


class StateStore:
    """Keeps the events, checkpoints and branches of threads.

    One store serves any number of threads and event loops at once. Its methods are coroutines; the properties
    may be read from anywhere, and block.

    Args:
        client: A client, an address, or None for ``STATEKEEP_ADDRESS`` (default ``127.0.0.1:50051``).
    """

    def __init__(self, client: ClientOrAddress = None) -> None:
        self._borrowed = Borrowed(client)
        self._stub = self._borrowed.connection.state
        self._calls = Calls(self._borrowed.connection, Awaiting())
        self._blocking = Calls(self._borrowed.connection, Blocking())

    @property
    def events(self) -> list[HistoryEvent]:
        """All events of all threads the server holds: a new list, by thread and branch."""
        return [record for record in self._everything() if isinstance(record, HistoryEvent)]

    @property
    def checkpoints(self) -> list[CheckpointRecord]:
        """All checkpoints of all threads the server holds: a new list, by thread and branch."""
        return [record for record in self._everything() if isinstance(record, CheckpointRecord)]

    async def append_event(self, event: HistoryEvent) -> HistoryEvent:
        """Stores an event under its own sequence number, and returns that same event.

        Raises:
            StateStoreError: The branch holds an event of this id that says something else.
        """
        request = build(state_store_pb2.AppendEventRequest, event=event_message(event))
        with _told(event.thread_id, event.branch_id, event.id):
            await self._calls.answer(self._stub.AppendEvent, request, None)
        return event

    async def append_next_event(self, event: HistoryEvent) -> HistoryEvent:
        """Stores an event with the next sequence number of its branch, and returns a copy that has it.

        Raises:
            StateStoreError: The branch holds an event of this id that says something else.
        """
        request = build(state_store_pb2.AppendNextEventRequest, event=event_message(event))
        request.event.sequence = 0  # replaced, and not to be refused for what it was
        with _told(event.thread_id, event.branch_id, event.id):
            answer = await self._calls.answer(self._stub.AppendNextEvent, request, None)
        return replace(event, sequence=answer.event.sequence)

    async def save_checkpoint(self, checkpoint: CheckpointRecord) -> CheckpointRecord:
        """Stores a snapshot, in place of what was saved under its id, and returns that same record."""
        request = build(state_store_pb2.SaveCheckpointRequest, checkpoint=checkpoint_message(checkpoint))
        await self._calls.answer(self._stub.SaveCheckpoint, request, None)
        return checkpoint

    async def get_history(self, thread_id: str, branch_id: str = MAIN) -> History:
        """A branch's events and checkpoints, in the order stored; none where there is no such branch."""
        history = History(thread_id=thread_id, branch_id=branch_id)
        async for record in self._reading(self._calls, thread_id, branch_id):
            if isinstance(record, HistoryEvent):
                history.events.append(record)
            else:
                history.checkpoints.append(record)
        return history

    async def latest_checkpoint(
        self, thread_id: str, branch_id: str = MAIN, at: str | None = None
    ) -> CheckpointRecord | None:
        """The checkpoint with the highest sequence, or the highest up to the event ``at``; None: none.

        Raises:
            StateUpdateError: The branch holds no event ``at``.
        """
        request = build(
            state_store_pb2.LatestCheckpointRequest, thread_id=thread_id, branch_id=branch_id, at_event_id=at
        )
        with _told(thread_id, branch_id, at):
            answer = await self._calls.answer(self._stub.LatestCheckpoint, request, None)
        return checkpoint_record(answer.checkpoint) if answer.HasField("checkpoint") else None

    async def fork(self, thread_id: str, *, from_: str, branch_id: str = MAIN, name: str | None = None) -> BranchRecord:
        """Records a new branch that starts at the event ``from_``; without a name the server makes one up.

        Raises:
            StateStoreError: The name is taken, or ``main``; or there is no such thread or branch.
            StateUpdateError: The branch holds no event ``from_``.
        """
        if name == MAIN:  # taken also where the server would first miss the thread
            raise _taken(thread_id, name)
        request = build(
            state_store_pb2.ForkRequest,
            thread_id=thread_id,
            from_event_id=from_,
            branch_id=branch_id,
            name=name,
            request_id=str(uuid4()),
        )
        with _told(thread_id, branch_id, from_, name):
            answer = await self._calls.answer(self._stub.Fork, request, None)
        return branch_record(answer.branch)

    async def list_branches(self, thread_id: str) -> list[BranchRecord]:
        """The branches forked in a thread, oldest first; ``main`` is not among them."""

        async def fetch(token: str) -> tuple[list[BranchRecord], str]:
            request = build(state_store_pb2.ListBranchesRequest, thread_id=thread_id, page_token=token)
            answer = await self._calls.answer(self._stub.ListBranches, request, None)
            return [branch_record(branch) for branch in answer.branches], answer.next_page_token

        return [branch async for branch in AsyncPages(fetch)]

    def close(self) -> None:
        """Closes the client where it is the store's own. Closing again does nothing."""
        self._borrowed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _everything(self) -> Iterator[HistoryEvent | CheckpointRecord]:
        state = State(self._blocking)
        for thread in sorted(state.threads(), key=lambda thread: thread.create_time):
            for branch in state.branches(thread.id, include_unforked=True):
                yield from Reading(self._reading(self._blocking, thread.id, branch.id))

    def _reading(self, calls: Calls, thread_id: str, branch_id: str) -> AsyncReading[HistoryEvent | CheckpointRecord]:
        request = build(
            state_store_pb2.StreamHistoryRequest, thread_id=thread_id, branch_id=branch_id, include_checkpoints=True
        )
        return AsyncReading(calls, HistoryPlace(request, record_of), Patience(follows=False))


@contextmanager
def _told(thread_id: str, branch_id: str, event_id: str | None, name: str | None = None) -> Iterator[None]:
    """Tells what the original knows in the original's errors, by its names for things."""
    branch = f"Branch {branch_id!r} of thread {thread_id!r}"
    try:
        yield
    except BranchExistsError as error:
        raise _taken(thread_id, name) from error
    except EventExistsError as error:
        raise StateStoreError(f"{branch} already has another event of id {event_id!r}") from error
    except EventNotFoundError as error:
        text = f"Event id {event_id!r} not found in thread {thread_id!r} on branch {branch_id!r}"
        raise StateUpdateError(text) from error
    except (ThreadNotFoundError, BranchNotFoundError) as error:
        raise StateStoreError(f"{branch} does not exist in the state store") from error


def _taken(thread_id: str, name: str | None) -> StateStoreError:
    return StateStoreError(f"Branch {name!r} of thread {thread_id!r} already exists")
