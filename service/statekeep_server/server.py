"""The server: the services on gRPC, with health and reflection, from its start to its drain."""

import asyncio
import contextlib
import logging
import os
import socket
import stat
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from statekeep_server.addresses import is_local
from statekeep_server.config import ConfigError
from statekeep_server.core.journal import Limits
from statekeep_server.core.scratch import DEFAULT_IDLE_TTL, Scratch
from statekeep_server.engines import Engine
from statekeep_server.rpc.access import Access
from statekeep_server.rpc.batches import Batches
from statekeep_server.rpc.handlers import Handlers, Traffic, method_handlers
from statekeep_server.rpc.health import NAME as HEALTH
from statekeep_server.rpc.health import Health, probe_server
from statekeep_server.rpc.reflection import serve_reflection
from statekeep_server.rpc.routes import Routes
from statekeep_server.rpc.services import ADMIN, MEMORY, SCRATCH, STATE_STORE, Services
from statekeep_server.rpc.streams import Followers
from statekeep_server.sweeper import SWEEP_EVERY, Sweeper
from statekeep_server.telemetry.sources import Sources
from statekeep_server.tls import Certificates

QUIET = 0.1  # seconds without a new call after which a server that stops takes no more
LINGER = 2.0  # seconds; the longest that it waits for that
LAST_WORDS = 0.2  # seconds after the grace time in which streams that are cut off are told so

_SOCKET_PATH = 107  # bytes; the kernel's limit, less the zero at the end
_SOCKET_PATIENCE = 1.0  # seconds; for a server that has a socket to take a connection
_SOCKET_UMASK = 0o117  # sockets are made with mode 0660: for their owner and group
_MANY = 1_000_000
_OPTIONS: Sequence[tuple[str, int]] = (
    # A second server on the port must fail, not take half of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_send_message_length", -1),
    # A client may ping every 10 s on an idle stream, and without one, and a bit faster, for its clock may be.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A client that is gone without a word is found out within two minutes.
    ("grpc.keepalive_time_ms", 90_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_concurrent_streams", 10_000),
    # By default gRPC cancels calls without a word where more than 1,000 wait to be begun.
    ("grpc.server.max_pending_requests", _MANY),
    ("grpc.server.max_pending_requests_hard_limit", _MANY),
)

log = logging.getLogger(__name__)


class ListenError(Exception):
    """An address that cannot be listened on, and why."""


class Server:
    """One server on one engine. To be made inside a running event loop.

    `access` is who may call what (None: everyone all), `certificates` those that HOST:PORT addresses speak TLS with;
    `insecure` allows addresses that other machines reach without the two.
    `handlers` of other services, by the service's name, are served beside its own; the benchmark's floors are.
    A unary call that takes `slow_call` seconds is logged, 0 for none. `capabilities` are what GetInfo
    tells of the settings. `wrap` goes around every handler.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        scratch_idle_ttl: float = DEFAULT_IDLE_TTL,
        limits: Limits | None = None,
        access: Access | None = None,
        certificates: Certificates | None = None,
        insecure: bool = False,
        thread_ttl: float = 0.0,
        sweep_every: float = SWEEP_EVERY,
        handlers: Mapping[str, Handlers] = MappingProxyType({}),
        slow_call: float = 0.0,
        capabilities: Collection[str] = (),
        wrap: Callable[[str, Handlers], Handlers] | None = None,
    ) -> None:
        limits = limits or Limits()
        self._engine = engine
        self._scratch = Scratch(scratch_idle_ttl)
        self._followers = Followers(engine, limits)
        self._access = access
        self._certificates = certificates
        self._insecure = insecure
        self._traffic = Traffic(slow_call, limits.calls)
        services = [MEMORY.full_name, SCRATCH.full_name, STATE_STORE.full_name, ADMIN.full_name]
        self._health = Health(["", *services])
        self._sweeper = Sweeper(engine, self._scratch, limits, thread_ttl=thread_ttl, every=sweep_every)
        self.sources = Sources(
            engine,
            self._scratch,
            self._followers,
            self._traffic,
            self._sweeper.total,
            time.time(),
            lambda: self._health.serving,
        )
        """What metrics and probes look at."""
        self._server = grpc.aio.server(options=[*_OPTIONS, ("grpc.max_receive_message_length", limits.request)])
        methods = Services(engine, self._scratch, self._followers, limits, capabilities)
        batches = Batches()
        served = {
            MEMORY.full_name: method_handlers(MEMORY, methods.memory(), self._traffic, batches, access),
            SCRATCH.full_name: method_handlers(SCRATCH, methods.scratch(), self._traffic, batches, access),
            STATE_STORE.full_name: method_handlers(STATE_STORE, methods.state_store(), self._traffic, batches, access),
            ADMIN.full_name: method_handlers(ADMIN, methods.admin(), self._traffic, batches, access),
            **handlers,
        }
        routes = Routes()
        for service, its_handlers in served.items():
            routes.add_registered_method_handlers(service, wrap(service, its_handlers) if wrap else its_handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, routes)  # type: ignore[arg-type]  # it adds as to a server
        reflected = [*services, HEALTH, reflection.SERVICE_NAME]
        self._reflection = serve_reflection(reflected, access, routes)
        self._server.add_generic_rpc_handlers([routes])
        self._watcher: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._probed: grpc.aio.Server | None = None

    def listen(self, address: str) -> str:
        """Listen on HOST:PORT or unix:PATH, and return the address with the port that was taken.

        Raises ListenError where that cannot be, ConfigError where it would let anyone in.
        """
        self._check_exposed(address)
        try:
            if address.startswith("unix:"):
                _check_socket(address.removeprefix("unix:"))
                self._listen_on_socket(address)
                return address
            if self._certificates:
                port = self._server.add_secure_port(address, self._certificates.credentials())
            else:
                port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ListenError(f"cannot listen on {address}: {_why(address)}") from error
        return f"{address.rpartition(':')[0]}:{port}"

    def _listen_on_socket(self, address: str) -> None:
        # The mask is the whole process's, but a socket whose mode is set once it is there could be connected to before.
        mask = os.umask(_SOCKET_UMASK)
        try:
            self._server.add_insecure_port(address)
        finally:
            os.umask(mask)

    def _check_exposed(self, address: str) -> None:
        """Refuse an address that other machines reach where they could read what is sent, or where anyone may call."""
        known = self._access or (self._certificates and self._certificates.tells_clients)
        if is_local(address) or (self._certificates and known):
            return
        lacks = [] if self._certificates else ["TLS (--tls-cert and --tls-key)"]
        lacks += [] if known else ["a check of who calls (--token-file, STATEKEEP_TOKEN or --tls-client-ca)"]
        lacking = " and ".join(lacks)
        if not self._insecure:
            raise ConfigError(
                f"cannot listen on {address}: other machines could reach it, and it would be without {lacking}; give"
                " that, or --insecure where the network is to be trusted"
            )
        log.warning("other machines may reach %s, and it is without %s", address, lacking)

    def listen_for_probes(self, address: str) -> str:
        """Answer health, and nothing else, on HOST:PORT too, and return the address with the port that was taken.

        Raises ListenError where that cannot be.
        """
        self._probed = probe_server(self._health)
        try:
            port = self._probed.add_insecure_port(address)
        except RuntimeError as error:
            raise ListenError(f"cannot listen on {address} for probes: {_why(address)}") from error
        return f"{address.rpartition(':')[0]}:{port}"

    async def start(self) -> None:
        """Begin to answer."""
        await self._server.start()
        if self._access:
            self._watcher = asyncio.create_task(self._access.watch())
        if self._probed:
            await self._probed.start()
        self._sweeping = asyncio.create_task(self._sweeper.run())

    async def stop(self, grace: float) -> None:
        """Drain within `grace` seconds.

        Health says NOT_SERVING, streams that stay end and can be resumed, calls in flight finish. Streams that have not
        by then are ended with SHUTTING_DOWN; what cannot be told so, because its client takes nothing, is cancelled.
        """
        ends = asyncio.get_running_loop().time() + grace
        self._health.stop()
        self._reflection.stop()
        self._followers.end()
        if not await self._linger(min(grace / 2, LINGER)):
            # Callers that never pause are told to come back: what has not begun when gRPC stops, it cancels.
            self._traffic.closing = True
            await self._linger(min(grace / 4, LINGER))
        left = max(0.0, ends - asyncio.get_running_loop().time())
        stopping = asyncio.create_task(self._server.stop(left + LAST_WORDS))
        await asyncio.wait([stopping], timeout=left)
        self._traffic.cut_streams()
        await stopping
        if self._probed:
            await self._probed.stop(0)
        for task in filter(None, (self._sweeping, self._watcher)):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._engine.close()

    async def _linger(self, longest: float) -> bool:
        """Wait until no call has begun for a moment, and return whether that came within `longest` seconds."""
        clock = asyncio.get_running_loop().time
        ends = clock() + longest
        begun = -1
        while begun != self._traffic.begun:
            if clock() >= ends:
                return False
            begun = self._traffic.begun
            await asyncio.sleep(QUIET)
        return True


def _check_socket(path: str) -> None:
    """Refuse a path that is too long, or where a server answers: gRPC would take it away from that."""
    if "%" in path:
        # gRPC takes %41 for A: what was looked at would not be what is made.
        raise ListenError(f"cannot listen on unix:{path}: a socket's path may not hold a percent sign")
    if len(os.fsencode(path)) > _SOCKET_PATH:
        raise ListenError(f"cannot listen on unix:{path}: a socket's path has at most {_SOCKET_PATH} bytes")
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise ListenError(f"cannot listen on unix:{path}: there is a file of that name, and it is no socket")
    except FileNotFoundError:
        return
    except OSError as error:
        raise ListenError(f"cannot listen on unix:{path}: {error.strerror}") from error
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_SOCKET_PATIENCE)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return  # nobody is there any more
        except OSError as error:  # somebody may be, and gRPC would take it away
            why = error.strerror or "it does not answer"
            raise ListenError(f"cannot listen on unix:{path}: {why}; remove it if no server has it") from error
    raise ListenError(f"cannot listen on unix:{path}: another server answers there")


def _why(address: str) -> str:
    """Return why an address cannot be bound, which gRPC only writes to its log."""
    if address.startswith("unix:"):
        return "is its directory there, and may it be written to?"
    host, _, port = address.rpartition(":")
    try:
        for family, kind, protocol, _, where in socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(where)
                probe.listen(1)
    except OSError as error:
        return error.strerror or str(error)
    return "gRPC refused it"
