"""A server that comes back without its data: cursors of before are told at once, and clients find it again."""

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from rpc_support import Stubs, end_of, next_of, refused, sent, set_of, stream_of, until_caught_up, watch_of
from server_process import ServerProcess

StartServer = Callable[..., ServerProcess]


def test_a_cursor_of_before_a_restart_is_never_someone_else_s_events(start_server: StartServer, tmp_path: Path) -> None:
    unix = f"unix:{tmp_path}/s.sock"
    first = start_server(listen=(unix,))
    with grpc.insecure_channel(unix) as channel:
        stubs = Stubs(channel)
        for _ in range(500):
            event = stubs.state.AppendNextEvent(next_of("thread")).event
        entry = stubs.memory.Set(set_of("scope", "k")).entry
        first.stop()
        start_server(listen=(unix,))
        for stream in (
            stubs.state.StreamHistory(stream_of("thread", after_revision=event.revision), wait_for_ready=True),
            stubs.memory.Watch(watch_of("scope", after_revision=entry.revision), wait_for_ready=True),
        ):
            assert end_of(stream).reason == "REVISION_GONE"
        stubs.state.AppendNextEvent(next_of("thread", "new"))
        stubs.memory.Set(set_of("scope", "k"))
        old = stream_of("thread", after_revision=event.revision, follow=True)
        refused("REVISION_GONE", stubs.state.StreamHistory, old, revision=event.revision)
        refused("REVISION_GONE", stubs.memory.Watch, watch_of("scope", after_revision=entry.revision))
        assert sent(stubs.state.StreamHistory(stream_of("thread"))) == ["new"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_client_finds_a_server_again_that_restarted_on_its_address(how: str, start_server: StartServer) -> None:
    first = start_server()
    with grpc.insecure_channel(first.address, options=[("grpc.max_reconnect_backoff_ms", 200)]) as channel:
        stubs = Stubs(channel)
        stream = stubs.state.StreamHistory(stream_of("thread", follow=True), timeout=30)
        until_caught_up(stream)
        if how == "kill":
            first.process.kill()
            first.wait(10)
        else:
            first.stop()
        assert end_of(stream).code == grpc.StatusCode.UNAVAILABLE
        start_server(listen=(first.address,))
        answer = stubs.state.AppendNextEvent(next_of("thread", "e"), wait_for_ready=True, timeout=20)
        assert answer.event.sequence == 1
