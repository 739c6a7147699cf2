"""Messages made from the descriptors and then damaged, to every method there is: refused with a reason, or answered."""

import random
from collections.abc import Callable, Iterator

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from requests_of import METHODS, good_request, nasty_request, path_of
from rpc_support import CODES, Refusal, connected, key_of, refusal_of, set_of
from server_process import ServerProcess

MOST = 4 * 2**20

Send = Callable[[bytes], Refusal | None]
Damage = Callable[[bytes, random.Random], bytes]


@pytest.fixture(scope="module")
def hostile() -> Iterator[ServerProcess]:
    """Give a server of its own that works after all of it, and has nothing of a failure in its log."""
    process = ServerProcess("--max-request", "4MiB")
    with connected(process.address) as own:
        own.memory.Set(set_of("hostile", "k"))
        yield process
        assert own.memory.Get(key_of("hostile", "k"), timeout=20).entry.version
    log = process.stderr
    process.stop()
    assert "Traceback" not in log


@pytest.fixture(params=METHODS, ids=lambda method: f"{method.containing_service.name}.{method.name}")
def method(request: pytest.FixtureRequest) -> MethodDescriptor:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def send(hostile: ServerProcess, method: MethodDescriptor) -> Iterator[Send]:
    """Give what sends bytes to the method, and returns how they were refused; of a stream it reads one message."""
    with grpc.insecure_channel(hostile.address) as channel:
        kind = channel.unary_stream if method.server_streaming else channel.unary_unary
        kind = channel.stream_stream if method.client_streaming else kind
        call = kind(path_of(method), request_serializer=None, response_deserializer=None)

        def send(data: bytes) -> Refusal | None:
            try:
                answer = call(iter([data]) if method.client_streaming else data, timeout=60)
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
        assert len(refusal.message.encode()) <= 1024, refusal


def nested(data: bytes, depth: int) -> bytes:
    """Return a message in field 1 of a message in field 1, and so on."""
    for _ in range(depth):
        data = b"\x0a" + varint(len(data)) + data
    return data


def varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def spliced(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + chance.randbytes(chance.randrange(8)) + data[start + chance.randrange(8) :]


DAMAGES: dict[str, Damage] = {
    "none": lambda data, chance: data,
    "cut short": lambda data, chance: data[: chance.randrange(len(data) + 1)],
    "twice": lambda data, chance: data * 2,
    "spliced": spliced,
    "inside itself": lambda data, chance: nested(data, chance.choice([1, 3, 99, 100, 101, 300])),
    "with groups that never end": lambda data, chance: data + b"\x0b" * chance.choice([1, 99, 101, 50_000]),
    "with a field longer than all": lambda data, chance: data + b"\x0a" + varint(chance.choice([2**31 - 1, 2**40])),
    "with a field of number 0": lambda data, chance: b"\x02\x01x" + data,
}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), damage=st.sampled_from(list(DAMAGES)))
def test_a_damaged_message_is_answered_or_refused_with_a_reason(
    send: Send, method: MethodDescriptor, seed: int, damage: str
) -> None:
    chance = random.Random(seed)
    request = nasty_request(method, chance) if chance.random() < 0.5 else good_request(method)
    check(send(DAMAGES[damage](request.SerializeToString(), chance)))


def test_a_message_as_large_as_may_be_is_answered_or_refused_with_a_reason(
    send: Send, method: MethodDescriptor
) -> None:
    good = good_request(method).SerializeToString()
    for filler in (b"\x0b" * 1_000, b"\xfa\x7f\x03abc"):
        check(send(good + filler * ((MOST - len(good)) // len(filler))))


def test_a_message_over_the_limit_is_refused_by_grpc_itself(send: Send) -> None:
    refusal = send(b"\x0a" * (MOST + 1))
    assert refusal is not None
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
