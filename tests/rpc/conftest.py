"""The shared server's services, on each store in turn."""

from collections.abc import Iterator

import grpc
import pytest
from rpc_support import Stubs
from server_process import ServerProcess
from stores import STORES, serving


@pytest.fixture(scope="session", params=STORES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Give the server that the tests of a store share, each under names of its own."""
    with serving(request.param, tmp_path_factory.mktemp("store")) as process:
        yield process


@pytest.fixture(scope="module", params=STORES)
def own_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Give a server of a module's own."""
    with serving(request.param, tmp_path_factory.mktemp("store")) as process:
        yield process


@pytest.fixture(scope="session")
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    """Give a channel to it: the one that other folders' tests share leads to another server."""
    with grpc.insecure_channel(server.address) as channel:
        yield channel


@pytest.fixture(scope="session")
def stubs(channel: grpc.Channel) -> Stubs:
    """Give the three services of the shared server."""
    return Stubs(channel)
