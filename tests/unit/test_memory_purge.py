"""The contract's Memory: what a purge removes, and what it leaves."""

import pytest
from statekeep.v1 import memory_pb2
from unit.rules_support import SCOPE, START, MemoryRules, World, invalid, micros, span


def fill(memory: MemoryRules, key: str, versions: int) -> None:
    for content in range(versions):
        memory.set(key, content)


@pytest.mark.parametrize(
    ("keep", "left"),
    [(0, []), (1, [5]), (2, [5, 4]), (5, [5, 4, 3, 2, 1]), (6, [5, 4, 3, 2, 1]), (2**31 - 1, [5, 4, 3, 2, 1])],
)
def test_purge_keeps_exactly_the_newest_versions(memory: MemoryRules, keep: int, left: list[int]) -> None:
    fill(memory, "k", 5)
    answer = memory.purge(key="k", keep=keep)
    assert memory.versions() == left
    assert answer.versions_deleted == 5 - len(left)
    assert answer.keys_affected == (1 if len(left) < 5 else 0)


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_purging_again_removes_nothing(memory: MemoryRules, keep: int) -> None:
    fill(memory, "k", 5)
    memory.purge(key="k", keep=keep)
    revision = memory.revision()
    assert memory.purge(key="k", keep=keep) == memory_pb2.MemoryPurgeResponse()
    assert memory.revision() == revision


def test_a_tombstone_counts_as_a_version(memory: MemoryRules) -> None:
    fill(memory, "k", 3)
    memory.delete("k")
    memory.purge(key="k", keep=2)
    assert memory.versions() == [4, 3]
    memory.purge(key="k", keep=1)
    assert memory.versions() == [4]
    assert memory.delete("k").version == 4


@pytest.mark.parametrize("keep", [-1, -(2**31)])
def test_a_negative_keep_is_refused(memory: MemoryRules, keep: int) -> None:
    fill(memory, "k", 2)
    with invalid("keep"):
        memory.purge(key="k", keep=keep)
    with invalid("keep"):
        memory.purge(all_keys=True, keep=keep)
    assert memory.versions() == [2, 1]


def test_neither_a_key_nor_all_keys_is_refused(memory: MemoryRules) -> None:
    fill(memory, "k", 2)
    with invalid("key"):
        memory.purge()
    with invalid("key"):
        memory.purge(include_deleted=True)
    assert memory.versions() == [2, 1]


def test_both_a_key_and_all_keys_are_refused(memory: MemoryRules) -> None:
    fill(memory, "k", 2)
    with invalid("key"):
        memory.purge(key="k", all_keys=True)
    assert memory.versions() == [2, 1]


@pytest.mark.parametrize("key", ["", " ", "a:b", "_compaction/x"])
def test_an_empty_or_broken_key_wipes_nothing(memory: MemoryRules, key: str) -> None:
    fill(memory, "k", 2)
    with invalid("key"):
        memory.purge(key=key)
    assert memory.versions() == [2, 1]


def test_a_purge_of_one_key_leaves_the_others(memory: MemoryRules) -> None:
    for key in ("k", "k2", "k/2"):
        fill(memory, key, 2)
    memory.purge(key=" k ")
    assert memory.keys() == ["k/2", "k2"]


def test_a_purge_of_all_keys_keeps_the_newest_of_each(memory: MemoryRules) -> None:
    fill(memory, "a", 3)
    fill(memory, "b", 1)
    fill(memory, "c", 2)
    answer = memory.purge(all_keys=True, keep=1)
    assert (answer.versions_deleted, answer.keys_affected) == (3, 2)
    assert [memory.versions(key) for key in "abc"] == [[3], [1], [2]]


def test_a_purge_leaves_other_scopes_alone(memory: MemoryRules) -> None:
    other = memory_pb2.Scope(name="s", type=2)
    fill(memory, "k", 2)
    memory.set("k", scope=other)
    memory.purge(all_keys=True)
    assert memory.versions() == []
    assert memory.versions(scope=other) == [1]


@pytest.mark.parametrize("keep", [0, 1])
def test_under_all_keys_a_deleted_key_is_passed_over(memory: MemoryRules, keep: int) -> None:
    fill(memory, "live", 2)
    fill(memory, "deleted", 2)
    memory.delete("deleted")
    answer = memory.purge(all_keys=True, keep=keep)
    assert answer.keys_affected == 1
    assert memory.versions("deleted") == [3, 2, 1]


@pytest.mark.parametrize("keep", [0, 1, 100])
def test_include_deleted_removes_a_deleted_key_whole(memory: MemoryRules, keep: int) -> None:
    fill(memory, "live", 2)
    fill(memory, "deleted", 2)
    memory.delete("deleted")
    answer = memory.purge(all_keys=True, keep=keep, include_deleted=True)
    assert memory.versions("deleted") == []
    assert len(memory.versions("live")) == min(keep, 2)
    assert answer.versions_deleted == 3 + 2 - min(keep, 2)
    assert memory.keys(include_deleted=True) == (["live"] if keep else [])


def test_a_purge_of_a_deleted_key_by_its_name_counts_as_of_any_other(memory: MemoryRules) -> None:
    fill(memory, "k", 2)
    memory.delete("k")
    memory.purge(key="k")
    assert memory.versions() == []
    assert memory.delete("k") is None


@pytest.mark.parametrize("purge", [{"key": "k"}, {"all_keys": True}, {"key": "k", "keep": 1}], ids=str)
def test_a_version_is_never_used_twice(memory: MemoryRules, purge: dict) -> None:
    fill(memory, "k", 3)
    memory.purge(**purge)
    assert memory.set("k").version == 4
    memory.purge(**purge)
    memory.purge(**purge)
    assert memory.set("k").version == 5


def test_a_version_is_never_used_twice_after_a_deleted_key_is_purged(memory: MemoryRules) -> None:
    fill(memory, "k", 2)
    memory.delete("k")
    memory.purge(all_keys=True, include_deleted=True)
    assert memory.set("k").version == 4


def test_a_purged_key_has_no_value(memory: MemoryRules) -> None:
    fill(memory, "k", 2)
    memory.purge(key="k")
    assert memory.get("k") is None
    assert list(memory.get_many("k").missing_keys) == ["k"]
    assert memory.keys(include_deleted=True) == []
    assert memory.scopes() == []


def test_every_purge_that_removed_something_leaves_one_record(world: World, memory: MemoryRules) -> None:
    fill(memory, "b", 3)
    fill(memory, "a", 2)
    fill(memory, "c", 1)
    memory.purge(all_keys=True, keep=1)
    world.pass_time(5)
    memory.purge(key="c")
    second, first = memory.purges().purges
    assert list(first.keys) == ["a", "b"]
    assert (first.versions_deleted, first.keep, first.keys_affected) == (3, 1, 2)
    assert (micros(first.create_time), first.scope.name, first.scope.type) == (START, "s", 1)
    assert list(second.keys) == ["c"]
    assert (second.versions_deleted, second.keep, second.keys_affected) == (1, 0, 1)
    assert micros(second.create_time) == START + 5_000_000


def test_a_purge_that_removed_nothing_leaves_no_record(memory: MemoryRules) -> None:
    fill(memory, "k", 1)
    memory.purge(key="k", keep=1)
    memory.purge(key="none")
    memory.purge(all_keys=True, keep=5)
    assert memory.purges().purges == []


def test_purge_records_are_no_keys(memory: MemoryRules) -> None:
    fill(memory, "k", 1)
    memory.purge(key="k")
    assert len(memory.purges().purges) == 1
    assert memory.keys(include_deleted=True) == []
    assert memory.scopes() == []
    assert memory.watched() == []
    assert memory.purge(all_keys=True, include_deleted=True) == memory_pb2.MemoryPurgeResponse()


def test_purges_are_listed_newest_first(memory: MemoryRules) -> None:
    for key in "abc":
        memory.set(key)
        memory.purge(key=key)
    assert [list(record.keys) for record in memory.purges().purges] == [["c"], ["b"], ["a"]]


def test_a_purge_record_of_very_many_keys_names_as_many_as_it_holds(memory: MemoryRules) -> None:
    keys = [f"{'x' * 500}{number:05}" for number in range(2500)]
    for key in keys:
        memory.set(key)
    assert memory.purge(all_keys=True).keys_affected == 2500
    record = memory.purges().purges[0]
    assert record.keys_affected == record.versions_deleted == 2500
    assert 1000 < len(record.keys) < 2500
    assert list(record.keys) == keys[: len(record.keys)]
    assert record.ByteSize() < memory.world.limits.record


def test_an_expired_version_is_none_that_a_purge_counts(world: World, memory: MemoryRules) -> None:
    memory.set("k")
    memory.set("k")
    memory.set("k", ttl=span(1))
    world.pass_time(1)
    answer = memory.purge(key="k", keep=1)
    assert answer.versions_deleted == 1
    assert memory.versions() == [2]
    assert memory.get("k") is None
    assert memory.set("k").version == 4


@pytest.mark.parametrize("swept", [False, True])
def test_a_purge_counts_the_same_before_and_after_a_sweep(world: World, memory: MemoryRules, swept: bool) -> None:
    for ttl in (None, 1, None, 1, 1):
        memory.set("k", ttl=span(ttl) if ttl else None)
    world.pass_time(1)
    assert world.sweep() == 3 if swept else True
    answer = memory.purge(all_keys=True, keep=1)
    assert (answer.versions_deleted, answer.keys_affected) == (1, 1)
    assert memory.versions() == [3]


def test_a_purge_under_all_keys_passes_over_a_deleted_key_whose_older_versions_expired(
    world: World, memory: MemoryRules
) -> None:
    memory.set("k", ttl=span(1))
    memory.delete("k")
    world.pass_time(1)
    assert memory.purge(all_keys=True) == memory_pb2.MemoryPurgeResponse()
    assert memory.purge(all_keys=True, include_deleted=True).versions_deleted == 1


def test_the_scope_of_a_purge_must_be_there_by_name(memory: MemoryRules) -> None:
    with invalid("scope.name"):
        memory.purge(scope=None, all_keys=True)
    assert memory.purge(scope=SCOPE, all_keys=True) == memory_pb2.MemoryPurgeResponse()
