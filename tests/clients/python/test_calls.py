"""Unary calls: what goes with them, when they are tried again, and how they end."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import grpc_testing
import pytest
import statekeep
from statekeep import errors
from statekeep._waiting import Readiness
from statekeep.v1 import memory_pb2, scratch_pb2, state_store_pb2

MEMORY = memory_pb2.DESCRIPTOR.services_by_name["Memory"]
SERVICES = [
    MEMORY,
    scratch_pb2.DESCRIPTOR.services_by_name["Scratch"],
    state_store_pb2.DESCRIPTOR.services_by_name["StateStore"],
]

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def fake() -> grpc_testing.Channel:
    return grpc_testing.channel(SERVICES, grpc_testing.strict_fake_time(0))


def taken(fake: grpc_testing.Channel, method: str, answer: Any, call: Callable[[], Any]) -> tuple[Any, Any, Any]:
    """Makes a call over the fake channel: its result, and the metadata and request that arrived."""
    with ThreadPoolExecutor(1) as thread:
        result: Future[Any] = thread.submit(call)
        metadata, request, rpc = fake.take_unary_unary(MEMORY.methods_by_name[method])
        rpc.terminate(answer, (), grpc.StatusCode.OK, "")
        return result.result(10), dict(metadata or ()), request


def test_the_token_goes_with_every_call(fake: grpc_testing.Channel) -> None:
    client = statekeep.Client(channel=fake, token="secret")  # noqa: S106 # a test's
    _, metadata, _ = taken(fake, "Get", memory_pb2.MemoryGetResponse(), lambda: client.memory.get("k", scope="s"))
    assert metadata["authorization"] == "Bearer secret"


def test_the_token_is_taken_from_the_environment(fake: grpc_testing.Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEKEEP_TOKEN", "from-there")
    client = statekeep.Client(channel=fake)
    _, metadata, _ = taken(fake, "Get", memory_pb2.MemoryGetResponse(), lambda: client.memory.get("k", scope="s"))
    assert metadata["authorization"] == "Bearer from-there"


def test_without_a_token_nothing_is_sent(fake: grpc_testing.Channel) -> None:
    client = statekeep.Client(channel=fake)
    _, metadata, _ = taken(fake, "Get", memory_pb2.MemoryGetResponse(), lambda: client.memory.get("k", scope="s"))
    assert "authorization" not in metadata


def test_a_write_carries_an_id_of_its_own(fake: grpc_testing.Channel) -> None:
    client = statekeep.Client(channel=fake)
    answer = memory_pb2.MemorySetResponse(entry=memory_pb2.MemoryEntry(scope=memory_pb2.Scope(type=1)))
    ids = {taken(fake, "Set", answer, lambda: client.memory.set("k", 1, scope="s"))[2].request_id for _ in range(2)}
    assert len(ids) == 2
    assert "" not in ids


def test_a_client_leaves_a_channel_open_that_it_was_given(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        statekeep.Client(channel=channel).close()
        assert statekeep.Client(channel=channel).memory.get("k", scope="s") is None


class Times:
    """Fails the first so many calls, and counts all."""

    def __init__(self, failures: int, code: grpc.StatusCode, answer: Any) -> None:
        self.calls = 0
        self.requests: list[Any] = []
        self._failures, self._code, self._answer = failures, code, answer

    def __call__(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.calls += 1
        self.requests.append(request)
        if self.calls <= self._failures:
            context.abort(self._code, "not now")
        return self._answer


def test_an_unavailable_server_is_tried_again_with_the_same_request(play: Any) -> None:
    behaviour = Times(2, UNAVAILABLE, memory_pb2.MemorySetResponse(entry={"version": 7, "scope": {"type": 1}}))
    with statekeep.Client(play({"Memory.Set": behaviour})) as client:
        assert client.memory.set("k", 1, scope="s").version == 7
    assert behaviour.calls == 3
    assert len({request.request_id for request in behaviour.requests}) == 1


def test_it_is_given_up_in_the_end(play: Any) -> None:
    behaviour = Times(100, UNAVAILABLE, None)
    with statekeep.Client(play({"Memory.Get": behaviour})) as client, pytest.raises(errors.UnavailableError):
        client.memory.get("k", scope="s")
    assert behaviour.calls == 4


@pytest.mark.parametrize("code", ["RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL", "UNKNOWN", "CANCELLED"])
def test_no_other_failure_is_tried_again(play: Any, code: str) -> None:
    behaviour = Times(1, grpc.StatusCode[code], memory_pb2.MemoryGetResponse())
    with statekeep.Client(play({"Memory.Get": behaviour})) as client, pytest.raises(errors.StatekeepError):
        client.memory.get("k", scope="s")
    assert behaviour.calls == 1


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("Scratch.Clear", lambda client: client.scratch.clear("i")),
        ("Scratch.Open", lambda client: client.scratch.open("i")),
        ("Scratch.Close", lambda client: client.scratch.close("i")),
        ("Memory.Purge", lambda client: client.memory.purge(scope="s", all_keys=True)),
        ("StateStore.DeleteThread", lambda client: client.state.delete_thread("t")),
    ],
)
def test_what_tells_what_it_removed_is_not_tried_again(play: Any, method: str, call: Any) -> None:
    behaviour = Times(1, UNAVAILABLE, None)
    with statekeep.Client(play({method: behaviour})) as client, pytest.raises(errors.UnavailableError):
        call(client)
    assert behaviour.calls == 1


def test_a_large_write_is_tried_again_too(play: Any) -> None:
    behaviour = Times(1, UNAVAILABLE, memory_pb2.MemorySetResponse(entry={"scope": {"type": 1}}))
    with statekeep.Client(play({"Memory.Set": behaviour})) as client:
        client.memory.set("k", bytes(3 << 20), scope="s")
    assert behaviour.calls == 2


@pytest.fixture
def stuck(play: Any) -> Any:
    """The address of a server that does not answer Get until a call of it ends."""

    def behave(request: Any, context: grpc.ServicerContext) -> Any:
        ended = threading.Event()
        context.add_callback(ended.set)
        began.set()
        ended.wait(60)
        return memory_pb2.MemoryGetResponse()

    began = threading.Event()
    return play({"Memory.Get": behave}), began


def test_a_call_ends_at_the_clients_timeout(stuck: Any) -> None:
    with statekeep.Client(stuck[0], timeout=0.05) as client, pytest.raises(errors.DeadlineExceededError):
        client.memory.get("k", scope="s")


def test_a_calls_own_timeout_goes_before_the_clients(stuck: Any) -> None:
    with statekeep.Client(stuck[0], timeout=None) as client, pytest.raises(errors.DeadlineExceededError):
        client.memory.get("k", scope="s", timeout=0.05)


def test_a_deadline_is_10_seconds_unless_told_otherwise(play: Any) -> None:
    left: list[float | None] = []

    def behave(request: Any, context: grpc.ServicerContext) -> Any:
        left.append(context.time_remaining())
        return memory_pb2.MemoryGetResponse()

    address = play({"Memory.Get": behave})
    with statekeep.Client(address) as client, statekeep.Client(address, timeout=None) as patient:
        client.memory.get("k", scope="s")
        for long in (float("inf"), 1e18, 1e300):  # gRPC takes what it cannot count for no time at all
            client.memory.get("k", scope="s", timeout=long)
        patient.memory.get("k", scope="s")
    assert left[0] is not None
    assert 5 < left[0] < 11  # gRPC rounds up
    assert not any(seconds and seconds < 10**6 for seconds in left[1:])


def test_a_call_may_wait_for_its_server(address: str) -> None:
    with statekeep.Client("127.0.0.1:1", wait_for_ready=True) as client, pytest.raises(errors.DeadlineExceededError):
        client.memory.get("k", scope="s", timeout=0.05)
    with statekeep.Client(address, wait_for_ready=True) as client:
        assert client.memory.get("k", scope="s") is None


def test_waiting_for_a_server_ends_when_it_is_there(address: str) -> None:
    with statekeep.Client(address) as client:
        client.wait_until_ready(10)

    async def wait() -> None:
        async with statekeep.AsyncClient(address) as client:
            await client.wait_until_ready(10)

    asyncio.run(wait())


def test_waiting_for_a_server_that_does_not_come_ends_at_the_timeout() -> None:
    with statekeep.Client("127.0.0.1:1") as client, pytest.raises(errors.DeadlineExceededError, match=r"127.0.0.1:1 w"):
        client.wait_until_ready(0.05)

    async def wait() -> None:
        async with statekeep.AsyncClient("127.0.0.1:1") as client:
            await client.wait_until_ready(0.05)

    with pytest.raises(errors.DeadlineExceededError):
        asyncio.run(wait())


@contextmanager
def closed_soon(client: statekeep.Client | statekeep.AsyncClient) -> Iterator[None]:
    """Closes the client from another thread."""
    closing = threading.Timer(0.2, client.connection.close)
    closing.start()
    yield
    closing.join()


@pytest.mark.parametrize("timeout", [None, 60])
def test_closing_ends_the_wait_for_a_server(timeout: float | None) -> None:
    client = statekeep.Client("127.0.0.1:1")
    with closed_soon(client), pytest.raises(errors.ClosedError):
        client.wait_until_ready(timeout)

    async def wait() -> None:
        client = statekeep.AsyncClient("127.0.0.1:1")
        with closed_soon(client), pytest.raises(errors.ClosedError):
            await asyncio.wait_for(client.wait_until_ready(timeout), 10)

    asyncio.run(wait())


def test_closing_ends_the_wait_for_a_channel_that_was_given() -> None:
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        client = statekeep.Client(channel=channel)
        with closed_soon(client), pytest.raises(errors.ClosedError):
            client.wait_until_ready()


def test_a_channel_that_its_owner_closed_will_not_be_ready() -> None:
    channel = grpc.insecure_channel("127.0.0.1:1")
    client = statekeep.Client(channel=channel)
    channel.close()
    with pytest.raises(errors.ClosedError):
        client.wait_until_ready(10)


def test_what_begins_unseen_by_closing_ends_all_the_same() -> None:
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        connection = statekeep.Client(channel=channel).connection
        connection.close()
        readiness = Readiness(channel)
        connection.add(readiness)
        with pytest.raises(grpc.FutureCancelledError):
            readiness.call.result(10)
        readiness.cancel()


def test_a_server_of_no_known_method_is_ready(play: Any) -> None:
    with statekeep.Client(play({"Memory.Get": Times(0, UNAVAILABLE, None)})) as client:
        client.wait_until_ready(10)


def test_a_closed_client_says_so(address: str) -> None:
    client = statekeep.Client(address)
    client.close()
    client.close()
    for call in (
        lambda: client.memory.get("k", scope="s"),
        lambda: next(client.state.history("t")),
        lambda: client.scratch.attach("i").__enter__(),
        client.wait_until_ready,
    ):
        with pytest.raises(errors.ClosedError, match="closed"):
            call()


def test_closing_ends_a_call_under_way(stuck: Any) -> None:
    address, began = stuck
    with statekeep.Client(address) as client, ThreadPoolExecutor(1) as thread:
        call = thread.submit(client.memory.get, "k", scope="s")
        assert began.wait(10)
        client.close()
        with pytest.raises(errors.ClosedError):
            call.result(10)


def test_a_unix_socket_is_an_address(play: Any, tmp_path: Any) -> None:
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        server.add_insecure_port(f"unix:{tmp_path}/s")
        server.start()
        with statekeep.Client(f"unix:{tmp_path}/s") as client, pytest.raises(errors.UnimplementedError):
            client.memory.get("k", scope="s")
        server.stop(None).wait()


def test_the_address_is_taken_from_the_environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEKEEP_ADDRESS", address)
    with statekeep.Client() as client:
        assert client.memory.get("k", scope="s") is None
    monkeypatch.delenv("STATEKEEP_ADDRESS")
    with statekeep.Client() as client:
        assert client.connection.address == "127.0.0.1:50051"
