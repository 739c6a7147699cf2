"""The HTTP endpoint for operators: /metrics for Prometheus, /livez and /readyz for whoever looks after the process.

It runs in threads of its own, so that it can say of an event loop that hangs that it does.
"""

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import TimeoutError as TooLate
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from statekeep_server.addresses import is_local
from statekeep_server.config import ConfigError
from statekeep_server.telemetry.metrics import FAMILIES, Read, metric

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

LIVE_WITHIN = 2.0  # seconds in which a loop that lives takes its next turn
READ_WITHIN = 8.0  # seconds; less than the 10 after which Prometheus gives a scrape up
_PATIENCE = 10.0  # seconds a client may take for its request

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


class EndpointError(Exception):
    """An address at which the endpoint cannot be, and why."""


class Endpoint:
    """The endpoint of a server on the running event loop.

    `read` reads the metrics, and `ready` tells why the server is not ready, or returns "" where it is; both run on the
    loop. It has no authentication, so it is for loopback alone unless `anywhere`. Raises EndpointError where it cannot
    listen there.
    """

    def __init__(
        self,
        address: str,
        read: Callable[[], Awaitable[Read]],
        ready: Callable[[], Awaitable[str]],
        *,
        anywhere: bool = False,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._read = read
        self._ready = ready
        registry = CollectorRegistry()
        registry.register(_Metrics(self))
        ProcessCollector(registry=registry)
        self._prometheus = make_wsgi_app(registry)
        self._server = _listen(address, anywhere=anywhere)
        self._server.set_app(self._answer)
        self.address = f"{address.rpartition(':')[0]}:{self._server.server_address[1]}"
        """Where it listens."""
        self._thread = threading.Thread(target=self._server.serve_forever, name="statekeep-endpoint", daemon=True)
        self._thread.start()

    def on_loop(self, telling: Callable[[], Awaitable[Answer]], within: float) -> Answer:
        """Return what the server's loop answers; TimeoutError where it does not in so many seconds."""

        async def told() -> Answer:
            return await telling()

        asked = asyncio.run_coroutine_threadsafe(told(), self._loop)
        try:
            return asked.result(within)
        except TooLate:
            asked.cancel()
            raise TimeoutError(f"the event loop has not answered in {within:g} s") from None

    def read(self) -> Read:
        """Return the metrics as they are now."""
        return self.on_loop(self._read, READ_WITHIN)

    async def close(self) -> None:
        """Listen no more."""
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()

    def _answer(self, request: "WSGIEnvironment", start: "StartResponse") -> "list[bytes]":
        path = request.get("PATH_INFO", "")
        try:
            if path == "/metrics":
                return list(self._prometheus(request, start))
            status, text = self._told(path)
        except TimeoutError as late:
            status, text = HTTPStatus.SERVICE_UNAVAILABLE, str(late)
        except Exception:
            log.exception("%s failed", path if path == "/metrics" else "a probe")
            status, text = HTTPStatus.INTERNAL_SERVER_ERROR, "it failed; the log says why"
        start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    def _told(self, path: str) -> tuple[HTTPStatus, str]:
        if path == "/livez":
            self.on_loop(_turn, LIVE_WITHIN)
            return HTTPStatus.OK, "ok"
        if path == "/readyz":
            reason = self.on_loop(self._ready, READ_WITHIN)
            return (HTTPStatus.SERVICE_UNAVAILABLE, reason) if reason else (HTTPStatus.OK, "ok")
        return HTTPStatus.NOT_FOUND, "there is /metrics, /livez and /readyz"


class _Metrics(Collector):
    """The server's metrics for a registry."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without samples."""
        return (metric(family, ()) for family in FAMILIES)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        return (metric(family, samples) for family, samples in self._endpoint.read())


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        # HTTPServer's asks the name service for the host's name, which can take seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request to the metrics endpoint broke off: %s", sys.exception())


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    server_version = "statekeep"
    sys_version = ""
    timeout = _PATIENCE

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name it has there)
        log.debug(format, *args)


async def _turn() -> None:
    """Take a turn of the loop."""


def _listen(address: str, *, anywhere: bool) -> _Server:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not anywhere and not is_local(address):
        raise ConfigError(
            f"cannot serve metrics on {address}: they have no authentication, so only a loopback address is taken,"
            " such as 127.0.0.1:9464, unless --insecure"
        )
    if not is_local(address):
        log.warning("other machines may reach the metrics on %s, and nobody who asks is checked", address)
    kind = _Server6 if ":" in host else _Server
    try:
        return kind((host, int(port)), _Handler)
    except OSError as error:
        raise EndpointError(f"cannot serve metrics on {address}: {error.strerror or error}") from error
