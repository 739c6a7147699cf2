"""The contract's Memory: expiry is checked at every read, in absolute time."""

import pytest
from unit.rules_support import START, MemoryRules, World, micros, span


def test_a_version_is_there_until_its_ttl_ends_and_not_at_its_end(world: World, memory: MemoryRules) -> None:
    memory.set("k", ttl=span(10))
    world.now = START + 9_999_999
    assert memory.get("k").version == 1
    world.now = START + 10_000_000
    assert memory.get("k") is None


@pytest.mark.parametrize("swept", [False, True])
def test_an_expired_version_is_read_nowhere_any_more(world: World, memory: MemoryRules, swept: bool) -> None:
    memory.set("k", ttl=span(1))
    world.pass_time(1)
    if swept:
        world.sweep()
    assert memory.get("k") is None
    assert memory.get("k", version=1) is None
    assert memory.get("k", version=1, include_deleted=True) is None
    assert list(memory.get_many("k").missing_keys) == ["k"]
    assert memory.keys(include_deleted=True) == []
    assert memory.versions() == []
    assert memory.versions(oldest_first=True) == []
    assert memory.watched() == []
    assert memory.scopes() == []


@pytest.mark.parametrize("swept", [False, True])
def test_an_expired_newest_version_never_uncovers_an_older_one(world: World, memory: MemoryRules, swept: bool) -> None:
    memory.set("k", 1)
    memory.set("k", 2, ttl=span(1))
    world.pass_time(1)
    if swept:
        assert world.sweep() == 1
    assert memory.get("k") is None
    assert memory.keys() == []
    assert list(memory.get_many("k").missing_keys) == ["k"]
    assert memory.scopes() == []
    assert memory.get("k", version=1).value.json == "1"
    assert memory.versions() == [1]


@pytest.mark.parametrize("swept", [False, True])
def test_an_expired_older_version_leaves_the_newest_as_it_is(world: World, memory: MemoryRules, swept: bool) -> None:
    memory.set("k", 1, ttl=span(1))
    memory.set("k", 2)
    world.pass_time(1)
    if swept:
        assert world.sweep() == 1
    assert memory.get("k").value.json == "2"
    assert memory.get("k", version=1) is None
    assert memory.versions() == [2]


def test_setting_a_key_again_without_a_ttl_makes_it_permanent(world: World, memory: MemoryRules) -> None:
    memory.set("k", 1, ttl=span(1))
    entry = memory.set("k", 2)
    world.pass_time(10**9)
    world.sweep()
    assert not entry.HasField("expire_time")
    assert memory.get("k").value.json == "2"
    assert memory.scopes()[0].entry_count == 1


def test_setting_a_key_again_with_a_ttl_counts_from_then_on(world: World, memory: MemoryRules) -> None:
    memory.set("k", ttl=span(10))
    world.pass_time(5)
    assert micros(memory.set("k", ttl=span(10)).expire_time) == START + 15_000_000
    world.pass_time(9)
    assert memory.get("k").version == 2


def test_reading_a_key_does_not_make_it_live_longer(world: World, memory: MemoryRules) -> None:
    memory.set("k", ttl=span(10))
    for _ in range(9):
        world.pass_time(1)
        assert micros(memory.get("k").expire_time) == START + 10_000_000
    world.pass_time(1)
    assert memory.get("k") is None


def test_set_after_expiry_takes_the_next_version(world: World, memory: MemoryRules) -> None:
    for version in (1, 2, 3):
        assert memory.set("k", ttl=span(1)).version == version
        world.pass_time(1)
    world.sweep()
    assert memory.set("k").version == 4


def test_a_sweep_removes_each_expired_version_once_and_nothing_else(world: World, memory: MemoryRules) -> None:
    for ttl in (1, 2, 3):
        memory.set("k", ttl=span(ttl))
        memory.set(f"k{ttl}", ttl=span(ttl))
    memory.set("permanent")
    world.pass_time(2)
    assert world.sweep() == 4
    assert world.sweep() == 0
    assert memory.keys() == ["k", "k3", "permanent"]
    world.pass_time(1)
    assert world.sweep() == 2
    assert memory.keys() == ["permanent"]


def test_a_sweep_passes_over_what_was_purged(world: World, memory: MemoryRules) -> None:
    memory.set("k", ttl=span(1))
    memory.purge(key="k")
    world.pass_time(1)
    assert world.sweep() == 0


def test_a_tombstone_does_not_expire_with_its_key(world: World, memory: MemoryRules) -> None:
    memory.set("k", ttl=span(1))
    tombstone = memory.delete("k")
    world.pass_time(1)
    world.sweep()
    assert memory.get("k", include_deleted=True) == tombstone
    assert memory.versions() == [2]
    assert memory.delete("k") == tombstone


def test_a_clock_that_goes_back_keeps_order_and_versions(world: World, memory: MemoryRules) -> None:
    memory.set("k", 1)
    world.pass_time(-1000)
    memory.set("k", 2)
    world.pass_time(-1000)
    memory.set("k", 3)
    assert memory.get("k").value.json == "3"
    assert memory.versions() == [3, 2, 1]
    assert memory.watched() == [("k", 1), ("k", 2), ("k", 3)]


def test_a_version_that_expired_is_back_only_where_the_clock_is(world: World, memory: MemoryRules) -> None:
    memory.set("k", ttl=span(10))
    world.pass_time(10)
    assert memory.get("k") is None
    world.pass_time(-1)
    assert memory.get("k").version == 1


def test_an_expired_version_does_not_come_back_after_a_purge_took_what_was_above(
    world: World, memory: MemoryRules
) -> None:
    memory.set("k", 1)
    memory.set("k", 2, ttl=span(1))
    world.pass_time(1)
    world.sweep()
    memory.set("k", 3)
    memory.purge(key="k", keep=1)
    assert memory.versions() == [3]
    assert memory.get("k").value.json == "3"


def test_expiry_makes_no_cursor_invalid(world: World, memory: MemoryRules) -> None:
    first = memory.set("a", ttl=span(1))
    memory.set("b")
    world.pass_time(1)
    world.sweep()
    assert [entry.key for m in memory.watch(after_revision=first.revision).rest() for entry in m.entries] == ["b"]
    assert [entry.key for m in memory.watch(after_revision=0).rest() for entry in m.entries] == ["b"]
