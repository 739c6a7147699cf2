"""The contract's StateStore: checkpoints, the latest of them, and what replaces what."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from statekeep.v1 import state_store_pb2 as pb
from statekeep.v1.value_pb2 import Value
from statekeep_server.core import state_store
from statekeep_server.core.errors import Reason
from unit.rules_support import START, ThreadRules, World, in_batch, invalid, micros, refused


def test_a_saved_checkpoint_says_all_that_was_sent_and_what_the_server_adds(threads: ThreadRules) -> None:
    fields: dict[str, Any] = {
        "event_id": "not there",
        "state": Value(json="1.0"),
        "active": Value(json='["a"]'),
        "status": "done",
        "parent_id": "p",
        "metadata": Value(text="m"),
        "labels": {"a": "b"},
        "create_time": Timestamp(seconds=5, nanos=1),
    }
    saved = threads.save("c", 7, **fields)
    assert saved == pb.Checkpoint(
        id="c", thread_id="t", branch_id="main", sequence=7, revision=saved.revision, **fields
    )
    assert threads.latest() == saved
    assert list(threads.checkpoints().checkpoints) == [saved]
    assert list(threads.history().checkpoints) == [saved]


def test_what_is_left_empty_gets_its_default(threads: ThreadRules) -> None:
    saved = threads.save("c")
    assert (saved.status, saved.active.json, saved.branch_id, micros(saved.create_time)) == (
        "running",
        "[]",
        "main",
        START,
    )


def test_an_id_that_is_not_given_is_made_up(threads: ThreadRules) -> None:
    assert len({threads.save().id for _ in range(3)} - {""}) == 3
    assert len(threads.checkpoint_ids()) == 3


def test_an_id_that_is_made_up_is_none_that_a_client_took_before(threads: ThreadRules) -> None:
    revision = threads.append_next().revision
    for ahead in range(2, 5):
        threads.save(f"cp-{revision + ahead:x}")
    for _ in range(4):
        threads.save()
    assert len(set(threads.checkpoint_ids())) == len(threads.checkpoint_ids()) == 7


def test_a_request_without_a_checkpoint_is_refused(threads: ThreadRules) -> None:
    with invalid("checkpoint"):
        threads.write("t", state_store.save_checkpoint, pb.SaveCheckpointRequest())


def test_a_checkpoints_event_need_not_be_on_the_branch(threads: ThreadRules) -> None:
    assert threads.save("c", event_id="nowhere").event_id == "nowhere"


def test_a_checkpoint_takes_no_number_from_the_events(threads: ThreadRules) -> None:
    threads.save("c", 9)
    assert threads.append_next("e", 0).sequence == 1


# --- latest


@pytest.mark.parametrize("sequences", [[1, 2, 3], [3, 2, 1], [2, 3, 1], [1, 3, 2]])
def test_the_latest_has_the_highest_sequence(threads: ThreadRules, sequences: list[int]) -> None:
    for sequence in sequences:
        threads.save(f"c{sequence}", sequence)
    assert threads.latest().id == "c3"


@pytest.mark.parametrize(
    "saved", [["a3", "b3"], ["a3", "b3", "c1"], ["c1", "a3", "b3"], ["a3", "c1", "b3", "d2"]], ids="-".join
)
def test_of_equals_the_latest_is_the_one_saved_last(threads: ThreadRules, saved: list[str]) -> None:
    for name in saved:
        threads.save(name, int(name[1]))
    assert threads.latest().id == "b3"


def test_without_any_the_latest_is_unset(threads: ThreadRules) -> None:
    assert threads.latest() is None
    threads.append_next("e")
    assert threads.latest() is None
    assert threads.latest(at_event_id="e") is None


def test_the_latest_is_of_its_branch(threads: ThreadRules) -> None:
    threads.save("c", 1)
    threads.save("other", 9, branch_id="other")
    assert threads.latest().id == "c"
    assert threads.latest(branch_id="other").id == "other"


@pytest.mark.parametrize(("at", "found"), [("e1", "c1"), ("e2", "c1"), ("e3", "c3b"), ("e4", "c3b"), ("e5", "c5")])
def test_at_an_event_only_those_up_to_its_sequence_count(threads: ThreadRules, at: str, found: str) -> None:
    for number in range(1, 6):
        threads.append_next(f"e{number}")
    for name, sequence in (("c5", 5), ("c1", 1), ("c3", 3), ("c9", 9), ("c3b", 3)):
        threads.save(name, sequence)
    assert threads.latest(at_event_id=at).id == found


def test_at_an_event_before_all_checkpoints_there_is_none(threads: ThreadRules) -> None:
    threads.append(0, "e")
    threads.save("c", 1)
    assert threads.latest(at_event_id="e") is None


def test_at_an_event_its_own_number_counts_not_its_place(threads: ThreadRules) -> None:
    threads.append(10, "ten")
    threads.append(2, "two")
    threads.save("c2", 2)
    threads.save("c5", 5)
    assert threads.latest(at_event_id="two").id == "c2"
    assert threads.latest(at_event_id="ten").id == "c5"


def test_at_an_event_that_is_not_on_the_branch_is_an_error_that_names_event_and_thread(threads: ThreadRules) -> None:
    threads.append_next("elsewhere", branch_id="other")
    threads.save("c")
    for event_id in ("none", "elsewhere", "c", "evt-1"):
        with refused(Reason.EVENT_NOT_FOUND) as refusal:
            threads.latest(at_event_id=event_id)
        assert refusal.value.metadata == {"event": event_id, "branch": "main", "thread": "t"}
        assert event_id in refusal.value.message
        assert "'t'" in refusal.value.message


def test_at_an_event_of_a_thread_that_is_not_there_is_the_same_error(threads: ThreadRules) -> None:
    with refused(Reason.EVENT_NOT_FOUND):
        threads.latest(at_event_id="e")


def test_at_an_empty_event_id_is_refused(threads: ThreadRules) -> None:
    with invalid("at_event_id"):
        threads.latest(at_event_id="")


# --- saving again


def test_saving_an_id_again_with_the_same_content_changes_nothing(world: World, threads: ThreadRules) -> None:
    first = threads.save("c", 1, labels={"a": "b"})
    threads.save("d", 1)
    world.pass_time(10)
    assert threads.save("c", 1, labels={"a": "b"}, status="running", active=Value(json="[]")) == first
    assert threads.save("c", 1, labels={"a": "b"}, branch_id="main") == first
    assert threads.checkpoint_ids() == ["d", "c"]
    assert threads.latest().id == "d"


CHANGES: dict[str, dict[str, Any]] = {
    "sequence": {"sequence": 0},
    "state": {"state": Value(json="1")},
    "state's kind": {"state": Value(text="{}")},
    "active": {"active": Value(json="[1]")},
    "status": {"status": "done"},
    "event_id": {"event_id": "e"},
    "parent_id": {"parent_id": ""},
    "metadata": {"metadata": Value(json="null")},
    "labels": {"labels": {"a": "b"}},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_saving_an_id_again_with_other_content_takes_a_new_revision_and_place(
    threads: ThreadRules, change: dict[str, Any]
) -> None:
    first = threads.save("c")
    threads.save("d")
    second = threads.save("c", **change)
    assert second.revision > first.revision
    assert threads.checkpoint_ids() == ["c", "d"]
    assert threads.checkpoints().checkpoints[0] == second


def test_what_was_saved_before_is_gone_from_every_read(threads: ThreadRules) -> None:
    threads.append_next("e1")
    first = threads.save("c", 9)
    second = threads.save("c", 1)
    assert threads.latest() == second
    assert threads.latest(at_event_id="e1") == second
    assert list(threads.history().checkpoints) == [second]
    assert list(threads.checkpoints().checkpoints) == [second]
    streamed = [saved for m in threads.stream(include_checkpoints=True).rest() for saved in m.checkpoints]
    assert streamed == [second]
    assert first not in streamed
    assert threads.threads()[0].checkpoint_count == 1


def test_saving_what_was_there_before_again_is_new_content_again(threads: ThreadRules) -> None:
    revisions = [threads.save("c", sequence).revision for sequence in (1, 2, 1)]
    assert revisions == sorted(set(revisions))
    assert threads.latest().sequence == 1


def test_replacing_the_highest_uncovers_the_next(threads: ThreadRules) -> None:
    threads.save("a", 5)
    threads.save("b", 9)
    threads.save("b", 1)
    assert threads.latest().id == "a"


def test_replacing_the_one_saved_last_of_equals_uncovers_the_other(threads: ThreadRules) -> None:
    threads.save("a", 5)
    threads.save("b", 5)
    threads.save("b", 4)
    assert threads.latest().id == "a"
    threads.save("b", 5)
    assert threads.latest().id == "b"


def test_checkpoint_ids_count_per_branch(threads: ThreadRules) -> None:
    threads.save("c", 1)
    threads.save("c", 2, branch_id="other")
    threads.save("c", 3, thread_id="other")
    assert threads.latest().sequence == 1
    assert threads.latest(branch_id="other").sequence == 2


def test_a_checkpoint_saved_many_times_is_there_once(threads: ThreadRules) -> None:
    for number in range(500):
        threads.save("c", number % 7, state=Value(json=str(number)))
        threads.save(f"other{number % 3}", number)
    assert threads.latest().id == "other1"
    assert sorted(threads.checkpoint_ids()) == ["c", "other0", "other1", "other2"]
    assert [saved.state.json for saved in threads.history().checkpoints if saved.id == "c"] == ["499"]


# --- list


def test_list_goes_by_order_of_saving_newest_first(threads: ThreadRules) -> None:
    for name, sequence in (("b", 9), ("a", 1), ("c", 5)):
        threads.save(name, sequence)
    assert threads.checkpoint_ids() == ["c", "a", "b"]
    threads.save("b", 2)
    assert threads.checkpoint_ids() == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({}, ["d", "c", "b", "a"]),
        ({"x": "1"}, ["c", "b", "a"]),
        ({"x": "1", "y": "2"}, ["c", "b"]),
        ({"x": "2"}, []),
        ({"z": ""}, []),
        ({"": ""}, []),
    ],
    ids=str,
)
def test_list_by_labels_shows_those_that_carry_all_of_them(
    threads: ThreadRules, labels: dict[str, str], found: list[str]
) -> None:
    threads.save("a", labels={"x": "1"})
    threads.save("b", labels={"x": "1", "y": "2"})
    threads.save("c", labels={"x": "1", "y": "2", "z": "3"})
    threads.save("d")
    assert threads.checkpoint_ids(labels=labels) == found


def test_pages_by_labels_are_full_of_what_matches(threads: ThreadRules) -> None:
    for number in range(30):
        threads.save(f"c{number:02}", labels={"even": str(number % 2 == 0)})
    first = threads.checkpoints(labels={"even": "True"}, page_size=10)
    assert len(first.checkpoints) == 10
    rest = threads.checkpoints(labels={"even": "True"}, page_size=10, page_token=first.next_page_token)
    assert [saved.id for saved in rest.checkpoints] == ["c08", "c06", "c04", "c02", "c00"]


def test_a_checkpoint_in_a_fork_is_like_any_other(threads: ThreadRules) -> None:
    threads.append_next("e1")
    answer = threads.fork("e1", "draft", checkpoint={"id": "c", "state": {"json": "1"}, "sequence": 7})
    assert threads.latest(branch_id="draft") == answer.checkpoint
    assert threads.latest() is None
    threads.append_batch(in_batch("e2"), branch_id="draft")
    assert threads.checkpoint_ids(branch_id="draft") == ["c"]
