"""Followers of one thread, key or stream, and a writer: of Statekeep, etcd and Valkey, each over plain sockets."""

import selectors
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import NamedTuple, Protocol, Self

from statekeep.v1 import state_store_pb2 as state

from bench import etcd
from bench.etcd import Etcd
from bench.http2 import Connection
from bench.valkey import Valkey, command
from bench.workloads import EVENT_SIZE, STREAM_HISTORY, event

_APPEND = "/statekeep.v1.StateStore/AppendNextEvent"
_PLACE = "tails"
_PATIENCE = 30.0  # seconds
_RECEIVE = 2**16  # bytes

Stream = tuple[int, int]
"""A connection's place, and its stream's number."""


class Tails(Protocol):
    """Followers that wait, and a writer."""

    def deliver(self, marker: str) -> float:
        """Write something with a marker in it, and return how many seconds later the last follower has it.

        RuntimeError where one has not after a while.
        """


class Write(NamedTuple):
    """A call that writes, and what its answer must hold."""

    method: str
    request: bytes
    answer: bytes


class _GrpcTails:
    """Followers that share connections, and a writer on one of its own."""

    def __init__(self, stack: ExitStack, address: str, connections: int, write: Callable[[bytes], Write]) -> None:
        self._connections = [stack.enter_context(closing(Connection(address))) for _ in range(1 + connections)]
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self._write = write
        self._followers: list[Stream] = []
        for place, connection in enumerate(self._connections):
            self._selector.register(connection.socket, selectors.EVENT_READ, (place, connection))

    def follow(self, count: int, method: str, request: bytes, *, more: bool = False) -> Self:
        """Begin calls, one connection after the other, and wait for the first message of each."""
        begun = []
        for number in range(count):
            place = 1 + number % (len(self._connections) - 1)
            begun.append((place, self._connections[place].follow(method, request, more=more)))
        self._receive(dict.fromkeys(begun, b""))
        self._followers += begun
        return self

    def deliver(self, marker: str) -> float:
        """Write, and return when the writer has its answer, and every follower the marker."""
        write = self._write(marker.encode())
        started = time.perf_counter()
        call = (0, self._connections[0].call(write.method, write.request))
        self._receive({call: write.answer, **dict.fromkeys(self._followers, marker.encode())})
        return time.perf_counter() - started

    def _receive(self, missing: dict[Stream, bytes]) -> None:
        """Return once each stream had a message with what it misses."""
        while missing:
            ready = self._selector.select(_PATIENCE)
            if not ready:
                raise RuntimeError(f"{len(missing)} streams miss a message after {_PATIENCE:.0f} s")
            for key, _ in ready:
                place, connection = key.data
                for stream, message in connection.receive():
                    if (misses := missing.get((place, stream))) is not None and misses in message:
                        del missing[place, stream]


class _ValkeyTails:
    """Clients that read a stream with XREAD BLOCK, each on its connection, and read on when all have what came."""

    def __init__(self, stack: ExitStack, valkey: Valkey, count: int) -> None:
        self._writer = stack.enter_context(valkey.connect())
        self._followers = [stack.enter_context(valkey.connect()) for _ in range(count)]
        self._selector = stack.enter_context(selectors.DefaultSelector())
        for client in [self._writer, *self._followers]:
            self._selector.register(client, selectors.EVENT_READ, client)
        valkey.ask(command("DEL", _PLACE))
        self._last = 0
        self._read_on()

    def deliver(self, marker: str) -> float:
        """Write, and return when the writer has its answer, and every follower the marker."""
        self._last += 1
        write = command("XADD", _PLACE, f"{self._last}-0", "d", _value(marker.encode()))
        started = time.perf_counter()
        self._writer.sendall(write)
        missing = {self._writer: b"-0\r\n", **dict.fromkeys(self._followers, marker.encode())}
        held = dict.fromkeys(missing, b"")
        while missing:
            ready = self._selector.select(_PATIENCE)
            if not ready:
                raise RuntimeError(f"{len(missing)} of Valkey's clients miss an entry after {_PATIENCE:.0f} s")
            for client in [key.data for key, _ in ready]:
                held[client] += client.recv(_RECEIVE)
                if client in missing and missing[client] in held[client]:
                    del missing[client]
        taken = time.perf_counter() - started
        self._read_on()
        return taken

    def _read_on(self) -> None:
        read = command("XREAD", "BLOCK", "0", "STREAMS", _PLACE, f"{self._last}-0")
        for follower in self._followers:
            follower.sendall(read)


def statekeep(stack: ExitStack, address: str, thread: str, followers: int, connections: int) -> Tails:
    """Follow a thread, which should be new: an event that is there already would come no second time."""

    def write(marker: bytes) -> Write:
        made = event(EVENT_SIZE, thread, marker.decode())
        return Write(_APPEND, state.AppendNextEventRequest(event=made).SerializeToString(), marker)

    request = state.StreamHistoryRequest(thread_id=thread, follow=True).SerializeToString()
    return _GrpcTails(stack, address, connections, write).follow(followers, STREAM_HISTORY, request)


def etcd_watches(stack: ExitStack, peer: Etcd, followers: int, connections: int) -> Tails:
    """Watch a key of etcd."""

    def write(marker: bytes) -> Write:
        return Write(etcd.PUT, etcd.put_request(_PLACE, _value(marker)), b"")

    tails = _GrpcTails(stack, peer.process.address, connections, write)
    return tails.follow(followers, etcd.WATCH, etcd.watch_request(_PLACE), more=True)


def valkey_readers(stack: ExitStack, peer: Valkey, followers: int) -> Tails:
    """Read a stream of Valkey, each on a connection of its own."""
    return _ValkeyTails(stack, peer, followers)


def _value(marker: bytes) -> bytes:
    return marker.ljust(EVENT_SIZE, b"d")
