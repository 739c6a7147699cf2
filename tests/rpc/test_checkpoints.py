"""StateStore: checkpoints."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rpc_support import (
    MIB,
    Stubs,
    checkpoint_of,
    connected,
    given_of,
    ids,
    items,
    next_of,
    refused,
    stream_of,
)
from server_process import ServerProcess
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value


def save(stubs: Stubs, name: str, checkpoint_id: str = "", **fields: object) -> state.Checkpoint:
    return stubs.state.SaveCheckpoint(checkpoint_of(name, checkpoint_id, **fields)).checkpoint


def latest(stubs: Stubs, name: str, **fields: str) -> str:
    return stubs.state.LatestCheckpoint(state.LatestCheckpointRequest(thread_id=name, **fields)).checkpoint.id


def listed(stubs: Stubs, name: str, **fields: object) -> list[str]:
    request = state.ListCheckpointsRequest(thread_id=name, **fields)  # type: ignore[arg-type]
    return ids(items(stubs.state.ListCheckpoints, request, "checkpoints"))


def in_history(stubs: Stubs, name: str) -> list[str]:
    return ids(stubs.state.GetHistory(state.GetHistoryRequest(thread_id=name)).history.checkpoints)


def in_stream(stubs: Stubs, name: str) -> list[str]:
    messages = stubs.state.StreamHistory(stream_of(name, include_checkpoints=True))
    return [one.id for message in messages for one in message.checkpoints]


def test_a_checkpoint_is_kept_as_it_was_sent(stubs: Stubs, name: str) -> None:
    request = checkpoint_of(
        name,
        "c",
        branch_id="b",
        event_id="nowhere",
        sequence=7,
        state=Value(json='{"a":1}'),
        active=Value(json='["t"]'),
        status="done",
        create_time=Timestamp(seconds=7),
        parent_id="p",
        metadata=Value(text="m"),
        labels={"k": "v"},
    )
    saved = stubs.state.SaveCheckpoint(request).checkpoint
    assert saved.revision > 0
    found = stubs.state.LatestCheckpoint(state.LatestCheckpointRequest(thread_id=name, branch_id="b")).checkpoint
    assert found == saved
    saved.ClearField("revision")
    assert saved == request.checkpoint


def test_what_is_left_unset_gets_its_default(stubs: Stubs, name: str) -> None:
    saved = save(stubs, name)
    assert saved.id
    assert (saved.branch_id, saved.status, saved.active.json) == ("main", "running", "[]")
    assert saved.HasField("create_time")
    assert not saved.HasField("metadata")
    assert save(stubs, name).id != saved.id


def test_an_id_that_a_client_chose_is_never_made_up(stubs: Stubs, name: str) -> None:
    first = save(stubs, name)
    stem = first.id.removesuffix(f"{first.revision:x}")
    for ahead in range(2, 8):
        save(stubs, name, f"{stem}{first.revision + ahead:x}")
    for _ in range(8):
        save(stubs, name, sequence=1)
    found = listed(stubs, name)
    assert len(found) == len(set(found)) == 15


def test_the_latest_checkpoint_has_the_highest_sequence(stubs: Stubs, name: str) -> None:
    for checkpoint_id, sequence in (("a", 3), ("b", 9), ("c", 5)):
        save(stubs, name, checkpoint_id, sequence=sequence)
    assert latest(stubs, name) == "b"


def test_of_equal_sequences_the_one_saved_last_is_the_latest(stubs: Stubs, name: str) -> None:
    for checkpoint_id, sequence in (("a", 3), ("b", 3), ("c", 1)):
        save(stubs, name, checkpoint_id, sequence=sequence)
    assert latest(stubs, name) == "b"
    save(stubs, name, "a", sequence=3, status="done")
    assert latest(stubs, name) == "a"


def test_the_latest_checkpoint_at_an_event_goes_by_the_event_s_sequence(stubs: Stubs, name: str) -> None:
    for sequence in (5, 3, 8):
        stubs.state.AppendEvent(given_of(name, sequence, f"e{sequence}"))
    for checkpoint_id, sequence in (("c9", 9), ("c4", 4), ("c5", 5), ("c4b", 4)):
        save(stubs, name, checkpoint_id, sequence=sequence)
    assert latest(stubs, name, at_event_id="e5") == "c5"
    assert latest(stubs, name, at_event_id="e8") == "c5"
    assert latest(stubs, name, at_event_id="e3") == ""


def test_there_is_no_latest_checkpoint_where_there_is_none(stubs: Stubs, name: str) -> None:
    request = state.LatestCheckpointRequest(thread_id=name)
    assert stubs.state.LatestCheckpoint(request) == state.LatestCheckpointResponse()
    stubs.state.AppendNextEvent(next_of(name, "e"))
    request.at_event_id = "e"
    assert stubs.state.LatestCheckpoint(request) == state.LatestCheckpointResponse()


@pytest.mark.parametrize("branch", ["", "b"])
def test_the_latest_checkpoint_at_an_event_that_is_not_on_the_branch(branch: str, stubs: Stubs, name: str) -> None:
    stubs.state.AppendNextEvent(next_of(name, "elsewhere", "other"))
    request = state.LatestCheckpointRequest(thread_id=name, branch_id=branch, at_event_id="elsewhere")
    refusal = refused("EVENT_NOT_FOUND", stubs.state.LatestCheckpoint, request, event="elsewhere", thread=name)
    assert "elsewhere" in refusal.message
    assert name in refusal.message


def test_checkpoints_are_listed_by_order_of_saving_newest_first(stubs: Stubs, name: str) -> None:
    for checkpoint_id, sequence in (("a", 3), ("b", 9), ("c", 5)):
        save(stubs, name, checkpoint_id, sequence=sequence)
    assert listed(stubs, name) == ["c", "b", "a"]
    assert listed(stubs, name, page_size=1) == ["c", "b", "a"]
    assert listed(stubs, name, branch_id="other") == []


def test_saving_an_id_again_with_other_content_replaces_it_everywhere(stubs: Stubs, name: str) -> None:
    for checkpoint_id in "abc":
        save(stubs, name, checkpoint_id, sequence=2)
    first = save(stubs, name, "a", sequence=1, state=Value(json="[1]"))
    assert latest(stubs, name) == "c"
    assert listed(stubs, name) == ["a", "c", "b"]
    assert in_history(stubs, name) == in_stream(stubs, name) == ["b", "c", "a"]
    threads = stubs.state.ListThreads(state.ListThreadsRequest(prefix=name)).threads
    assert threads[0].checkpoint_count == 3
    assert save(stubs, name, "a", sequence=1, state=Value(json="[2]")).revision > first.revision


def test_the_highest_sequence_goes_down_where_its_checkpoint_is_saved_again_with_a_lower_one(
    stubs: Stubs, name: str
) -> None:
    save(stubs, name, "a", sequence=9)
    save(stubs, name, "b", sequence=5)
    save(stubs, name, "a", sequence=1)
    assert latest(stubs, name) == "b"


def test_saving_the_same_again_changes_nothing(stubs: Stubs, name: str) -> None:
    first = save(stubs, name, "a", status="")
    save(stubs, name, "b")
    assert save(stubs, name, "a", status="running", active=Value(json="[]")) == first
    assert listed(stubs, name) == ["b", "a"]


def test_checkpoint_ids_count_per_branch(stubs: Stubs, name: str) -> None:
    save(stubs, name, "a", state=Value(json="1"))
    save(stubs, name, "a", state=Value(json="2"), branch_id="b")
    assert (listed(stubs, name), listed(stubs, name, branch_id="b")) == (["a"], ["a"])
    found = stubs.state.LatestCheckpoint(state.LatestCheckpointRequest(thread_id=name)).checkpoint
    assert found.state.json == "1"


def test_a_list_is_of_those_that_carry_all_labels(stubs: Stubs, name: str) -> None:
    save(stubs, name, "a", labels={"x": "1", "y": "2"})
    save(stubs, name, "b", labels={"x": "1"})
    save(stubs, name, "c", labels={"x": "2", "y": "2"})
    save(stubs, name, "d")
    assert listed(stubs, name, labels={"x": "1"}) == ["b", "a"]
    assert listed(stubs, name, labels={"x": "1", "y": "2"}) == ["a"]
    assert listed(stubs, name, labels={"x": ""}) == []
    assert listed(stubs, name, labels={"x": "1"}, page_size=1) == ["b", "a"]


def test_a_page_of_checkpoints_is_cut_by_bytes(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        for number in range(6):
            save(own, name, f"c{number}", state=Value(data=bytes(3 * MIB // 2)))
        assert listed(own, name, page_size=6) == ["c5", "c4", "c3", "c2", "c1", "c0"]


@pytest.mark.parametrize("part", ["active", "metadata"])
def test_a_part_of_a_checkpoint_without_a_kind_is_refused(part: str, stubs: Stubs, name: str) -> None:
    request = checkpoint_of(name, **{part: Value()})
    refused("INVALID_FIELD", stubs.state.SaveCheckpoint, request, at=f"checkpoint.{part}")


def test_a_time_of_a_checkpoint_is_refused_that_is_none(stubs: Stubs, name: str) -> None:
    request = checkpoint_of(name, create_time=Timestamp(nanos=-1))
    refused("INVALID_FIELD", stubs.state.SaveCheckpoint, request, at="checkpoint.create_time")
