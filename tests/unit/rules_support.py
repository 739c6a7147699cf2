"""Drives the rules of core/ as plain functions: one engine in memory, and a clock that only a test moves."""

import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from statekeep.v1 import memory_pb2, scratch_pb2, state_store_pb2
from statekeep.v1.value_pb2 import Value
from statekeep_server.core import memory, state_store
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.journal import Call, Change, Limits, View
from statekeep_server.core.memory_streams import KeyHistory, ScopeWatch
from statekeep_server.core.scratch import Instance, Scratch
from statekeep_server.core.streams import Reader
from statekeep_server.core.thread_streams import BranchHistory
from statekeep_server.engines.memory import MemoryEngine

Answer = TypeVar("Answer")

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
SCOPE = memory_pb2.Scope(name="s")
MAX_NUMBER = 2**53 - 1


def finish(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine that lets others go first at most, and waits for nothing, without an event loop."""
    for _ in range(1000):
        try:
            waited_for = coroutine.send(None)
        except StopIteration as done:
            return done.value
        assert waited_for is None, "the engine in memory waited"
    raise AssertionError("it does not come to an end")


def span(seconds: float) -> Duration:
    """Return a duration."""
    duration = Duration()
    duration.FromMicroseconds(round(seconds * SECOND))
    return duration


def as_value(content: object) -> Value:
    """Return a value as it is, anything else as JSON."""
    return content if isinstance(content, Value) else Value(json=json.dumps(content))


def micros(timestamp: Any) -> int:
    """Return a timestamp in microseconds."""
    return timestamp.seconds * SECOND + timestamp.nanos // 1000


@contextmanager
def refused(reason: Reason, at: str | None = None) -> Iterator[pytest.ExceptionInfo[StatekeepError]]:
    """Hold that a call is refused for this reason, and with `at` that this field of the request is at fault."""
    with pytest.raises(StatekeepError) as refusal:
        yield refusal
    assert refusal.value.reason == reason, refusal.value.message
    if at is not None:
        assert refusal.value.field == at


@contextmanager
def invalid(at: str) -> Iterator[pytest.ExceptionInfo[StatekeepError]]:
    """Hold that a field of the request is refused."""
    with refused(Reason.INVALID_FIELD, at) as refusal:
        yield refusal


def refusal_of(attempt: Callable[[], object]) -> StatekeepError | None:
    """Return the error that a call is refused with, None where it is not."""
    try:
        attempt()
    except StatekeepError as error:
        return error
    return None


@dataclass
class World:
    """An engine, the time, and the limits that rules run with."""

    engine: MemoryEngine = field(default_factory=MemoryEngine)
    now: int = START
    limits: Limits = field(default_factory=Limits)
    room: int | None = None

    @property
    def call(self) -> Call:
        return Call(self.now, self.limits, self.room)

    def pass_time(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)

    def write(self, partition: str, rule: Callable[..., Change[bytes]], request: Message) -> bytes:
        """Run a rule, twice: it has no effects, so it decides the same again and leaves the request alone."""
        before = request.SerializeToString(deterministic=True)

        def decide(view: View) -> Change[bytes]:
            change = rule(view, request, self.call)
            again = rule(view, request, self.call)
            assert change == again
            return change

        try:
            return finish(self.engine.write(partition, decide))
        finally:
            assert request.SerializeToString(deterministic=True) == before

    def run(self, partition: str, decide: Callable[[View], Change[Answer]]) -> Answer:
        """Make a change that no client asked for."""
        return finish(self.engine.write(partition, decide))

    def read(self, partition: str, rule: Callable[..., Answer], request: Message) -> Answer:
        return finish(self.engine.read(partition, lambda view: rule(view, request, self.call)))

    def look(self, partition: str, query: Callable[[View], Answer]) -> Answer:
        return finish(self.engine.read(partition, query))

    def partitions(self, prefix: str = "") -> list[str]:
        return finish(self.engine.partitions(prefix, "", 10_000))

    def sweep(self) -> int:
        """Remove what has expired now; the sweep pauses between partitions."""
        sweep = self.engine.sweep(self.now)
        while True:
            try:
                sweep.send(None)
            except StopIteration as done:
                return done.value


class Stream:
    """A stream that is read step by step, as a server does for one client."""

    def __init__(self, world: World, reader: Reader[Any], answer: type[Message]) -> None:
        self.done = False
        self.place: Any = None
        self.reader = reader
        self.ready: list[bytes] = []
        """What was read and not returned yet."""
        self._world = world
        self._answer = answer

    def step(self) -> Any:
        """Return the next message, None where there is nothing more now."""
        quiet = False
        while not (self.ready or self.done or quiet):
            step = self._world.look(
                self.reader.partition, lambda view: self.reader.step(view, self._world.call, self.place)
            )
            self.place, self.done, quiet = step.place, step.done, step.quiet
            self.ready += step.messages
        return self._answer.FromString(self.ready.pop(0)) if self.ready else None

    def rest(self) -> list[Any]:
        """Return the messages there are now."""
        return list(iter(self.step, None))

    def beat(self) -> Any:
        return self._answer.FromString(self.reader.beat(self.place))


class MemoryRules:
    """The RPCs of Memory."""

    def __init__(self, world: World) -> None:
        self.world = world

    def write(self, rule: Callable[..., Change[bytes]], request: Any) -> bytes:
        return self.world.write(memory.partition(request.scope), rule, request)

    def read(self, rule: Callable[..., bytes], request: Any) -> bytes:
        return self.world.read(memory.partition(request.scope), rule, request)

    def set(self, key: str = "k", content: object = 1, **fields: Any) -> memory_pb2.MemoryEntry:
        request = memory_pb2.MemorySetRequest(**{"scope": SCOPE, "key": key, "value": as_value(content), **fields})
        return memory_pb2.MemorySetResponse.FromString(self.write(memory.set_key, request)).entry

    def set_many(self, *sets: memory_pb2.MemorySetRequest, request_id: str = "") -> list[memory_pb2.MemoryEntry]:
        request = memory_pb2.MemoryBatchSetRequest(sets=sets, request_id=request_id)
        answer = self.world.write(memory.batch_partition(request), memory.set_keys, request)
        return list(memory_pb2.MemoryBatchSetResponse.FromString(answer).entries)

    def get(self, key: str = "k", **fields: Any) -> memory_pb2.MemoryEntry | None:
        request = memory_pb2.MemoryGetRequest(**{"scope": SCOPE, "key": key, **fields})
        return _if_set(memory_pb2.MemoryGetResponse.FromString(self.read(memory.get_key, request)), "entry")

    def get_many(self, *keys: str, **fields: Any) -> memory_pb2.MemoryBatchGetResponse:
        request = memory_pb2.MemoryBatchGetRequest(**{"scope": SCOPE, "keys": keys, **fields})
        return memory_pb2.MemoryBatchGetResponse.FromString(self.read(memory.get_keys, request))

    def delete(self, key: str = "k", **fields: Any) -> memory_pb2.MemoryEntry | None:
        request = memory_pb2.MemoryDeleteRequest(**{"scope": SCOPE, "key": key, **fields})
        return _if_set(memory_pb2.MemoryDeleteResponse.FromString(self.write(memory.delete_key, request)), "entry")

    def purge(self, **fields: Any) -> memory_pb2.MemoryPurgeResponse:
        request = memory_pb2.MemoryPurgeRequest(**{"scope": SCOPE, **fields})
        return memory_pb2.MemoryPurgeResponse.FromString(self.write(memory.purge, request))

    def page(self, **fields: Any) -> memory_pb2.MemoryListResponse:
        request = memory_pb2.MemoryListRequest(**{"scope": SCOPE, **fields})
        return memory_pb2.MemoryListResponse.FromString(self.read(memory.list_keys, request))

    def keys(self, **fields: Any) -> list[str]:
        return [entry.key for entry in self.page(**fields).entries]

    def purges(self, **fields: Any) -> memory_pb2.MemoryListPurgesResponse:
        request = memory_pb2.MemoryListPurgesRequest(**{"scope": SCOPE, **fields})
        return memory_pb2.MemoryListPurgesResponse.FromString(self.read(memory.list_purges, request))

    def scopes(self) -> list[memory_pb2.MemoryScopeInfo]:
        """Return what ListScopes shows, as the service makes it of the scopes' lines."""
        found: list[memory_pb2.MemoryScopeInfo] = []
        for name in self.world.partitions(memory.PARTITIONS):
            line = self.world.look(name, lambda view, name=name: memory.scope_info(view, name, self.world.call))
            found += memory_pb2.MemoryListScopesResponse.FromString(line or b"").scopes
        return found

    def history_stream(self, key: str = "k", **fields: Any) -> Stream:
        request = memory_pb2.MemoryHistoryRequest(**{"scope": SCOPE, "key": key, **fields})
        return Stream(self.world, KeyHistory(request), memory_pb2.MemoryHistoryResponse)

    def history(self, key: str = "k", **fields: Any) -> list[memory_pb2.MemoryEntry]:
        return [entry for message in self.history_stream(key, **fields).rest() for entry in message.entries]

    def versions(self, key: str = "k", **fields: Any) -> list[int]:
        return [entry.version for entry in self.history(key, **fields)]

    def watch(self, **fields: Any) -> Stream:
        request = memory_pb2.MemoryWatchRequest(**{"scope": SCOPE, **fields})
        return Stream(self.world, ScopeWatch(request), memory_pb2.MemoryWatchResponse)

    def watched(self, **fields: Any) -> list[tuple[str, int]]:
        """Return key and version of all that a watch from the start sends now."""
        messages = self.watch(**{"after_revision": 0, **fields}).rest()
        return [(entry.key, entry.version) for message in messages for entry in message.entries]

    def revision(self, scope: memory_pb2.Scope = SCOPE) -> int:
        return self.world.look(memory.partition(scope), lambda view: view.revision)


class ThreadRules:
    """The RPCs of StateStore, on thread "t" unless another is given."""

    def __init__(self, world: World) -> None:
        self.world = world

    def write(self, thread_id: str, rule: Callable[..., Change[bytes]], request: Any) -> bytes:
        return self.world.write(state_store.partition(thread_id), rule, request)

    def read(self, rule: Callable[..., bytes], request: Any) -> bytes:
        return self.world.read(state_store.partition(request.thread_id), rule, request)

    def append(self, sequence: int, event_id: str = "", **fields: Any) -> state_store_pb2.Event:
        """AppendEvent."""
        request = state_store_pb2.AppendEventRequest(event=event(event_id, sequence=sequence, **fields))
        answer = self.write(request.event.thread_id, state_store.append_event, request)
        return state_store_pb2.AppendEventResponse.FromString(answer).event

    def append_next(
        self, event_id: str = "", expected_last_sequence: int | None = None, **fields: Any
    ) -> state_store_pb2.Event:
        """AppendNextEvent."""
        request = state_store_pb2.AppendNextEventRequest(
            event=event(event_id, **fields), expected_last_sequence=expected_last_sequence
        )
        answer = self.write(request.event.thread_id, state_store.append_next_event, request)
        return state_store_pb2.AppendNextEventResponse.FromString(answer).event

    def append_batch(self, *events: state_store_pb2.Event, **fields: Any) -> state_store_pb2.AppendEventsResponse:
        """AppendEvents."""
        request = state_store_pb2.AppendEventsRequest(**{"thread_id": "t", "events": events, **fields})
        answer = self.write(request.thread_id, state_store.append_events, request)
        return state_store_pb2.AppendEventsResponse.FromString(answer)

    def save(self, checkpoint_id: str = "", sequence: int = 1, **fields: Any) -> state_store_pb2.Checkpoint:
        """SaveCheckpoint."""
        request = state_store_pb2.SaveCheckpointRequest(checkpoint=checkpoint(checkpoint_id, sequence, **fields))
        answer = self.write(request.checkpoint.thread_id, state_store.save_checkpoint, request)
        return state_store_pb2.SaveCheckpointResponse.FromString(answer).checkpoint

    def history(self, **fields: Any) -> state_store_pb2.History:
        """GetHistory."""
        request = state_store_pb2.GetHistoryRequest(**{"thread_id": "t", **fields})
        return state_store_pb2.GetHistoryResponse.FromString(self.read(state_store.get_history, request)).history

    def sequences(self, **fields: Any) -> list[int]:
        return [stored.sequence for stored in self.history(**fields).events]

    def ids(self, **fields: Any) -> list[str]:
        return [stored.id for stored in self.history(**fields).events]

    def latest(self, **fields: Any) -> state_store_pb2.Checkpoint | None:
        """LatestCheckpoint."""
        request = state_store_pb2.LatestCheckpointRequest(**{"thread_id": "t", **fields})
        answer = self.read(state_store.latest_checkpoint, request)
        return _if_set(state_store_pb2.LatestCheckpointResponse.FromString(answer), "checkpoint")

    def checkpoints(self, **fields: Any) -> state_store_pb2.ListCheckpointsResponse:
        """ListCheckpoints."""
        request = state_store_pb2.ListCheckpointsRequest(**{"thread_id": "t", **fields})
        answer = self.read(state_store.list_checkpoints, request)
        return state_store_pb2.ListCheckpointsResponse.FromString(answer)

    def checkpoint_ids(self, **fields: Any) -> list[str]:
        return [saved.id for saved in self.checkpoints(**fields).checkpoints]

    def fork(self, from_event_id: str, name: str | None = None, **fields: Any) -> state_store_pb2.ForkResponse:
        request = state_store_pb2.ForkRequest(
            **{"thread_id": "t", "from_event_id": from_event_id, "name": name, **fields}
        )
        answer = self.write(request.thread_id, state_store.fork, request)
        return state_store_pb2.ForkResponse.FromString(answer)

    def branches(self, **fields: Any) -> state_store_pb2.ListBranchesResponse:
        """ListBranches."""
        request = state_store_pb2.ListBranchesRequest(**{"thread_id": "t", **fields})
        return state_store_pb2.ListBranchesResponse.FromString(self.read(state_store.list_branches, request))

    def branch_ids(self, **fields: Any) -> list[str]:
        return [branch.id for branch in self.branches(**fields).branches]

    def threads(self) -> list[state_store_pb2.Thread]:
        """Return what ListThreads shows, as the service makes it of the threads' lines."""
        found: list[state_store_pb2.Thread] = []
        for name in self.world.partitions(state_store.PARTITIONS):
            line = self.world.look(name, lambda view, name=name: state_store.thread(view, name, self.world.call))
            found += state_store_pb2.ListThreadsResponse.FromString(line or b"").threads
        return found

    def drop(self, thread_id: str = "t") -> state_store_pb2.DeleteThreadResponse:
        """DeleteThread."""
        request = state_store_pb2.DeleteThreadRequest(thread_id=thread_id)
        answer = self.write(thread_id, state_store.delete_thread, request)
        return state_store_pb2.DeleteThreadResponse.FromString(answer)

    def stream(self, **fields: Any) -> Stream:
        """StreamHistory."""
        request = state_store_pb2.StreamHistoryRequest(**{"thread_id": "t", **fields})
        return Stream(self.world, BranchHistory(request), state_store_pb2.StreamHistoryResponse)

    def streamed(self, **fields: Any) -> list[str]:
        """Return the ids of the events that a stream sends now."""
        return event_ids(self.stream(**fields).rest())


class ScratchRules:
    """The RPCs of Scratch, on instance "i" unless another is given."""

    def __init__(self, world: World, idle_ttl: float = 3600.0) -> None:
        self.world = world
        self.rules = Scratch(idle_ttl)

    def open(self, instance_id: str = "i", **fields: Any) -> scratch_pb2.ScratchOpenResponse:
        request = scratch_pb2.ScratchOpenRequest(instance_id=instance_id, **fields)
        return scratch_pb2.ScratchOpenResponse.FromString(self.rules.open(request, self.world.call))

    def put(self, key: str = "a", content: object = 1, instance_id: str = "i") -> str:
        request = scratch_pb2.ScratchPutRequest(instance_id=instance_id, key=key, value=as_value(content))
        return scratch_pb2.ScratchPutResponse.FromString(self.rules.put(request, self.world.call)).key

    def get(self, key: str = "a", instance_id: str = "i") -> Value | None:
        request = scratch_pb2.ScratchGetRequest(instance_id=instance_id, key=key)
        answer = scratch_pb2.ScratchGetResponse.FromString(self.rules.get(request, self.world.call))
        return _if_set(answer, "value")

    def keys(self, instance_id: str = "i") -> list[str]:
        request = scratch_pb2.ScratchListRequest(instance_id=instance_id)
        return list(scratch_pb2.ScratchListResponse.FromString(self.rules.list(request, self.world.call)).keys)

    def clear(self, key: str | None = None, instance_id: str = "i") -> list[str]:
        request = scratch_pb2.ScratchClearRequest(instance_id=instance_id, key=key)
        return list(scratch_pb2.ScratchClearResponse.FromString(self.rules.clear(request, self.world.call)).cleared)

    def close(self, instance_id: str = "i") -> list[str]:
        request = scratch_pb2.ScratchCloseRequest(instance_id=instance_id)
        return list(scratch_pb2.ScratchCloseResponse.FromString(self.rules.close(request, self.world.call)).cleared)

    def attach(self, instance_id: str = "i") -> Instance:
        return self.rules.attach(scratch_pb2.ScratchAttachRequest(instance_id=instance_id), self.world.call)


def a_set(key: str, content: object = 1, **fields: Any) -> memory_pb2.MemorySetRequest:
    """Return a set as it stands in a batch."""
    return memory_pb2.MemorySetRequest(**{"scope": SCOPE, "key": key, "value": as_value(content), **fields})


def event(event_id: str = "", **fields: Any) -> state_store_pb2.Event:
    """Return an event of thread "t"."""
    return state_store_pb2.Event(**{"id": event_id, "thread_id": "t", "type": "happened", **fields})


def in_batch(event_id: str = "", **fields: Any) -> state_store_pb2.Event:
    """Return an event as it stands in a batch, without thread and branch."""
    return state_store_pb2.Event(**{"id": event_id, "type": "happened", **fields})


def checkpoint(checkpoint_id: str = "", sequence: int = 1, **fields: Any) -> state_store_pb2.Checkpoint:
    """Return a checkpoint of thread "t"."""
    return state_store_pb2.Checkpoint(
        **{"id": checkpoint_id, "thread_id": "t", "sequence": sequence, "state": as_value({}), **fields}
    )


def event_ids(messages: list[Any]) -> list[str]:
    """Return the ids of the events in messages of StreamHistory."""
    return [stored.id for message in messages for stored in message.events]


def _if_set(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None
