"""The calls that are measured, of Memory and StateStore, and of the floor.

What prepares a turn makes what its calls need, and makes one itself to see that the answer is right; its check looks
afterwards whether all calls did what they should. So a call that fails cannot count as a fast one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import grpc
from google.protobuf.wrappers_pb2 import BytesValue
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.memory_pb2_grpc import MemoryStub
from statekeep.v1.state_store_pb2_grpc import StateStoreStub
from statekeep.v1.value_pb2 import Value

from bench.bare import ANSWER, pack_sizes
from bench.load import HEADER, Prepared, Sent, answers

EVENT_SIZE = 270  # bytes; of an event as it is stored
BATCH = 100  # events
FILL = 1_000  # records of a batch that only fills a store
STREAM_HISTORY = "/statekeep.v1.StateStore/StreamHistory"
# Bytes that the server adds to an event: branch, sequence, revision, create_time; its id; its thread's, about.
_ADDED, _MADE_UP_ID, _THREAD_ID = 34, 19, 12
VALUE = Value(json='{"step": 7, "note": "' + "n" * 80 + '"}')
SCOPE = memory.Scope(name="bench")


class Stubs:
    """A plain gRPC client of the server under load."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.memory = MemoryStub(channel)
        self.state = StateStoreStub(channel)
        self.stream: grpc.UnaryStreamMultiCallable[state.StreamHistoryRequest, bytes] = channel.unary_stream(
            STREAM_HISTORY, state.StreamHistoryRequest.SerializeToString
        )
        """StreamHistory, its answers as the bytes that come."""
        self.append: grpc.UnaryUnaryMultiCallable[bytes, state.AppendEventsResponse] = channel.unary_unary(
            "/statekeep.v1.StateStore/AppendEvents", None, state.AppendEventsResponse.FromString
        )
        """AppendEvents, its requests as the bytes that go."""
        self.list: grpc.UnaryUnaryMultiCallable[memory.MemoryListRequest, bytes] = channel.unary_unary(
            "/statekeep.v1.Memory/List", memory.MemoryListRequest.SerializeToString
        )
        """Memory's List, its answers as the bytes that come."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Calls of one method. Each turn has a key or thread for itself, its place."""

    name: str
    method: str
    prepare: Callable[[Stubs, str], Prepared]
    unit: str = "calls/s"
    units: int = 1
    """How many of the unit one call is."""


# --- the floor


def empty(size: int) -> Prepared:
    """Prepare calls of bench.Floor/Empty that take so many bytes, to within two."""
    body = BytesValue(value=bytes(max(0, size - 3))).SerializeToString()
    return Prepared(body, answers(HEADER + ANSWER.ByteSize()))


def constant_stream(sizes: list[int]) -> Prepared:
    """Prepare calls of bench.Floor/Stream that send messages of these sizes."""
    return Prepared(pack_sizes(sizes), answers(sum(sizes) + HEADER * len(sizes)))


# --- Memory


def get(stubs: Stubs, place: str, scope: memory.Scope = SCOPE, version: int = 1) -> Prepared:
    """Prepare Gets of one key, which is set first where there is none."""
    request = memory.MemoryGetRequest(scope=scope, key=place)
    if not stubs.memory.Get(request).HasField("entry"):
        stubs.memory.Set(memory.MemorySetRequest(scope=scope, key=place, value=VALUE))
    answer = stubs.memory.Get(request)
    assert (answer.entry.key, answer.entry.version, answer.entry.value) == (place, version, VALUE), answer
    return Prepared(request.SerializeToString(), answers(HEADER + answer.ByteSize()))


def set_value(stubs: Stubs, place: str, scope: memory.Scope = SCOPE) -> Prepared:
    """Prepare Sets of one key that has no value yet."""
    request = memory.MemorySetRequest(scope=scope, key=place, value=VALUE)
    assert stubs.memory.Set(request).entry.version == 1

    def check(sent: Sent) -> None:
        history = memory.MemoryHistoryRequest(scope=scope, key=place, oldest_first=True)
        versions = [entry.version for answer in stubs.memory.History(history) for entry in answer.entries]
        assert versions == list(range(1, sent.calls + 2)), (len(versions), sent)

    return Prepared(request.SerializeToString(), check)


def fill_scope(stubs: Stubs, scope: memory.Scope, count: int) -> None:
    """Set `count` keys, key/0000000 and so on."""
    for first in range(0, count, FILL):
        sets = (
            memory.MemorySetRequest(scope=scope, key=f"key/{number:07}", value=VALUE)
            for number in range(first, min(first + FILL, count))
        )
        answer = stubs.memory.BatchSet(memory.MemoryBatchSetRequest(sets=sets))
        assert answer.entries[-1].version == 1, answer.entries[-1]


# --- StateStore


def event(size: int, thread_id: str = "", event_id: str = "") -> state.Event:
    """Return an event that takes `size` bytes as it is stored, give or take a few for its numbers."""
    made = state.Event(id=event_id, thread_id=thread_id, type="node_completed", node="plan")
    made.data.json = '""'
    room = size - made.ByteSize() - _ADDED - (0 if event_id else _MADE_UP_ID) - (0 if thread_id else _THREAD_ID)
    made.data.json = f'"{"d" * room}"'
    return made


def append_next(stubs: Stubs, place: str) -> Prepared:
    """Prepare AppendNextEvents of one thread, which may hold events already."""
    request = state.AppendNextEventRequest(event=event(EVENT_SIZE, place))
    stored = stubs.state.AppendNextEvent(request).event
    assert (stored.thread_id, stored.data) == (place, request.event.data), stored
    return Prepared(
        request.SerializeToString(), lambda sent: check_events(stubs, place, stored.sequence, sent.calls + 1)
    )


def append_events(stubs: Stubs, place: str) -> Prepared:
    """Prepare AppendEvents of BATCH events each to a new thread."""
    request = state.AppendEventsRequest(thread_id=place, events=[event(EVENT_SIZE)] * BATCH)
    answer = stubs.state.AppendEvents(request)
    assert (answer.first_sequence, answer.last_sequence, len(answer.ids)) == (1, BATCH, BATCH), answer

    def check(sent: Sent) -> None:
        check_events(stubs, place, 1, (sent.calls + 1) * BATCH)
        stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=place))  # it is large

    return Prepared(request.SerializeToString(), check)


def fill_thread(stubs: Stubs, place: str, count: int, size: int = EVENT_SIZE) -> None:
    """Append events until a thread has `count`; where it has them, do nothing."""
    step = min(FILL, max(1, 2_000_000 // size), count)
    request = state.AppendEventsRequest(thread_id=place, events=[event(size)] * step).SerializeToString()
    found = stubs.state.ListThreads(state.ListThreadsRequest(prefix=place, page_size=1)).threads
    held = sum(thread.event_count for thread in found if thread.id == place)
    for last in range(held + step, count + 1, step):
        answer = stubs.append(request)
        assert answer.last_sequence == last, (answer.last_sequence, last)


def stream(stubs: Stubs, request: state.StreamHistoryRequest, first: int, count: int) -> tuple[Prepared, list[int]]:
    """Prepare StreamHistory, which must send `count` events from number `first` on; return its messages' sizes too."""
    sizes, sequences = [], []
    for message in stubs.stream(request):
        sizes.append(len(message))
        sequences += [event.sequence for event in state.StreamHistoryResponse.FromString(message).events]
    assert sequences == list(range(first, first + count)), (sequences[:1], len(sequences))
    return Prepared(request.SerializeToString(), answers(sum(sizes) + HEADER * len(sizes))), sizes


def check_events(stubs: Stubs, place: str, first: int, count: int) -> None:
    """See that a thread holds `count` events from number `first` on, each once and in order."""
    request = state.StreamHistoryRequest(thread_id=place, last=count)
    sequences = [event.sequence for answer in stubs.state.StreamHistory(request) for event in answer.events]
    assert sequences == list(range(first, first + count)), (len(sequences), count)


GET = Workload("Get", "/statekeep.v1.Memory/Get", get)
SET = Workload("Set", "/statekeep.v1.Memory/Set", set_value)
APPEND_NEXT = Workload("AppendNextEvent", "/statekeep.v1.StateStore/AppendNextEvent", append_next)
APPEND_EVENTS = Workload(
    f"AppendEvents of {BATCH}", "/statekeep.v1.StateStore/AppendEvents", append_events, "events/s", BATCH
)
