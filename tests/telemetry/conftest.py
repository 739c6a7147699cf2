"""Servers that tell about themselves, in a process of their own and in this one."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from rpc_support import Stubs, connected
from scraping import METRICS
from server_process import ServerProcess
from statekeep_server.engines import Engine
from statekeep_server.engines.memory import MemoryEngine
from statekeep_server.server import Server
from stores import STORES, url_of

Serve = Callable[..., str]


@pytest.fixture(scope="module", params=STORES)
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Give a server of a module's own on each store in turn, with metrics."""
    process = ServerProcess("--store", url_of(request.param, tmp_path_factory.mktemp("store")), *METRICS)
    yield process
    process.stop()


@pytest.fixture
def stubs(watched: ServerProcess) -> Iterator[Stubs]:
    """Give its services."""
    with connected(watched.address) as stubs:
        yield stubs


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers in this process, on an event loop in a thread, and give their addresses."""
    with ExitStack() as stack:

        def start(engine: Engine | None = None, **settings: Any) -> str:
            return stack.enter_context(_serving(engine or MemoryEngine(), settings))

        yield start


@contextmanager
def _serving(engine: Engine, settings: dict[str, Any]) -> Iterator[str]:
    ready, done = threading.Event(), asyncio.Event()
    addresses: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        server = Server(engine, **settings)
        addresses.append(server.listen("127.0.0.1:0"))
        await server.start()
        ready.set()
        await done.wait()
        await server.stop(5)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(20)
    try:
        yield addresses[0]
    finally:
        loops[0].call_soon_threadsafe(done.set)
        thread.join(20)
        assert not thread.is_alive()
