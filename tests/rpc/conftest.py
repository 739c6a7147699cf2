"""The shared server's services."""

import grpc
import pytest
from rpc_support import Stubs


@pytest.fixture(scope="session")
def stubs(channel: grpc.Channel) -> Stubs:
    """Give the three services of the shared server."""
    return Stubs(channel)
