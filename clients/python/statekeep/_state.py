"""StateStore as a client sees it: a thread's events in order, snapshots of its state, and its branches."""

# ruff: noqa: ASYNC109 # the timeout is gRPC's own deadline, which the server sees too

from collections.abc import Iterable, Mapping
from datetime import timedelta
from uuid import uuid4

from statekeep import _sync
from statekeep._building import build
from statekeep._calls import AsyncPages, Calls
from statekeep._messages import (
    branch_of,
    checkpoint_message,
    checkpoint_of,
    duration_of,
    event_message,
    event_of,
    thread_of,
)
from statekeep._places import HistoryPlace, StateRecord
from statekeep._reading import AsyncReading, Patience
from statekeep.records import (
    Appended,
    Branch,
    Checkpoint,
    DeletedThread,
    Event,
    Forked,
    NewCheckpoint,
    NewEvent,
    Thread,
)
from statekeep.v1 import state_store_pb2

MAIN = "main"


class AsyncState:
    """The history of threads: events in order, snapshots of state, and branches.

    Ids are never trimmed. Every ``timeout`` is in seconds; None takes the client's. Every call may raise a
    :class:`statekeep.StatekeepError`.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._stub = calls.connection.state

    async def append(
        self,
        thread_id: str,
        event: NewEvent,
        *,
        sequence: int,
        branch: str = MAIN,
        timeout: float | None = None,
    ) -> Event:
        """Stores an event under the sequence number given, and returns it as stored.

        Raises:
            EventExistsError: The branch holds an event of this id that says something else.
        """
        message = event_message(event, thread_id, branch, sequence)
        request = build(state_store_pb2.AppendEventRequest, event=message)
        return event_of((await self._calls.answer(self._stub.AppendEvent, request, timeout)).event)

    async def append_next(
        self,
        thread_id: str,
        event: NewEvent,
        *,
        branch: str = MAIN,
        expected_last_sequence: int | None = None,
        timeout: float | None = None,
    ) -> Event:
        """Stores an event with the next sequence number of its branch, and returns it as stored.

        Raises:
            EventExistsError: The branch holds an event of this id that says something else.
            SequenceMismatchError: The branch's highest sequence (0: none) is not the expected one.
        """
        request = build(
            state_store_pb2.AppendNextEventRequest,
            event=event_message(event, thread_id, branch),
            expected_last_sequence=expected_last_sequence,
        )
        return event_of((await self._calls.answer(self._stub.AppendNextEvent, request, timeout)).event)

    async def append_many(
        self,
        thread_id: str,
        events: Iterable[NewEvent],
        *,
        branch: str = MAIN,
        expected_last_sequence: int | None = None,
        timeout: float | None = None,
    ) -> Appended:
        """Stores several events of one branch with the next sequence numbers, all or none.

        Raises:
            EventExistsError: The branch holds some of them, or one that says something else.
            SequenceMismatchError: The branch's highest sequence (0: none) is not the expected one.
        """
        request = build(
            state_store_pb2.AppendEventsRequest,
            thread_id=thread_id,
            branch_id=branch,
            events=[event_message(event) for event in events],
            expected_last_sequence=expected_last_sequence,
        )
        answer = await self._calls.answer(self._stub.AppendEvents, request, timeout)
        return Appended(answer.first_sequence, answer.last_sequence, tuple(answer.ids), answer.revision)

    async def save_checkpoint(
        self,
        thread_id: str,
        checkpoint: NewCheckpoint,
        *,
        branch: str = MAIN,
        timeout: float | None = None,
    ) -> Checkpoint:
        """Stores a snapshot of state, in place of what was saved under its id, and returns it as stored."""
        request = build(
            state_store_pb2.SaveCheckpointRequest, checkpoint=checkpoint_message(checkpoint, thread_id, branch)
        )
        answer = await self._calls.answer(self._stub.SaveCheckpoint, request, timeout)
        return checkpoint_of(answer.checkpoint)

    async def latest_checkpoint(
        self,
        thread_id: str,
        branch: str = MAIN,
        *,
        at: str | None = None,
        timeout: float | None = None,
    ) -> Checkpoint | None:
        """The checkpoint with the highest sequence, or the highest up to the event ``at``; None: none.

        Raises:
            EventNotFoundError: The branch holds no event ``at``.
        """
        request = build(state_store_pb2.LatestCheckpointRequest, thread_id=thread_id, branch_id=branch, at_event_id=at)
        answer = await self._calls.answer(self._stub.LatestCheckpoint, request, timeout)
        return checkpoint_of(answer.checkpoint) if answer.HasField("checkpoint") else None

    async def fork(
        self,
        thread_id: str,
        from_event_id: str,
        *,
        branch: str = MAIN,
        name: str | None = None,
        checkpoint: NewCheckpoint | None = None,
        event: NewEvent | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Forked:
        """Records a new branch that starts at an event; with its first checkpoint and event, in one step.

        Args:
            thread_id: The thread.
            from_event_id: The event of ``branch`` that the new one starts at.
            branch: The branch to fork.
            name: The new branch's id; None leaves it to the server.
            checkpoint: The first snapshot of the new branch.
            event: The first event of the new branch.
            request_id: A fork with an id that was used already gets the first answer, and makes no second
                branch; None makes one up, so that a retry is safe.
            timeout: Seconds.

        Raises:
            BranchExistsError: The name is taken, or ``main``.
            ThreadNotFoundError, BranchNotFoundError, EventNotFoundError: There is nothing to fork.
        """
        request = build(
            state_store_pb2.ForkRequest,
            thread_id=thread_id,
            from_event_id=from_event_id,
            branch_id=branch,
            name=name,
            checkpoint=None if checkpoint is None else checkpoint_message(checkpoint),
            event=None if event is None else event_message(event),
            request_id=request_id or str(uuid4()),
        )
        answer = await self._calls.answer(self._stub.Fork, request, timeout)
        return Forked(
            branch_of(answer.branch),
            checkpoint_of(answer.checkpoint) if answer.HasField("checkpoint") else None,
            event_of(answer.event) if answer.HasField("event") else None,
        )

    async def delete_thread(self, thread_id: str, *, timeout: float | None = None) -> DeletedThread:
        """Removes a thread with all its branches; no error where there is none.

        A lost connection is not tried again: the answer would be wrong.
        """
        request = build(state_store_pb2.DeleteThreadRequest, thread_id=thread_id)
        answer = await self._calls.answer(self._stub.DeleteThread, request, timeout)
        return DeletedThread(answer.events_deleted, answer.checkpoints_deleted)

    def checkpoints(
        self,
        thread_id: str,
        branch: str = MAIN,
        *,
        labels: Mapping[str, str] | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncPages[Checkpoint]:
        """Iterates over a branch's checkpoints that carry all of the labels, the one saved last first."""

        async def fetch(token: str) -> tuple[list[Checkpoint], str]:
            request = build(
                state_store_pb2.ListCheckpointsRequest,
                thread_id=thread_id,
                branch_id=branch,
                labels=labels,
                page_size=page_size,
                page_token=token,
            )
            answer = await self._calls.answer(self._stub.ListCheckpoints, request, timeout)
            return [checkpoint_of(checkpoint) for checkpoint in answer.checkpoints], answer.next_page_token

        return AsyncPages(fetch)

    def branches(
        self,
        thread_id: str,
        *,
        include_unforked: bool = False,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncPages[Branch]:
        """Iterates over the branches forked in a thread, oldest first.

        With ``include_unforked`` also ``main``, and branches that were written to without a fork.
        """

        async def fetch(token: str) -> tuple[list[Branch], str]:
            request = build(
                state_store_pb2.ListBranchesRequest,
                thread_id=thread_id,
                page_size=page_size,
                page_token=token,
                include_unforked=include_unforked,
            )
            answer = await self._calls.answer(self._stub.ListBranches, request, timeout)
            return [branch_of(branch) for branch in answer.branches], answer.next_page_token

        return AsyncPages(fetch)

    def threads(self, prefix: str = "", *, page_size: int = 0, timeout: float | None = None) -> AsyncPages[Thread]:
        """Iterates over the threads whose id begins with the prefix, literally, sorted by id."""

        async def fetch(token: str) -> tuple[list[Thread], str]:
            request = build(state_store_pb2.ListThreadsRequest, prefix=prefix, page_size=page_size, page_token=token)
            answer = await self._calls.answer(self._stub.ListThreads, request, timeout)
            return [thread_of(thread) for thread in answer.threads], answer.next_page_token

        return AsyncPages(fetch)

    def history(
        self,
        thread_id: str,
        branch: str = MAIN,
        *,
        after_revision: int = 0,
        limit: int = 0,
        last: int = 0,
        include_ancestors: bool = False,
        timeout: float | None = None,
    ) -> AsyncReading[Event]:
        """Iterates over a branch's events, in the order they were stored.

        Args:
            thread_id: The thread.
            branch: The branch.
            after_revision: Only what was stored after it; 0: from the start.
            limit: At most so many events; 0: all.
            last: Only the last so many events, oldest of them first. Not with the two before it.
            include_ancestors: First what the branch inherits: its ancestors' events up to each fork.
            timeout: Seconds for the whole read; None: none.

        Raises:
            RevisionGoneError, RevisionAheadError: There is no going on after ``after_revision``.
        """
        request = build(
            state_store_pb2.StreamHistoryRequest,
            thread_id=thread_id,
            branch_id=branch,
            after_revision=after_revision,
            limit=limit,
            last=last,
            include_ancestors=include_ancestors,
        )
        place = HistoryPlace(request, event_of)
        return AsyncReading(self._calls, place, Patience(follows=False), timeout)

    def records(
        self,
        thread_id: str,
        branch: str = MAIN,
        *,
        after_revision: int = 0,
        include_ancestors: bool = False,
        timeout: float | None = None,
    ) -> AsyncReading[Event | Checkpoint]:
        """As ``history``, with the branch's checkpoints where they were saved among the events."""
        request = build(
            state_store_pb2.StreamHistoryRequest,
            thread_id=thread_id,
            branch_id=branch,
            after_revision=after_revision,
            include_ancestors=include_ancestors,
            include_checkpoints=True,
        )
        place = HistoryPlace(request, record_of)
        return AsyncReading(self._calls, place, Patience(follows=False), timeout)

    def tail(
        self,
        thread_id: str,
        branch: str = MAIN,
        *,
        after_revision: int = 0,
        last: int = 0,
        include_ancestors: bool = False,
        heartbeat: float | timedelta | None = None,
        retry_for: float | None = None,
    ) -> AsyncReading[Event]:
        """Iterates over a branch's events as ``history`` does, and then over each that is stored.

        It goes on until it is closed. Its ``revision`` is the cursor to keep where a later run of the
        program is to go on; its ``caught_up`` tells that the next event will be a new one.

        Args:
            thread_id: The thread; it need not be there yet.
            branch: The branch.
            after_revision: Only what was stored after it; 0: from the start.
            last: Begins with the last so many events. Not with ``after_revision``.
            include_ancestors: First what the branch inherits: its ancestors' events up to each fork.
            heartbeat: Seconds between signs of life, at least 0.1, which move ``revision``; None: none.
            retry_for: Seconds for which a lost connection is tried again; None: without an end.

        Raises:
            RevisionGoneError: The thread was deleted, or is not the one ``after_revision`` is of.
            RevisionAheadError: ``after_revision`` was never reached.
        """
        request = build(
            state_store_pb2.StreamHistoryRequest,
            thread_id=thread_id,
            branch_id=branch,
            after_revision=after_revision,
            last=last,
            include_ancestors=include_ancestors,
            follow=True,
            heartbeat=duration_of(heartbeat, "heartbeat"),
        )
        place = HistoryPlace(request, event_of)
        return AsyncReading(self._calls, place, Patience(follows=True, retry_for=retry_for))


def record_of(message: StateRecord) -> Event | Checkpoint:
    """The record of an event or a checkpoint."""
    return event_of(message) if isinstance(message, state_store_pb2.Event) else checkpoint_of(message)


class State:
    """As :class:`AsyncState`, blocking."""

    def __init__(self, calls: Calls) -> None:
        self._methods = AsyncState(calls)

    append = _sync.call(AsyncState.append)
    append_next = _sync.call(AsyncState.append_next)
    append_many = _sync.call(AsyncState.append_many)
    save_checkpoint = _sync.call(AsyncState.save_checkpoint)
    latest_checkpoint = _sync.call(AsyncState.latest_checkpoint)
    fork = _sync.call(AsyncState.fork)
    delete_thread = _sync.call(AsyncState.delete_thread)
    checkpoints = _sync.pages(AsyncState.checkpoints)
    branches = _sync.pages(AsyncState.branches)
    threads = _sync.pages(AsyncState.threads)
    history = _sync.reading(AsyncState.history)
    records = _sync.reading(AsyncState.records)
    tail = _sync.reading(AsyncState.tail)
