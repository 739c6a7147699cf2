"""StateStore.StreamHistory: what is sent, in which order, and when it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from rpc_support import (
    MIB,
    PATIENCE,
    Stubs,
    checkpoint_of,
    connected,
    end_of,
    events_in,
    next_of,
    read_records,
    refused,
    sent,
    stream_of,
    until_caught_up,
)
from server_process import ServerProcess
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value


def append(stubs: Stubs, name: str, *event_ids: str, branch: str = "") -> list[int]:
    return [stubs.state.AppendNextEvent(next_of(name, one, branch)).event.revision for one in event_ids]


def fork(stubs: Stubs, name: str, at: str, branch: str, parent: str = "") -> state.Branch:
    request = state.ForkRequest(thread_id=name, from_event_id=at, name=branch, branch_id=parent)
    return stubs.state.Fork(request).branch


def read(stubs: Stubs, name: str, **fields: Any) -> list[state.StreamHistoryResponse]:
    """Read a stream that ends by itself."""
    return list(stubs.state.StreamHistory(stream_of(name, **fields), timeout=PATIENCE))


@contextmanager
def followed(stubs: Stubs, name: str, **fields: Any) -> Iterator[Any]:
    """Give a stream that stays, and cancel it."""
    stream = stubs.state.StreamHistory(stream_of(name, follow=True, **fields), timeout=PATIENCE)
    yield stream
    stream.cancel()


def caught_up(messages: list[state.StreamHistoryResponse]) -> list[bool]:
    return [message.caught_up for message in messages]


# --- bounded reads


def test_a_read_sends_all_events_and_then_caught_up(stubs: Stubs, name: str) -> None:
    revisions = append(stubs, name, "a", "b", "c")
    messages = read(stubs, name)
    assert sent(messages) == ["a", "b", "c"]
    assert caught_up(messages).count(True) == 1
    assert messages[-1].caught_up
    assert messages[-1].revision == revisions[-1]
    assert [event for message in messages for event in message.events] == events_in(stubs, name)


def test_a_read_of_a_branch_without_events_is_one_message(stubs: Stubs, name: str) -> None:
    (revision,) = append(stubs, name, "a")
    assert read(stubs, name, branch_id="b") == [state.StreamHistoryResponse(caught_up=True, revision=revision)]


def test_a_read_sends_no_checkpoints_unless_they_are_asked_for(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a")
    stubs.state.SaveCheckpoint(checkpoint_of(name, "c"))
    append(stubs, name, "b")
    assert not any(message.checkpoints for message in read(stubs, name))
    messages = read(stubs, name, include_checkpoints=True)
    assert (sent(messages), [one.id for message in messages for one in message.checkpoints]) == (["a", "b"], ["c"])
    assert caught_up(messages) == [True]


def test_a_read_after_the_newest_revision_is_one_message(stubs: Stubs, name: str) -> None:
    newest = append(stubs, name, "a", "b")[-1]
    for checkpoints in (False, True):
        found = read(stubs, name, after_revision=newest, include_checkpoints=checkpoints)
        assert found == [state.StreamHistoryResponse(caught_up=True, revision=newest)]


# --- limit


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize(("limit", "cut_short"), [(1, True), (4, True), (5, False), (6, False), (2**63 - 1, False)])
def test_a_limit_counts_events(limit: int, cut_short: bool, checkpoints: bool, stubs: Stubs, name: str) -> None:
    events = list("abcde")
    revisions = append(stubs, name, *events)
    messages = read(stubs, name, limit=limit, include_checkpoints=checkpoints)
    assert sent(messages) == events[:limit]
    assert caught_up(messages).count(True) == int(not cut_short)
    assert messages[-1].revision == revisions[:limit][-1]


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_reads_with_a_limit_go_on_from_each_other(limit: int, stubs: Stubs, name: str) -> None:
    for number in range(10):
        append(stubs, name, f"e{number}")
        append(stubs, name, f"other{number}", branch="b")
        stubs.state.SaveCheckpoint(checkpoint_of(name, f"c{number}"))
    events: list[str] = []
    checkpoints: list[str] = []
    revision = 0
    for _ in range(12):
        messages = read(stubs, name, limit=limit, after_revision=revision, include_checkpoints=True)
        events += sent(messages)
        checkpoints += [one.id for message in messages for one in message.checkpoints]
        revision = messages[-1].revision
        if messages[-1].caught_up:
            break
    assert events == [f"e{number}" for number in range(10)]
    assert checkpoints == [f"c{number}" for number in range(10)]


def test_a_limit_of_what_is_inherited_alone_is_not_cut_short(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a", "b", "c")
    fork(stubs, name, "b", "own")
    messages = read(stubs, name, branch_id="own", include_ancestors=True, limit=2)
    assert sent(messages) == ["a", "b"]
    assert caught_up(messages).count(True) == 1


def test_large_checkpoints_after_the_last_event_are_not_cut_off_by_a_limit_of_events(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a")
    for number in range(4):
        stubs.state.SaveCheckpoint(checkpoint_of(name, f"c{number}", state=Value(data=bytes(200_000))))
    messages = read(stubs, name, limit=1, include_checkpoints=True)
    assert [one.id for message in messages for one in message.checkpoints] == [f"c{number}" for number in range(4)]
    assert caught_up(messages).count(True) == 1


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": -(2**63)}, "limit"),
        ({"last": -1}, "last"),
        ({"after_revision": -1}, "after_revision"),
        ({"last": 1, "limit": 1}, "last"),
        ({"last": 1, "after_revision": 1}, "last"),
        ({"follow": True, "heartbeat": Duration(nanos=99_999_999)}, "heartbeat"),
        ({"follow": True, "heartbeat": Duration(nanos=1)}, "heartbeat"),
        ({"follow": True, "heartbeat": Duration(seconds=-1)}, "heartbeat"),
        ({"follow": True, "heartbeat": Duration(nanos=10**9)}, "heartbeat"),
    ],
    ids=str,
)
def test_a_stream_is_refused_that_asks_for_what_there_is_not(
    fields: dict[str, Any], at: str, stubs: Stubs, name: str
) -> None:
    append(stubs, name, "a")
    refused("INVALID_FIELD", stubs.state.StreamHistory, stream_of(name, **fields), at=at)


# --- last


@pytest.mark.parametrize("last", [1, 2, 4, 5, 6, 2**63 - 1])
def test_the_last_events_come_oldest_first(last: int, stubs: Stubs, name: str) -> None:
    events = list("abcde")
    append(stubs, name, *events)
    messages = read(stubs, name, last=last)
    assert sent(messages) == events[-min(last, 5) :]
    assert caught_up(messages).count(True) == 1


@pytest.mark.parametrize("last", range(1, 9))
def test_the_last_events_of_the_whole_line(last: int, stubs: Stubs, name: str) -> None:
    append(stubs, name, "m1", "m2", "m3")
    fork(stubs, name, "m2", "a")
    append(stubs, name, "a1", "a2", branch="a")
    fork(stubs, name, "a1", "b", "a")
    append(stubs, name, "b1", "b2", branch="b")
    append(stubs, name, "m4")
    line = ["m1", "m2", "a1", "b1", "b2"]
    messages = read(stubs, name, branch_id="b", include_ancestors=True, last=last)
    assert sent(messages) == line[-last:]
    assert sent(read(stubs, name, branch_id="b", last=last)) == ["b1", "b2"][-last:]


def test_the_last_events_can_be_followed(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a", "b", "c")
    with followed(stubs, name, last=2) as stream:
        assert sent(until_caught_up(stream)) == ["b", "c"]
        append(stubs, name, "d", "e")
        assert [event.id for event in read_records(stream, 2)] == ["d", "e"]


def test_the_last_events_of_an_empty_thread_can_be_followed(stubs: Stubs, name: str) -> None:
    with followed(stubs, name, last=2) as stream:
        assert next(stream) == state.StreamHistoryResponse(caught_up=True)
        append(stubs, name, "a", "b", "c")
        assert [event.id for event in read_records(stream, 3)] == ["a", "b", "c"]


def test_the_last_events_come_with_the_checkpoints_saved_since_then(stubs: Stubs, name: str) -> None:
    for event_id in "abc":
        append(stubs, name, event_id)
        stubs.state.SaveCheckpoint(checkpoint_of(name, f"c{event_id}"))
    messages = read(stubs, name, last=2, include_checkpoints=True)
    assert sent(messages) == ["b", "c"]
    found = [one.id for message in messages for one in message.checkpoints]
    assert found[-2:] == ["cb", "cc"]


# --- following


@pytest.mark.parametrize("fields", [{}, {"include_checkpoints": True}, {"include_ancestors": True}], ids=str)
def test_a_follower_gets_what_is_stored_from_then_on(fields: dict[str, bool], stubs: Stubs, name: str) -> None:
    append(stubs, name, "a")
    with followed(stubs, name, **fields) as stream:
        assert sent(until_caught_up(stream)) == ["a"]
        for event_id in ("b", "c"):
            append(stubs, name, event_id)
            append(stubs, name, event_id, branch="another")
            message = next(stream)
            assert (sent([message]), message.caught_up) == ([event_id], False)
            assert message.revision >= message.events[-1].revision


def test_a_follower_of_a_thread_that_is_not_there_sees_its_creation(stubs: Stubs, name: str) -> None:
    with followed(stubs, name) as stream:
        assert next(stream) == state.StreamHistoryResponse(caught_up=True)
        append(stubs, name, "a", "b")
        assert [event.id for event in read_records(stream, 2)] == ["a", "b"]


def test_a_follower_of_a_branch_that_is_not_there_sees_its_fork(stubs: Stubs, name: str) -> None:
    (revision,) = append(stubs, name, "a")
    with followed(stubs, name, branch_id="b", include_checkpoints=True) as stream:
        assert next(stream) == state.StreamHistoryResponse(caught_up=True, revision=revision)
        request = state.ForkRequest(thread_id=name, from_event_id="a", name="b")
        request.event.type = "forked"
        request.checkpoint.state.json = "{}"
        answer = stubs.state.Fork(request)
        assert next(stream).checkpoints[0] == answer.checkpoint


def test_a_follower_gets_checkpoints_that_are_saved_again(stubs: Stubs, name: str) -> None:
    with followed(stubs, name, include_checkpoints=True) as stream:
        next(stream)
        for status in ("running", "done"):
            saved = stubs.state.SaveCheckpoint(checkpoint_of(name, "c", status=status)).checkpoint
            assert list(next(stream).checkpoints) == [saved]


def test_a_follower_with_a_limit_ends(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a")
    with followed(stubs, name, limit=3) as stream:
        until_caught_up(stream)
        append(stubs, name, "b", "c", "d")
        assert sent(stream) == ["b", "c"]


def test_a_follower_with_a_limit_that_is_there_already_ends_at_once(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a", "b", "c")
    with followed(stubs, name, limit=2) as stream:
        messages = list(stream)
        assert (sent(messages), any(caught_up(messages))) == (["a", "b"], False)


def test_a_follower_of_a_batch_gets_all_of_it(stubs: Stubs, name: str) -> None:
    with followed(stubs, name) as stream:
        next(stream)
        events = [state.Event(id=f"e{number}", type="x") for number in range(1_000)]
        stubs.state.AppendEvents(state.AppendEventsRequest(thread_id=name, events=events))
        assert [event.id for event in read_records(stream, 1_000)] == [event.id for event in events]


def test_heartbeats_carry_the_revision(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a")
    with followed(stubs, name, heartbeat=Duration(nanos=100_000_000)) as stream:
        until_caught_up(stream)
        for _ in range(3):
            message = next(stream)
            assert message == state.StreamHistoryResponse(revision=message.revision)
        (revision,) = append(stubs, name, "b")
        read_records(stream, 1)
        assert next(stream).revision == revision


def test_a_heartbeat_tells_of_writes_to_other_branches(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a")
    with followed(stubs, name, heartbeat=Duration(nanos=100_000_000)) as stream:
        until_caught_up(stream)
        (revision,) = append(stubs, name, "b", branch="another")
        beats = (message.revision for message in stream if not message.events)
        assert any(beat == revision for _, beat in zip(range(5), beats, strict=False))


def test_no_heartbeats_come_where_none_are_asked_for(stubs: Stubs, name: str) -> None:
    with followed(stubs, name) as quiet, followed(stubs, name, heartbeat=Duration(nanos=100_000_000)) as beating:
        for stream in (quiet, beating):
            next(stream)
        for _ in range(3):
            next(beating)
        append(stubs, name, "a")
        assert sent([next(quiet)]) == ["a"]


@pytest.mark.parametrize("seconds", [10**6, 315_576_000_000, 2**62])
def test_a_heartbeat_may_be_as_seldom_as_anyone_likes(seconds: int, stubs: Stubs, name: str) -> None:
    with followed(stubs, name, heartbeat=Duration(seconds=seconds)) as stream:
        next(stream)
        append(stubs, name, "a")
        assert sent([next(stream)]) == ["a"]


# --- the end of a thread


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_follower_ends_where_its_thread_is_deleted(checkpoints: bool, stubs: Stubs, name: str) -> None:
    append(stubs, name, "a")
    with followed(stubs, name, include_checkpoints=checkpoints) as stream:
        until_caught_up(stream)
        stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=name))
        refusal = end_of(stream)
        assert (refusal.code.name, refusal.reason) == ("OUT_OF_RANGE", "REVISION_GONE")
        assert "oldest" in refusal.metadata


def test_a_follower_ends_where_its_thread_was_deleted_and_made_anew(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a")
    with followed(stubs, name) as stream:
        until_caught_up(stream)
        stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=name))
        append(stubs, name, "b")
        assert end_of(stream).reason == "REVISION_GONE"


def test_a_cursor_of_a_deleted_thread_is_refused(stubs: Stubs, name: str) -> None:
    revisions = append(stubs, name, "a", "b")
    stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=name))
    for revision in revisions:
        refused("REVISION_GONE", stubs.state.StreamHistory, stream_of(name, after_revision=revision))


def test_a_cursor_of_a_thread_s_earlier_life_is_refused(stubs: Stubs, name: str) -> None:
    old = append(stubs, name, "a", "b", "c")
    stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=name))
    new = append(stubs, name, "d", "e")
    for revision in old:
        refusal = refused("REVISION_GONE", stubs.state.StreamHistory, stream_of(name, after_revision=revision))
        assert old[-1] < int(refusal.metadata["oldest"]) <= new[0]
    oldest = int(refusal.metadata["oldest"])
    assert sent(read(stubs, name, after_revision=oldest)) == [["d", "e"][n] for n in (0, 1) if new[n] > oldest]
    assert sent(read(stubs, name, after_revision=new[0])) == ["e"]
    assert sent(read(stubs, name)) == ["d", "e"]


def test_a_cursor_ahead_of_everything_is_refused(stubs: Stubs, name: str) -> None:
    newest = append(stubs, name, "a", "b")[-1]
    for ahead in (newest + 1, 2**63 - 1):
        request = stream_of(name, after_revision=ahead, follow=True)
        refused("REVISION_AHEAD", stubs.state.StreamHistory, request, newest=newest)


def test_a_cursor_of_a_thread_that_is_not_there_is_refused(stubs: Stubs, name: str) -> None:
    for cursor in (1, 2**63 - 1):
        request = stream_of(name, after_revision=cursor, follow=True)
        refused("REVISION_GONE", stubs.state.StreamHistory, request)


# --- resuming


def a_busy_thread(stubs: Stubs, name: str) -> None:
    append(stubs, name, "m1", "m2")
    stubs.state.SaveCheckpoint(checkpoint_of(name, "cm"))
    append(stubs, name, "m3")
    fork(stubs, name, "m2", "a")
    stubs.state.SaveCheckpoint(checkpoint_of(name, "ca1", branch_id="a"))
    append(stubs, name, "a1", "a2", branch="a")
    append(stubs, name, "m4")
    fork(stubs, name, "a2", "b", "a")
    stubs.state.SaveCheckpoint(checkpoint_of(name, "cb1", branch_id="b"))
    append(stubs, name, "b1", branch="b")
    append(stubs, name, "a3", branch="a")
    stubs.state.SaveCheckpoint(checkpoint_of(name, "cb2", branch_id="b"))
    append(stubs, name, "b2", "b3", branch="b")
    stubs.state.SaveCheckpoint(checkpoint_of(name, "cb1", branch_id="b", status="done"))
    append(stubs, name, "m5")


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("ancestors", [False, True])
@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("branch", ["main", "a", "b"])
def test_a_stream_resumed_at_any_revision_sends_exactly_the_rest(
    branch: str, checkpoints: bool, ancestors: bool, follow: bool, stubs: Stubs, name: str
) -> None:
    a_busy_thread(stubs, name)
    fields = {"branch_id": branch, "include_checkpoints": checkpoints, "include_ancestors": ancestors}

    def records(after: int) -> set[tuple[int, str]]:
        stream = stubs.state.StreamHistory(
            stream_of(name, after_revision=after, follow=follow, **fields), timeout=PATIENCE
        )
        messages = until_caught_up(stream)
        stream.cancel()
        listed = [(one.revision, one.id) for message in messages for one in (*message.events, *message.checkpoints)]
        assert len(listed) == len(set(listed))
        return set(listed)

    everything = records(0)
    newest = stubs.state.ListThreads(state.ListThreadsRequest(prefix=name)).threads[0].revision
    oldest = min(records(0))[0] if branch == "main" or ancestors else events_in(stubs, name)[0].revision
    for revision in range(oldest, newest + 1):
        assert records(revision) == {record for record in everything if record[0] > revision}


def test_what_is_inherited_is_sent_oldest_ancestor_first(stubs: Stubs, name: str) -> None:
    a_busy_thread(stubs, name)
    messages = read(stubs, name, branch_id="b", include_ancestors=True, include_checkpoints=True)
    assert sent(messages) == ["m1", "m2", "a1", "a2", "b1", "b2", "b3"]
    found = [(one.id, one.status) for message in messages for one in message.checkpoints]
    assert found == [("cb2", "running"), ("cb1", "done")]


@pytest.mark.parametrize("limit", range(1, 8))
def test_a_limit_counts_what_is_inherited(limit: int, stubs: Stubs, name: str) -> None:
    a_busy_thread(stubs, name)
    line = ["m1", "m2", "a1", "a2", "b1", "b2", "b3"]
    messages = read(stubs, name, branch_id="b", include_ancestors=True, limit=limit)
    assert sent(messages) == line[:limit]
    rest = read(stubs, name, branch_id="b", include_ancestors=True, after_revision=messages[-1].revision)
    assert sent(rest) == line[limit:]


# --- messages are cut by bytes


@pytest.mark.parametrize("checkpoints", [False, True])
def test_48_events_of_100_kb_come_in_messages_of_about_256_kib(
    checkpoints: bool, server: ServerProcess, name: str
) -> None:
    with connected(server.address) as own:
        for number in range(48):
            own.state.AppendNextEvent(next_of(name, f"e{number}", data=Value(data=bytes(100_000))))
        messages = read(own, name, include_checkpoints=checkpoints)
        assert sent(messages) == [f"e{number}" for number in range(48)]
        assert all(message.ByteSize() <= 320 * 1024 for message in messages)
        assert len(messages) <= 30
        for message in messages:
            resumed = read(own, name, after_revision=message.revision, include_checkpoints=checkpoints)
            assert len(sent(resumed)) == 47 - int(message.events[-1].id[1:])


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_record_larger_than_a_message_comes_alone(checkpoints: bool, server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        small, large = Value(data=bytes(100_000)), Value(data=bytes(3_900_000))
        for number, value in enumerate((small, small, large, small, large, large, small)):
            own.state.AppendNextEvent(next_of(name, f"e{number}", data=value))
        messages = read(own, name, include_checkpoints=checkpoints)
        assert sent(messages) == [f"e{number}" for number in range(7)]
        assert all(len(message.events) == 1 or message.ByteSize() < MIB for message in messages)


def test_many_small_events_come_in_few_messages(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        for start in range(0, 20_000, 2_000):
            events = [state.Event(id=f"e{start + number}", type="x") for number in range(2_000)]
            own.state.AppendEvents(state.AppendEventsRequest(thread_id=name, events=events))
        messages = read(own, name)
        assert sent(messages) == [f"e{number}" for number in range(20_000)]
        assert all(message.ByteSize() <= 320 * 1024 for message in messages)
        assert len(messages) < 20
        for message in messages[:-1]:
            assert message.revision == message.events[-1].revision


def test_a_read_is_of_the_moment_it_began_and_caught_up_says_so(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        large = Value(data=bytes(200_000))
        for number in range(40):
            own.state.AppendNextEvent(next_of(name, f"e{number}", data=large))
        stream = own.state.StreamHistory(stream_of(name), timeout=PATIENCE)
        messages = [next(stream)]
        for number in range(40, 45):
            own.state.AppendNextEvent(next_of(name, f"e{number}", data=large))
        messages += list(stream)
        found = sent(messages)
        assert found[:40] == [f"e{number}" for number in range(40)]
        assert caught_up(messages).count(True) == 1
        last = messages[-1].revision
        assert found + sent(read(own, name, after_revision=last)) == [f"e{number}" for number in range(45)]
