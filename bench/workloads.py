"""What is measured with load: a list of workloads, each calls of one method, and the floor they stand beside.

A workload's `prepare` makes what the calls need and makes one itself, to see that the answer is right; its `check`
looks afterwards whether all calls did what they should. So a call that fails cannot count as a fast one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import grpc
from google.protobuf.wrappers_pb2 import BytesValue
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.memory_pb2_grpc import MemoryStub
from statekeep.v1.state_store_pb2_grpc import StateStoreStub
from statekeep.v1.value_pb2 import Value

from bench.load import HEADER, UNARY, Sent, Shape
from bench.server import ANSWER, EMPTY, STREAM, pack_sizes

EVENT_SIZE = 270  # bytes; of an event as it is stored
HISTORY = 10_000  # events
BATCH = 100  # events
STREAM_HISTORY = "/statekeep.v1.StateStore/StreamHistory"
# Bytes that the server adds to an event: branch, sequence, revision, create_time; its id; its thread's, about.
_ADDED, _MADE_UP_ID, _THREAD_ID = 34, 19, 12
_VALUE = Value(json='{"step": 7, "note": "' + "n" * 80 + '"}')


class Stubs:
    """A plain gRPC client of the server under load."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.memory = MemoryStub(channel)
        self.state = StateStoreStub(channel)
        self.stream: grpc.UnaryStreamMultiCallable[state.StreamHistoryRequest, bytes] = channel.unary_stream(
            STREAM_HISTORY, state.StreamHistoryRequest.SerializeToString
        )
        """StreamHistory, its answers as the bytes that come."""


class Requests(NamedTuple):
    """What each call sends, what each call of the floor does, and how many bytes the floor answers with."""

    subject: bytes
    floor: bytes
    floor_data: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Calls of one method. `place` is a key or thread that each turn has for itself."""

    name: str
    method: str
    prepare: Callable[[Stubs, str], Requests]
    check: Callable[[Stubs, str, Sent], None]
    floor: str = EMPTY
    shape: Shape = UNARY
    unit: str = "requests/s"
    units: int = 1
    """How many of the unit one call is."""
    least_ratio: float | None = None
    """The goal, as a share of the floor."""
    least_rate: float | None = None
    """The goal, in units a second."""


# --- Memory

_SCOPE = memory.Scope(name="bench")


def _prepare_get(stubs: Stubs, place: str) -> Requests:
    stubs.memory.Set(memory.MemorySetRequest(scope=_SCOPE, key=place, value=_VALUE))
    request = memory.MemoryGetRequest(scope=_SCOPE, key=place)
    entry = stubs.memory.Get(request).entry
    assert (entry.key, entry.version, entry.value) == (place, 1, _VALUE), entry
    return _same_body(request.SerializeToString())


def _check_get(stubs: Stubs, place: str, sent: Sent) -> None:
    answer = stubs.memory.Get(memory.MemoryGetRequest(scope=_SCOPE, key=place))
    assert sent.data == sent.calls * (HEADER + answer.ByteSize()), sent


def _prepare_set(stubs: Stubs, place: str) -> Requests:
    request = memory.MemorySetRequest(scope=_SCOPE, key=place, value=_VALUE)
    assert stubs.memory.Set(request).entry.version == 1
    return _same_body(request.SerializeToString())


def _check_set(stubs: Stubs, place: str, sent: Sent) -> None:
    request = memory.MemoryHistoryRequest(scope=_SCOPE, key=place, oldest_first=True)
    versions = [entry.version for answer in stubs.memory.History(request) for entry in answer.entries]
    assert versions == list(range(1, sent.calls + 2)), (len(versions), sent)


# --- StateStore


def event(size: int, thread_id: str = "", event_id: str = "") -> state.Event:
    """Return an event that takes `size` bytes as it is stored, give or take a few for its numbers."""
    made = state.Event(id=event_id, thread_id=thread_id, type="node_completed", node="plan")
    made.data.json = '""'
    room = size - made.ByteSize() - _ADDED - (0 if event_id else _MADE_UP_ID) - (0 if thread_id else _THREAD_ID)
    made.data.json = f'"{"d" * room}"'
    return made


def _batch(place: str) -> state.AppendEventsRequest:
    return state.AppendEventsRequest(thread_id=place, events=[event(EVENT_SIZE)] * BATCH)


def _prepare_append_next(stubs: Stubs, place: str) -> Requests:
    request = state.AppendNextEventRequest(event=event(EVENT_SIZE, place))
    stored = stubs.state.AppendNextEvent(request).event
    assert (stored.thread_id, stored.sequence, stored.data) == (place, 1, request.event.data), stored
    return _same_body(request.SerializeToString())


def _check_append_next(stubs: Stubs, place: str, sent: Sent) -> None:
    _check_thread(stubs, place, sent.calls + 1)


def _prepare_append_events(stubs: Stubs, place: str) -> Requests:
    request = _batch(place)
    answer = stubs.state.AppendEvents(request)
    assert (answer.first_sequence, answer.last_sequence, len(answer.ids)) == (1, BATCH, BATCH), answer
    return _same_body(request.SerializeToString())


def _check_append_events(stubs: Stubs, place: str, sent: Sent) -> None:
    _check_thread(stubs, place, (sent.calls + 1) * BATCH)
    stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=place))  # it is large


def _prepare_stream(stubs: Stubs, place: str) -> Requests:
    for _ in range(HISTORY // BATCH):
        stubs.state.AppendEvents(_batch(place))
    _check_thread(stubs, place, HISTORY)
    request = state.StreamHistoryRequest(thread_id=place)
    sizes = [len(answer) for answer in stubs.stream(request)]
    return Requests(request.SerializeToString(), pack_sizes(sizes), sum(sizes) + HEADER * len(sizes))


def _check_stream(stubs: Stubs, place: str, sent: Sent) -> None:
    answers = stubs.stream(state.StreamHistoryRequest(thread_id=place))
    assert sent.data == sent.calls * sum(HEADER + len(answer) for answer in answers), sent


def _check_thread(stubs: Stubs, place: str, count: int) -> None:
    answers = stubs.state.StreamHistory(state.StreamHistoryRequest(thread_id=place))
    sequences = [event.sequence for answer in answers for event in answer.events]
    assert sequences == list(range(1, count + 1)), (len(sequences), count)


def _same_body(request: bytes) -> Requests:
    """Let the floor take as many bytes, to within two."""
    body = BytesValue(value=bytes(max(0, len(request) - 3))).SerializeToString()
    return Requests(request, body, HEADER + ANSWER.ByteSize())


def _prepare_empty(stubs: Stubs, place: str) -> Requests:
    body = _same_body(bytes(EVENT_SIZE))
    return body._replace(subject=body.floor)


def _nothing_to_check(stubs: Stubs, place: str, sent: Sent) -> None:
    """A floor answers with its length alone, and that is checked in every turn."""


WORKLOADS = (
    Workload("Empty call, beside itself", EMPTY, _prepare_empty, _nothing_to_check),
    Workload("Get", "/statekeep.v1.Memory/Get", _prepare_get, _check_get, least_ratio=0.85),
    Workload("Set", "/statekeep.v1.Memory/Set", _prepare_set, _check_set, least_ratio=0.85),
    Workload(
        "AppendNextEvent",
        "/statekeep.v1.StateStore/AppendNextEvent",
        _prepare_append_next,
        _check_append_next,
        least_ratio=0.85,
    ),
    Workload(
        f"AppendEvents of {BATCH}",
        "/statekeep.v1.StateStore/AppendEvents",
        _prepare_append_events,
        _check_append_events,
        unit="events/s",
        units=BATCH,
        least_rate=80_000,
    ),
    *(
        Workload(
            f"StreamHistory of {HISTORY:,} x {EVENT_SIZE} B",
            STREAM_HISTORY,
            _prepare_stream,
            _check_stream,
            floor=STREAM,
            shape=shape,
            unit="events/s",
            units=HISTORY,
            least_ratio=0.85,
        )
        for shape in (Shape(1, 1), Shape(2, 2))
    ),
)
