"""A stream that loses its connection goes on where it was: nothing is lost, nothing comes twice."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import grpc
import pytest
import statekeep
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from statekeep import errors
from statekeep.v1 import memory_pb2, state_store_pb2

pytestmark = pytest.mark.usefixtures("no_pause")

LOST = grpc.StatusCode.UNAVAILABLE
Chunk = state_store_pb2.StreamHistoryResponse
Attempt: TypeAlias = Callable[[Any, grpc.ServicerContext], Iterator[Any]]


def events(*revisions: int, upto: int | None = None, caught_up: bool = False) -> Chunk:
    """A message with an event for each revision, whose sequence is that too."""
    return Chunk(
        events=[{"id": f"e{revision}", "sequence": revision, "revision": revision} for revision in revisions],
        revision=revisions[-1] if upto is None else upto,
        caught_up=caught_up,
    )


def attempt(*messages: Any, end: grpc.StatusCode | str | None = None, stay: bool = False) -> Attempt:
    """Sends messages; then stays, or fails with a code or a reason, or ends."""

    def behave(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield from messages
        if stay:
            ended = threading.Event()
            context.add_callback(ended.set)
            ended.wait(60)
        elif isinstance(end, str):
            detail = AnyMessage()
            detail.Pack(ErrorInfo(reason=end))
            code = {"SHUTTING_DOWN": LOST, "REVISION_GONE": grpc.StatusCode.OUT_OF_RANGE}[end]
            context.abort_with_status(rpc_status.to_status(Status(code=code.value[0], message=end, details=[detail])))
        elif end:
            context.abort(end, "lost")

    return behave


class Script:
    """Plays one attempt after the other, the last one for ever, and keeps the requests."""

    def __init__(self, *attempts: Attempt) -> None:
        self.requests: list[Any] = []
        self._attempts = list(attempts)

    def __call__(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.requests.append(request)
        play = self._attempts.pop(0) if len(self._attempts) > 1 else self._attempts[0]
        return play(request, context)

    @property
    def cursors(self) -> list[tuple[int, int, int]]:
        return [(request.after_revision, request.limit, request.last) for request in self.requests]


@pytest.fixture
def scripted(play: Any) -> Iterator[Callable[..., tuple[statekeep.Client, Script]]]:
    clients: list[statekeep.Client] = []

    def start(*attempts: Attempt, method: str = "StateStore.StreamHistory") -> tuple[statekeep.Client, Script]:
        script = Script(*attempts)
        clients.append(statekeep.Client(play({method: script})))
        return clients[-1], script

    yield start
    for client in clients:
        client.close()


def sequences(reading: Any) -> list[int]:
    return [event.sequence for event in reading]


def test_a_read_goes_on_after_the_last_message(scripted: Any) -> None:
    client, script = scripted(attempt(events(1, 2, upto=4), end=LOST), attempt(events(7, 9, caught_up=True)))
    reading = client.state.history("t")
    assert sequences(reading) == [1, 2, 7, 9]
    assert script.cursors == [(0, 0, 0), (4, 0, 0)]
    assert (reading.revision, reading.caught_up) == (9, True)


def test_a_server_that_shuts_down_is_a_lost_connection(scripted: Any) -> None:
    client, script = scripted(attempt(events(1), end="SHUTTING_DOWN"), attempt(events(2)))
    assert sequences(client.state.history("t")) == [1, 2]
    assert script.cursors == [(0, 0, 0), (1, 0, 0)]


def test_the_cursor_is_the_last_event_handed_out(scripted: Any) -> None:
    client, _ = scripted(attempt(events(3, 5, 8, upto=20), stay=True))
    with client.state.tail("t", after_revision=2) as tail:
        assert tail.revision == 2
        assert (next(tail).sequence, tail.revision) == (3, 3)
        assert (next(tail).sequence, tail.revision) == (5, 5)
        assert (next(tail).sequence, tail.revision) == (8, 20)


def test_a_limit_is_what_is_left_of_it(scripted: Any) -> None:
    client, script = scripted(
        attempt(events(1, 2), end=LOST), attempt(events(3, 4), end=LOST), attempt(events(5, upto=5))
    )
    assert sequences(client.state.history("t", limit=5)) == [1, 2, 3, 4, 5]
    assert script.cursors == [(0, 5, 0), (2, 3, 0), (4, 1, 0)]


def test_a_limit_that_was_reached_asks_for_no_more(scripted: Any) -> None:
    client, script = scripted(attempt(events(1, 2), end=LOST))
    assert sequences(client.state.history("t", limit=2)) == [1, 2]
    assert len(script.requests) == 1


def test_the_last_n_stay_n_in_a_read(scripted: Any) -> None:
    client, script = scripted(attempt(events(8), end=LOST), attempt(events(9, 10, caught_up=True)))
    assert sequences(client.state.history("t", last=3)) == [8, 9, 10]
    assert script.cursors == [(0, 0, 3), (8, 2, 0)]


def test_the_last_n_of_a_tail_go_on_without_a_limit(scripted: Any) -> None:
    client, script = scripted(
        attempt(end=LOST), attempt(events(8), end=LOST), attempt(events(9, 10, caught_up=True), stay=True)
    )
    with client.state.tail("t", last=2) as tail:
        assert [next(tail).sequence for _ in range(3)] == [8, 9, 10]
    assert script.cursors == [(0, 0, 2), (0, 0, 2), (8, 0, 0)]


def test_a_thread_that_was_empty_is_read_from_its_start(scripted: Any) -> None:
    empty = Chunk(caught_up=True, revision=0)
    client, script = scripted(attempt(empty, end=LOST), attempt(events(4, 5, 6), stay=True))
    with client.state.tail("t", last=1) as tail:
        assert tail.caught_up
        assert [next(tail).sequence for _ in range(3)] == [4, 5, 6]
    assert script.cursors == [(0, 0, 1), (0, 0, 0)]


def test_a_heartbeat_moves_the_cursor(scripted: Any) -> None:
    client, script = scripted(attempt(events(1), Chunk(revision=50), end=LOST), attempt(events(60), stay=True))
    with client.state.tail("t", heartbeat=0.5) as tail:
        assert [next(tail).sequence for _ in range(2)] == [1, 60]
    assert script.cursors == [(0, 0, 0), (50, 0, 0)]
    assert script.requests[0].heartbeat.ToMilliseconds() == 500


def test_what_is_no_lost_connection_is_raised(scripted: Any) -> None:
    client, script = scripted(attempt(events(1), end="REVISION_GONE"))
    tail = client.state.tail("t")
    assert next(tail).sequence == 1
    with pytest.raises(errors.RevisionGoneError):
        next(tail)
    assert tail.revision == 1
    assert len(script.requests) == 1


def test_a_read_that_gets_no_further_is_given_up(scripted: Any) -> None:
    client, script = scripted(attempt(events(1), end=LOST), attempt(end=LOST))
    history = client.state.history("t")
    assert next(history).sequence == 1
    with pytest.raises(errors.UnavailableError):
        next(history)
    assert len(script.requests) == 5


def test_a_read_that_gets_further_each_time_is_not_given_up(scripted: Any) -> None:
    steps = [attempt(events(number), end=LOST) for number in range(1, 20)]
    client, _ = scripted(*steps, attempt(events(20)))
    assert sequences(client.state.history("t")) == list(range(1, 21))


def test_a_tail_that_never_began_is_given_up(scripted: Any) -> None:
    client, script = scripted(attempt(end=LOST))
    with pytest.raises(errors.UnavailableError):
        next(client.state.tail("t"))
    assert len(script.requests) == 5


def test_a_tail_that_began_goes_on_trying(scripted: Any) -> None:
    client, _ = scripted(attempt(events(1), end=LOST), *[attempt(end=LOST)] * 20, attempt(events(2), stay=True))
    with client.state.tail("t") as tail:
        assert [next(tail).sequence for _ in range(2)] == [1, 2]


def test_a_tail_goes_on_trying_no_longer_than_it_is_told(scripted: Any) -> None:
    client, script = scripted(attempt(events(1), end=LOST))
    tail = client.state.tail("t", retry_for=0)
    assert next(tail).sequence == 1
    with pytest.raises(errors.UnavailableError):
        next(tail)
    assert len(script.requests) == 1


def test_records_come_in_the_order_they_were_stored(scripted: Any) -> None:
    chunk = events(1, 4, 6)
    chunk.checkpoints.add(id="c2", revision=2)
    chunk.checkpoints.add(id="c5", revision=5)
    client, script = scripted(attempt(chunk, end=LOST), attempt(events(7)))
    records = client.state.records("t")
    assert [record.id for record in records] == ["e1", "c2", "e4", "c5", "e6", "e7"]
    assert script.requests[1].include_checkpoints
    assert script.cursors == [(0, 0, 0), (6, 0, 0)]


def watched(*revisions: int) -> memory_pb2.MemoryWatchResponse:
    entries = [{"scope": {"type": 1, "name": "s"}, "key": "k", "revision": revision} for revision in revisions]
    return memory_pb2.MemoryWatchResponse(entries=entries, revision=revisions[-1] if revisions else 3, caught_up=True)


def test_a_watch_goes_on_where_it_was(scripted: Any) -> None:
    client, script = scripted(
        attempt(watched(), end=LOST), attempt(watched(5, 6), end=LOST), attempt(watched(7), stay=True),
        method="Memory.Watch",
    )  # fmt: skip
    with client.memory.watch(scope="s") as watch:
        assert [next(watch).revision for _ in range(3)] == [5, 6, 7]
    assert not script.requests[0].HasField("after_revision")
    assert [request.after_revision for request in script.requests[1:]] == [3, 6]


def versions(*numbers: int) -> memory_pb2.MemoryHistoryResponse:
    return memory_pb2.MemoryHistoryResponse(
        entries=[{"scope": {"type": 1}, "version": number, "revision": 100 + number} for number in numbers]
    )


def test_a_keys_history_goes_on_below_the_version_it_was_at(scripted: Any) -> None:
    client, script = scripted(
        attempt(versions(9, 8), end=LOST), attempt(versions(10, 9, 8, 7), versions(6, 5)), method="Memory.History"
    )
    assert [entry.version for entry in client.memory.history("k", scope="s", limit=4)] == [9, 8, 7, 6]
    assert [request.limit for request in script.requests] == [4, 0]


def test_a_keys_history_goes_on_above_it_oldest_first(scripted: Any) -> None:
    client, _ = scripted(attempt(versions(1, 2), end=LOST), attempt(versions(1, 2, 3)), method="Memory.History")
    assert [entry.version for entry in client.memory.history("k", scope="s", oldest_first=True)] == [1, 2, 3]


def test_the_timeout_of_a_read_is_for_all_of_its_attempts(scripted: Any) -> None:
    client, _ = scripted(attempt(events(1), end=LOST), attempt(stay=True))
    history = client.state.history("t", timeout=0.3)
    assert next(history).sequence == 1
    with pytest.raises(errors.DeadlineExceededError):
        next(history)


def test_closing_a_tail_from_another_thread_ends_it(scripted: Any) -> None:
    client, _ = scripted(attempt(events(1), stay=True))
    tail = client.state.tail("t")
    assert next(tail).sequence == 1
    closing = threading.Thread(target=tail.close)
    closing.start()
    assert list(tail) == []
    closing.join()


def test_closing_the_client_fails_a_tail(scripted: Any) -> None:
    client, _ = scripted(attempt(events(1), stay=True))
    tail = client.state.tail("t")
    assert next(tail).sequence == 1
    closing = threading.Thread(target=client.close)
    closing.start()
    with pytest.raises(errors.ClosedError):
        next(tail)
    closing.join()


def test_an_asynchronous_tail_goes_on_in_the_same_way(scripted: Any) -> None:
    client, script = scripted(attempt(events(1, 2, upto=4), end=LOST), attempt(events(7, 9), stay=True))

    async def read() -> None:
        async with (
            statekeep.AsyncClient(client.connection.address) as other,
            other.state.tail("t") as tail,
        ):
            assert [(await anext(tail)).sequence for _ in range(3)] == [1, 2, 7]
            assert tail.revision == 7

    asyncio.run(read())
    assert script.cursors == [(0, 0, 0), (4, 0, 0)]


def test_a_wait_that_was_cancelled_loses_nothing(scripted: Any) -> None:
    client, script = scripted(attempt(events(1), stay=True), attempt(events(2), stay=True))

    async def read() -> None:
        async with statekeep.AsyncClient(client.connection.address) as other:
            tail = other.state.tail("t")
            assert (await anext(tail)).sequence == 1
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(tail), 0.02)
            assert (await anext(tail)).sequence == 2

    asyncio.run(read())
    assert script.cursors == [(0, 0, 0), (1, 0, 0)]


@pytest.mark.parametrize("begin", [lambda state: state.history("t"), lambda state: state.tail("t", retry_for=1)])
def test_a_client_that_waits_for_its_server_gives_a_read_up_too(begin: Any) -> None:
    with statekeep.Client("127.0.0.1:1", wait_for_ready=True) as client, pytest.raises(errors.UnavailableError):
        next(begin(client.state))


def test_a_client_that_waits_for_its_server_gives_a_tail_up_in_time(wire: Any) -> None:
    with statekeep.Client(wire.address, wait_for_ready=True) as client:
        client.state.append_next("given-up", statekeep.NewEvent("x"))
        with client.state.tail("given-up", retry_for=0.3) as tail:
            next(tail)
            wire.close()
            with pytest.raises(errors.UnavailableError):
                next(tail)


def test_an_attachment_still_waits_for_its_server() -> None:
    with statekeep.Client("127.0.0.1:1", wait_for_ready=True) as client:
        closing = threading.Timer(0.3, client.close)
        closing.start()
        with pytest.raises(errors.ClosedError), client.scratch.attach("i"):
            pass
        closing.join()
