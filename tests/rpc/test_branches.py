"""StateStore: forks and branches."""

import pytest
from rpc_support import (
    MIB,
    Stubs,
    checkpoint_of,
    connected,
    events_in,
    ids,
    items,
    next_of,
    refused,
    sent,
    stream_of,
)
from server_process import ServerProcess
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value


def fork_of(thread: str, from_event_id: str, **fields: object) -> state.ForkRequest:
    return state.ForkRequest(thread_id=thread, from_event_id=from_event_id, **fields)  # type: ignore[arg-type]


def append(stubs: Stubs, name: str, *event_ids: str, branch: str = "") -> None:
    for event_id in event_ids:
        stubs.state.AppendNextEvent(next_of(name, event_id, branch))


def branches(stubs: Stubs, name: str, **fields: object) -> list[state.Branch]:
    request = state.ListBranchesRequest(thread_id=name, **fields)  # type: ignore[arg-type]
    return items(stubs.state.ListBranches, request, "branches")


def line(stubs: Stubs, name: str, branch: str) -> list[str]:
    return sent(stubs.state.StreamHistory(stream_of(name, branch_id=branch, include_ancestors=True)))


def test_a_fork_says_where_it_comes_from(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e1", "e2")
    branch = stubs.state.Fork(fork_of(name, "e1", name="b")).branch
    assert (branch.id, branch.thread_id, branch.parent_branch_id, branch.from_event_id) == ("b", name, "main", "e1")
    assert branch.HasField("create_time")
    assert branch.revision > events_in(stubs, name)[-1].revision
    assert branches(stubs, name) == [branch]


def test_the_server_makes_up_a_branch_s_id_where_none_is_given(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    made = [stubs.state.Fork(fork_of(name, "e")).branch.id for _ in range(3)]
    assert all(made)
    assert len(set(made)) == 3
    assert ids(branches(stubs, name)) == made


def test_a_name_that_a_client_chose_is_never_made_up(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    first = stubs.state.Fork(fork_of(name, "e")).branch
    stem = first.id.removesuffix(f"{first.revision:x}")
    for ahead in range(2, 8):
        stubs.state.Fork(fork_of(name, "e", name=f"{stem}{first.revision + ahead:x}"))
    for _ in range(8):
        stubs.state.Fork(fork_of(name, "e"))
    found = ids(branches(stubs, name))
    assert len(found) == len(set(found)) == 15


def test_a_new_branch_holds_none_of_its_parent_s_events(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e1", "e2")
    stubs.state.SaveCheckpoint(checkpoint_of(name, "c"))
    stubs.state.Fork(fork_of(name, "e2", name="b"))
    history = stubs.state.GetHistory(state.GetHistoryRequest(thread_id=name, branch_id="b")).history
    assert history == state.History(thread_id=name, branch_id="b")
    assert stubs.state.AppendNextEvent(next_of(name, "e1", "b", type="own")).event.sequence == 1


def test_branch_checkpoint_and_event_are_stored_in_one_step(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    fork = fork_of(name, "e", name="b")
    fork.checkpoint.id = "c"
    fork.checkpoint.state.json = "{}"
    fork.event.type = "forked"
    answer = stubs.state.Fork(fork)
    assert (answer.checkpoint.branch_id, answer.checkpoint.thread_id, answer.checkpoint.status) == (
        "b",
        name,
        "running",
    )
    assert (answer.event.branch_id, answer.event.thread_id, answer.event.sequence) == ("b", name, 1)
    history = stubs.state.GetHistory(state.GetHistoryRequest(thread_id=name, branch_id="b")).history
    assert (list(history.events), list(history.checkpoints)) == ([answer.event], [answer.checkpoint])


BAD_PARTS = {
    "event.type": state.ForkRequest(event=state.Event(id="x")),
    "event.data.json": state.ForkRequest(event=state.Event(type="x", data=Value(json="NaN"))),
    "event.thread_id": state.ForkRequest(event=state.Event(type="x", thread_id="another")),
    "event.branch_id": state.ForkRequest(event=state.Event(type="x", branch_id="main")),
    "checkpoint.state": state.ForkRequest(checkpoint=state.Checkpoint(id="x")),
    "checkpoint.sequence": state.ForkRequest(checkpoint=state.Checkpoint(state=Value(json="1"), sequence=-1)),
    "checkpoint.branch_id": state.ForkRequest(checkpoint=state.Checkpoint(state=Value(json="1"), branch_id="x")),
}


@pytest.mark.parametrize(("at", "parts"), BAD_PARTS.items(), ids=BAD_PARTS.keys())
def test_a_fork_with_a_bad_part_leaves_nothing(at: str, parts: state.ForkRequest, stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    fork = fork_of(name, "e", name="b")
    fork.MergeFrom(parts)
    refused("INVALID_FIELD", stubs.state.Fork, fork, at=at)
    assert branches(stubs, name, include_unforked=True) == branches(stubs, name, include_unforked=True)[:1]
    assert events_in(stubs, name, "b") == []


def test_a_fork_whose_answer_no_default_client_could_read_is_refused_whole(server: ServerProcess, name: str) -> None:
    """The answer holds checkpoint and event: 3 MB each do not fit a message of 4 MiB."""
    with connected(server.address) as own:
        append(own, name, "e")
        fork = fork_of(name, "e", name="b", request_id="r")
        fork.checkpoint.state.data = bytes(3 * MIB)
        fork.event.type = "x"
        fork.event.data.data = bytes(3 * MIB)
        refused("LIMIT_REACHED", own.state.Fork, fork)
        assert branches(own, name) == []


def test_a_fork_needs_the_thread_the_branch_and_the_event(stubs: Stubs, name: str) -> None:
    refused("THREAD_NOT_FOUND", stubs.state.Fork, fork_of(name, "e", name="b"), thread=name)
    append(stubs, name, "e")
    wrong_branch = fork_of(name, "e", name="b", branch_id="nowhere")
    refused("BRANCH_NOT_FOUND", stubs.state.Fork, wrong_branch, branch="nowhere", thread=name)
    refused("EVENT_NOT_FOUND", stubs.state.Fork, fork_of(name, "f", name="b"), event="f", thread=name)
    append(stubs, name, "f", branch="other")
    refused("EVENT_NOT_FOUND", stubs.state.Fork, fork_of(name, "f", name="b"), event="f", thread=name)
    assert branches(stubs, name) == []


def test_the_event_of_an_ancestor_is_not_on_the_branch(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    stubs.state.Fork(fork_of(name, "e", name="b"))
    refused("EVENT_NOT_FOUND", stubs.state.Fork, fork_of(name, "e", name="c", branch_id="b"), event="e", branch="b")


def test_a_fork_of_an_event_with_a_made_up_id_works(stubs: Stubs, name: str) -> None:
    event = stubs.state.AppendNextEvent(next_of(name)).event
    assert stubs.state.Fork(fork_of(name, event.id)).branch.from_event_id == event.id


@pytest.mark.parametrize("holds", ["an event", "a checkpoint"])
def test_a_branch_that_already_holds_anything_is_not_forked(holds: str, stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    if holds == "an event":
        append(stubs, name, "f", branch="b")
    else:
        stubs.state.SaveCheckpoint(checkpoint_of(name, branch_id="b"))
    refused("BRANCH_EXISTS", stubs.state.Fork, fork_of(name, "e", name="b"), branch="b", thread=name)


def test_a_retry_of_a_fork_is_known_by_its_request_id(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    request = fork_of(name, "e", request_id="r")
    request.event.type = "x"
    first = stubs.state.Fork(request)
    assert stubs.state.Fork(request) == first
    assert ids(branches(stubs, name)) == [first.branch.id]
    other = fork_of(name, "e", request_id="r", name="else")
    refused("REQUEST_ID_REUSED", stubs.state.Fork, other, at="request_id", request_id="r")


def test_two_forks_of_one_event_are_independent(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e1", "e2")
    for branch in "ab":
        stubs.state.Fork(fork_of(name, "e1", name=branch))
        append(stubs, name, f"own-{branch}", branch=branch)
    append(stubs, name, "late", branch="a")
    assert line(stubs, name, "a") == ["e1", "own-a", "late"]
    assert line(stubs, name, "b") == ["e1", "own-b"]


def test_main_is_byte_for_byte_what_it_was(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e1", "e2")
    stubs.state.SaveCheckpoint(checkpoint_of(name, "c"))
    request = state.GetHistoryRequest(thread_id=name)
    before = stubs.state.GetHistory(request).SerializeToString(deterministic=True)
    fork = fork_of(name, "e1", name="b")
    fork.event.type = "x"
    fork.checkpoint.id = "c"
    fork.checkpoint.state.json = "[2]"
    stubs.state.Fork(fork)
    append(stubs, name, "e1", "e3", branch="b")
    assert stubs.state.GetHistory(request).SerializeToString(deterministic=True) == before


def test_a_fork_of_a_fork_stops_at_each_fork_point(stubs: Stubs, name: str) -> None:
    append(stubs, name, "m1", "m2", "m3")
    stubs.state.Fork(fork_of(name, "m2", name="a"))
    append(stubs, name, "a1", "a2", "a3", branch="a")
    append(stubs, name, "m4")
    stubs.state.Fork(fork_of(name, "a1", name="b", branch_id="a"))
    append(stubs, name, "b1", branch="b")
    append(stubs, name, "a4", branch="a")
    assert line(stubs, name, "b") == ["m1", "m2", "a1", "b1"]
    assert line(stubs, name, "a") == ["m1", "m2", "a1", "a2", "a3", "a4"]
    assert line(stubs, name, "main") == ["m1", "m2", "m3", "m4"]


def test_a_branch_may_be_forked_that_was_never_forked_itself(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e", branch="loose")
    fork = fork_of(name, "e", name="b", branch_id="loose")
    assert stubs.state.Fork(fork).branch.parent_branch_id == "loose"
    assert line(stubs, name, "b") == ["e"]


def test_a_fork_point_goes_by_place_not_by_sequence(stubs: Stubs, name: str) -> None:
    for sequence, event_id in ((9, "first"), (1, "second"), (5, "third")):
        stubs.state.AppendEvent(
            state.AppendEventRequest(event=state.Event(thread_id=name, id=event_id, type="x", sequence=sequence))
        )
    stubs.state.Fork(fork_of(name, "second", name="b"))
    assert line(stubs, name, "b") == ["first", "second"]


def test_branches_are_listed_oldest_first_without_main(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    append(stubs, name, "f", branch="loose")
    for branch in ("z", "a", "m"):
        stubs.state.Fork(fork_of(name, "e", name=branch))
    assert ids(branches(stubs, name, page_size=1)) == ["z", "a", "m"]
    assert branches(stubs, f"{name}x") == []
    assert branches(stubs, f"{name}x", include_unforked=True) == []


def test_unforked_branches_are_listed_where_they_are_asked_for(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e")
    stubs.state.Fork(fork_of(name, "e", name="forked"))
    append(stubs, name, "f", branch="loose")
    stubs.state.SaveCheckpoint(checkpoint_of(name, branch_id="saved"))
    for page_size in (0, 1, 2):
        found = branches(stubs, name, include_unforked=True, page_size=page_size)
        assert ids(found) == ["main", "forked", "loose", "saved"]
        assert [bool(branch.from_event_id) for branch in found] == [False, True, False, False]


def test_main_comes_once_in_a_walk_during_which_it_got_its_first_event(stubs: Stubs, name: str) -> None:
    append(stubs, name, "e", branch="a")
    append(stubs, name, "e", branch="b")
    request = state.ListBranchesRequest(thread_id=name, include_unforked=True, page_size=1)
    page = stubs.state.ListBranches(request)
    found = ids(page.branches)
    append(stubs, name, "e")
    while page.next_page_token:
        request.page_token = page.next_page_token
        page = stubs.state.ListBranches(request)
        found += ids(page.branches)
    assert sorted(found) == ["a", "b", "main"]
