"""The contract's StateStore: threads, their lines in ListThreads, and their end."""

import pytest
from statekeep.v1 import state_store_pb2 as pb
from statekeep_server.core.errors import Reason
from unit.rules_support import ThreadRules, World, in_batch, refused


def fill(threads: ThreadRules, thread_id: str = "t") -> int:
    """Make a thread of 4 events, 2 checkpoints and a branch, and return its newest revision."""
    threads.append_batch(in_batch("e1"), in_batch("e2"), in_batch("e3"), thread_id=thread_id)
    threads.save("c1", thread_id=thread_id)
    threads.save("c1", 9, thread_id=thread_id)
    return threads.fork(
        "e1", "draft", thread_id=thread_id, event=in_batch("f1"), checkpoint={"id": "c2", "state": {"json": "1"}}
    ).event.revision


def test_a_thread_tells_what_it_holds(threads: ThreadRules) -> None:
    newest = fill(threads)
    (thread,) = threads.threads()
    assert (thread.id, thread.event_count, thread.checkpoint_count, thread.branch_count) == ("t", 4, 2, 1)
    assert thread.revision == newest
    assert thread.uid
    assert thread.create_time.seconds > 0
    assert thread.update_time.ToMicroseconds() >= thread.create_time.ToMicroseconds()


def test_threads_are_sorted_by_id_bytewise(threads: ThreadRules) -> None:
    ids = ["b", "a", "B", "é", "\uffff", "\U0001f4be", "a b", "10", "2", "e\u0301"]
    for thread_id in ids:
        threads.append_next(thread_id=thread_id)
    assert [thread.id for thread in threads.threads()] == sorted(ids, key=str.encode)


def test_delete_removes_everything_and_tells_how_much(threads: ThreadRules) -> None:
    fill(threads)
    assert threads.drop() == pb.DeleteThreadResponse(events_deleted=4, checkpoints_deleted=2)
    assert threads.threads() == []
    assert threads.history() == pb.History(thread_id="t", branch_id="main")
    assert threads.ids(branch_id="draft") == []
    assert threads.latest() is None
    assert threads.checkpoint_ids() == []
    assert threads.branch_ids(include_unforked=True) == []
    assert threads.streamed() == []


def test_delete_is_no_error_where_there_is_nothing(threads: ThreadRules) -> None:
    assert threads.drop() == pb.DeleteThreadResponse()
    fill(threads)
    threads.drop()
    assert threads.drop() == pb.DeleteThreadResponse()


def test_delete_leaves_other_threads_alone(threads: ThreadRules) -> None:
    fill(threads, "t")
    fill(threads, "t2")
    threads.drop("t")
    assert threads.ids(thread_id="t2") == ["e1", "e2", "e3"]
    assert [thread.id for thread in threads.threads()] == ["t2"]


def test_a_thread_made_anew_shares_nothing_with_the_old_one(threads: ThreadRules) -> None:
    fill(threads)
    old = threads.threads()[0]
    threads.drop()
    first = threads.append_next("e1", 0, type="other")
    new = threads.threads()[0]
    assert first.sequence == 1
    assert first.revision > old.revision
    assert new.uid != old.uid
    assert (new.event_count, new.checkpoint_count, new.branch_count) == (1, 0, 0)
    assert threads.fork("e1", "draft").branch.id == "draft"


def test_a_late_write_begins_the_thread_anew(threads: ThreadRules) -> None:
    fill(threads)
    threads.drop()
    threads.append_next("late")
    assert threads.ids() == ["late"]
    assert threads.sequences() == [1]


@pytest.mark.parametrize("follow", [False, True])
def test_a_cursor_of_the_old_thread_is_gone(threads: ThreadRules, follow: bool) -> None:
    old = fill(threads)
    threads.drop()
    with refused(Reason.REVISION_GONE):
        threads.stream(after_revision=old, follow=follow).step()
    for _ in range(20):
        threads.append_next()
    first = threads.history().events[0].revision
    for cursor in (old, old - 3, 1, first - 1):
        with refused(Reason.REVISION_GONE) as refusal:
            threads.stream(after_revision=cursor, follow=follow).step()
        assert int(refusal.value.metadata["oldest"]) == first
    assert len(threads.streamed(after_revision=first)) == 19


def test_a_cursor_of_the_old_thread_is_gone_however_often_it_was_made_anew(threads: ThreadRules) -> None:
    cursors = []
    for _ in range(50):
        for _ in range(20):
            cursors.append(threads.append_next().revision)  # noqa: PERF401 (each is of the thread as it is then)
        threads.drop()
    threads.append_next()
    for cursor in cursors:
        with refused(Reason.REVISION_GONE):
            threads.stream(after_revision=cursor).step()
    assert len(set(cursors)) == 1000


def test_delete_ends_the_followers(threads: ThreadRules) -> None:
    fill(threads)
    at_its_end, begun, waiting = (threads.stream(follow=True) for _ in range(3))
    at_its_end.rest()
    begun.step()
    waiting_on_other = threads.stream(follow=True, branch_id="draft", after_revision=0)
    waiting_on_other.rest()
    threads.drop()
    for stream in (at_its_end, begun, waiting_on_other):
        with refused(Reason.REVISION_GONE):
            stream.step()
    assert waiting.step() == pb.StreamHistoryResponse(caught_up=True)


def test_delete_ends_the_followers_also_where_the_thread_is_made_anew_at_once(threads: ThreadRules) -> None:
    fill(threads)
    stream = threads.stream(follow=True)
    stream.rest()
    threads.drop()
    fill(threads)
    with refused(Reason.REVISION_GONE):
        stream.step()


def test_a_stream_under_way_ends_too(threads: ThreadRules) -> None:
    for _ in range(20):
        threads.append_next(data={"text": "x" * 500_000})
    stream = threads.stream()
    assert len(stream.step().events) == 1
    threads.drop()
    while stream.ready:  # what was read already
        assert len(stream.step().events) == 1
    with refused(Reason.REVISION_GONE):
        stream.step()


def test_a_follower_of_a_thread_that_is_not_there_hears_of_its_beginning_and_end(threads: ThreadRules) -> None:
    stream = threads.stream(follow=True)
    assert stream.rest() == [pb.StreamHistoryResponse(caught_up=True)]
    threads.append_next("e1")
    assert [stored.id for stored in stream.step().events] == ["e1"]
    threads.drop()
    with refused(Reason.REVISION_GONE):
        stream.step()


def test_what_a_thread_holds_is_let_go_of(world: World, threads: ThreadRules) -> None:
    for number in range(20):
        fill(threads, f"t{number}")
    for number in range(20):
        threads.drop(f"t{number}")
    assert world.partitions() == []
    assert world.engine._partitions == {}
