"""The contract's Streams, as StreamHistory keeps them."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from statekeep.v1 import state_store_pb2 as pb
from statekeep.v1.value_pb2 import Value
from statekeep_server.core.errors import Reason
from unit.rules_support import Stream, ThreadRules, event_ids, in_batch, invalid, refused, span

LARGE = Value(text="x" * 100_000)
DEFAULT_CLIENT = 4 * 2**20


def checkpoint_ids(messages: list[Any]) -> list[str]:
    return [saved.id for message in messages for saved in message.checkpoints]


def fill(threads: ThreadRules, count: int, first: int = 1, **fields: Any) -> list[str]:
    """Append events e1, e2, … and return their ids."""
    ids = [f"e{number}" for number in range(first, first + count)]
    for event_id in ids:
        threads.append_next(event_id, **fields)
    return ids


# --- caught_up, cursors, cutting by bytes


def test_a_stream_sends_the_branch_in_the_order_stored(threads: ThreadRules) -> None:
    for sequence in (5, 3, 3, 9, 0):
        threads.append(sequence)
    threads.append_next(branch_id="other")
    messages = threads.stream().rest()
    assert [stored.sequence for message in messages for stored in message.events] == [5, 3, 3, 9, 0]


def test_a_stream_that_does_not_follow_ends(threads: ThreadRules) -> None:
    fill(threads, 3)
    stream = threads.stream()
    assert stream.step().caught_up
    assert stream.done


@pytest.mark.parametrize("size", [1_000, 200_000, 3_900_000])
def test_a_step_reads_ahead_no_more_than_a_few_mib_however_large_the_events(threads: ThreadRules, size: int) -> None:
    fill(threads, 40_000_000 // max(size, 100_000), data=Value(data=bytes(size)))
    stream = threads.stream()
    while not stream.done:
        assert stream.step().events
        assert sum(map(len, stream.ready)) < 2 * DEFAULT_CLIENT


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("there", [0, 1, 3, 30])
def test_caught_up_comes_exactly_once_after_everything_before(
    threads: ThreadRules, there: int, follow: bool, checkpoints: bool
) -> None:
    threads.append_next(branch_id="other")
    ids = fill(threads, there, data=LARGE)
    stream = threads.stream(follow=follow, include_checkpoints=checkpoints)
    messages = stream.rest()
    assert [message.caught_up for message in messages] == [False] * (len(messages) - 1) + [True]
    assert event_ids(messages) == ids
    assert stream.done is not follow


def test_caught_up_comes_though_the_branch_is_not_there(threads: ThreadRules) -> None:
    revision = threads.append_next().revision
    assert threads.stream(branch_id="none").rest() == [pb.StreamHistoryResponse(caught_up=True, revision=revision)]


@pytest.mark.parametrize("follow", [False, True])
def test_a_thread_that_is_not_there_gives_one_message_and_revision_0(threads: ThreadRules, follow: bool) -> None:
    assert threads.stream(follow=follow).rest() == [pb.StreamHistoryResponse(caught_up=True, revision=0)]


@pytest.mark.parametrize("checkpoints", [False, True])
def test_what_is_stored_after_a_read_began_is_not_needed_to_be_caught_up(
    threads: ThreadRules, checkpoints: bool
) -> None:
    ids = fill(threads, 10, data=LARGE)
    stream = threads.stream(include_checkpoints=checkpoints)
    messages = [stream.step()]
    fill(threads, 10, 11, data=LARGE)
    messages += stream.rest()
    assert event_ids(messages)[:10] == ids
    assert messages[-1].caught_up
    assert len(event_ids(messages)) == 10


@pytest.mark.parametrize("checkpoints", [False, True])
def test_messages_are_cut_by_bytes_with_a_large_record_alone(threads: ThreadRules, checkpoints: bool) -> None:
    for number, size in enumerate((100_000, 100_000, 100_000, 1_000_000, 10, 10, 10)):
        threads.append_next(f"e{number}", data=Value(text="x" * size))
    messages = threads.stream(include_checkpoints=checkpoints).rest()
    assert [[stored.id for stored in message.events] for message in messages] == [
        ["e0", "e1"],
        ["e2"],
        ["e3"],
        ["e4", "e5", "e6"],
    ]
    assert all(message.ByteSize() <= 256 * 1024 + 100 for message in messages if len(message.events) > 1)


def test_48_events_of_100_kb_come_in_messages_that_a_default_client_reads(threads: ThreadRules) -> None:
    ids = fill(threads, 48, data=LARGE)
    messages = threads.stream().rest()
    assert event_ids(messages) == ids
    assert max(message.ByteSize() for message in messages) < DEFAULT_CLIENT


def test_the_largest_record_fits_a_default_client_also_in_a_stream(threads: ThreadRules) -> None:
    too_large = threads.world.limits.record + 1
    with refused(Reason.VALUE_TOO_LARGE) as refusal:
        threads.append_next("e", data=Value(text="x" * too_large))
    over = int(refusal.value.metadata["size"]) - threads.world.limits.record
    threads.append_next("e", data=Value(text="x" * (too_large - over)))
    for checkpoints in (False, True):
        (message,) = threads.stream(include_checkpoints=checkpoints).rest()
        assert event_ids([message]) == ["e"]
        assert message.ByteSize() < DEFAULT_CLIENT


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_read_can_be_resumed_at_every_messages_revision(threads: ThreadRules, checkpoints: bool) -> None:
    for number in range(60):
        threads.append_next(f"e{number}", data=Value(text="x" * 30_000))
        threads.append_next(branch_id="other")
        threads.save(f"c{number}", state=Value(text="x" * 10_000))
    messages = threads.stream(include_checkpoints=checkpoints).rest()
    events, saved = event_ids(messages), checkpoint_ids(messages)
    assert len(messages) > 5
    assert (len(events), len(saved)) == (60, 60 if checkpoints else 0)
    for count, message in enumerate(messages, 1):
        rest = threads.stream(after_revision=message.revision, include_checkpoints=checkpoints).rest()
        assert event_ids(messages[:count]) + event_ids(rest) == events
        assert checkpoint_ids(messages[:count]) + checkpoint_ids(rest) == saved


def test_a_read_can_be_resumed_at_every_events_revision(threads: ThreadRules) -> None:
    ids = fill(threads, 100, data=Value(text="x" * 10_000))
    stored = threads.stream().rest()
    for number, sent in enumerate([sent for message in stored for sent in message.events], 1):
        assert threads.streamed(after_revision=sent.revision) == ids[number:]


def test_the_revision_of_a_caught_up_message_is_the_threads(threads: ThreadRules) -> None:
    fill(threads, 3)
    newest = threads.append_next(branch_id="other").revision
    assert threads.stream().step().revision == newest


def test_the_revision_of_a_message_on_the_way_is_of_its_last_record(threads: ThreadRules) -> None:
    fill(threads, 10, data=LARGE)
    for checkpoints in (False, True):
        first = threads.stream(include_checkpoints=checkpoints).step()
        assert first.revision == first.events[-1].revision


# --- limit


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_a_read_that_limit_cut_short_is_not_caught_up(threads: ThreadRules, limit: int, checkpoints: bool) -> None:
    ids = fill(threads, 10, data=LARGE)
    stream = threads.stream(limit=limit, include_checkpoints=checkpoints)
    messages = stream.rest()
    assert event_ids(messages) == ids[:limit]
    assert not any(message.caught_up for message in messages)
    assert messages[-1].revision == messages[-1].events[-1].revision
    assert stream.done


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("limit", [0, 10, 11, 2**63 - 1])
def test_a_limit_that_cuts_nothing_short_is_caught_up(threads: ThreadRules, limit: int, checkpoints: bool) -> None:
    ids = fill(threads, 10, data=LARGE)
    messages = threads.stream(limit=limit, include_checkpoints=checkpoints).rest()
    assert event_ids(messages) == ids
    assert messages[-1].caught_up


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("limit", [2, 3])
def test_a_limit_that_cuts_nothing_short_is_caught_up_with_ancestors_too(
    threads: ThreadRules, limit: int, checkpoints: bool
) -> None:
    fill(threads, 3)
    threads.fork("e2", "draft")
    messages = threads.stream(branch_id="draft", include_ancestors=True, limit=limit, include_checkpoints=checkpoints)
    sent = messages.rest()
    assert event_ids(sent) == ["e1", "e2"]
    assert sent[-1].caught_up


@pytest.mark.parametrize("size", [10, 100_000, 250_000])
def test_a_limit_counts_events_and_what_is_cut_by_bytes_does_not_matter(threads: ThreadRules, size: int) -> None:
    fill(threads, 2, data=Value(text="x" * size))
    threads.save("c", state=Value(text="x" * size))
    messages = threads.stream(limit=2, include_checkpoints=True).rest()
    assert event_ids(messages) == ["e1", "e2"]
    assert checkpoint_ids(messages) == ["c"]
    assert messages[-1].caught_up


def test_a_limit_ends_a_following_stream_too(threads: ThreadRules) -> None:
    fill(threads, 2)
    stream = threads.stream(limit=3, follow=True)
    assert event_ids(stream.rest()) == ["e1", "e2"]
    assert not stream.done
    fill(threads, 5, 3)
    assert event_ids(stream.rest()) == ["e3"]
    assert stream.done


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_limit_that_is_reached_exactly_ends_a_following_stream(threads: ThreadRules, checkpoints: bool) -> None:
    fill(threads, 2)
    there, later = (threads.stream(limit=n, follow=True, include_checkpoints=checkpoints) for n in (2, 3))
    messages = there.rest()
    assert event_ids(messages) == ["e1", "e2"]
    assert messages[-1].caught_up
    assert there.done
    later.rest()
    fill(threads, 1, 3)
    assert event_ids(later.rest()) == ["e3"]
    assert later.done


def test_walking_by_limit_gives_each_event_once(threads: ThreadRules) -> None:
    ids = fill(threads, 50, data=Value(text="x" * 30_000))
    for limit in (1, 7, 49, 50):
        seen: list[str] = []
        revision = 0
        for _ in range(100):
            messages = threads.stream(limit=limit, after_revision=revision).rest()
            seen += event_ids(messages)
            revision = messages[-1].revision
            if messages[-1].caught_up:
                break
        assert seen == ids


@pytest.mark.parametrize("name", ["limit", "last", "after_revision"])
@pytest.mark.parametrize("number", [-1, -(2**63)])
def test_a_negative_count_or_cursor_is_refused(threads: ThreadRules, name: str, number: int) -> None:
    with invalid(name):
        threads.stream(**{name: number})


# --- last


@pytest.mark.parametrize("last", [1, 2, 9, 10, 11, 2**63 - 1])
@pytest.mark.parametrize("checkpoints", [False, True])
def test_last_begins_at_the_newest_events_oldest_first(threads: ThreadRules, last: int, checkpoints: bool) -> None:
    ids = fill(threads, 10)
    assert threads.streamed(last=last, include_checkpoints=checkpoints) == ids[-last:]


def test_last_is_the_last_and_not_the_first_also_with_other_branches_between(threads: ThreadRules) -> None:
    for number in range(1, 11):
        threads.append_next(f"e{number}")
        threads.append_batch(in_batch(), in_batch(), branch_id="other")
    assert threads.streamed(last=3) == ["e8", "e9", "e10"]


def test_last_counts_places_and_not_numbers(threads: ThreadRules) -> None:
    for sequence in (9, 1, 5):
        threads.append(sequence, f"e{sequence}")
    assert threads.streamed(last=2) == ["e1", "e5"]


def test_last_0_is_all(threads: ThreadRules) -> None:
    ids = fill(threads, 5)
    assert threads.streamed(last=0) == ids


def test_last_is_caught_up(threads: ThreadRules) -> None:
    fill(threads, 10)
    (message,) = threads.stream(last=3).rest()
    assert message.caught_up
    assert threads.stream(branch_id="none", last=3).rest() == [
        pb.StreamHistoryResponse(caught_up=True, revision=message.revision)
    ]


def test_last_can_go_on_to_follow(threads: ThreadRules) -> None:
    fill(threads, 10)
    stream = threads.stream(last=3, follow=True)
    assert event_ids(stream.rest()) == ["e8", "e9", "e10"]
    fill(threads, 2, 11)
    assert event_ids(stream.rest()) == ["e11", "e12"]


@pytest.mark.parametrize("other", [{"after_revision": 1}, {"limit": 1}])
def test_last_does_not_go_together_with_after_revision_or_limit(threads: ThreadRules, other: dict[str, int]) -> None:
    with invalid("last"):
        threads.stream(last=1, **other)


def test_last_of_many_segments_begins_at_the_right_one(threads: ThreadRules) -> None:
    ids = fill(threads, 50, data=LARGE)
    for last in (1, 2, 3, 4, 5, 6, 49):
        assert threads.streamed(last=last) == ids[-last:]


# --- ancestors


@pytest.fixture
def line(threads: ThreadRules) -> ThreadRules:
    """Return a thread: main e1 to e4, `one` forked at e2 with f1 to f3, `two` forked at its f2 with g1, g2."""
    fill(threads, 3)
    threads.fork("e2", "one", event=in_batch("f1"), checkpoint={"id": "cf", "state": {"json": "1"}})
    threads.append_next("e4")
    threads.append_next("f2", branch_id="one")
    threads.fork("f2", "two", branch_id="one")
    threads.append_next("f3", branch_id="one")
    threads.append_next("g1", branch_id="two")
    threads.save("cg", branch_id="two")
    threads.save("ce")
    threads.append_next("g2", branch_id="two")
    return threads


LINE_OF_TWO = ["e1", "e2", "f1", "f2", "g1", "g2"]


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize(
    ("branch", "events"),
    [("main", ["e1", "e2", "e3", "e4"]), ("one", ["e1", "e2", "f1", "f2", "f3"]), ("two", LINE_OF_TWO)],
)
def test_ancestors_come_oldest_first_up_to_each_fork_point(
    line: ThreadRules, branch: str, events: list[str], checkpoints: bool
) -> None:
    assert line.streamed(branch_id=branch, include_ancestors=True, include_checkpoints=checkpoints) == events


def test_without_ancestors_a_branch_is_its_own(line: ThreadRules) -> None:
    assert line.streamed(branch_id="two") == ["g1", "g2"]


def test_checkpoints_are_the_branchs_own(line: ThreadRules) -> None:
    messages = line.stream(branch_id="two", include_ancestors=True, include_checkpoints=True).rest()
    assert checkpoint_ids(messages) == ["cg"]


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("last", range(1, 8))
def test_last_is_of_the_whole_line(line: ThreadRules, last: int, checkpoints: bool) -> None:
    fields = {"branch_id": "two", "include_ancestors": True, "include_checkpoints": checkpoints}
    assert line.streamed(last=last, **fields) == LINE_OF_TWO[-last:]


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("limit", range(1, 7))
def test_a_limit_is_of_the_whole_line(line: ThreadRules, limit: int, checkpoints: bool) -> None:
    fields = {"branch_id": "two", "include_ancestors": True, "include_checkpoints": checkpoints}
    messages = line.stream(limit=limit, **fields).rest()
    assert event_ids(messages) == LINE_OF_TWO[:limit]
    assert [message.caught_up for message in messages].count(True) == (limit == 6)


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_line_can_be_resumed_at_every_messages_revision(line: ThreadRules, checkpoints: bool) -> None:
    fields = {"branch_id": "two", "include_ancestors": True, "include_checkpoints": checkpoints}
    for limit in range(1, 7):
        messages = line.stream(limit=limit, **fields).rest()
        assert line.streamed(after_revision=messages[-1].revision, **fields) == LINE_OF_TWO[limit:]


def test_a_line_is_followed_at_its_end_only(line: ThreadRules) -> None:
    stream = line.stream(branch_id="two", include_ancestors=True, follow=True)
    assert event_ids(stream.rest()) == LINE_OF_TWO
    line.append_next("e5")
    line.append_next("f4", branch_id="one")
    assert stream.rest() == []
    line.append_next("g3", branch_id="two")
    assert event_ids(stream.rest()) == ["g3"]


def test_a_branch_forked_while_it_is_followed_has_its_ancestors_for_the_next_reader(threads: ThreadRules) -> None:
    fill(threads, 3)
    threads.fork("e3", "draft")
    assert threads.streamed(branch_id="draft", include_ancestors=True) == ["e1", "e2", "e3"]
    threads.append_next("e4")
    assert threads.streamed(branch_id="draft", include_ancestors=True) == ["e1", "e2", "e3"]


def test_ancestors_at_an_event_with_a_made_up_id_are_found(threads: ThreadRules) -> None:
    ids = [threads.append_next().id for _ in range(4)]
    threads.fork(ids[1], "draft")
    assert threads.streamed(branch_id="draft", include_ancestors=True) == ids[:2]


def test_ancestors_go_by_place_and_not_by_number(threads: ThreadRules) -> None:
    for sequence in (5, 3, 9, 1):
        threads.append(sequence, f"e{sequence}")
    threads.fork("e3", "draft", event=in_batch("f"))
    assert threads.streamed(branch_id="draft", include_ancestors=True) == ["e5", "e3", "f"]


def test_ancestors_of_many_segments_are_cut_at_the_fork_point(threads: ThreadRules) -> None:
    ids = fill(threads, 30, data=LARGE)
    for at in (1, 2, 3, 15, 29, 30):
        threads.fork(f"e{at}", f"draft{at}", event=in_batch("f"))
        streamed = threads.streamed(branch_id=f"draft{at}", include_ancestors=True)
        assert streamed == [*ids[:at], "f"]


def test_a_line_of_many_forks_is_read_whole(threads: ThreadRules) -> None:
    threads.append_next("e0")
    branch = "main"
    for number in range(1, 100):
        threads.fork(f"e{number - 1}", f"b{number}", branch_id=branch, event=in_batch(f"e{number}"))
        threads.append_next("beside", branch_id=branch)
        branch = f"b{number}"
    assert threads.streamed(branch_id=branch, include_ancestors=True) == [f"e{number}" for number in range(100)]
    assert threads.streamed(branch_id=branch, include_ancestors=True, last=42) == [f"e{n}" for n in range(58, 100)]


# --- checkpoints


def test_checkpoints_come_where_they_were_saved_between_events(threads: ThreadRules) -> None:
    for number in range(1, 4):
        threads.append_next(f"e{number}")
        threads.save(f"c{number}")
    threads.save("c1", 9)
    (message,) = threads.stream(include_checkpoints=True).rest()
    assert event_ids([message]) == ["e1", "e2", "e3"]
    assert checkpoint_ids([message]) == ["c2", "c3", "c1"]


def test_without_asking_no_checkpoint_comes(threads: ThreadRules) -> None:
    threads.save("c")
    assert checkpoint_ids(threads.stream().rest()) == []


def test_checkpoints_are_followed_too(threads: ThreadRules) -> None:
    threads.save("c1")
    stream = threads.stream(include_checkpoints=True, follow=True)
    assert checkpoint_ids(stream.rest()) == ["c1"]
    threads.save("c1", 2)
    threads.save("c2")
    threads.save("other", branch_id="other")
    assert checkpoint_ids(stream.rest()) == ["c1", "c2"]


def test_messages_with_checkpoints_are_cut_by_bytes(threads: ThreadRules) -> None:
    for number in range(10):
        threads.save(f"c{number}", state=LARGE)
    messages = threads.stream(include_checkpoints=True).rest()
    assert [len(message.checkpoints) for message in messages] == [2] * 5


# --- following


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("begin", [0, 1, 5, 10])
def test_following_sends_every_record_once_in_order(threads: ThreadRules, begin: int, checkpoints: bool) -> None:
    fill(threads, 10, data=LARGE)
    after = threads.history().events[begin - 1].revision if begin else 0
    stream = threads.stream(after_revision=after, follow=True, include_checkpoints=checkpoints)
    seen: list[str] = []
    for number in range(11, 100):
        threads.append_next(f"e{number}", data=LARGE)
        if number % 3 == 0:
            message = stream.step()
            seen += event_ids([message] if message else [])
        if number % 11 == 0:
            threads.append_next(branch_id="other")
            seen += event_ids(stream.rest())
    seen += event_ids(stream.rest())
    assert seen == [f"e{number}" for number in range(begin + 1, 100)]


def test_a_write_of_another_branch_moves_the_heartbeats_revision(threads: ThreadRules) -> None:
    fill(threads, 1)
    stream = threads.stream(follow=True)
    stream.rest()
    newest = threads.append_next(branch_id="other").revision
    assert stream.step() is None
    assert stream.beat() == pb.StreamHistoryResponse(revision=newest)


def test_revisions_of_a_stream_never_go_back(threads: ThreadRules) -> None:
    fill(threads, 10, data=LARGE)
    stream = threads.stream(follow=True)
    revisions = [message.revision for message in stream.rest()]
    for number in range(20):
        threads.append_next(branch_id="other" if number % 2 else "main")
        revisions += [message.revision for message in stream.rest()]
        revisions.append(stream.beat().revision)
    assert revisions == sorted(revisions)


@pytest.mark.parametrize("nanos", [1, 1_000_000, 99_999_000])
def test_a_heartbeat_below_100_ms_is_refused(threads: ThreadRules, nanos: int) -> None:
    with invalid("heartbeat"):
        threads.stream(follow=True, heartbeat=Duration(nanos=nanos))


def test_a_heartbeat_of_100_ms_or_more_or_none_is_taken(threads: ThreadRules) -> None:
    assert threads.stream(heartbeat=span(0.1)).reader.heartbeat == 0.1
    assert threads.stream().reader.heartbeat == 0


# --- which cursors are valid


@pytest.mark.parametrize("revision", [1, 2**53, 2**63 - 1])
def test_a_cursor_of_a_thread_that_is_not_there_is_gone(threads: ThreadRules, revision: int) -> None:
    with refused(Reason.REVISION_GONE) as refusal:
        threads.stream(after_revision=revision).step()
    assert refusal.value.metadata["oldest"] == "0"


def test_a_cursor_ahead_of_everything_is_ahead(threads: ThreadRules) -> None:
    newest = threads.append_next().revision
    for revision in (newest + 1, 2**63 - 1):
        with refused(Reason.REVISION_AHEAD) as refusal:
            threads.stream(after_revision=revision).step()
        assert refusal.value.metadata["newest"] == str(newest)
    assert threads.stream(after_revision=newest).step() == pb.StreamHistoryResponse(caught_up=True, revision=newest)


def test_the_oldest_cursor_is_valid_and_the_one_below_is_gone(threads: ThreadRules) -> None:
    fill(threads, 3)
    first = threads.history().events[0].revision
    with refused(Reason.REVISION_GONE) as refusal:
        threads.stream(after_revision=first - 1).step()
    oldest = int(refusal.value.metadata["oldest"])
    assert oldest == first
    assert threads.streamed(after_revision=oldest) == ["e2", "e3"]


def test_replacing_a_checkpoint_makes_no_cursor_invalid(threads: ThreadRules) -> None:
    first = threads.append_next().revision
    threads.save("c", 1)
    stream = threads.stream(follow=True, include_checkpoints=True)
    stream.rest()
    threads.save("c", 2)
    assert checkpoint_ids(stream.rest()) == ["c"]
    assert checkpoint_ids(threads.stream(after_revision=first, include_checkpoints=True).rest()) == ["c"]


def test_a_follower_is_not_ended_by_remembered_requests_being_forgotten(threads: ThreadRules) -> None:
    threads.append_next("e1")
    stream = threads.stream(follow=True)
    stream.rest()
    for number in range(20_001):
        threads.write("t", remembering, _fork_request(f"r{number}"))
    threads.append_next("e2")
    assert event_ids(stream.rest()) == ["e2"]


def remembering(view: Any, request: pb.ForkRequest, call: Any) -> Any:
    """Remember a request as a fork does, without the fork."""
    from statekeep_server.core.journal import Change
    from statekeep_server.core.requests import Request

    kept, trims = Request(request, request.request_id).remember(view, view.revision + 1, b"")
    return Change(b"", kept, trims)


def _fork_request(request_id: str) -> pb.ForkRequest:
    return pb.ForkRequest(thread_id="t", request_id=request_id)


def numbers_in(place: Any) -> bool:
    """Return whether a place is made of nothing but numbers, names and few of them."""
    if isinstance(place, tuple):
        return len(place) < 10 and all(numbers_in(part) for part in place)
    return place is None or isinstance(place, int) or (isinstance(place, str) and len(place) < 300)


def test_the_place_of_a_stream_is_a_few_numbers_however_much_there_is(line: ThreadRules) -> None:
    fill(line, 30, 5, data=LARGE)
    for fields in ({"include_checkpoints": True}, {"include_ancestors": True, "branch_id": "two"}):
        stream: Stream = line.stream(follow=True, **fields)
        stream.step()
        assert numbers_in(stream.place)
