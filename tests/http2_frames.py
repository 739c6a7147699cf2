"""HTTP/2 frames and gRPC messages by hand, good ones and others."""

import struct

from hpack import Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/statekeep.v1.Memory/Get"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]
DATA, HEADERS_FRAME, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 0x1, 0x4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"", length: int | None = None) -> bytes:
    """Return an HTTP/2 frame; `length` is what it says instead of its own."""
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def headers(stream: int, fields: list[tuple[str, str]], flags: int = END_HEADERS) -> bytes:
    return frame(HEADERS_FRAME, flags, stream, Encoder().encode(fields))


def message(data: bytes, *, compressed: int = 0, length: int | None = None) -> bytes:
    """Return a message as gRPC frames it."""
    return bytes((compressed,)) + struct.pack(">I", len(data) if length is None else length) + data


def changed(**fields: str) -> list[tuple[str, str]]:
    """Return the headers with some of them changed, or added."""
    given = {name.replace("_", "-"): value for name, value in fields.items()}
    return [(name, given.pop(name.lstrip(":"), value)) for name, value in HEADERS] + list(given.items())
