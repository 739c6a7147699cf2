"""StateStore: how events are numbered, and that sending one again changes nothing."""

from collections.abc import Callable

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rpc_support import (
    MIB,
    Stubs,
    connected,
    event_of,
    events_in,
    given_of,
    ids,
    next_of,
    refusal_of,
    refused,
    stream_of,
)
from server_process import ServerProcess
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value


def batch_of(thread: str, *events: state.Event, **fields: object) -> state.AppendEventsRequest:
    return state.AppendEventsRequest(thread_id=thread, events=events, **fields)  # type: ignore[arg-type]


def append(stubs: Stubs, thread: str, *event_ids: str, branch: str = "") -> list[int]:
    return [stubs.state.AppendNextEvent(next_of(thread, event_id, branch)).event.sequence for event_id in event_ids]


def test_events_count_from_1_on_each_branch(stubs: Stubs, name: str) -> None:
    assert append(stubs, name, "a", "b") == [1, 2]
    assert append(stubs, name, "a", branch="other") == [1]
    assert append(stubs, name, "c") == [3]


def test_the_server_makes_up_ids_where_none_is_given(stubs: Stubs, name: str) -> None:
    made = [stubs.state.AppendNextEvent(next_of(name)).event.id for _ in range(3)]
    made += stubs.state.AppendEvents(batch_of(name, event_of(""), event_of(""))).ids
    made.append(stubs.state.AppendEvent(given_of(name, 1)).event.id)
    assert all(made)
    assert len(set(made)) == 6
    assert ids(events_in(stubs, name)) == made


def test_an_id_that_a_client_chose_is_never_made_up(stubs: Stubs, name: str) -> None:
    first = stubs.state.AppendNextEvent(next_of(name)).event
    stem = first.id.removesuffix(f"{first.revision:x}")
    guesses = [f"{stem}{first.revision + ahead:x}" for ahead in range(2, 8)]
    append(stubs, name, *guesses)
    for _ in range(8):
        stubs.state.AppendNextEvent(next_of(name))
    found = ids(events_in(stubs, name))
    assert len(found) == len(set(found)) == 15


def test_revisions_grow_with_every_write_of_the_thread(stubs: Stubs, name: str) -> None:
    revisions = [stubs.state.AppendNextEvent(next_of(name, branch=branch)).event.revision for branch in ("", "b", "")]
    revisions.append(stubs.state.AppendEvents(batch_of(name, event_of(""), event_of(""))).revision)
    revisions += [event.revision for event in events_in(stubs, name)][-1:]
    assert revisions[:4] == sorted(set(revisions[:4]))
    assert revisions[4] == revisions[3]


def test_a_batch_takes_the_next_numbers(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a")
    answer = stubs.state.AppendEvents(batch_of(name, event_of("", "b"), event_of(name, "c"), event_of("", "d", "main")))
    assert (answer.first_sequence, answer.last_sequence, list(answer.ids)) == (2, 4, ["b", "c", "d"])
    assert [(event.id, event.sequence) for event in events_in(stubs, name)] == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert append(stubs, name, "e") == [5]


def test_the_sequence_that_a_client_sends_is_replaced(stubs: Stubs, name: str) -> None:
    assert stubs.state.AppendNextEvent(next_of(name, sequence=7)).event.sequence == 1
    assert stubs.state.AppendEvents(batch_of(name, event_of("", sequence=-7))).first_sequence == 2


def test_given_sequences_are_kept_with_gaps_and_repeats(stubs: Stubs, name: str) -> None:
    given = [7, 3, 3, 0, 100, 7]
    for sequence in given:
        assert stubs.state.AppendEvent(given_of(name, sequence)).event.sequence == sequence
    assert [event.sequence for event in events_in(stubs, name)] == given
    assert append(stubs, name, "next") == [101]


def test_a_history_and_a_stream_are_in_one_order_whatever_the_clocks_say(stubs: Stubs, name: str) -> None:
    for number, seconds in enumerate((50, 50, 40, 60, 40)):
        request = next_of(name, f"e{number}", create_time=Timestamp(seconds=seconds, nanos=1))
        assert stubs.state.AppendNextEvent(request).event.create_time.seconds == seconds
    expected = [f"e{number}" for number in range(5)]
    assert ids(events_in(stubs, name)) == expected
    messages = stubs.state.StreamHistory(stream_of(name))
    assert [event.id for message in messages for event in message.events] == expected


@pytest.mark.parametrize(
    "bad",
    [
        Timestamp(nanos=-1),
        Timestamp(nanos=10**9),
        Timestamp(seconds=-62_135_596_801),
        Timestamp(seconds=253_402_300_800),
        Timestamp(seconds=2**63 - 1),
    ],
    ids=lambda bad: f"{bad.seconds}s{bad.nanos}",
)
def test_a_time_is_refused_that_is_none(bad: Timestamp, stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.state.AppendNextEvent, next_of(name, create_time=bad), at="event.create_time")
    batch = batch_of(name, event_of(""), event_of("", create_time=bad))
    refused("INVALID_FIELD", stubs.state.AppendEvents, batch, at="events[1].create_time")


def test_the_type_of_an_event_is_required(stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.state.AppendEvent, given_of(name, 1, type=""), at="event.type")
    refused("INVALID_FIELD", stubs.state.AppendNextEvent, next_of(name, type=""), at="event.type")
    batch = batch_of(name, event_of(""), event_of("", type=""))
    refused("INVALID_FIELD", stubs.state.AppendEvents, batch, at="events[1].type")
    assert events_in(stubs, name) == []


def test_an_event_is_required(stubs: Stubs, name: str) -> None:
    for method, request in (
        (stubs.state.AppendEvent, state.AppendEventRequest()),
        (stubs.state.AppendNextEvent, state.AppendNextEventRequest()),
    ):
        refused("INVALID_FIELD", method, request)
    refused("INVALID_FIELD", stubs.state.SaveCheckpoint, state.SaveCheckpointRequest())
    refused("INVALID_FIELD", stubs.state.AppendEvents, batch_of(name), at="events")


@pytest.mark.parametrize("field", ["thread_id", "branch_id"])
def test_a_batch_is_of_one_branch(field: str, stubs: Stubs, name: str) -> None:
    stranger = state.Event(type="x", **{field: "another"})
    refused("INVALID_FIELD", stubs.state.AppendEvents, batch_of(name, event_of(""), stranger), at=f"events[1].{field}")
    assert events_in(stubs, name) == []


def test_one_id_twice_in_a_batch_is_refused(stubs: Stubs, name: str) -> None:
    batch = batch_of(name, event_of("", "a"), event_of("", "b"), event_of("", "a"))
    refused("INVALID_FIELD", stubs.state.AppendEvents, batch, at="events[2].id")
    append(stubs, name, "a")
    refused("INVALID_FIELD", stubs.state.AppendEvents, batch, at="events[2].id")
    assert ids(events_in(stubs, name)) == ["a"]


# --- expected_last_sequence


def test_the_highest_sequence_is_the_one_to_expect(stubs: Stubs, name: str) -> None:
    def with_expected(expected: int) -> state.AppendNextEventRequest:
        return state.AppendNextEventRequest(event=event_of(name), expected_last_sequence=expected)

    assert stubs.state.AppendNextEvent(with_expected(0)).event.sequence == 1
    refused("SEQUENCE_MISMATCH", stubs.state.AppendNextEvent, with_expected(0), expected=0, actual=1)
    stubs.state.AppendEvent(given_of(name, 9))
    stubs.state.AppendEvent(given_of(name, 4))
    refused("SEQUENCE_MISMATCH", stubs.state.AppendNextEvent, with_expected(4), expected=4, actual=9)
    assert stubs.state.AppendNextEvent(with_expected(9)).event.sequence == 10
    assert len(events_in(stubs, name)) == 4


def test_a_batch_honours_the_expected_sequence(stubs: Stubs, name: str) -> None:
    batch = batch_of(name, event_of(""), event_of(""), expected_last_sequence=0)
    assert stubs.state.AppendEvents(batch).last_sequence == 2
    refused("SEQUENCE_MISMATCH", stubs.state.AppendEvents, batch, expected=0, actual=2)
    assert len(events_in(stubs, name)) == 2


def test_the_expected_sequence_is_the_branch_s_own(stubs: Stubs, name: str) -> None:
    append(stubs, name, "a", "b")
    request = state.AppendNextEventRequest(event=event_of(name, branch="other"), expected_last_sequence=0)
    assert stubs.state.AppendNextEvent(request).event.sequence == 1


@pytest.mark.parametrize("bad", [-1, -(2**63)])
def test_a_negative_expected_sequence_is_refused(bad: int, stubs: Stubs, name: str) -> None:
    request = state.AppendNextEventRequest(event=event_of(name), expected_last_sequence=bad)
    refused("INVALID_FIELD", stubs.state.AppendNextEvent, request, at="expected_last_sequence")
    batch = batch_of(name, event_of(""), expected_last_sequence=bad)
    refused("INVALID_FIELD", stubs.state.AppendEvents, batch, at="expected_last_sequence")


def test_of_two_writers_who_expect_the_same_one_is_told(server: ServerProcess, name: str) -> None:
    with connected(server.address) as one, connected(server.address) as other:
        outcomes = []
        for number in range(50):
            request = state.AppendNextEventRequest(event=event_of(name), expected_last_sequence=number)
            calls = [writer.state.AppendNextEvent.future(request) for writer in (one, other)]
            errors = [call.exception() for call in calls]
            outcomes.append([refusal_of(error).reason for error in errors if isinstance(error, grpc.RpcError)])
    assert outcomes == [["SEQUENCE_MISMATCH"]] * 50


# --- sending again


def full_event(name: str, event_id: str = "e") -> state.Event:
    event = event_of(
        name, event_id, node="n", parent_id="p", data=Value(json="1"), error_type="t", message="m", sequence=3
    )
    event.labels["a"] = "b"
    return event


def as_given(event: state.Event) -> state.AppendEventRequest:
    return state.AppendEventRequest(event=event)


def as_next(event: state.Event) -> state.AppendNextEventRequest:
    return state.AppendNextEventRequest(event=event)


def test_an_event_that_is_sent_again_is_answered_with_the_stored_one(stubs: Stubs, name: str) -> None:
    event = full_event(name)
    for method, request in (
        (stubs.state.AppendNextEvent, as_next(event)),
        (stubs.state.AppendEvent, as_given(full_event(name, "f"))),
    ):
        first = method(request)
        stubs.state.AppendNextEvent(next_of(name))
        request.event.create_time.seconds = 7
        request.event.revision = 7
        assert method(request) == first
    assert len(events_in(stubs, name)) == 4


def test_a_retry_is_known_before_the_expected_sequence_is_looked_at(stubs: Stubs, name: str) -> None:
    request = state.AppendNextEventRequest(event=event_of(name, "e"), expected_last_sequence=0)
    first = stubs.state.AppendNextEvent(request)
    append(stubs, name, "f")
    assert stubs.state.AppendNextEvent(request) == first
    batch = batch_of(name, event_of("", "g"), event_of("", "h"), expected_last_sequence=2)
    stored = stubs.state.AppendEvents(batch)
    append(stubs, name, "i")
    assert stubs.state.AppendEvents(batch) == stored


DIFFERENT: dict[str, Callable[[state.Event], object]] = {
    "type": lambda event: setattr(event, "type", "other"),
    "node": lambda event: event.ClearField("node"),
    "an empty node": lambda event: setattr(event, "node", ""),
    "parent_id": lambda event: setattr(event, "parent_id", "q"),
    "data": lambda event: setattr(event.data, "json", "1.0"),
    "no data": lambda event: event.ClearField("data"),
    "error_type": lambda event: setattr(event, "error_type", "u"),
    "message": lambda event: setattr(event, "message", "M"),
    "labels": lambda event: event.labels.update(a="c"),
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_an_id_that_says_something_else_is_refused(
    change: Callable[[state.Event], object], stubs: Stubs, name: str
) -> None:
    event = full_event(name)
    stubs.state.AppendEvent(as_given(event))
    change(event)
    parts = {"event": "e", "branch": "main", "thread": name}
    refused("EVENT_EXISTS", stubs.state.AppendEvent, as_given(event), **parts)
    refused("EVENT_EXISTS", stubs.state.AppendNextEvent, as_next(event), **parts)
    refused("EVENT_EXISTS", stubs.state.AppendEvents, batch_of(name, event), **parts)
    assert len(events_in(stubs, name)) == 1


def test_a_given_sequence_is_a_part_of_what_an_event_says(stubs: Stubs, name: str) -> None:
    event = full_event(name)
    stubs.state.AppendEvent(as_given(event))
    event.sequence = 4
    refused("EVENT_EXISTS", stubs.state.AppendEvent, as_given(event), event="e")
    assert stubs.state.AppendNextEvent(as_next(event)).event.sequence == 3


def test_an_id_counts_per_branch(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    assert stubs.state.AppendNextEvent(next_of(name, "e", "other", type="else")).event.sequence == 1


def test_an_event_with_an_id_that_was_made_up_is_known_again(stubs: Stubs, name: str) -> None:
    stored = stubs.state.AppendNextEvent(next_of(name)).event
    assert stubs.state.AppendNextEvent(next_of(name, stored.id)).event == stored
    refused("EVENT_EXISTS", stubs.state.AppendNextEvent, next_of(name, stored.id, type="else"), event=stored.id)
    assert len(events_in(stubs, name)) == 1


def test_a_batch_is_known_again_as_a_whole(stubs: Stubs, name: str) -> None:
    batch = batch_of(name, event_of("", "a"), event_of("", "b"))
    first = stubs.state.AppendEvents(batch)
    append(stubs, name, "c")
    assert stubs.state.AppendEvents(batch) == first
    assert ids(events_in(stubs, name)) == ["a", "b", "c"]


@pytest.mark.parametrize("again", [["a", "new"], ["new", "b"], ["b", "a"], ["a", "b", "new"], ["a", ""]])
def test_a_batch_that_is_partly_known_is_refused(again: list[str], stubs: Stubs, name: str) -> None:
    stubs.state.AppendEvents(batch_of(name, event_of("", "a"), event_of("", "b")))
    batch = batch_of(name, *(event_of("", event_id) for event_id in again))
    refused("EVENT_EXISTS", stubs.state.AppendEvents, batch, thread=name)
    assert ids(events_in(stubs, name)) == ["a", "b"]


def test_a_batch_without_ids_is_never_known_again(stubs: Stubs, name: str) -> None:
    for _ in range(2):
        stubs.state.AppendEvents(batch_of(name, event_of("")))
    assert len(events_in(stubs, name)) == 2


def test_an_id_is_found_among_many(stubs: Stubs, name: str) -> None:
    for start in range(0, 20_000, 2_000):
        events = [event_of("", f"e{number}") for number in range(start, start + 2_000)]
        stubs.state.AppendEvents(batch_of(name, *events))
    for number in range(0, 20_000, 97):
        assert stubs.state.AppendNextEvent(next_of(name, f"e{number}")).event.sequence == number + 1


def test_a_batch_whose_answer_no_default_client_could_read_is_refused_whole(server: ServerProcess, name: str) -> None:
    """20,000 ids of 250 bytes are more than 4 MiB."""
    events = [event_of("", f"{number:06}".ljust(250, "i")) for number in range(20_000)]
    with connected(server.address) as own:
        assert sum(len(event.id) for event in events) > 4 * MIB
        refused("LIMIT_REACHED", own.state.AppendEvents, batch_of(name, *events))
        assert list(own.state.StreamHistory(stream_of(name))) == [state.StreamHistoryResponse(caught_up=True)]


# --- whole histories


def test_the_history_of_a_branch_that_is_not_there_is_empty(stubs: Stubs, name: str) -> None:
    for branch in ("", "b"):
        answer = stubs.state.GetHistory(state.GetHistoryRequest(thread_id=name, branch_id=branch))
        assert answer.history == state.History(thread_id=name, branch_id=branch or "main")
    assert not stubs.state.ListThreads(state.ListThreadsRequest(prefix=name)).threads


def test_a_history_too_large_for_a_message_names_the_stream_that_reads_it(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        for number in range(48):
            own.state.AppendNextEvent(next_of(name, f"e{number}", data=Value(data=bytes(100_000))))
        request = state.GetHistoryRequest(thread_id=name)
        refusal = refused("HISTORY_TOO_LARGE", own.state.GetHistory, request, thread=name, branch="main")
        assert "StreamHistory" in refusal.message
        messages = list(own.state.StreamHistory(stream_of(name)))
    assert [event.id for message in messages for event in message.events] == [f"e{number}" for number in range(48)]


def test_a_history_of_as_much_as_a_message_holds_is_read_whole(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        for _ in range(41):
            own.state.AppendNextEvent(next_of(name, data=Value(data=bytes(100_000))))
        answer = own.state.GetHistory(state.GetHistoryRequest(thread_id=name))
        assert 4_000_000 < answer.ByteSize() <= 4 * MIB
        room = 4 * MIB - answer.ByteSize()
        own.state.AppendNextEvent(next_of(name, data=Value(data=bytes(room - 400))))
        assert own.state.GetHistory(state.GetHistoryRequest(thread_id=name)).ByteSize() > 4 * MIB - 400
        own.state.AppendNextEvent(next_of(name, data=Value(data=bytes(400))))
        refused("HISTORY_TOO_LARGE", own.state.GetHistory, state.GetHistoryRequest(thread_id=name))
