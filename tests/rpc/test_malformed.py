"""What no client should send, to every method there is: refused with a reason, and never a failure of the server."""

import random
from collections.abc import Callable, Iterator

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from requests_of import METHODS, good_request, nasty_request, path_of, without_each_message
from rpc_support import CODES, Refusal, refusal_of
from server_process import ServerProcess

Send = Callable[[bytes], Refusal | None]


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[ServerProcess]:
    """Give a server of its own, which must have nothing in its log at the end."""
    process = ServerProcess()
    yield process
    log = process.stderr
    process.stop()
    assert "Traceback" not in log


@pytest.fixture(params=METHODS, ids=lambda method: f"{method.containing_service.name}.{method.name}")
def method(request: pytest.FixtureRequest) -> MethodDescriptor:
    """Give each method in turn."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def send(fuzzed: ServerProcess, method: MethodDescriptor) -> Iterator[Send]:
    """Give what sends bytes to the method, and returns how they were refused; of a stream it reads one message."""
    with grpc.insecure_channel(fuzzed.address) as channel:
        kind = channel.unary_stream if method.server_streaming else channel.unary_unary
        kind = channel.stream_stream if method.client_streaming else kind
        call = kind(path_of(method), request_serializer=None, response_deserializer=None)

        def send(data: bytes) -> Refusal | None:
            try:
                answer = call(iter([data]) if method.client_streaming else data, timeout=20)
                if method.server_streaming:
                    next(answer, None)
                    answer.cancel()
            except grpc.RpcError as error:
                return refusal_of(error)
            return None

        yield send


def check(refusal: Refusal | None) -> None:
    if refusal is not None:
        assert refusal.reason in CODES, refusal
        assert refusal.code == CODES[refusal.reason], refusal
        assert refusal.domain == "statekeep", refusal
        assert len(refusal.message.encode()) <= 1024, refusal


def test_random_bytes_are_refused_with_a_reason(send: Send) -> None:
    chance = random.Random(1)
    for _ in range(60):
        check(send(chance.randbytes(chance.randrange(1, 80))))


def test_bytes_that_are_no_message_are_an_invalid_argument(send: Send) -> None:
    for data in (
        b"\xff",
        b"\x0a\xff",
        b"\x0a\x7fxx",
        b"\x0b",
        b"\x07",
        b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    ):
        refusal = send(data)
        assert refusal is not None
        assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT, refusal
        check(refusal)


def test_truncated_requests_are_refused_with_a_reason(send: Send, method: MethodDescriptor) -> None:
    data = good_request(method).SerializeToString()
    for end in range(0, len(data), max(1, len(data) // 40)):
        check(send(data[:end]))


def test_bits_turned_over_are_refused_with_a_reason(send: Send, method: MethodDescriptor) -> None:
    data = good_request(method).SerializeToString() or bytes(8)  # a request without fields is nothing
    chance = random.Random(2)
    for _ in range(60):
        turned = bytearray(data)
        if turned:  # not every request has a field
            turned[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        check(send(bytes(turned)))


def test_a_request_that_lacks_any_message_in_it_is_no_failure(send: Send, method: MethodDescriptor) -> None:
    check(send(b""))
    for request in without_each_message(good_request(method)):
        check(send(request.SerializeToString()))


def test_any_well_formed_request_is_answered_or_refused_with_a_reason(send: Send, method: MethodDescriptor) -> None:
    chance = random.Random(3)
    for _ in range(150):
        check(send(nasty_request(method, chance).SerializeToString()))


def test_unknown_fields_are_no_failure(send: Send, method: MethodDescriptor) -> None:
    check(send(good_request(method).SerializeToString() + b"\xfa\x7f\x03abc\xf8\x7f\x01"))


def test_text_that_is_no_utf8_is_an_invalid_argument(fuzzed: ServerProcess) -> None:
    with grpc.insecure_channel(fuzzed.address) as channel:
        call = channel.unary_unary("/statekeep.v1.Scratch/Put", request_serializer=None, response_deserializer=None)
        for name in (b"\xff", b"\xed\xa0\x80", b"\xc0\x80"):
            put = b"\x0a" + bytes((len(name),)) + name + b"\x12\x01k\x1a\x03\x0a\x01" + b"1"
            with pytest.raises(grpc.RpcError) as caught:
                call(put, timeout=20)
            assert refusal_of(caught.value).reason == "INVALID_FIELD"


@pytest.mark.parametrize(
    "path", ["/statekeep.v1.Memory/Nothing", "/statekeep.v1.Nothing/Set", "/statekeep.v2.Memory/Set", "/"]
)
def test_an_unknown_method_is_unimplemented(path: str, fuzzed: ServerProcess) -> None:
    with grpc.insecure_channel(fuzzed.address) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(path, request_serializer=None, response_deserializer=None)(b"", timeout=20)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
