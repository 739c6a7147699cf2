"""The contract's "Absence is not an error": a read that finds nothing answers, and creates nothing."""

import gc
import tracemalloc

from statekeep.v1 import memory_pb2, state_store_pb2
from unit.rules_support import MemoryRules, ScratchRules, ThreadRules, World


def read_everything(memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules, name: str) -> None:
    """Make every read there is of a name that nothing has, and hold that each answers "nothing"."""
    scope = memory_pb2.Scope(name=name)
    branch = {"thread_id": name, "branch_id": name}
    assert memory.get(name, scope=scope) is None
    assert memory.get(name, scope=scope, version=1, include_deleted=True) is None
    assert memory.get_many(name, scope=scope) == memory_pb2.MemoryBatchGetResponse(missing_keys=[name])
    assert memory.page(scope=scope, prefix=name) == memory_pb2.MemoryListResponse()
    assert memory.purges(scope=scope) == memory_pb2.MemoryListPurgesResponse()
    assert memory.history(name, scope=scope) == []
    assert memory.watch(scope=scope, after_revision=0).rest() == [memory_pb2.MemoryWatchResponse(caught_up=True)]
    assert threads.history(**branch) == state_store_pb2.History(thread_id=name, branch_id=name)
    assert threads.latest(**branch) is None
    assert threads.checkpoints(**branch) == state_store_pb2.ListCheckpointsResponse()
    assert threads.branches(thread_id=name, include_unforked=True) == state_store_pb2.ListBranchesResponse()
    assert threads.stream(**branch).rest() == [state_store_pb2.StreamHistoryResponse(caught_up=True)]
    assert scratch.get(name, instance_id=name) is None
    assert scratch.keys(instance_id=name) == []


def test_a_read_of_what_is_not_there_answers_nothing(
    memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules
) -> None:
    read_everything(memory, threads, scratch, "none")
    assert memory.scopes() == []
    assert threads.threads() == []


def test_a_read_of_another_name_in_a_scope_or_thread_answers_nothing(
    memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules
) -> None:
    memory.set("there", scope=memory_pb2.Scope(name="none"))
    threads.append_next("there", thread_id="none")
    scratch.put("there", instance_id="none")
    assert memory.get("none", scope=memory_pb2.Scope(name="none")) is None
    assert threads.history(thread_id="none", branch_id="none").events == []
    assert threads.latest(thread_id="none", branch_id="none") is None
    assert scratch.get("none", instance_id="none") is None


def test_writes_that_find_nothing_create_nothing_either(
    world: World, memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules
) -> None:
    assert memory.delete("none") is None
    assert memory.delete("none", request_id="r") is None
    assert memory.purge(key="none") == memory_pb2.MemoryPurgeResponse()
    assert memory.purge(all_keys=True) == memory_pb2.MemoryPurgeResponse()
    assert threads.drop("none") == state_store_pb2.DeleteThreadResponse()
    assert scratch.clear(instance_id="none") == []
    assert scratch.close(instance_id="none") == []
    assert world.partitions() == []


def test_reads_of_names_that_do_not_exist_leave_memory_and_listings_as_they_were(
    world: World, memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules
) -> None:
    memory.set("k")
    threads.append_next("e")
    scratch.put("a")
    tracemalloc.start()
    try:
        sizes = []
        for number in range(1_000):
            if number in (200, 999):
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
            read_everything(memory, threads, scratch, f"none{number}")
    finally:
        tracemalloc.stop()
    # Eight hundred names that were kept would be fifty kilobytes at least.
    assert sizes[1] - sizes[0] < 20_000
    assert len(world.partitions()) == 2
    assert [info.scope.name for info in memory.scopes()] == ["s"]
    assert [thread.id for thread in threads.threads()] == ["t"]
    assert memory.keys(include_deleted=True) == ["k"]
    assert threads.branch_ids(include_unforked=True) == ["main"]
