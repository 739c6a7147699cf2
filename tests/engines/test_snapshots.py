"""Engine: snapshots, which stay as they were, and restores, which come in whole or not at all."""

import asyncio

import pytest
from engines.engine_support import MAIN, NEVER, SAVED, New, Store, key
from statekeep_server.core.journal import KEY, LogState, PartitionState, Record, View
from statekeep_server.engines import Engine
from statekeep_server.engines.interface import Snapshot

STATE = PartitionState(life=100, revision=130, oldest=101, create_time=5_000, update_time=6_000)


def snapshot_of(store: Store, partition: str = "p") -> Snapshot:
    found = store.run(store.engine.snapshot(partition))
    assert found is not None
    return found


def all_records(store: Store, snapshot: Snapshot, size: int = 1) -> list[Record]:
    found: list[Record] = []
    while page := store.run(snapshot.records(size)):
        found += page
    return found


def all_logs(store: Store, snapshot: Snapshot, count: int = 1) -> list[LogState]:
    found: list[LogState] = []
    while page := store.run(snapshot.logs(count)):
        assert len(page) <= count
        found += page
    return found


def plain(record: Record) -> tuple[str, int, int, bytes]:
    """Return what every engine gives back of a record: the id of an event may be in its frame alone."""
    return record.log, record.revision, record.number, record.frame


def state_of(view: View) -> PartitionState:
    return PartitionState(view.life, view.revision, view.oldest, view.create_time, view.update_time)


def restored(
    store: Store, state: PartitionState, logs: list[LogState], *records: Record, name: str = "p", by: int = 1
) -> bool:
    """Restore a partition, so many records at a time, and return whether it was put in its place."""

    async def restore() -> bool:
        restore = await store.engine.restore(name, state)
        try:
            await restore.add(lambda view: (logs, []))
            for start in range(0, len(records), by):
                await restore.add(lambda view, start=start: ([], records[start : start + by]))  # type: ignore[misc]
            return await restore.finish()
        finally:
            await restore.close()

    return store.run(restore())


def test_there_is_no_snapshot_of_what_is_not_there(store: Store) -> None:
    assert store.run(store.engine.snapshot("p")) is None
    store.append("p", New())
    store.drop("p")
    assert store.run(store.engine.snapshot("p")) is None
    assert store.partitions() == []


@pytest.mark.parametrize("size", [1, 300, 10**6])
def test_a_snapshot_has_the_records_of_all_logs_in_order_of_revision(store: Store, size: int) -> None:
    made = []
    for number in range(50):
        made += store.append("p", New(id=f"e{number}"), New(key("k")), New(SAVED, id=f"c{number}"), New("ebranch"))
    snapshot = snapshot_of(store)
    found = all_records(store, snapshot, size)
    assert [plain(record) for record in found] == [plain(record) for record in made]
    assert snapshot.state == store.look("p", state_of)
    assert all_logs(store, snapshot) == []


def test_a_page_has_about_as_many_bytes_as_were_asked_for(store: Store) -> None:
    store.append("p", *[New(text="x" * 1000)] * 100)
    snapshot = snapshot_of(store)
    sizes = []
    while page := store.run(snapshot.records(10_000)):
        sizes.append(sum(len(record.frame) for record in page))
    assert len(sizes) >= 10
    assert max(sizes) <= 12_000


def test_a_snapshot_stays_as_it_was(store: Store) -> None:
    made = store.append("p", *[New(key("k"))] * 10, *[New(SAVED, id=f"c{n}") for n in range(10)], *[New()] * 10)
    before = store.look("p", state_of)
    snapshot = snapshot_of(store)
    first = store.run(snapshot.records(1))
    store.trim("p", key("k"), *[record.revision for record in made[:9]], oldest=made[5].revision)
    store.append("p", *[New()] * 500, New("eanother"), New(key("new")))
    rest = all_records(store, snapshot)
    assert [plain(record) for record in (*first, *rest)] == [plain(record) for record in made]
    assert snapshot.state == before
    assert all_logs(store, snapshot) == []


def test_a_snapshot_outlives_its_partition(store: Store) -> None:
    made = store.append("p", *[New(key("k"))] * 3, *[New()] * 3)
    snapshot = snapshot_of(store)
    store.drop("p")
    store.append("p", New())
    assert [record.revision for record in all_records(store, snapshot)] == [record.revision for record in made]


def test_a_snapshot_tells_of_the_logs_that_lost_records(store: Store) -> None:
    made = store.append("p", *[New(key("a"))] * 3, *[New(key("b"))] * 2, New(key("c")), New(SAVED, number=0, id="c"))
    store.trim("p", key("a"), made[0].revision, made[1].revision)
    store.trim("p", key("b"), made[3].revision, made[4].revision)
    store.trim("p", SAVED, made[6].revision)
    assert all_logs(store, snapshot_of(store)) == [
        LogState(SAVED, 0, made[6].revision),
        LogState(key("a"), 2, made[0].revision),
        LogState(key("b"), 2, made[3].revision),
    ]


def test_a_restored_partition_has_the_state_and_the_records_it_was_given(store: Store) -> None:
    records = [
        New(key("k")).at(103, 3),
        New(id="e1").at(110, 1),
        New(key("k"), expires=NEVER).at(111, 4),
        New(SAVED, id="c").at(112, 7),
        New(id="e2").at(120, 2),
    ]
    assert restored(store, STATE, [LogState(key("k"), 2, 101), LogState(key("gone"), 9, 102)], *records)
    assert store.look("p", state_of) == STATE
    assert store.look("p", lambda view: list(view.scan(MAIN)))[0].frame == records[1].frame
    assert store.look("p", lambda view: [one.revision for one in view.journal(KEY, 0)]) == [103, 111]
    assert store.look("p", lambda view: [one.revision for one in view.journal(SAVED[0], 0)]) == [112]
    assert store.look("p", lambda view: view.head(key("k"))) == records[2]
    assert store.look("p", lambda view: (view.number(key("gone")), view.head(key("gone")))) == (9, None)
    assert store.look("p", lambda view: (view.born(key("k")), view.born(MAIN))) == (101, 110)
    assert store.look("p", lambda view: view.find(MAIN, "e2") is not None)
    assert store.look("p", lambda view: view.live("k", 0)) == 1
    assert store.look("p", lambda view: list(view.logs(""))) == [SAVED, MAIN, key("gone"), key("k")]
    assert store.partitions() == ["p"]


def test_a_restored_partition_goes_on_from_its_revision(store: Store) -> None:
    restored(store, STATE, [LogState(key("k"), 5, 101)], New().at(110, 1))
    assert [record.revision for record in store.append("p", New(), New(key("k")))] == [131, 132]
    assert store.look("p", lambda view: view.upto(key("k"), NEVER)).number == 6  # type: ignore[union-attr]


def test_a_key_whose_newest_version_was_removed_has_no_head_after_a_restore_either(store: Store) -> None:
    restored(store, STATE, [LogState(key("k"), 5, 101)], New(key("k")).at(110, 4))
    assert store.look("p", lambda view: (view.head(key("k")), view.number(key("k")))) == (None, 5)
    assert store.look("p", lambda view: view.live("k", 0)) == 0


def test_a_restored_value_still_expires(store: Store) -> None:
    restored(store, STATE, [], New(key("k"), expires=1_000).at(110, 1))
    assert store.sweep(999) == 0
    assert store.sweep(1_000) == 1
    assert store.look("p", lambda view: view.number(key("k"))) == 1


def test_nobody_sees_a_partition_before_it_is_whole(store: Store) -> None:
    async def halfway() -> None:
        restore = await store.engine.restore("p", STATE)
        await restore.add(lambda view: ([], [New().at(110, 1)]))
        assert await store.engine.partitions("", "", 10) == []
        assert not await store.engine.read("p", lambda view: view.exists)
        await restore.close()
        assert await store.engine.partitions("", "", 10) == []

    store.run(halfway())
    assert store.append("p", New())[0].number == 1


def test_a_restore_sees_what_was_added_to_it_before(store: Store) -> None:
    async def look() -> list[object]:
        seen: list[object] = []
        restore = await store.engine.restore("p", STATE)
        await restore.add(lambda view: ([LogState(key("k"), 3, 101)], [New(id="e").at(110, 1)]))

        def decide(view: View) -> tuple[list[LogState], list[Record]]:
            seen[:] = [view.find(MAIN, "e") is not None, view.born(key("k")), view.upto(key("k"), NEVER)]
            return [], []

        await restore.add(decide)
        await restore.close()
        return seen

    assert store.run(look()) == [True, 101, None]


def test_a_decision_that_fails_adds_nothing_and_leaves_the_restore_usable(store: Store) -> None:
    async def restore() -> bool:
        restore = await store.engine.restore("p", STATE)
        with pytest.raises(ZeroDivisionError):
            await restore.add(lambda view: ([], [New().at(1 // 0, 1)]))
        await restore.add(lambda view: ([], [New().at(110, 1)]))
        return await restore.finish()

    assert store.run(restore())
    assert store.look("p", lambda view: view.count(MAIN)) == 1


def test_a_restore_does_not_take_the_place_of_what_came_meanwhile(store: Store) -> None:
    async def late() -> bool:
        restore = await store.engine.restore("p", STATE)
        await restore.add(lambda view: ([], [New().at(110, 1)]))
        await asyncio.to_thread(lambda: None)
        return await restore.finish()

    store.append("p", New(id="mine"))
    before = store.look("p", state_of)
    assert store.run(late()) is False
    assert store.look("p", state_of) == before
    assert store.look("p", lambda view: view.count(MAIN)) == 1


def test_of_two_restores_of_one_name_the_first_that_is_finished_stays(store: Store) -> None:
    async def both() -> tuple[bool, bool]:
        one = await store.engine.restore("p", STATE)
        two = await store.engine.restore("p", STATE._replace(life=50))
        await one.add(lambda view: ([], [New().at(110, 1)]))
        await two.add(lambda view: ([], [New().at(111, 1)]))
        answers = await two.finish(), await one.finish()
        await one.close()
        await two.close()
        return answers

    assert store.run(both()) == (True, False)
    assert store.look("p", lambda view: (view.life, [one.revision for one in view.scan(MAIN)])) == (50, [111])


def test_a_bell_rings_when_a_restored_partition_comes_in(engine: Engine, runner: asyncio.Runner) -> None:
    async def wait() -> bool:
        bell = engine.bell("p")
        restore = await engine.restore("p", STATE)
        await restore.add(lambda view: ([], [New().at(110, 1)]))
        assert not await bell.wait(0)
        await restore.finish()
        rang = await bell.wait(5)
        bell.close()
        return rang

    assert runner.run(wait())


def test_a_life_after_a_restored_one_lies_above_it(store: Store) -> None:
    ahead = 2**52
    restored(store, STATE._replace(life=ahead, revision=ahead + 10, oldest=ahead + 1), [], New().at(ahead + 2, 1))
    store.drop("p")
    assert store.append("p", New())[0].revision > ahead + 10
