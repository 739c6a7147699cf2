"""Bytes on the socket that no client should send: the next good call works, and no answer is UNKNOWN or INTERNAL."""

import contextlib
import random
import socket
import struct
from collections.abc import Iterator

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import pytest
from hpack import Encoder
from http2_frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    HEADERS_FRAME,
    PING,
    PREFACE,
    PRIORITY,
    PUSH,
    RESET,
    SETTINGS,
    WINDOW,
    changed,
    frame,
    headers,
    message,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from requests_of import METHODS, good_request, path_of
from rpc_support import connected, key_of, set_of
from server_process import ServerProcess

PATIENCE = 20.0  # seconds in which an answer comes that must come
SILENCE = 0.3  # seconds after which none is expected that may or may not come
UNKNOWN, INTERNAL = "2", "13"
Status = tuple[str, bool]  # a code, and whether details are with it, as with all that a handler refuses
GOOD = key_of("hostile", "k").SerializeToString()


@pytest.fixture(scope="module")
def hostile() -> Iterator[ServerProcess]:
    """Give a server of its own, which must have nothing of a failure in its log at the end."""
    process = ServerProcess("--max-request", "4MiB")
    yield process
    log = process.stderr
    process.stop()
    assert "Traceback" not in log


@pytest.fixture
def alive(hostile: ServerProcess) -> Iterator[ServerProcess]:
    """Give the server, and see after the test that good calls work, on a connection that was there before too."""
    with connected(hostile.address) as before:
        before.memory.Set(set_of("hostile", "k"))
        yield hostile
        assert before.memory.Get(key_of("hostile", "k"), timeout=20).entry.version
    with connected(hostile.address) as after:
        assert after.memory.Get(key_of("hostile", "k"), timeout=20).entry.version


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def exchange(address: str, *parts: bytes, silence: float = SILENCE) -> list[Status]:
    """Send bytes on a connection that began well, and return how its calls ended, up to the end or a silence."""
    client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    client.initiate_connection()
    for stream in (1, 3):  # so that it takes the answers
        client.send_headers(stream, HEADERS)
    client.clear_outbound_data_buffer()
    statuses: list[Status] = []
    with connect(address) as wire, contextlib.suppress(OSError, h2.exceptions.ProtocolError):
        wire.sendall(PREFACE + frame(SETTINGS, 0, 0))
        for part in parts:
            wire.sendall(part)
        wire.settimeout(silence)
        while not statuses and (data := wire.recv(65536)):
            for event in client.receive_data(data):
                if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                    fields = {str(name): str(value) for name, value in event.headers or ()}
                    if "grpc-status" in fields:
                        statuses.append((fields["grpc-status"], "grpc-status-details-bin" in fields))
    return statuses


def check(statuses: list[Status]) -> None:
    """See that no call ended as none may. Headers that gRPC itself cannot take are INTERNAL for it, without details."""
    for code, detailed in statuses:
        assert code != UNKNOWN
        assert code != INTERNAL or not detailed


def test_a_good_call_by_hand_is_answered(alive: ServerProcess) -> None:
    good = frame(DATA, END_STREAM, 1, message(GOOD))
    assert exchange(alive.address, headers(1, HEADERS), good, silence=PATIENCE) == [("0", False)]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        PREFACE[:10],
        PREFACE + b"\xff" * 100,
        PREFACE.replace(b"2.0", b"3.0"),
        b"\0" * 100_000,
        b"",
    ],
    ids=["HTTP/1.1", "TLS", "half a preface", "no settings", "another version", "zeros", "nothing"],
)
def test_another_protocol_ends_the_connection_and_nothing_else(data: bytes, alive: ServerProcess) -> None:
    with connect(alive.address) as wire, contextlib.suppress(OSError):
        wire.sendall(data)
        wire.settimeout(SILENCE)
        while wire.recv(65536):
            pass


def test_random_bytes_after_a_good_beginning(alive: ServerProcess) -> None:
    chance = random.Random(1)
    for _ in range(40):
        check(exchange(alive.address, headers(1, HEADERS), chance.randbytes(chance.randrange(1, 400))))


FRAMES = {
    "of an unknown kind": frame(0xFE, 0xFF, 1, b"x" * 50),
    "data on stream 0": frame(DATA, 0, 0, b"x"),
    "data on a stream that was never opened": frame(DATA, 0, 99, b"x"),
    "settings on a stream": frame(SETTINGS, 0, 1, b"\0" * 6),
    "settings of a wrong length": frame(SETTINGS, 0, 0, b"\0" * 5),
    "settings that cannot be": frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**32 - 1)),
    "a window of nothing": frame(WINDOW, 0, 1, struct.pack(">I", 0)),
    "a window too large": frame(WINDOW, 0, 1, struct.pack(">I", 2**31 - 1)) * 3,
    "a ping of a wrong length": frame(PING, 0, 0, b"x"),
    "a push": frame(PUSH, END_HEADERS, 1, struct.pack(">I", 2) + Encoder().encode(HEADERS)),
    "a priority on itself": frame(PRIORITY, 0, 1, struct.pack(">IB", 1, 1)),
    "a continuation of nothing": frame(CONTINUATION, END_HEADERS, 1, b"x"),
    "headers that go on for ever": frame(HEADERS_FRAME, 0, 3, b"") + frame(CONTINUATION, 0, 3, b"") * 20_000,
    "headers that hpack does not know": frame(HEADERS_FRAME, END_HEADERS, 3, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
    "headers on an even stream": headers(2, HEADERS),
    "headers twice": headers(1, HEADERS),
    "a frame longer than all that comes": frame(DATA, 0, 1, b"x" * 10, length=2**24 - 1),
    "a frame longer than is allowed": frame(DATA, 0, 1, b"x" * 2**20),
    "padding longer than the frame": frame(DATA, 0x8, 1, b"\xff" + b"x" * 10),
    "a going away": frame(GOAWAY, 0, 0, struct.pack(">II", 0, 11)),
    "a reset": frame(RESET, 0, 1, struct.pack(">I", 0)),
    "empty data, often": frame(DATA, 0, 1, b"") * 5_000,
    "pings, often": frame(PING, 0, 0, b"x" * 8) * 5_000,
    "settings, often": frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 100)) * 2_000,
}


@pytest.mark.parametrize("given_frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_that_should_not_be(given_frame: bytes, alive: ServerProcess) -> None:
    check(exchange(alive.address, headers(1, HEADERS), given_frame, frame(DATA, END_STREAM, 1, message(GOOD))))


def test_streams_that_are_opened_and_reset_by_the_thousand(alive: ServerProcess) -> None:
    calls = [
        headers(stream, HEADERS)
        + frame(DATA, END_STREAM, stream, message(GOOD))
        + frame(RESET, 0, stream, b"\0\0\0\x08")
        for stream in range(1, 6_000, 2)
    ]
    check(exchange(alive.address, *calls))


MESSAGES = {
    "nothing": b"",
    "half a head": b"\0\0",
    "shorter than it says": message(GOOD, length=1_000),
    "as long as can be said": message(GOOD, length=2**32 - 1),
    "over the limit": message(b"", length=5 * 2**20) + bytes(100),
    "two of them": message(GOOD) * 2,
    "one and a half": message(GOOD) + b"\0\0\0",
    "no protobuf": message(b"\xff" * 20),
    "a group that never ends": message(b"\x0b" * 1_000),
    "nested a thousand deep": message(b"\x0a\x02" * 1_000),
}


@pytest.mark.parametrize("body", MESSAGES.values(), ids=MESSAGES)
def test_a_body_that_should_not_be(body: bytes, alive: ServerProcess) -> None:
    check(exchange(alive.address, headers(1, HEADERS), frame(DATA, END_STREAM, 1, body)))


HEADS = {
    "no path": [field for field in HEADERS if field[0] != ":path"],
    "no method": [field for field in HEADERS if field[0] != ":method"],
    "no te": [field for field in HEADERS if field[0] != "te"],
    "another method": changed(method="GET"),
    "another type": changed(content_type="text/html"),
    "an empty path": changed(path=""),
    "a path of zeros": changed(path="/\0/\0"),
    "a path over all limits": changed(path="/" + "x" * 15_000),
    "a deadline that is no number": changed(grpc_timeout="soon"),
    "a deadline of ages": changed(grpc_timeout="99999999999999999999H"),
    "a deadline that is over": changed(grpc_timeout="1n"),
    "an unknown encoding": changed(grpc_encoding="zip"),
    "metadata that is no base64": changed(**{"x-bin": "!!!"}),
    "large metadata": changed(x="y" * 15_000),
    "much metadata": HEADERS + [(f"x-{number}", "y" * 100) for number in range(150)],
    "an upper-case name": [*HEADERS, ("X-Upper", "y")],
}


@pytest.mark.parametrize("fields", HEADS.values(), ids=HEADS)
def test_headers_that_should_not_be(fields: list[tuple[str, str]], alive: ServerProcess) -> None:
    check(exchange(alive.address, headers(1, fields), frame(DATA, END_STREAM, 1, message(GOOD))))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_done_to_the_bytes_of_a_good_call(alive: ServerProcess, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(METHODS), "method")
    fields = changed(path=path_of(method), grpc_timeout="2S")
    body = message(good_request(method).SerializeToString())
    raw = bytearray(headers(1, fields) + frame(DATA, END_STREAM, 1, body))
    start = data.draw(st.integers(0, len(raw)), "from")
    stop = data.draw(st.integers(start, min(len(raw), start + 40)), "to")
    raw[start:stop] = data.draw(st.binary(max_size=40), "by")
    check(exchange(alive.address, bytes(raw)))
