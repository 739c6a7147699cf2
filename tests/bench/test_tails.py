"""The client over plain sockets: it sees what a follower is sent, and every end that comes too soon."""

from contextlib import ExitStack, closing

import pytest
import statekeep
from server_process import ServerProcess
from statekeep.v1 import state_store_pb2 as pb

from bench import tails
from bench.http2 import Connection
from bench.workloads import STREAM_HISTORY

GET_HISTORY = "/statekeep.v1.StateStore/GetHistory"


def test_each_follower_is_waited_for_and_the_server_has_what_was_written(server: ServerProcess) -> None:
    with ExitStack() as stack:
        followers = tails.statekeep(stack, server.address, "chat", 20, 4)
        assert all(followers.deliver(f"event-{number}.") > 0 for number in range(5))
    with statekeep.Client(server.address) as client:
        assert [event.id for event in client.state.history("chat")] == [f"event-{number}." for number in range(5)]


def test_a_message_of_many_frames_comes_whole(server: ServerProcess) -> None:
    with statekeep.Client(server.address) as client:
        client.state.append_next("large", statekeep.NewEvent("step", "d" * 1_000_000))
    with closing(Connection(server.address)) as connection:
        stream = connection.call(GET_HISTORY, pb.GetHistoryRequest(thread_id="large").SerializeToString())
        got: list[tuple[int, bytes]] = []
        for _ in range(10_000):
            got += connection.receive()
            if got:
                break
    (answer,) = [pb.GetHistoryResponse.FromString(message) for of, message in got if of == stream]
    assert answer.history.events[0].data.text == "d" * 1_000_000


def test_a_call_that_is_refused_is_an_error_and_no_answer(server: ServerProcess) -> None:
    with closing(Connection(server.address)) as connection:
        connection.call(STREAM_HISTORY, pb.StreamHistoryRequest(thread_id=" no ").SerializeToString())
        with pytest.raises(RuntimeError, match="ended stream 1"):
            assert sum(len(list(connection.receive())) for _ in range(100)) == 0
