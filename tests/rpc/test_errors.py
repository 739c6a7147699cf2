"""Errors as a whole: they arrive with their details, whatever they are about, and echo no value."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from rpc_support import (
    Stubs,
    call_many,
    checkpoint_of,
    connected,
    event_of,
    given_of,
    next_of,
    refused,
    scope,
    set_of,
    stream_of,
    watch_of,
)
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value

LONGEST = {
    "emoji": "\U0001f600" * 64,
    "two-byte letters": "é" * 128,
    "percent signs": "%" * 256,
    "quotes": '"\\' * 128,
    "ASCII": "x" * 256,
}


@pytest.fixture(params=LONGEST.values(), ids=LONGEST.keys())
def longest(request: pytest.FixtureRequest, name: str) -> str:
    """Give an id of 256 bytes that no other test uses."""
    given: str = request.param
    raw = given.encode()[len(name) :].decode(errors="ignore")
    return (name + raw).ljust(len(name + raw) + 256 - len((name + raw).encode()), "x")


def test_errors_about_the_longest_ids_arrive_with_their_details(longest: str, server: ServerProcess) -> None:
    assert len(longest.encode()) == 256
    with connected(server.address) as own:
        thread = branch = event = longest
        parts = {"thread": thread, "branch": branch, "event": event}
        refused(
            "THREAD_NOT_FOUND", own.state.Fork, state.ForkRequest(thread_id=thread, from_event_id="e"), thread=thread
        )
        own.state.AppendNextEvent(next_of(thread, event, branch))
        other = next_of(thread, event, branch, type="else")
        refused("EVENT_EXISTS", own.state.AppendNextEvent, other, **parts)
        batch = state.AppendEventsRequest(thread_id=thread, branch_id=branch, events=[other.event])
        refused("EVENT_EXISTS", own.state.AppendEvents, batch, **parts)
        missing = state.LatestCheckpointRequest(thread_id=thread, branch_id=branch, at_event_id=event[:-1])
        refused("EVENT_NOT_FOUND", own.state.LatestCheckpoint, missing, thread=thread, branch=branch, event=event[:-1])
        fork = state.ForkRequest(thread_id=thread, branch_id=branch, from_event_id=event, name=branch)
        refused("BRANCH_EXISTS", own.state.Fork, fork, thread=thread, branch=branch)
        fork.branch_id = branch[:-1]
        refused("BRANCH_NOT_FOUND", own.state.Fork, fork, thread=thread, branch=branch[:-1])
        expecting = state.AppendNextEventRequest(event=event_of(thread, "", branch), expected_last_sequence=7)
        refused("SEQUENCE_MISMATCH", own.state.AppendNextEvent, expecting, branch=branch, expected=7, actual=1)
        own.memory.Set(set_of("errors", "k", request_id=longest))
        reused = set_of("errors", "k2", request_id=longest)
        refused("REQUEST_ID_REUSED", own.memory.Set, reused, at="request_id", request_id=longest)
        attached = own.scratch.Attach(scratch.ScratchAttachRequest(instance_id=longest), timeout=60)
        next(attached)
        again = scratch.ScratchAttachRequest(instance_id=longest)
        refused("INSTANCE_ATTACHED", own.scratch.Attach, again, instance=longest)
        attached.cancel()
        large = Value(data=bytes(2_500_000))
        for _ in range(2):
            own.state.AppendNextEvent(next_of(thread, "", branch, data=large))
        whole = state.GetHistoryRequest(thread_id=thread, branch_id=branch)
        refused("HISTORY_TOO_LARGE", own.state.GetHistory, whole, thread=thread, branch=branch)
        own.state.DeleteThread(state.DeleteThreadRequest(thread_id=thread))


def test_a_mismatch_on_the_longest_key_arrives_with_its_details(stubs: Stubs, name: str) -> None:
    where, key = name.ljust(256, "s"), "k" * 512
    refused("VERSION_MISMATCH", stubs.memory.Set, set_of(where, key, expected_version=3), key=key, expected=3, actual=0)


PRIVATE = "a-secret-that-nobody-should-see"


@pytest.mark.parametrize(
    "bad", [f'"{PRIVATE}', f"{PRIVATE}", f'{{"{PRIVATE}":NaN}}', f'["{PRIVATE}",01]', f'"{PRIVATE}\\ud800"']
)
def test_no_error_echoes_a_value(bad: str, stubs: Stubs, name: str) -> None:
    refusals = [
        refused("INVALID_FIELD", stubs.memory.Set, set_of(name, "k", bad)),
        refused("INVALID_FIELD", stubs.state.AppendNextEvent, next_of(name, data=Value(json=bad))),
        refused("INVALID_FIELD", stubs.state.SaveCheckpoint, checkpoint_of(name, active=Value(json=bad))),
    ]
    assert PRIVATE not in str(refusals)


def test_no_conflict_echoes_a_value(stubs: Stubs, name: str) -> None:
    stubs.state.AppendNextEvent(next_of(name, "e", data=Value(json=f'"{PRIVATE}"')))
    stubs.memory.Set(set_of(name, "k", f'"{PRIVATE}"', request_id="r"))
    refusals = [
        refused("EVENT_EXISTS", stubs.state.AppendNextEvent, next_of(name, "e", data=Value(text=PRIVATE + "!"))),
        refused("VERSION_MISMATCH", stubs.memory.Set, set_of(name, "k", f'"{PRIVATE}"', expected_version=7)),
        refused("REQUEST_ID_REUSED", stubs.memory.Set, set_of(name, "k", f'"{PRIVATE}!"', request_id="r")),
    ]
    assert PRIVATE not in str(refusals)


def test_a_message_is_at_most_1_kib_whatever_it_is_about(stubs: Stubs, name: str) -> None:
    long = "x" * 100_000
    refused("INVALID_FIELD", stubs.state.AppendNextEvent, next_of(long))
    refused("INVALID_FIELD", stubs.memory.Set, set_of(long, long))
    refused(
        "INVALID_FIELD",
        stubs.memory.BatchGet,
        memory.MemoryBatchGetRequest(scope=scope(name), keys=["a"] * 99 + [long]),
    )
    refused("INVALID_FIELD", stubs.memory.List, memory.MemoryListRequest(scope=scope(name), page_token=long))


def test_a_cursor_that_is_refused_says_which_to_go_on_from(stubs: Stubs, name: str) -> None:
    refused("REVISION_GONE", stubs.state.StreamHistory, stream_of(name, after_revision=5), oldest=0, revision=5)
    refused("REVISION_GONE", stubs.memory.Watch, watch_of(name, after_revision=5), oldest=0, revision=5)
    newest = stubs.state.AppendNextEvent(next_of(name)).event.revision
    ahead = stream_of(name, after_revision=newest + 1)
    refused("REVISION_AHEAD", stubs.state.StreamHistory, ahead, newest=newest, revision=newest + 1)
    newest = stubs.memory.Set(set_of(name, "k")).entry.revision
    refused("REVISION_AHEAD", stubs.memory.Watch, watch_of(name, after_revision=newest + 1), newest=newest)


def test_conflicts_are_not_in_the_log(start_server: object, name: str) -> None:
    process = start_server()  # type: ignore[operator]
    with connected(process.address) as own:
        own.memory.Set(set_of(name, "k"))
        own.state.AppendNextEvent(next_of(name, "e"))
        for _ in range(20):
            refused("VERSION_MISMATCH", own.memory.Set, set_of(name, "k", expected_version=0))
            refused("EVENT_EXISTS", own.state.AppendNextEvent, next_of(name, "e", type="else"))
            refused("INVALID_FIELD", own.state.AppendEvent, given_of(name, -1))
    assert process.stderr == ""


def test_a_message_over_the_receive_limit_is_refused_by_grpc_itself(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        value = Value(data=bytes(65 * 2**20))
        with pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
            own.memory.Set(memory.MemorySetRequest(scope=scope(name), key="k", value=value), timeout=20)
        assert not own.memory.List(memory.MemoryListRequest(scope=scope(name))).entries


def test_3000_calls_at_once_on_one_connection_are_all_answered(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        answers = call_many(own.memory.Set, (set_of(name, f"k{number}") for number in range(3_000)), at_once=3_000)
    assert len(answers) == 3_000


def test_calls_of_many_connections_at_once_are_all_answered(server: ServerProcess, name: str) -> None:
    def call(number: int) -> int:
        with connected(server.address) as own:
            return len(call_many(own.memory.Set, (set_of(name, f"{number}-{n}") for n in range(50)), at_once=50))

    with ThreadPoolExecutor(20) as callers:
        assert list(callers.map(call, range(20))) == [50] * 20
