"""The contract's table of ready-made cases, one test a row."""

import pytest
from statekeep.v1 import state_store_pb2 as pb
from statekeep_server.core.errors import Reason
from unit.rules_support import MemoryRules, ScratchRules, ThreadRules, in_batch, refused


def test_set_twice_then_get_get_at_1_and_history(memory: MemoryRules) -> None:
    memory.set("k", 1)
    memory.set("k", 2)
    assert memory.get("k").value.json == "2"
    assert memory.get("k", version=1).value.json == "1"
    assert memory.versions("k") == [2, 1]


def test_set_delete_get_delete_history_set(memory: MemoryRules) -> None:
    memory.set("k")
    tombstone = memory.delete("k")
    assert memory.get("k") is None
    assert memory.delete("k") == tombstone
    assert memory.versions("k") == [2, 1]
    assert memory.set("k").version == 3


def test_set_three_times_purge_and_set(memory: MemoryRules) -> None:
    for _ in range(3):
        memory.set("k")
    memory.purge(key="k", keep=0)
    assert memory.set("k").version == 4


def test_put_list_get_and_clear_with_blanks(scratch: ScratchRules) -> None:
    assert scratch.put(" a ") == "a"
    assert scratch.keys() == ["a"]
    assert scratch.get("a") is not None
    assert scratch.clear("  ") == ["a"]


def test_append_event_10_then_append_next_event(threads: ThreadRules) -> None:
    threads.append(10)
    assert threads.append_next().sequence == 11


def test_append_event_5_3_3_and_get_history(threads: ThreadRules) -> None:
    for sequence, event_id in ((5, "a"), (3, "b"), (3, "c")):
        threads.append(sequence, event_id)
    assert threads.sequences() == [5, 3, 3]
    assert threads.ids() == ["a", "b", "c"]


@pytest.mark.parametrize("clients", [8])
def test_clients_in_turn_append_1_to_4000_each_once(threads: ThreadRules, clients: int) -> None:
    numbers = [threads.append_next(f"{client}-{count}").sequence for count in range(500) for client in range(clients)]
    assert numbers == list(range(1, 4001))


def test_save_checkpoints_1_and_3_and_read_the_latest_at_event_2(threads: ThreadRules) -> None:
    for number in (1, 2, 3):
        threads.append_next(f"e{number}")
    threads.save("c1", 1)
    threads.save("c3", 3)
    assert threads.latest(at_event_id="e2").id == "c1"


def test_fork_as_draft_as_draft_again_and_as_main(threads: ThreadRules) -> None:
    threads.append_batch(in_batch("e1"), in_batch("e2"))
    assert threads.fork("e2", "draft").branch.id == "draft"
    with refused(Reason.BRANCH_EXISTS):
        threads.fork("e2", "draft")
    with refused(Reason.BRANCH_EXISTS):
        threads.fork("e2", "main")


def test_stream_history_of_a_thread_that_is_not_there(threads: ThreadRules) -> None:
    assert threads.stream().rest() == [pb.StreamHistoryResponse(caught_up=True)]
