"""The end of a server: SIGTERM and SIGINT drain it, whatever its clients do."""

import queue
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2 as reflection
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub
from rpc_support import (
    MIB,
    Refusal,
    Stubs,
    end_of,
    next_of,
    refusal_of,
    scope,
    set_of,
    stream_of,
    until_caught_up,
    watch_of,
)
from server_process import ServerProcess
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1.value_pb2 import Value

StartServer = Callable[..., ServerProcess]
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@contextmanager
def channel_to(address: str, *options: tuple[str, int]) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1), *options]) as channel:
        yield channel


def ended_within(process: ServerProcess, seconds: float) -> None:
    started = time.monotonic()
    assert process.wait(seconds + 6) == 0, process.stderr
    assert time.monotonic() - started < seconds


def health_watch(channel: grpc.Channel, service: str = "") -> Any:
    stub = health_pb2_grpc.HealthStub(channel)
    return stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=60)


@pytest.mark.parametrize("number", SIGNALS)
def test_an_idle_server_ends_at_once(number: signal.Signals, start_server: StartServer) -> None:
    process = start_server()
    process.signal(number)
    ended_within(process, 3)
    assert process.stderr == ""


@pytest.mark.parametrize("number", SIGNALS)
def test_health_says_not_serving_before_the_end(number: signal.Signals, start_server: StartServer) -> None:
    process = start_server("--grace", "2")
    with channel_to(process.address) as channel:
        watches = [health_watch(channel, name) for name in ("", "statekeep.v1.Memory")]
        for watch in watches:
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        process.signal(number)
        for watch in watches:
            assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        ended_within(process, 4)


def test_a_stream_of_health_does_not_hold_up_the_end(start_server: StartServer) -> None:
    process = start_server("--grace", "15")
    with channel_to(process.address) as channel:
        watch = health_watch(channel)
        next(watch)
        process.signal(signal.SIGTERM)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        ended_within(process, 5)


def test_a_stream_of_reflection_does_not_hold_up_the_end(start_server: StartServer) -> None:
    process = start_server("--grace", "15")
    asked: queue.Queue[reflection.ServerReflectionRequest | None] = queue.Queue()
    with channel_to(process.address) as channel:
        stub = ServerReflectionStub(channel)  # type: ignore[no-untyped-call]
        stream = stub.ServerReflectionInfo(iter(asked.get, None), timeout=60)
        asked.put(reflection.ServerReflectionRequest(list_services=""))
        assert next(stream).list_services_response.service
        process.signal(signal.SIGTERM)
        ended_within(process, 5)
        asked.put(None)


def test_watches_of_health_are_bounded_and_checks_go_on(start_server: StartServer) -> None:
    process = start_server()
    asked = health_pb2.HealthCheckRequest()
    with channel_to(process.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watches = [stub.Watch(asked, timeout=60) for _ in range(1_000)]
        assert all(next(watch).status == health_pb2.HealthCheckResponse.SERVING for watch in watches)
        with pytest.raises(grpc.RpcError, match="use Check"):
            next(stub.Watch(asked, timeout=60))
        assert stub.Check(asked, timeout=60).status == health_pb2.HealthCheckResponse.SERVING
        for watch in watches:
            watch.cancel()


def followers(stubs: Stubs) -> list[Any]:
    """Open a stream of every kind that stays, and read what each has to send."""
    stubs.state.AppendNextEvent(next_of("thread"))
    stubs.memory.Set(set_of("scope", "k"))
    streams = [
        stubs.state.StreamHistory(stream_of("thread", follow=True), timeout=60),
        stubs.state.StreamHistory(stream_of("nobody", follow=True), timeout=60),
        stubs.memory.Watch(watch_of("scope", after_revision=0), timeout=60),
    ]
    for stream in streams:
        until_caught_up(stream)
    attached = stubs.scratch.Attach(scratch.ScratchAttachRequest(instance_id="i"), timeout=60)
    next(attached)
    return [*streams, attached]


def check_shut_down(refusal: Refusal) -> None:
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
    assert refusal.domain == "statekeep"
    assert refusal.retry_after is not None
    assert 0 < refusal.retry_after <= 60


@pytest.mark.parametrize("number", SIGNALS)
def test_followers_end_and_are_told_when_to_come_back(number: signal.Signals, start_server: StartServer) -> None:
    process = start_server()
    with channel_to(process.address) as channel:
        streams = followers(Stubs(channel))
        process.signal(number)
        for stream in streams:
            check_shut_down(end_of(stream))
        ended_within(process, 3)


def test_a_follower_that_is_still_catching_up_ends_with_a_cursor_to_resume_at(start_server: StartServer) -> None:
    process = start_server("--grace", "10")
    with channel_to(process.address) as channel:
        stubs = Stubs(channel)
        for _ in range(100):
            stubs.state.AppendNextEvent(next_of("thread", data=Value(data=bytes(300_000))))
        stream = stubs.state.StreamHistory(stream_of("thread", follow=True), timeout=60)
        message = next(stream)
        process.signal(signal.SIGTERM)
        try:
            for message in stream:
                assert message.revision >= message.events[-1].revision
        except grpc.RpcError as error:
            check_shut_down(refusal_of(error))
        assert message.revision
        ended_within(process, 5)


def test_a_read_that_is_in_flight_is_finished(start_server: StartServer) -> None:
    process = start_server("--grace", "20")
    with channel_to(process.address) as channel:
        stubs = Stubs(channel)
        for _ in range(100):
            stubs.state.AppendNextEvent(next_of("thread", data=Value(data=bytes(300_000))))
        stream = stubs.state.StreamHistory(stream_of("thread"), timeout=60)
        messages = [next(stream)]
        health = health_watch(channel)
        next(health)
        process.signal(signal.SIGTERM)
        assert next(health).status == health_pb2.HealthCheckResponse.NOT_SERVING
        health.cancel()
        messages += list(stream)
        assert sum(len(message.events) for message in messages) == 100
        assert messages[-1].caught_up
        ended_within(process, 3)


@pytest.mark.parametrize(("count", "size"), [(60, MIB), (300, 100), (20, 100)])
def test_calls_in_flight_are_answered_or_told_to_come_back(count: int, size: int, start_server: StartServer) -> None:
    process = start_server("--grace", "10")
    with channel_to(process.address) as channel:
        stubs = Stubs(channel)
        value = Value(data=bytes(size))
        requests = [memory.MemorySetRequest(scope=scope("s"), key=f"k{number}", value=value) for number in range(count)]
        calls = [stubs.memory.Set.future(request, timeout=30) for request in requests]
        assert calls[0].result()
        process.signal(signal.SIGTERM)
        codes = [call.code() for call in calls if call.exception() or True]
        assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
        ended_within(process, 5)


def test_callers_that_never_pause_are_told_to_come_back(start_server: StartServer) -> None:
    process = start_server("--grace", "10")

    def call_until_refused(number: int) -> grpc.StatusCode:
        with grpc.insecure_channel(process.address, options=[("grpc.enable_retries", 0)]) as channel:
            stubs = Stubs(channel)
            for _ in range(1_000_000):
                try:
                    stubs.memory.Set(set_of("s", f"k{number}"), timeout=30)
                except grpc.RpcError as error:
                    return error.code()
        raise AssertionError("it was never refused")

    callers = 16
    with ThreadPoolExecutor(callers) as pool:
        refused = [pool.submit(call_until_refused, number) for number in range(callers)]
        with channel_to(process.address) as channel:
            while not Stubs(channel).memory.Get(memory.MemoryGetRequest(scope=scope("s"), key="k0")).HasField("entry"):
                pass
        process.signal(signal.SIGTERM)
        assert {call.result(60) for call in refused} == {grpc.StatusCode.UNAVAILABLE}
    ended_within(process, 5)


@pytest.mark.parametrize("secret", ["", "a-token-of-32-characters-or-more-0"])
def test_a_stream_that_outlasts_the_grace_time_is_told_so(secret: str, start_server: StartServer) -> None:
    process = start_server("--grace", "1", extra={"STATEKEEP_TOKEN": secret} if secret else {})
    with channel_to(process.address) as channel:
        sent: queue.Queue[admin.AdminImportRequest | None] = queue.Queue()
        metadata = [("authorization", f"Bearer {secret}")] if secret else []
        own = Stubs(channel).admin
        arriving = own.Import(iter(sent.get, None), timeout=60, metadata=metadata)
        own.GetInfo(admin.AdminGetInfoRequest(), metadata=metadata)  # on the same connection, so that is begun after it
        process.signal(signal.SIGTERM)
        check_shut_down(end_of(arriving))
        ended_within(process, 4)
        sent.put(None)


def test_a_follower_that_never_reads_is_cut_off_after_the_grace_time(start_server: StartServer) -> None:
    process = start_server("--grace", "2")
    with channel_to(process.address) as channel, channel_to(process.address) as writing:
        stubs = Stubs(writing)
        for _ in range(200):
            stubs.state.AppendNextEvent(next_of("thread", data=Value(data=bytes(300_000))))
        stuck = [Stubs(channel).state.StreamHistory(stream_of("thread", follow=True), timeout=60) for _ in range(3)]
        stuck.append(Stubs(channel).state.StreamHistory(stream_of("thread"), timeout=60))
        stubs.state.AppendNextEvent(next_of("thread"))
        process.signal(signal.SIGTERM)
        ended_within(process, 4)
        for stream in stuck:
            stream.cancel()


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def header(name: str, value: str) -> bytes:
    return b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


def raw_call(address: str, path: str, message: bytes) -> socket.socket:
    """Call a method in HTTP/2 by hand, with no window for as much as one byte of an answer."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": address,
        "content-type": "application/grpc",
        "te": "trailers",
    }
    no_window = b"\x00\x04" + (0).to_bytes(4)
    block = b"".join(header(*pair) for pair in headers.items())
    body = b"\x00" + len(message).to_bytes(4) + message
    connection.sendall(PREFACE + frame(4, 0, 0, no_window) + frame(1, 4, 1, block) + frame(0, 1, 1, body))
    return connection


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/grpc.health.v1.Health/Watch", b""),
        ("/statekeep.v1.StateStore/StreamHistory", b"\x0a\x01t\x38\x01"),
        ("/statekeep.v1.Memory/Watch", b"\x0a\x03\x12\x01s"),
        ("/statekeep.v1.Scratch/Attach", b"\x0a\x01i"),
    ],
    ids=["Health.Watch", "StreamHistory", "Memory.Watch", "Attach"],
)
def test_a_client_that_takes_not_one_byte_does_not_keep_the_server(
    path: str, message: bytes, start_server: StartServer
) -> None:
    process = start_server("--grace", "2")
    with raw_call(process.address, path, message) as connection:
        # The answer's headers are no data, so they come: the call is being served.
        received = b""
        while b"application/grpc" not in received and len(received) < 60:
            received += connection.recv(4096)
        with channel_to(process.address) as channel:
            for _ in range(50):
                Stubs(channel).memory.Set(set_of("scope", "k"))
            process.signal(signal.SIGTERM)
            ended_within(process, 4)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_changes_nothing(number: signal.Signals, start_server: StartServer) -> None:
    process = start_server("--grace", "2")
    with channel_to(process.address) as channel:
        watch = health_watch(channel)
        next(watch)
        for _ in range(3):
            process.signal(number)
        ended_within(process, 4)


def test_new_calls_are_unavailable_once_it_has_ended(start_server: StartServer) -> None:
    process = start_server()
    with channel_to(process.address) as channel:
        stubs = Stubs(channel)
        stubs.memory.Set(set_of("s", "k"))
        process.signal(signal.SIGTERM)
        ended_within(process, 3)
        with pytest.raises(grpc.RpcError) as caught:
            stubs.memory.Set(set_of("s", "k"), timeout=5)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
