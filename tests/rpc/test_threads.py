"""StateStore: threads, their list, and their end."""

from rpc_support import Stubs, checkpoint_of, events_in, ids, items, next_of, refused, sent, stream_of
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value


def threads(stubs: Stubs, prefix: str) -> list[state.Thread]:
    return items(stubs.state.ListThreads, state.ListThreadsRequest(prefix=prefix, page_size=2), "threads")


def delete(stubs: Stubs, name: str) -> state.DeleteThreadResponse:
    return stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=name))


def test_a_thread_is_listed_with_what_it_holds(stubs: Stubs, name: str) -> None:
    first = stubs.state.AppendNextEvent(next_of(name, "e")).event
    stubs.state.AppendNextEvent(next_of(name, branch="loose"))
    stubs.state.SaveCheckpoint(checkpoint_of(name))
    last = stubs.state.Fork(state.ForkRequest(thread_id=name, from_event_id="e")).branch
    (thread,) = threads(stubs, name)
    assert (thread.id, thread.event_count, thread.checkpoint_count, thread.branch_count) == (name, 2, 1, 1)
    assert thread.uid
    assert thread.revision == last.revision
    assert thread.create_time.ToMicroseconds() <= thread.update_time.ToMicroseconds()
    assert abs(thread.create_time.ToSeconds() - first.create_time.ToSeconds()) < 5


def test_threads_are_listed_sorted_bytewise(stubs: Stubs, name: str) -> None:
    ends = ["b", "B", "é", "\U0001f600", "\uffee", "a b", "-", "10", "9"]
    for end in ends:
        stubs.state.AppendNextEvent(next_of(f"{name}/{end}"))
    assert ids(threads(stubs, f"{name}/")) == sorted((f"{name}/{end}" for end in ends), key=str.encode)


def test_reads_create_no_thread(stubs: Stubs, name: str) -> None:
    events_in(stubs, name)
    list(stubs.state.StreamHistory(stream_of(name)))
    stubs.state.LatestCheckpoint(state.LatestCheckpointRequest(thread_id=name))
    stubs.state.ListCheckpoints(state.ListCheckpointsRequest(thread_id=name))
    stubs.state.ListBranches(state.ListBranchesRequest(thread_id=name, include_unforked=True))
    refused("THREAD_NOT_FOUND", stubs.state.Fork, state.ForkRequest(thread_id=name, from_event_id="e"))
    delete(stubs, name)
    assert threads(stubs, name) == []


def test_a_refused_write_creates_no_thread(stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.state.AppendNextEvent, next_of(name, data=Value(json="")))
    wrong = state.AppendNextEventRequest(event=next_of(name).event, expected_last_sequence=1)
    refused("SEQUENCE_MISMATCH", stubs.state.AppendNextEvent, wrong, expected=1, actual=0)
    assert threads(stubs, name) == []


def test_a_deleted_thread_is_gone_with_all_its_branches(stubs: Stubs, name: str) -> None:
    stubs.state.AppendNextEvent(next_of(name, "e"))
    stubs.state.AppendNextEvent(next_of(name, "f", "b"))
    stubs.state.SaveCheckpoint(checkpoint_of(name, "c"))
    stubs.state.SaveCheckpoint(checkpoint_of(name, "c", status="done"))
    answer = delete(stubs, name)
    assert (answer.events_deleted, answer.checkpoints_deleted) == (2, 1)
    assert threads(stubs, name) == []
    assert events_in(stubs, name) == events_in(stubs, name, "b") == []
    assert sent(stubs.state.StreamHistory(stream_of(name))) == []


def test_deleting_what_is_not_there_is_no_error(stubs: Stubs, name: str) -> None:
    assert delete(stubs, name) == state.DeleteThreadResponse()
    stubs.state.AppendNextEvent(next_of(name))
    delete(stubs, name)
    assert delete(stubs, name) == state.DeleteThreadResponse()


def test_a_thread_made_anew_shares_nothing_with_the_old_one(stubs: Stubs, name: str) -> None:
    fork = state.ForkRequest(thread_id=name, from_event_id="e", name="b", request_id="r")
    lives = []
    for number in range(3):
        event = stubs.state.AppendNextEvent(next_of(name, "e", data=Value(json=str(number)))).event
        assert event.sequence == 1
        assert stubs.state.Fork(fork).branch.id == "b"
        lives.append((threads(stubs, name)[0].uid, event.revision))
        delete(stubs, name)
    uids, revisions = zip(*lives, strict=True)
    assert len(set(uids)) == 3
    assert list(revisions) == sorted(set(revisions))


def test_a_late_write_after_a_delete_begins_a_new_thread(stubs: Stubs, name: str) -> None:
    for event_id in ("a", "b"):
        stubs.state.AppendNextEvent(next_of(name, event_id))
    stubs.state.SaveCheckpoint(checkpoint_of(name, "c"))
    delete(stubs, name)
    assert stubs.state.AppendNextEvent(next_of(name, "b")).event.sequence == 1
    assert ids(events_in(stubs, name)) == ["b"]
    latest = stubs.state.LatestCheckpoint(state.LatestCheckpointRequest(thread_id=name))
    assert not latest.HasField("checkpoint")
