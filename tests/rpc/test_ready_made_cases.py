"""The ready-made cases at the end of the contract, one test each."""

from concurrent.futures import ThreadPoolExecutor

from rpc_support import (
    Stubs,
    checkpoint_of,
    connected,
    event_of,
    events_in,
    given_of,
    ids,
    key_of,
    next_of,
    refused,
    scope,
    set_of,
    stream_of,
)
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value


def versions(stubs: Stubs, name: str, key: str) -> list[int]:
    history = stubs.memory.History(memory.MemoryHistoryRequest(scope=scope(name), key=key))
    return [entry.version for message in history for entry in message.entries]


def test_every_version_of_a_key_that_was_set_twice_can_be_read(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", "1"))
    stubs.memory.Set(set_of(name, "k", "2"))
    assert stubs.memory.Get(key_of(name, "k")).entry.value.json == "2"
    assert stubs.memory.Get(key_of(name, "k", version=1)).entry.value.json == "1"
    assert versions(stubs, name, "k") == [2, 1]


def test_a_key_that_was_deleted_comes_back_with_the_next_version(stubs: Stubs, name: str) -> None:
    delete = memory.MemoryDeleteRequest(scope=scope(name), key="k")
    stubs.memory.Set(set_of(name, "k"))
    tombstone = stubs.memory.Delete(delete).entry
    assert not stubs.memory.Get(key_of(name, "k")).HasField("entry")
    assert stubs.memory.Delete(delete).entry == tombstone
    assert versions(stubs, name, "k") == [2, 1]
    assert stubs.memory.Set(set_of(name, "k")).entry.version == 3


def test_a_key_that_was_purged_whole_goes_on_counting(stubs: Stubs, name: str) -> None:
    for _ in range(3):
        stubs.memory.Set(set_of(name, "k"))
    stubs.memory.Purge(memory.MemoryPurgeRequest(scope=scope(name), key="k", keep=0))
    assert stubs.memory.Set(set_of(name, "k")).entry.version == 4


def test_a_scratch_key_is_the_same_with_blanks_around_it(stubs: Stubs, name: str) -> None:
    put = stubs.scratch.Put(scratch.ScratchPutRequest(instance_id=name, key=" a ", value=Value(json="1")))
    assert put.key == "a"
    assert stubs.scratch.List(scratch.ScratchListRequest(instance_id=name)).keys == ["a"]
    assert stubs.scratch.Get(scratch.ScratchGetRequest(instance_id=name, key="a")).value.json == "1"
    assert stubs.scratch.Clear(scratch.ScratchClearRequest(instance_id=name, key="  ")).cleared == ["a"]


def test_the_next_event_follows_the_highest_sequence(stubs: Stubs, name: str) -> None:
    stubs.state.AppendEvent(given_of(name, 10))
    assert stubs.state.AppendNextEvent(next_of(name)).event.sequence == 11


def test_a_history_is_in_the_order_of_storing(stubs: Stubs, name: str) -> None:
    for event_id, sequence in (("a", 5), ("b", 3), ("c", 3)):
        stubs.state.AppendEvent(given_of(name, sequence, event_id))
    assert [(event.id, event.sequence) for event in events_in(stubs, name)] == [("a", 5), ("b", 3), ("c", 3)]


def test_eight_clients_append_at_once_and_every_number_comes_once(server: ServerProcess, name: str) -> None:
    def append(client: int) -> list[int]:
        with connected(server.address) as own:
            sequences = []
            for number in range(500):
                event = own.state.AppendNextEvent(next_of(name, f"{client}-{number}")).event
                sequences.append(event.sequence)
            return sequences

    with ThreadPoolExecutor(8) as clients:
        given = [sequence for sequences in clients.map(append, range(8)) for sequence in sequences]
    assert sorted(given) == list(range(1, 4001))
    with connected(server.address) as own:
        assert [event.sequence for event in events_in(own, name)] == list(range(1, 4001))


def test_a_checkpoint_after_an_event_is_not_the_latest_at_that_event(stubs: Stubs, name: str) -> None:
    for event_id in ("e1", "e2", "e3"):
        stubs.state.AppendNextEvent(next_of(name, event_id))
    stubs.state.SaveCheckpoint(checkpoint_of(name, "c1", sequence=1))
    stubs.state.SaveCheckpoint(checkpoint_of(name, "c3", sequence=3))
    latest = stubs.state.LatestCheckpoint(state.LatestCheckpointRequest(thread_id=name, at_event_id="e2"))
    assert latest.checkpoint.id == "c1"


def test_a_branch_name_is_taken_once_and_main_never(stubs: Stubs, name: str) -> None:
    for event_id in ("e1", "e2"):
        stubs.state.AppendNextEvent(next_of(name, event_id))
    fork = state.ForkRequest(thread_id=name, from_event_id="e2", name="draft")
    assert stubs.state.Fork(fork).branch.id == "draft"
    refused("BRANCH_EXISTS", stubs.state.Fork, fork, branch="draft", thread=name)
    fork.name = "main"
    refused("BRANCH_EXISTS", stubs.state.Fork, fork, branch="main", thread=name)
    assert ids(stubs.state.ListBranches(state.ListBranchesRequest(thread_id=name)).branches) == ["draft"]


def test_a_thread_that_is_not_there_streams_one_message(stubs: Stubs, name: str) -> None:
    assert list(stubs.state.StreamHistory(stream_of(name))) == [state.StreamHistoryResponse(caught_up=True)]


def test_an_event_is_kept_as_it_was_sent(stubs: Stubs, name: str) -> None:
    event = event_of(name, "e", node="n", parent_id="p", data=Value(json="1"), error_type="t", message="m")
    event.labels["a"] = "b"
    stored = stubs.state.AppendNextEvent(state.AppendNextEventRequest(event=event)).event
    for given in ("create_time", "revision", "sequence"):
        stored.ClearField(given)
    event.branch_id = "main"
    assert stored == event
