"""The sweeper: which threads are idle, what a clock that is set does to that, and what it says."""

import asyncio
import logging
import time

import pytest
from statekeep_server.core import state_store
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.journal import Limits
from statekeep_server.core.scratch import Scratch
from statekeep_server.engines.memory import MemoryEngine
from statekeep_server.sweeper import Ages, Sweeper, Swept
from unit.rules_support import SECOND, MemoryRules, ScratchRules, ThreadRules, World, span

THREAD = state_store.partition("t")
HOUR = 3600 * SECOND


def drop_idle(world: World, before: int) -> bool:
    return world.run(THREAD, lambda view: state_store.drop_idle(view, before))


def written_last(world: World) -> int:
    return world.look(THREAD, lambda view: view.update_time)


def test_a_thread_that_was_written_last_before_a_time_goes_whole(world: World, threads: ThreadRules) -> None:
    threads.append_next("e")
    threads.save("c")
    threads.fork("e", "draft")
    assert drop_idle(world, written_last(world) + 1)
    assert threads.threads() == []
    assert threads.ids() == threads.ids(branch_id="draft") == threads.checkpoint_ids() == []


def test_a_thread_that_was_written_since_stays(world: World, threads: ThreadRules) -> None:
    threads.append_next("e")
    assert not drop_idle(world, written_last(world))
    assert threads.ids() == ["e"]


def test_a_thread_that_is_not_there_is_not_dropped(world: World) -> None:
    assert not drop_idle(world, 2**62)
    assert world.partitions() == []


def test_ages_are_as_the_clock_says_where_nobody_sets_it() -> None:
    ages = Ages(HOUR, 100 * HOUR, 7 * HOUR)
    assert [ages.made_up(100 * HOUR + passed, 7 * HOUR + passed) for passed in (0, SECOND, HOUR, 50 * HOUR)] == [0] * 4


def test_a_clock_that_is_set_back_makes_nothing_older() -> None:
    ages = Ages(HOUR, 100 * HOUR, 0)
    assert ages.made_up(90 * HOUR, SECOND) == 0


def test_a_clock_that_is_set_forward_makes_up_as_much_of_an_age_until_that_has_passed() -> None:
    ages = Ages(HOUR, 100 * HOUR, 0)
    assert ages.made_up(110 * HOUR, 0) == 10 * HOUR
    assert ages.made_up(112 * HOUR + HOUR // 2, HOUR // 2) == 12 * HOUR
    assert ages.made_up(113 * HOUR, HOUR) == 2 * HOUR
    assert ages.made_up(113 * HOUR + HOUR // 2, HOUR + HOUR // 2) == 0


def test_a_clock_that_drifts_makes_up_nothing() -> None:
    ages = Ages(HOUR, 0, 0)
    assert [ages.made_up(passed * 1_001, passed * 1_000) for passed in range(0, 10**6, 10**5)] == [0] * 10


def test_what_was_removed_is_said_in_words_and_counted() -> None:
    total = Swept()
    assert not total
    total.add(Swept(expired=2, reclaimed=3 * 2**20))
    total.add(Swept(expired=1, versions=7, threads=5, instances=4))
    assert total == Swept(3, 7, 5, 4, 3 * 2**20)
    assert str(total) == (
        "expired records: 3, versions over the limit: 7, idle threads: 5, unused scratch instances: 4,"
        " room given back: 3.0 MiB"
    )
    assert str(Swept(threads=1)) == "idle threads: 1"


class Ailing(MemoryEngine):
    """An engine that fails the first part of its first sweep."""

    sweeps = 0

    async def sweep(self, now: int) -> int:
        """Fail once, then sweep."""
        self.sweeps += 1
        if self.sweeps == 1:
            raise StatekeepError(Reason.STORE_UNAVAILABLE, "The store is ill")
        return await super().sweep(now)


def test_one_line_says_what_a_sweep_removed_and_a_part_that_fails_stops_no_other_and_is_made_again(
    world: World, threads: ThreadRules, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    engine = world.engine = Ailing()
    for thread in ("a", "b"):
        threads.append_next(thread_id=thread)
    sweeper = Sweeper(engine, Scratch(0), Limits(), thread_ttl=0.02, every=0.01)

    async def sweep() -> None:
        sweeping = asyncio.create_task(sweeper.run())
        for _ in range(2_000):
            if engine.sweeps > 3 and sweeper.total.threads == 2:
                break
            await asyncio.sleep(0.01)
        sweeping.cancel()

    asyncio.run(sweep())
    assert sweeper.total == Swept(threads=2)
    said = [record.getMessage() for record in caplog.records if record.name == "statekeep_server.sweeper"]
    assert said.count("a part of the sweep failed, and is tried again in 0.01 s: The store is ill") == 1
    assert sum(line.startswith("swept ") for line in said) in (1, 2)
    assert {line for line in said if line.startswith("swept ")} <= {"swept idle threads: 1", "swept idle threads: 2"}


def test_a_sweep_stops_when_its_time_is_over_and_the_next_goes_on(
    world: World, threads: ThreadRules, memory: MemoryRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statekeep_server.sweeper.LONGEST", -1.0)
    for number in range(150):
        threads.append_next(thread_id=f"t{number}")
        memory.set(f"k{number}", 1)
        memory.set(f"k{number}", 2)
    sweeper = Sweeper(world.engine, Scratch(0), Limits(max_versions=1), thread_ttl=1)
    later, steady = time.time_ns() // 1000 + HOUR, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000 + HOUR
    for gone in (64, 64, 22, 0):
        swept = Swept()
        asyncio.run(sweeper.sweep(later, steady, swept))
        assert swept == Swept(versions=gone, threads=gone)


def test_unused_scratch_instances_go_and_are_counted(world: World) -> None:
    scratch = ScratchRules(world, idle_ttl=1.0)
    scratch.put()
    world.pass_time(2)
    swept = Swept()
    asyncio.run(Sweeper(world.engine, scratch.rules, Limits()).sweep(world.now, 0, swept))
    assert swept == Swept(instances=1)
    assert scratch.keys() == []


def test_expired_records_are_counted(world: World, memory: MemoryRules) -> None:
    memory.set("k", ttl=span(1))
    memory.set("k", ttl=span(1))
    world.pass_time(2)
    swept = Swept()
    asyncio.run(Sweeper(world.engine, Scratch(0), Limits()).sweep(world.now, 0, swept))
    assert swept == Swept(expired=2)
