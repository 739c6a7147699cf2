"""etcd, from Debian's etcd-server, with its data in memory, and the few messages of its gRPC that are measured.

Its messages are written and read field by field, with the numbers that its API reference gives: it is not worth stubs.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from bench.load import HEADER, Prepared, answers
from bench.process import Process, free_port, listening

RANGE, PUT, WATCH = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Put", "/etcdserverpb.Watch/Watch"
_TXN = "/etcdserverpb.KV/Txn"
_TRANSACTION = 100  # keys; at most 128
_REQUEST = 1_000_000  # bytes; at most 1.5 MiB
_MEMORY = Path("/dev/shm")  # noqa: S108 (a directory of a random name is made there)


class Etcd:
    """An etcd that runs, and a plain gRPC client of it."""

    def __init__(self, process: Process, channel: grpc.Channel) -> None:
        self.process = process
        self._channel = channel

    def call(self, method: str, request: bytes) -> bytes:
        """Make one call, and return the answer's bytes."""
        made: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        return made(request, timeout=30)

    def ranging(self, prefix: str, count: int, value: bytes) -> Callable[[int], Prepared]:
        """Put `count` keys with a prefix, and return what prepares a turn of Ranges that must find them all."""
        step = max(1, min(_TRANSACTION, _REQUEST // len(value)))
        for first in range(0, count, step):  # in transactions: a key is the prefix, and seven digits
            keys = (f"{prefix}{number:07}" for number in range(first, min(first + step, count)))
            self.call(_TXN, b"".join(field(2, field(2, put_request(key, value))) for key in keys))
        request = field(1, prefix.encode()) + field(2, prefix[:-1].encode() + bytes([ord(prefix[-1]) + 1]))

        def prepare(number: int) -> Prepared:
            answer = self.call(RANGE, request)
            values = [find(entry, 5) for entry in fields(answer, 2)]
            assert values == [value] * count, (len(values), count)
            return Prepared(request, answers(HEADER + len(answer)))

        return prepare

    def getting(self, key: str, value: bytes) -> Callable[[int], Prepared]:
        """Put a key, and return what prepares a turn of Ranges of it."""
        self.call(PUT, put_request(key, value))
        request = field(1, key.encode())

        def prepare(number: int) -> Prepared:
            answer = self.call(RANGE, request)
            assert find(find(answer, 2), 5) == value, answer
            return Prepared(request, answers(HEADER + len(answer)))

        return prepare

    def putting(self, key: str, value: bytes) -> Callable[[int], Prepared]:
        """Return what prepares a turn of Puts of one key, a new one each turn."""

        def prepare(number: int) -> Prepared:
            request = put_request(f"{key}-{number}", value)
            self.call(PUT, request)
            return Prepared(request, lambda sent: self.check_version(f"{key}-{number}", sent.calls + 1))

        return prepare

    def check_version(self, key: str, version: int) -> None:
        """See that a key was put so often."""
        found = find(find(self.call(RANGE, field(1, key.encode())), 2), 4)
        assert found == version, (found, version)


@contextmanager
def running() -> Iterator[Etcd]:
    """Run etcd as long as the block goes on. RuntimeError where it cannot be."""
    if not shutil.which("etcd"):
        raise RuntimeError("etcd is not installed (Debian: apt-get install etcd-server)")
    with tempfile.TemporaryDirectory(prefix="statekeep-bench-", dir=_MEMORY if _MEMORY.is_dir() else None) as home:
        address, peers = f"127.0.0.1:{free_port()}", "http://127.0.0.1:0"  # it has no peers, and asks none
        command = (
            *("etcd", "--data-dir", f"{home}/data", "--log-level", "error"),
            *("--listen-client-urls", f"http://{address}", "--advertise-client-urls", f"http://{address}"),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster"),
            f"default={peers}",
        )
        options = [("grpc.max_receive_message_length", -1)]
        with (
            listening(command, address, Path(home) / "log") as process,
            grpc.insecure_channel(address, options) as channel,
        ):
            etcd = Etcd(process, channel)
            etcd.getting("ready", b"yes")
            yield etcd


def put_request(key: str, value: bytes) -> bytes:
    """Return a request of PUT."""
    return field(1, key.encode()) + field(2, value)


def watch_request(key: str) -> bytes:
    """Return a request of WATCH that follows one key."""
    return field(1, field(1, key.encode()))


def field(number: int, content: bytes) -> bytes:
    """Return a field of a message, of bytes or another message."""
    length, size = b"", len(content)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def fields(message: object, number: int) -> list[object]:
    """Return what a message holds under a number."""
    assert isinstance(message, bytes), message
    held = UnknownFieldSet(Empty.FromString(message))
    return [held[place].data for place in range(len(held)) if held[place].field_number == number]


def find(message: object, number: int) -> object:
    """Return the first that a message holds under a number. AssertionError where there is none."""
    found = fields(message, number)
    assert found, f"no field {number} in {message!r:.100}"
    return found[0]
