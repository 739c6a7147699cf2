"""The contract's StateStore: forks, what they hold, and how they are listed."""

from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from statekeep.v1 import state_store_pb2 as pb
from statekeep.v1.value_pb2 import Value
from statekeep_server.core.errors import Reason
from unit.rules_support import START, ThreadRules, in_batch, invalid, micros, refused

CHECKPOINT = {"id": "c", "state": {"json": "{}"}}


@pytest.fixture
def line(threads: ThreadRules) -> ThreadRules:
    """Return a thread whose main holds e1, e2, e3."""
    for number in (1, 2, 3):
        threads.append_next(f"e{number}")
    return threads


def everything(threads: ThreadRules, **fields: Any) -> bytes:
    return threads.history(**fields).SerializeToString(deterministic=True)


def test_a_fork_answers_its_branch(line: ThreadRules) -> None:
    branch = line.fork("e2", "draft").branch
    assert (branch.id, branch.thread_id, branch.parent_branch_id, branch.from_event_id) == ("draft", "t", "main", "e2")
    assert micros(branch.create_time) == START
    assert branch.revision > line.history().events[-1].revision


def test_a_name_that_is_not_given_is_made_up(line: ThreadRules) -> None:
    names = {line.fork("e2").branch.id for _ in range(3)}
    assert len(names) == 3
    assert not names & {"", "main"}
    assert set(line.branch_ids()) == names


def test_a_name_that_is_made_up_is_none_that_a_client_took_before(line: ThreadRules) -> None:
    revision = line.append_next().revision
    for ahead in range(2, 5):
        line.fork("e2", f"branch-{revision + ahead:x}")
    for _ in range(4):
        line.fork("e2")
    assert len(set(line.branch_ids())) == 7


def test_an_empty_name_is_refused(line: ThreadRules) -> None:
    with invalid("name"):
        line.fork("e2", "")


def test_the_thread_must_be_there(threads: ThreadRules) -> None:
    with refused(Reason.THREAD_NOT_FOUND) as refusal:
        threads.fork("e1", "draft")
    assert refusal.value.metadata == {"thread": "t"}
    assert threads.threads() == []


@pytest.mark.parametrize("name", ["draft", "main", None])
def test_the_branch_forked_must_be_there(line: ThreadRules, name: str | None) -> None:
    with refused(Reason.BRANCH_NOT_FOUND) as refusal:
        line.fork("e1", name, branch_id="none")
    assert refusal.value.metadata == {"branch": "none", "thread": "t"}


@pytest.mark.parametrize("event_id", ["none", "elsewhere"])
def test_the_event_must_be_on_the_branch_forked(line: ThreadRules, event_id: str) -> None:
    line.append_next("elsewhere", branch_id="other")
    with refused(Reason.EVENT_NOT_FOUND) as refusal:
        line.fork(event_id, "draft")
    assert refusal.value.metadata == {"event": event_id, "branch": "main", "thread": "t"}
    assert line.branch_ids() == []


def test_an_event_of_main_in_a_thread_without_one_is_not_found(threads: ThreadRules) -> None:
    threads.append_next("e1", branch_id="other")
    with refused(Reason.EVENT_NOT_FOUND):
        threads.fork("e1", "draft")
    assert threads.fork("e1", "draft", branch_id="other").branch.parent_branch_id == "other"


def test_a_name_that_is_taken_is_refused(line: ThreadRules) -> None:
    line.fork("e2", "draft")
    for event_id in ("e2", "e3"):
        with refused(Reason.BRANCH_EXISTS) as refusal:
            line.fork(event_id, "draft")
        assert refusal.value.metadata == {"branch": "draft", "thread": "t"}


def test_main_is_taken(line: ThreadRules) -> None:
    with refused(Reason.BRANCH_EXISTS):
        line.fork("e2", "main")
    with refused(Reason.BRANCH_EXISTS):
        line.fork("e2", "main", branch_id="main")


def test_main_is_taken_also_in_a_thread_without_one(threads: ThreadRules) -> None:
    threads.append_next("e1", branch_id="other")
    with refused(Reason.BRANCH_EXISTS):
        threads.fork("e1", "main", branch_id="other")


def test_a_branch_that_already_holds_anything_is_taken(line: ThreadRules) -> None:
    line.append_next("x", branch_id="events")
    line.save("x", branch_id="checkpoints")
    for name in ("events", "checkpoints"):
        with refused(Reason.BRANCH_EXISTS):
            line.fork("e2", name)


def test_branch_names_count_per_thread(line: ThreadRules) -> None:
    line.fork("e2", "draft")
    line.append_next("e2", thread_id="other")
    assert line.fork("e2", "draft", thread_id="other").branch.thread_id == "other"


def test_the_new_branch_holds_none_of_its_parents_events(line: ThreadRules) -> None:
    line.fork("e2", "draft")
    assert line.ids(branch_id="draft") == []
    assert line.append_next("f1", 0, branch_id="draft").sequence == 1


def test_branch_checkpoint_and_event_are_stored_in_one_step(line: ThreadRules) -> None:
    answer = line.fork("e2", "draft", checkpoint={**CHECKPOINT, "sequence": 2}, event=in_batch("f1", node="n"))
    assert (answer.checkpoint.branch_id, answer.checkpoint.thread_id, answer.checkpoint.status) == (
        "draft",
        "t",
        "running",
    )
    assert (answer.event.branch_id, answer.event.thread_id, answer.event.sequence) == ("draft", "t", 1)
    assert list(line.history(branch_id="draft").checkpoints) == [answer.checkpoint]
    assert list(line.history(branch_id="draft").events) == [answer.event]
    assert list(line.branches().branches) == [answer.branch]
    assert len({answer.branch.revision, answer.checkpoint.revision, answer.event.revision}) == 3


def test_a_fork_without_checkpoint_and_event_has_none(line: ThreadRules) -> None:
    answer = line.fork("e2", "draft")
    assert not answer.HasField("checkpoint")
    assert not answer.HasField("event")


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("event.type", {"event": {"id": "f"}}),
        ("event.id", {"event": {"id": " f", "type": "x"}}),
        ("event.data.json", {"event": {"type": "x", "data": {"json": "NaN"}}}),
        ("event.thread_id", {"event": {"type": "x", "thread_id": "other"}}),
        ("event.branch_id", {"event": {"type": "x", "branch_id": "main"}}),
        ("event.create_time", {"event": {"type": "x", "create_time": Timestamp(nanos=-1)}}),
        ("checkpoint.state", {"checkpoint": {"id": "c"}}),
        ("checkpoint.id", {"checkpoint": {**CHECKPOINT, "id": "\x00"}}),
        ("checkpoint.sequence", {"checkpoint": {**CHECKPOINT, "sequence": -1}}),
        ("checkpoint.active", {"checkpoint": {**CHECKPOINT, "active": {"json": "{}"}}}),
        ("checkpoint.thread_id", {"checkpoint": {**CHECKPOINT, "thread_id": "other"}}),
        ("checkpoint.branch_id", {"checkpoint": {**CHECKPOINT, "branch_id": "main"}}),
    ],
)
def test_a_fork_with_a_bad_first_record_stores_nothing(line: ThreadRules, path: str, first: dict[str, Any]) -> None:
    good = {"event": {"type": "x"}, "checkpoint": CHECKPOINT}
    with invalid(path):
        line.fork("e2", "draft", **{**good, **first})
    assert line.branch_ids(include_unforked=True) == ["main"]
    assert line.history(branch_id="draft") == pb.History(thread_id="t", branch_id="draft")


def test_the_first_records_may_name_their_thread_and_branch(line: ThreadRules) -> None:
    place = {"thread_id": "t", "branch_id": "draft"}
    answer = line.fork("e2", "draft", event=in_batch("f", **place), checkpoint={**CHECKPOINT, **place})
    assert line.ids(branch_id="draft") == [answer.event.id]


def test_main_is_byte_for_byte_what_it_was(line: ThreadRules) -> None:
    line.save("c", 2)
    before = everything(line)
    line.fork("e2", "draft", checkpoint=CHECKPOINT, event=in_batch("e3", type="other"))
    line.append_next("e2", branch_id="draft", type="other")
    line.save("c", 1, branch_id="draft")
    assert everything(line) == before


def test_two_forks_of_one_event_are_independent(line: ThreadRules) -> None:
    line.fork("e2", "one", event=in_batch("f", data=Value(json="1")))
    line.fork("e2", "two", event=in_batch("f", data=Value(json="2")))
    before = everything(line, branch_id="two")
    line.append_next("g", branch_id="one")
    line.save("c", branch_id="one")
    assert everything(line, branch_id="two") == before
    assert line.ids(branch_id="one") == ["f", "g"]


def test_a_fork_of_a_fork_is_of_its_own_events(line: ThreadRules) -> None:
    line.fork("e2", "one", event=in_batch("f1"))
    with refused(Reason.EVENT_NOT_FOUND):
        line.fork("e2", "two", branch_id="one")
    assert line.fork("f1", "two", branch_id="one").branch.parent_branch_id == "one"


def test_a_branch_without_having_been_forked_may_be_forked(line: ThreadRules) -> None:
    line.append_next("x1", branch_id="unforked")
    assert line.fork("x1", "draft", branch_id="unforked").branch.parent_branch_id == "unforked"


def test_an_event_with_a_made_up_id_may_be_forked_at(threads: ThreadRules) -> None:
    stored: Message = threads.append_next()
    assert threads.fork(stored.id, "draft").branch.from_event_id == stored.id


# --- list


def test_list_is_oldest_first_without_main(line: ThreadRules) -> None:
    for name in ("b", "a", "c"):
        line.fork("e2", name)
    assert line.branch_ids() == ["b", "a", "c"]


def test_list_is_empty_for_a_thread_that_is_not_there(threads: ThreadRules) -> None:
    assert threads.branch_ids() == []
    assert threads.branch_ids(include_unforked=True) == []


def test_list_shows_unforked_branches_where_they_are_asked_for(line: ThreadRules) -> None:
    line.fork("e2", "forked", event=in_batch("f"))
    line.save("x", branch_id="saved")
    line.append_next("x", branch_id="appended")
    line.save("x", branch_id="appended")
    assert line.branch_ids() == ["forked"]
    assert line.branch_ids(include_unforked=True) == ["main", "forked", "saved", "appended"]
    unforked = line.branches(include_unforked=True).branches[2]
    assert (unforked.thread_id, unforked.parent_branch_id, unforked.from_event_id) == ("t", "", "")


def test_list_shows_main_also_where_it_holds_nothing(threads: ThreadRules) -> None:
    threads.append_next("x", branch_id="other")
    assert threads.branch_ids(include_unforked=True) == ["main", "other"]
    first = threads.branches(include_unforked=True, page_size=1)
    assert threads.branch_ids(include_unforked=True, page_token=first.next_page_token) == ["other"]


def test_list_is_of_one_thread(line: ThreadRules) -> None:
    line.fork("e2", "draft")
    line.append_next("e1", thread_id="t2")
    assert line.branch_ids(thread_id="t2") == []
