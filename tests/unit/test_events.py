"""The contract's StateStore: events, their order and numbers, and what is known again."""

import itertools
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from statekeep.v1 import state_store_pb2 as pb
from statekeep.v1.value_pb2 import Value
from statekeep_server.core import state_store
from statekeep_server.core.errors import Reason
from statekeep_server.core.journal import EVENTS, Limits
from statekeep_server.core.wire import body
from unit.rules_support import START, ThreadRules, World, event, in_batch, invalid, micros, refusal_of, refused


def test_a_branch_is_its_events_in_the_order_they_were_stored(threads: ThreadRules) -> None:
    for sequence in (5, 3, 3, 0, 10, 1):
        threads.append(sequence)
    assert threads.sequences() == [5, 3, 3, 0, 10, 1]


def test_append_next_event_counts_from_1(threads: ThreadRules) -> None:
    assert [threads.append_next().sequence for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(("given", "following"), [([10], 11), ([5, 3, 3], 6), ([0], 1), ([2**53 - 2], 2**53 - 1)])
def test_the_next_number_is_one_more_than_the_highest_ever(
    threads: ThreadRules, given: list[int], following: int
) -> None:
    for sequence in given:
        threads.append(sequence)
    assert threads.append_next().sequence == following


def test_append_event_keeps_the_number_it_is_given(threads: ThreadRules) -> None:
    assert [threads.append(sequence).sequence for sequence in (7, 7, 2, 0)] == [7, 7, 2, 0]


@pytest.mark.parametrize("sequence", [-1, -(2**63)])
def test_append_event_refuses_a_negative_number(threads: ThreadRules, sequence: int) -> None:
    with invalid("event.sequence"):
        threads.append(sequence)


@pytest.mark.parametrize("sequence", [-1, 0, 7, 2**63 - 1])
def test_append_next_event_replaces_the_number_it_is_given(threads: ThreadRules, sequence: int) -> None:
    assert threads.append_next("e", sequence=sequence).sequence == 1


def test_numbers_count_per_branch(threads: ThreadRules) -> None:
    threads.append_next()
    threads.append_next()
    assert threads.append_next(branch_id="other").sequence == 1
    assert threads.append_next(thread_id="other").sequence == 1


def test_an_empty_branch_id_is_main(threads: ThreadRules) -> None:
    stored = threads.append_next("e")
    assert stored.branch_id == "main"
    assert threads.ids(branch_id="main") == ["e"]
    assert threads.append_next("e", branch_id="main") == stored


@pytest.mark.parametrize("append", ["append", "append_next"])
def test_an_event_that_is_missing_or_has_no_type_is_refused(threads: ThreadRules, append: str) -> None:
    fields = (1, "e") if append == "append" else ("e",)
    with invalid("event.type"):
        getattr(threads, append)(*fields, type="")


def test_a_request_without_an_event_is_refused(threads: ThreadRules) -> None:
    from statekeep_server.core import state_store

    for rule, request in (
        (state_store.append_event, pb.AppendEventRequest()),
        (state_store.append_next_event, pb.AppendNextEventRequest()),
    ):
        with invalid("event"):
            threads.write("t", rule, request)


def test_a_stored_event_says_all_that_was_sent_and_what_the_server_adds(threads: ThreadRules) -> None:
    sent = event(
        "e",
        node="",
        parent_id="p",
        data=Value(json="1.0"),
        error_type="E",
        message="m",
        labels={"a": "b"},
        create_time=Timestamp(seconds=5, nanos=123_456_789),
    )
    stored = threads.append_next(
        **{field.name: value for field, value in sent.ListFields() if field.name != "id"}, event_id="e"
    )
    assert stored.revision > 0
    sent.sequence, sent.branch_id, sent.revision = 1, "main", stored.revision
    assert stored == sent
    assert threads.history().events == [sent]


def test_a_time_that_is_not_given_is_the_servers(threads: ThreadRules) -> None:
    assert micros(threads.append_next().create_time) == START


def test_order_never_depends_on_a_clock(world: World, threads: ThreadRules) -> None:
    for number in range(10):
        threads.append_next(f"e{number}")
        if number % 2:
            world.pass_time(-5)
    threads.append_next("e10", create_time=Timestamp(seconds=1))
    assert threads.ids() == [f"e{number}" for number in range(11)]
    assert threads.sequences() == list(range(1, 12))
    assert threads.streamed() == [f"e{number}" for number in range(11)]


def test_revisions_grow_with_every_write_of_the_thread(threads: ThreadRules) -> None:
    revisions = [
        threads.append_next().revision,
        threads.append_next(branch_id="b").revision,
        threads.save("c").revision,
        threads.append_batch(in_batch(), in_batch()).revision,
        threads.append(1).revision,
    ]
    assert revisions == sorted(set(revisions))


def test_an_id_that_is_not_given_is_made_up_and_finds_the_event(threads: ThreadRules) -> None:
    made_up = [threads.append_next().id for _ in range(3)]
    assert len(set(made_up)) == 3
    threads.save("c1", 1)
    threads.save("c2", 2)
    threads.save("c3", 3)
    assert [threads.latest(at_event_id=event_id).sequence for event_id in made_up] == [1, 2, 3]


def test_an_event_with_an_id_the_server_made_up_is_known_again(threads: ThreadRules) -> None:
    stored = threads.append_next()
    assert threads.append_next(stored.id) == stored
    with refused(Reason.EVENT_EXISTS):
        threads.append_next(stored.id, type="other")
    assert threads.append_next(stored.id, branch_id="other").sequence == 1


@pytest.mark.parametrize(
    "event_id", ["evt-", "evt-x", "evt-0", "evt-ffffffffffffffff", "evt-1", "EVT-1", "evt-00000000000000001"]
)
def test_an_id_that_looks_made_up_is_an_id_like_any_other(threads: ThreadRules, event_id: str) -> None:
    threads.append_next()
    stored = threads.append_next(event_id)
    assert threads.append_next(event_id) == stored
    assert threads.ids().count(event_id) == 1


@pytest.mark.parametrize("how", ["next", "given", "batch"])
def test_an_id_that_is_made_up_is_none_that_a_client_took_before(threads: ThreadRules, how: str) -> None:
    revision = threads.append_next("first").revision
    for ahead in range(2, 8):
        threads.append_next(f"evt-{revision + ahead:x}")
    for _ in range(8):
        {
            "next": threads.append_next,
            "given": lambda: threads.append(1),
            "batch": lambda: threads.append_batch(in_batch()),
        }[how]()
    assert len(set(threads.ids())) == len(threads.ids()) == 15


def test_an_id_that_is_made_up_in_a_batch_is_none_that_the_batch_brings(threads: ThreadRules) -> None:
    revision = threads.append_next("first").revision
    answer = threads.append_batch(in_batch(f"evt-{revision + 2:x}"), in_batch())
    assert len(set(answer.ids)) == 2


# --- expected_last_sequence


@pytest.mark.parametrize("given", [[], [1], [10], [5, 3]])
def test_the_highest_number_may_be_expected(threads: ThreadRules, given: list[int]) -> None:
    for sequence in given:
        threads.append(sequence)
    last = max(given, default=0)
    assert threads.append_next("a", last).sequence == last + 1
    assert threads.append_batch(in_batch(), expected_last_sequence=last + 1).first_sequence == last + 2


def test_any_other_number_is_a_mismatch(threads: ThreadRules) -> None:
    threads.append(5)
    for expected in (0, 3, 4, 6, 2**53 - 1):
        with refused(Reason.SEQUENCE_MISMATCH):
            threads.append_next("new", expected)
        with refused(Reason.SEQUENCE_MISMATCH):
            threads.append_batch(in_batch("new"), expected_last_sequence=expected)
    assert threads.sequences() == [5]


def test_of_two_who_expect_the_same_number_the_second_is_refused(threads: ThreadRules) -> None:
    threads.append_next("one", 0)
    with refused(Reason.SEQUENCE_MISMATCH) as refusal:
        threads.append_next("two", 0)
    assert (refusal.value.metadata["expected"], refusal.value.metadata["actual"]) == ("0", "1")


# --- batches


def test_a_batch_takes_the_next_numbers(threads: ThreadRules) -> None:
    threads.append(10)
    answer = threads.append_batch(in_batch("a"), in_batch(), in_batch("c", sequence=99))
    assert (answer.first_sequence, answer.last_sequence) == (11, 13)
    assert list(answer.ids) == threads.ids()[1:]
    assert (answer.ids[0], answer.ids[2]) == ("a", "c")
    assert threads.sequences() == [10, 11, 12, 13]
    assert answer.revision == threads.history().events[-1].revision


def test_an_empty_batch_is_refused(threads: ThreadRules) -> None:
    with invalid("events"):
        threads.append_batch()


def test_one_id_twice_in_a_batch_is_refused(threads: ThreadRules) -> None:
    with invalid("events[2].id") as refusal:
        threads.append_batch(in_batch("a"), in_batch(), in_batch("a"))
    assert refusal.value.metadata["first"] == "0"
    assert threads.ids() == []


def test_several_events_without_an_id_may_be_in_a_batch(threads: ThreadRules) -> None:
    assert len(set(threads.append_batch(*[in_batch()] * 3).ids)) == 3


def test_a_batch_with_one_bad_event_stores_nothing(threads: ThreadRules) -> None:
    for path, bad in (
        ("events[1].type", {"type": ""}),
        ("events[1].data.json", {"data": Value(json="NaN")}),
        ("events[1].id", {"id": " x"}),
        ("events[1].thread_id", {"thread_id": "other"}),
        ("events[1].branch_id", {"branch_id": "other"}),
        ("events[1].create_time", {"create_time": Timestamp(nanos=-1)}),
    ):
        with invalid(path):
            threads.append_batch(in_batch("a"), in_batch(**{"event_id": bad.pop("id", "b"), **bad}))
    assert threads.ids() == []


def test_thread_and_branch_may_be_given_on_each_event_too(threads: ThreadRules) -> None:
    threads.append_batch(in_batch("a", thread_id="t", branch_id="b"), in_batch("b"), branch_id="b")
    threads.append_batch(in_batch("c", branch_id="main"), in_batch("d"))
    assert threads.ids(branch_id="b") == ["a", "b"]
    assert threads.ids() == ["c", "d"]
    assert {stored.thread_id for stored in threads.history().events} == {"t"}


OF_THE_SERVER = st.fixed_dictionaries(
    {},
    optional={
        "thread_id": st.just("t"),
        "branch_id": st.just("main"),
        "sequence": st.sampled_from([-1, 1, 99]),
        "revision": st.sampled_from([-1, 1, 2**60]),
        "create_time": st.just(Timestamp(seconds=5)),
        "labels": st.just({"a": "b"}),
        "parent_id": st.just(""),
    },
)


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(st.lists(st.tuples(st.booleans(), OF_THE_SERVER), min_size=1, max_size=6), max_size=5))
def test_whatever_of_the_servers_fields_a_client_sends_the_stored_event_has_the_right_ones(
    batches: list[list[tuple[bool, dict[str, Any]]]],
) -> None:
    threads = ThreadRules(World())
    names, expected = itertools.count(), []
    for batch in batches:
        sent = [in_batch(f"e{next(names)}" if named else "", **fields) for named, fields in batch]
        answer = threads.append_batch(*sent)
        for place, (message, event_id) in enumerate(zip(sent, answer.ids, strict=True)):
            message.MergeFrom(event(event_id, branch_id="main", sequence=answer.first_sequence + place, type=""))
            message.revision = answer.revision - len(sent) + 1 + place
            if not message.HasField("create_time"):
                message.create_time.FromMicroseconds(START)
            expected.append(message)
    assert threads.history().events == expected
    assert len({message.id for message in expected}) == len(expected)


def test_an_id_is_the_first_field_of_what_is_stored_also_where_it_is_made_up(world: World) -> None:
    """The engines look an id up there, without reading the rest."""
    threads = ThreadRules(world)
    threads.append_next("given")
    threads.append_next()
    threads.append_batch(in_batch("given too"), in_batch())
    records = world.look(state_store.partition("t"), lambda view: list(view.scan(EVENTS + "main")))
    for record in records:
        stored = pb.Event.FromString(body(record.frame))
        assert body(record.frame).startswith(pb.Event(id=stored.id).SerializeToString())
    assert len(records) == 4


# --- sending an event again

CHANGES: dict[str, dict[str, Any]] = {
    "type": {"type": "other"},
    "node": {"node": "n"},
    "node, set and empty": {"node": ""},
    "parent_id": {"parent_id": "p"},
    "data": {"data": Value(json="1")},
    "data's kind": {"data": Value(text="null")},
    "data's content type": {"data": Value(json="null", content_type="x")},
    "error_type": {"error_type": "E"},
    "message": {"message": "m"},
    "labels": {"labels": {"a": "b"}},
}
FIRST: dict[str, Any] = {"data": Value(json="null")}


def test_sending_an_event_again_changes_nothing(world: World, threads: ThreadRules) -> None:
    first = threads.append_next("e", node="n", labels={"a": "b", "c": "d"}, **FIRST)
    threads.append_next("f")
    world.pass_time(10)
    again = threads.append_next("e", node="n", labels={"c": "d", "a": "b"}, **FIRST)
    assert again == first
    assert threads.ids() == ["e", "f"]
    assert threads.append_next().revision == threads.history().events[1].revision + 1


def test_a_known_append_event_changes_nothing(threads: ThreadRules) -> None:
    first = threads.append(7, "e", **FIRST)
    assert threads.append(7, "e", **FIRST) == first
    assert threads.sequences() == [7]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_same_id_saying_something_else_is_refused(threads: ThreadRules, change: dict[str, Any]) -> None:
    threads.append_next("e", **FIRST)
    with refused(Reason.EVENT_EXISTS) as refusal:
        threads.append_next("e", **{**FIRST, **change})
    assert refusal.value.metadata == {"event": "e", "branch": "main", "thread": "t", "field": "event"}
    with refused(Reason.EVENT_EXISTS):
        threads.append(1, "e", **{**FIRST, **change})
    with refused(Reason.EVENT_EXISTS, "events[0].id"):
        threads.append_batch(in_batch("e", **{**FIRST, **change}))
    assert threads.ids() == ["e"]


def test_for_append_event_the_number_counts_too(threads: ThreadRules) -> None:
    threads.append(7, "e")
    with refused(Reason.EVENT_EXISTS):
        threads.append(8, "e")
    with refused(Reason.EVENT_EXISTS):
        threads.append(0, "e")


@pytest.mark.parametrize("sequence", [0, 3, 99])
def test_for_append_next_event_the_number_does_not_count(threads: ThreadRules, sequence: int) -> None:
    first = threads.append(7, "e")
    assert threads.append_next("e", sequence=sequence) == first


@pytest.mark.parametrize("create_time", [None, Timestamp(seconds=1)])
def test_the_time_and_revision_of_a_known_event_do_not_count(
    threads: ThreadRules, create_time: Timestamp | None
) -> None:
    first = threads.append_next("e", create_time=Timestamp(seconds=5))
    assert threads.append_next("e", create_time=create_time, revision=99) == first


def test_a_known_event_is_answered_before_any_expected_number_is_looked_at(threads: ThreadRules) -> None:
    first = threads.append_next("e", 0)
    threads.append_next("f")
    assert threads.append_next("e", 0) == first
    assert threads.append_next("e", 99) == first


def test_a_known_event_is_answered_also_where_the_branch_is_full(threads: ThreadRules) -> None:
    first = threads.append(2**53 - 1, "e")
    assert threads.append_next("e") == first


def test_an_id_counts_on_its_branch_only(threads: ThreadRules) -> None:
    threads.append_next("e")
    assert threads.append_next("e", branch_id="other", type="other").sequence == 1
    assert threads.append_next("e", thread_id="other", type="other").sequence == 1


def test_a_known_batch_changes_nothing(threads: ThreadRules) -> None:
    threads.append_next("before")
    first = threads.append_batch(in_batch("a"), in_batch("b"))
    threads.append_next("after")
    assert threads.append_batch(in_batch("a"), in_batch("b")) == first
    assert threads.append_batch(in_batch("a"), in_batch("b"), expected_last_sequence=99) == first
    assert threads.ids() == ["before", "a", "b", "after"]


def test_a_known_batch_is_known_also_by_its_events_alone(threads: ThreadRules) -> None:
    threads.append_batch(in_batch("a"), in_batch("b"))
    assert threads.append_next("b").sequence == 2


@pytest.mark.parametrize(
    "ids",
    [
        ids
        for size in (1, 2, 3, 4)
        for ids in itertools.permutations(["a", "b", "new", ""], size)
        if set(ids) & {"a", "b"}
    ],
    ids="-".join,
)
def test_a_batch_that_is_partly_known_or_in_another_order_is_refused(
    threads: ThreadRules, ids: tuple[str, ...]
) -> None:
    threads.append_batch(in_batch("a"), in_batch("b"), in_batch("c"))
    if ids in (("a",), ("b",), ("a", "b")):
        assert threads.append_batch(*(in_batch(event_id) for event_id in ids)).last_sequence == len(ids) + (
            ids == ("b",)
        )
    else:
        with refused(Reason.EVENT_EXISTS):
            threads.append_batch(*(in_batch(event_id) for event_id in ids))
    assert threads.ids() == ["a", "b", "c"]


def test_a_batch_whose_events_have_something_between_them_is_refused(threads: ThreadRules) -> None:
    for name in "abc":
        threads.append_next(name)
    with refused(Reason.EVENT_EXISTS):
        threads.append_batch(in_batch("a"), in_batch("c"))


def test_a_batch_of_which_one_says_something_else_is_refused(threads: ThreadRules) -> None:
    threads.append_batch(in_batch("a"), in_batch("b"))
    with refused(Reason.EVENT_EXISTS, "events[1].id"):
        threads.append_batch(in_batch("a"), in_batch("b", type="other"))


# --- GetHistory


def test_get_history_of_a_thread_or_branch_that_is_not_there_is_empty(threads: ThreadRules) -> None:
    assert threads.history() == pb.History(thread_id="t", branch_id="main")
    threads.append_next()
    assert threads.history(branch_id="none") == pb.History(thread_id="t", branch_id="none")


def test_get_history_has_events_and_checkpoints_in_the_order_stored(threads: ThreadRules) -> None:
    threads.append_next("e1")
    threads.save("c1", 9)
    threads.append_next("e2")
    threads.save("c2", 1)
    threads.append_next("other", branch_id="other")
    history = threads.history()
    assert [stored.id for stored in history.events] == ["e1", "e2"]
    assert [saved.id for saved in history.checkpoints] == ["c1", "c2"]


def test_get_history_of_a_branch_too_large_for_one_message_is_refused(world: World, threads: ThreadRules) -> None:
    world.limits = Limits(message=10_000)
    threads.append_next("e1", data=Value(text="x" * 5000))
    assert threads.ids() == ["e1"]
    threads.save("c1", state=Value(text="x" * 5000))
    with refused(Reason.HISTORY_TOO_LARGE) as refusal:
        threads.history()
    assert "StreamHistory" in refusal.value.message
    assert refusal.value.metadata == {"thread": "t", "branch": "main", "max": "10000"}


@pytest.mark.parametrize("size", range(3950, 3990))
def test_a_history_that_is_answered_fits_the_message(world: World, threads: ThreadRules, size: int) -> None:
    world.limits = Limits(message=4096)
    threads.append_next("e1", data=Value(text="x" * size))
    refusal = refusal_of(threads.history)
    if refusal:
        assert refusal.reason == Reason.HISTORY_TOO_LARGE
    else:
        assert pb.GetHistoryResponse(history=threads.history()).ByteSize() <= 4096


def test_a_history_just_below_the_limit_is_answered_and_just_above_is_not(world: World, threads: ThreadRules) -> None:
    world.limits = Limits(message=4096)
    threads.append_next("small", branch_id="small", data=Value(text="x" * 3900))
    threads.append_next("large", branch_id="large", data=Value(text="x" * 4030))
    assert threads.ids(branch_id="small") == ["small"]
    with refused(Reason.HISTORY_TOO_LARGE):
        threads.history(branch_id="large")
