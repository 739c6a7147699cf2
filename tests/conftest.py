"""Real servers on real sockets, for all tests."""

import itertools
import secrets
import signal
from collections.abc import Callable, Iterator

import grpc
import pytest
from server_process import ServerProcess

StartServer = Callable[..., ServerProcess]

# A shell has what it runs in the background ignore SIGINT, and nohup SIGHUP; what a test starts would do so too.
for ignored, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, usual)

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
