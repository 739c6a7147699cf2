"""A gRPC client that costs next to nothing: HTTP/2 frames over a plain socket, and messages left as they are.

It is for what h2load cannot do: hold streams open, and say when each message came. It knows no flow control of its own,
for it opens the widest windows and sends little, and no header compression. What ends or resets a stream is an error,
but for the end of a unary call that was answered.
"""

import socket
import struct
from collections.abc import Iterator

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_WIDEST = 2**31 - 1
_INITIAL_WINDOW = struct.pack(">HI", 4, _WIDEST)
_PUSHES = struct.pack(">HI", 2, 0)
_RECEIVE = 2**16  # bytes
_PATIENCE = 30.0  # seconds


class Connection:
    """One connection. RuntimeError where the server ends a stream that still waits, or the connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=_PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._authority = address
        self._last = -1
        self._unread = b""
        self._parts: dict[int, bytes] = {}  # of messages, by stream
        self._unary: set[int] = set()  # streams of calls that are not answered yet
        self._answered: set[int] = set()  # and of those that may end
        self.socket.sendall(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, _PUSHES + _INITIAL_WINDOW)
            + _frame(_WINDOW, 0, 0, struct.pack(">I", _WIDEST - 65_535))
        )

    def call(self, method: str, message: bytes) -> int:
        """Begin a unary call, and return its stream's number."""
        stream = self.follow(method, message)
        self._unary.add(stream)
        return stream

    def follow(self, method: str, message: bytes, *, more: bool = False) -> int:
        """Begin a call that is to have no end, and return its stream's number. `more` leaves its request open."""
        self._last += 2
        data = _frame(_DATA, 0 if more else _END_STREAM, self._last, struct.pack(">BI", 0, len(message)) + message)
        self.socket.sendall(_frame(_HEADERS, _END_HEADERS, self._last, self._headers(method)) + data)
        return self._last

    def receive(self) -> Iterator[tuple[int, bytes]]:
        """Wait for what comes next, and yield the messages in it, each with its stream's number; there may be none."""
        received = self.socket.recv(_RECEIVE)
        if not received:
            raise RuntimeError("the server closed the connection")
        self._unread += received
        place = 0
        while len(self._unread) - place >= 9:
            size = int.from_bytes(self._unread[place : place + 3], "big")
            kind, flags, stream = struct.unpack_from(">BBI", self._unread, place + 3)
            if len(self._unread) - place < 9 + size:
                break
            payload = self._unread[place + 9 : place + 9 + size]
            place += 9 + size
            yield from self._take(kind, flags, stream, payload)
        self._unread = self._unread[place:]

    def close(self) -> None:
        """Close the connection, which ends its streams."""
        self.socket.close()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> Iterator[tuple[int, bytes]]:
        if kind == _DATA:
            held = self._parts.pop(stream, b"") + payload
            while len(held) >= 5 and len(held) >= (end := 5 + int.from_bytes(held[1:5], "big")):
                if stream in self._unary:
                    self._unary.remove(stream)
                    self._answered.add(stream)
                yield stream, held[5:end]
                held = held[end:]
            if held:
                self._parts[stream] = held
        elif kind in (_SETTINGS, _PING) and not flags & _ACK:
            self.socket.sendall(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind in (_RESET, _GOAWAY) or (kind == _HEADERS and flags & _END_STREAM):
            if stream not in self._answered:
                raise RuntimeError(f"the server ended stream {stream}: {payload[-200:]!r}")
            self._answered.remove(stream)

    def _headers(self, method: str) -> bytes:
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": method,
            ":authority": self._authority,
            "content-type": "application/grpc",
            "te": "trailers",
        }
        return b"".join(
            b"\0%c%s%c%s" % (len(name), name.encode(), len(value), value.encode()) for name, value in fields.items()
        )


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload
