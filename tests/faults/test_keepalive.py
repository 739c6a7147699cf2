"""Keepalive: a client that pings every ten seconds is not taken for one that floods."""

import time

import pytest
from rpc_support import Stubs, connected, next_of, read_records, set_of, stream_of
from server_process import ServerProcess

PINGING = {
    "grpc.keepalive_time_ms": 10_000,
    "grpc.keepalive_timeout_ms": 5_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.http2.max_pings_without_data": 0,
}
LONGEST = 100  # seconds that a stream stays


@pytest.mark.timeout(120)
@pytest.mark.parametrize("quiet", [35.0, pytest.param(65.0, marks=pytest.mark.soak)])
def test_a_client_that_pings_every_ten_seconds_is_not_cut_off(server: ServerProcess, name: str, quiet: float) -> None:
    """On an idle stream, and on a connection without any."""
    with connected(server.address, **PINGING) as following, connected(server.address, **PINGING) as idle:
        idle.memory.Set(set_of(name, "k"))
        stream = following.state.StreamHistory(stream_of(name, follow=True), timeout=LONGEST)
        next(stream)
        quiet_until = time.monotonic() + quiet
        with connected(server.address) as own:
            beat(own, name, quiet_until)
            own.state.AppendNextEvent(next_of(name, "e"))
        assert [event.id for event in read_records(stream, 1)] == ["e"]
        assert idle.memory.Set(set_of(name, "k")).entry.version == 2
        stream.cancel()


def beat(stubs: Stubs, name: str, until: float) -> None:
    """Let time go by on another connection, by the heartbeats of a stream there."""
    request = stream_of(f"{name}-clock", follow=True)
    request.heartbeat.seconds = 1
    clock = stubs.state.StreamHistory(request, timeout=LONGEST)
    for _ in clock:
        if time.monotonic() > until:
            break
    clock.cancel()
