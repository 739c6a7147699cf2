"""Real servers on real sockets, for all tests."""

import itertools
import secrets
import signal
from collections.abc import Callable, Iterator

import grpc
import pytest
from server_process import ServerProcess

StartServer = Callable[..., ServerProcess]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a shell has it for what it runs in the background. Processes that a test starts would pass SIGINT over too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_run = secrets.token_hex(3)
_names = itertools.count(1)


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Start servers of a test's own; they are ended with the test."""
    started: list[ServerProcess] = []

    def start(*flags: str, **how: object) -> ServerProcess:
        process = ServerProcess(*flags, **how)  # type: ignore[arg-type]
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop()


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """Give the one server that most tests share, each under names of its own."""
    process = ServerProcess()
    yield process
    process.stop()


@pytest.fixture(scope="session")
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    """Give a channel to the shared server, with every option as gRPC has it."""
    with grpc.insecure_channel(server.address) as channel:
        yield channel


@pytest.fixture
def name() -> str:
    """Give a name that no other test uses; good as scope, thread and instance."""
    return f"n{_run}-{next(_names)}"
