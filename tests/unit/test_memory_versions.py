"""How many versions a key keeps, where that is limited."""

from dataclasses import replace

import pytest
from statekeep.v1 import memory_pb2
from statekeep_server.core import memory as rules
from statekeep_server.core.errors import Reason
from statekeep_server.core.journal import KEY
from unit.rules_support import SCOPE, MemoryRules, World, a_set, refused, span


def keep(world: World, versions: int) -> None:
    world.limits = replace(world.limits, max_versions=versions)


def fill(memory: MemoryRules, key: str, versions: int) -> None:
    for content in range(versions):
        memory.set(key, content)


def trim(world: World, key: str = "k") -> int:
    """Do what the sweeper does for a key, and return how many versions went."""
    partition, log, removed = rules.partition(SCOPE), KEY + key, 0
    for _ in range(1_000):
        gone = world.run(partition, lambda view: rules.trim_versions(view, log, world.call))
        if not gone:
            return removed
        removed += gone
    raise AssertionError("it does not come to an end")


@pytest.mark.parametrize("versions", [1, 2, 3, 7])
def test_every_write_leaves_exactly_the_newest_versions(world: World, memory: MemoryRules, versions: int) -> None:
    keep(world, versions)
    for number in range(1, 10):
        assert memory.set("k", number).version == number
        assert memory.versions() == list(range(number, max(0, number - versions), -1))
        assert memory.get("k").value.json == str(number)


def test_without_a_limit_all_versions_stay(memory: MemoryRules) -> None:
    fill(memory, "k", 30)
    assert len(memory.versions()) == 30


def test_a_trimmed_version_reads_as_unset(world: World, memory: MemoryRules) -> None:
    keep(world, 2)
    fill(memory, "k", 4)
    assert [memory.get("k", version=number) is not None for number in range(1, 5)] == [False, False, True, True]


def test_a_tombstone_counts_as_a_version(world: World, memory: MemoryRules) -> None:
    keep(world, 2)
    fill(memory, "k", 2)
    assert memory.delete("k").version == 3
    assert memory.versions() == [3, 2]
    assert memory.delete("k").version == 3
    assert memory.versions() == [3, 2]


def test_where_one_version_stays_a_deleted_key_keeps_its_tombstone_alone(world: World, memory: MemoryRules) -> None:
    keep(world, 1)
    fill(memory, "k", 2)
    memory.delete("k")
    assert memory.versions() == [3]
    assert memory.get("k") is None
    assert memory.set("k").version == 4
    assert memory.versions() == [4]


def test_a_batch_trims_each_of_its_keys(world: World, memory: MemoryRules) -> None:
    keep(world, 2)
    for content in range(5):
        memory.set_many(a_set("a", content), a_set("b", content), request_id=f"r{content}")
    assert memory.versions("a") == memory.versions("b") == [5, 4]


def test_a_refused_batch_trims_none(world: World, memory: MemoryRules) -> None:
    keep(world, 2)
    fill(memory, "a", 2)
    with refused(Reason.VERSION_MISMATCH):
        memory.set_many(a_set("a"), a_set("b", expected_version=7))
    assert memory.versions("a") == [2, 1]


def test_a_write_that_is_sent_again_trims_nothing_more(world: World, memory: MemoryRules) -> None:
    keep(world, 2)
    fill(memory, "k", 2)
    first = memory.set("k", 3, request_id="r")
    revision = memory.revision()
    assert memory.set("k", 3, request_id="r") == first
    assert memory.versions() == [3, 2]
    assert memory.revision() == revision


def test_expired_versions_do_not_count(world: World, memory: MemoryRules) -> None:
    keep(world, 2)
    memory.set("k", 1)
    memory.set("k", 2, ttl=span(1))
    world.pass_time(1)
    memory.set("k", 3)
    assert memory.versions() == [3, 1]
    assert world.sweep() == 1
    memory.set("k", 4)
    assert memory.versions() == [4, 3]


def test_no_purge_record_tells_of_it_and_a_purge_afterwards_removes_nothing(world: World, memory: MemoryRules) -> None:
    keep(world, 3)
    fill(memory, "k", 5)
    assert not memory.purges().purges
    assert memory.purge(key="k", keep=3) == memory_pb2.MemoryPurgeResponse()


def test_cursors_stay_valid_and_a_watch_misses_only_what_was_replaced(world: World, memory: MemoryRules) -> None:
    keep(world, 2)
    memory.set("other")
    first = memory.set("k", 1)
    stream = memory.watch(after_revision=first.revision)
    assert stream.rest()[-1].caught_up
    fill(memory, "k", 4)
    assert [entry.version for message in stream.rest() for entry in message.entries] == [4, 5]
    assert memory.watched(after_revision=first.revision) == [("k", 4), ("k", 5)]
    assert memory.watched() == [("other", 1), ("k", 4), ("k", 5)]


def test_a_history_that_began_before_shows_no_more_than_there_were(world: World, memory: MemoryRules) -> None:
    keep(world, 3)
    for _ in range(3):
        memory.set("k", "x" * 200_000)
    stream = memory.history_stream(oldest_first=True, include_values=True)
    seen = [entry.version for entry in stream.step().entries]
    memory.set("k", "y")
    seen += [entry.version for message in stream.rest() for entry in message.entries]
    assert seen == [1, 2, 3]


def test_a_sweep_trims_what_was_written_without_the_limit(world: World, memory: MemoryRules) -> None:
    fill(memory, "k", 5)
    keep(world, 3)
    revision = memory.revision()
    assert trim(world) == 2
    assert memory.versions() == [5, 4, 3]
    assert trim(world) == 0
    assert memory.revision() == revision
    assert memory.watched(after_revision=revision) == []


def test_a_sweep_trims_very_many_versions_in_steps(world: World, memory: MemoryRules) -> None:
    fill(memory, "k", 2_503)
    keep(world, 3)
    partition = rules.partition(SCOPE)
    assert world.run(partition, lambda view: rules.trim_versions(view, KEY + "k", world.call)) == 1_000
    assert trim(world) == 1_500
    assert memory.versions() == [2_503, 2_502, 2_501]


def test_a_sweep_trims_large_versions_in_steps(world: World, memory: MemoryRules) -> None:
    for _ in range(12):
        memory.set("k", "x" * 3 * 2**20)
    keep(world, 2)
    partition = rules.partition(SCOPE)
    assert world.run(partition, lambda view: rules.trim_versions(view, KEY + "k", world.call)) == 6
    assert trim(world) == 4
    assert memory.versions() == [12, 11]


def test_a_sweep_of_a_key_that_is_not_there_does_nothing(world: World, memory: MemoryRules) -> None:
    keep(world, 1)
    assert trim(world, "none") == 0
    assert world.partitions() == []


def test_a_write_at_the_limit_of_its_scope_goes_on_where_an_old_version_makes_room(
    world: World, memory: MemoryRules
) -> None:
    world.limits = replace(world.limits, max_versions=2, scope_versions=3)
    fill(memory, "k", 2)
    memory.set("l", 1)
    assert memory.set("k", 3).version == 3
    assert memory.versions() == [3, 2]
    with refused(Reason.LIMIT_REACHED) as refusal:
        memory.set("m", 1)
    assert refusal.value.metadata == {"limit": "versions of a scope", "max": "3"}


def test_one_change_trims_to_one_bound_however_many_keys_it_has(world: World, memory: MemoryRules) -> None:
    for key in ("k", "l", "m"):
        fill(memory, key, 700)
    keep(world, 1)
    memory.set_many(*[a_set(key) for key in ("k", "l", "m")])
    left = [len(memory.versions(key)) for key in ("k", "l", "m")]
    assert left == [1, 401, 700]  # of each at least as many go as come
    assert [trim(world, key) for key in ("k", "l", "m")] == [0, 400, 699]


def test_what_makes_room_in_memory_is_not_refused_where_memory_is_full(world: World, memory: MemoryRules) -> None:
    keep(world, 1)
    memory.set("k", "x" * 1000)
    world.room = 0
    assert memory.set("k", "x").version == 2
    with refused(Reason.LIMIT_REACHED):
        memory.set("k", "x" * 1000)
