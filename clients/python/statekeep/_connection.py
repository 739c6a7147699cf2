"""One channel to a server, shared by everything that calls through it."""

import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias
from weakref import WeakSet

import grpc

from statekeep.errors import ClosedError, UsageError
from statekeep.v1 import memory_pb2, scratch_pb2, state_store_pb2
from statekeep.v1.admin_pb2_grpc import AdminStub
from statekeep.v1.memory_pb2_grpc import MemoryStub
from statekeep.v1.scratch_pb2_grpc import ScratchStub
from statekeep.v1.state_store_pb2_grpc import StateStoreStub

Options: TypeAlias = Sequence[tuple[str, Any]]

# Their answers say what they removed: repeated after a lost answer they would say "nothing". Every other
# unary method either reads, or carries an id by which the server knows it again: this client's own methods see
# to that id, a call through the stubs has to.
_NOT_REPEATED = {
    "statekeep.v1.Memory.Purge",
    "statekeep.v1.Scratch.Open",
    "statekeep.v1.Scratch.Clear",
    "statekeep.v1.Scratch.Close",
    "statekeep.v1.StateStore.DeleteThread",
}

# Streams are not among them: they resume by cursor.
_REPEATED = [
    {"service": method.containing_service.full_name, "method": method.name}
    for module in (memory_pb2, scratch_pb2, state_store_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if not method.server_streaming and method.full_name not in _NOT_REPEATED
]

_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": _REPEATED,
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}

_OPTIONS: Options = (
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    # A call is only repeated where its request was kept, and one record may have close to 4 MiB.
    ("grpc.per_rpc_retry_buffer_size", 8 << 20),
    # A follower that hears nothing for long still has to notice that its server is gone.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC's own default waits up to two minutes before it looks again for a server that came back.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


_HOST_AND_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^:/\[\]\s]+):([0-9]{1,5})")
_HIGHEST_PORT = 65535
_LONGEST = 100 * 365 * 86400.0  # seconds; gRPC takes longer ones for no time at all


class Stream(Protocol):
    """A call that lasts, as far as closing a connection goes."""

    def cancel(self) -> None:
        """Ends the call, from any thread."""

    def join(self) -> None:
        """Waits until nothing of it runs any more."""


class Connection:
    """A channel with its stubs, and what goes with every call. Safe to use from any thread.

    A unary call of one's own through ``memory``, ``scratch`` and ``state`` is retried on UNAVAILABLE as the
    client's are, apart from those whose answers say what they removed. So a write needs a ``request_id``, and
    an event or a checkpoint an ``id``, or a lost answer has it written twice. A channel that was given
    (``channel=``) has its own service config, and no retries by this one's.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        timeout: float | None = 10.0,
        wait_for_ready: bool = False,
        tls: bool | grpc.ChannelCredentials = False,
        channel: grpc.Channel | None = None,
        options: Options = (),
    ) -> None:
        token = _token(os.environ.get("STATEKEEP_TOKEN", "") if token is None else token)
        self.address = address or os.environ.get("STATEKEEP_ADDRESS") or "127.0.0.1:50051"
        self.closed = threading.Event()
        self.channel = channel or _channel(_checked(self.address), tls, (*_OPTIONS, *options))
        self.memory = MemoryStub(self.channel)
        self.scratch = ScratchStub(self.channel)
        self.state = StateStoreStub(self.channel)
        self.admin = AdminStub(self.channel)
        self._owned = channel is None
        self._timeout = timeout
        self._always: dict[str, Any] = {"metadata": (("authorization", f"Bearer {token}"),) if token else ()}
        self._wait_for_ready = wait_for_ready
        self._streams: WeakSet[Stream] = WeakSet()
        self._lock = threading.Lock()

    def unary_options(self, timeout: float | None) -> Mapping[str, Any]:
        """What goes with a unary call: None takes the connection's timeout, infinity none."""
        return self._options(self._timeout if timeout is None else timeout, self._wait_for_ready)

    def stream_options(self, timeout: float | None, *, reopened: bool) -> Mapping[str, Any]:
        """What goes with a stream: None and infinity are no timeout."""
        # A reopened stream fails at once where there is no server: whoever reopens it waits between tries, and
        # counts them. A call that waits for its server would never come to that.
        return self._options(timeout, self._wait_for_ready and not reopened)

    def _options(self, timeout: float | None, wait_for_ready: bool) -> Mapping[str, Any]:
        options = {**self._always, "timeout": None if timeout is None or timeout > _LONGEST else timeout}
        return {**options, "wait_for_ready": True} if wait_for_ready else options

    def check_open(self) -> None:
        """Raises ClosedError once the connection is closed."""
        if self.closed.is_set():
            raise ClosedError("the Statekeep client is closed")

    def add(self, stream: Stream) -> None:
        """Takes note of a stream, to end it when the connection closes."""
        with self._lock:
            self._streams.add(stream)
        if self.closed.is_set():  # meanwhile, and closing may not have seen this one
            stream.cancel()

    def close(self) -> None:
        """Ends every call. Closing again does nothing."""
        self.closed.set()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.cancel()
        if self._owned:
            self.channel.close()
        for stream in streams:
            stream.join()


def _token(given: str) -> str:
    """The token without the white space around it: a file that it is read from ends with a newline.

    Raises:
        UsageError: No metadata can carry it.
    """
    token = given.strip()
    if not (token.isascii() and token.isprintable()):
        # Without the token itself, which is a secret.
        raise UsageError("the token (token= or STATEKEEP_TOKEN) holds a character that is not printable ASCII")
    return token


def _checked(address: str) -> str:
    """The address; UsageError where it is none: gRPC would take a port beyond 65535 for another one."""
    parts = _HOST_AND_PORT.fullmatch(address)
    if (parts and int(parts[1]) <= _HIGHEST_PORT) or (address.startswith("unix:") and address != "unix:"):
        return address
    raise UsageError(f"an address is HOST:PORT, [IPv6]:PORT or unix:PATH, not {address!r}")


def _channel(address: str, tls: bool | grpc.ChannelCredentials, options: Options) -> grpc.Channel:
    if tls is False:
        return grpc.insecure_channel(address, options)
    credentials = grpc.ssl_channel_credentials() if tls is True else tls
    return grpc.secure_channel(address, credentials, options)
