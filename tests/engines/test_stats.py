"""What an engine tells of itself is what is in it."""

import pytest
from engines.engine_support import SAVED, New, Store, key
from statekeep_server.core.journal import PartitionState
from statekeep_server.engines import tally
from statekeep_server.engines.interface import Stats


@pytest.fixture(autouse=True)
def counted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "REST", 0)


def stats(store: Store) -> Stats:
    return store.run(store.engine.stats())


def kept(store: Store) -> tuple[dict[str, int], int]:
    told = stats(store)
    return dict(told.partitions), told.records


def test_an_empty_engine_has_nothing_and_can_be_written(store: Store) -> None:
    assert kept(store) == ({}, 0)
    assert stats(store).writable
    assert stats(store).expired == 0


def test_partitions_are_counted_by_kind_and_records_of_every_log(store: Store) -> None:
    store.append("t1", *[New() for _ in range(5)], New(SAVED), New("ebranch"))
    store.append("t2", New())
    store.append("m1", New(key("k")), New(key("k")), New(key("l")))
    assert kept(store) == ({"t": 2, "m": 1}, 11)


def test_reads_and_refused_writes_count_nothing(store: Store) -> None:
    store.look("t1", lambda view: view.revision)
    store.append("t2")
    assert kept(store) == ({}, 0)


def test_what_is_trimmed_or_dropped_counts_no_more(store: Store) -> None:
    made = store.append("m1", *[New(key("k")) for _ in range(6)])
    store.append("t1", *[New() for _ in range(4)])
    store.trim("m1", key("k"), *[record.revision for record in made[:5]])
    assert kept(store) == ({"m": 1, "t": 1}, 6)  # a version, the record of the purge, the events
    store.drop("t1")
    assert kept(store) == ({"m": 1}, 2)


def test_what_expired_counts_until_it_is_swept(store: Store) -> None:
    store.append("m1", *[New(key(f"k{number}"), expires=100) for number in range(3)], New(key("stays")))
    assert kept(store) == ({"m": 1}, 4)
    store.run(store.engine.sweep(1000))
    assert kept(store) == ({"m": 1}, 1)
    assert stats(store).expired == 3


def test_a_restored_partition_counts_and_one_that_is_being_restored_is_no_partition(store: Store) -> None:
    state = PartitionState(10, 12, 11, 1, 1)

    async def bring(finish: bool) -> None:
        restore = await store.engine.restore("t1", state)
        await restore.add(lambda view: ((), [New().at(11, 1), New().at(12, 2)]))
        if finish:
            assert await restore.finish()
        await restore.close()

    store.run(bring(finish=False))
    assert kept(store) == ({}, 0)
    store.run(bring(finish=True))
    assert kept(store) == ({"t": 1}, 2)


def test_bytes_grow_with_what_is_stored(store: Store) -> None:
    before = stats(store).bytes
    large = "x" * 100_000
    for _ in range(5):
        store.append("t1", New(text=large), New(text=large))
    assert stats(store).bytes - before >= 1_000_000
    if stats(store).commits is None:
        assert stats(store).bytes - before < 1_001_000
        store.drop("t1")
        assert stats(store).bytes == before


def test_an_engine_that_commits_counts_the_writes_of_each(store: Store) -> None:
    for _ in range(4):
        store.append("t1", New())
    commits = stats(store).commits
    if store.engine.name == "memory":
        assert commits is None
        return
    assert commits
    assert commits.sizes.total >= 4
    assert sum(commits.sizes.counts) == sum(commits.times.counts)
    assert commits.failed == 0


def test_the_name_is_the_one_in_the_stores_url_and_durable_what_outlives_the_process(store: Store) -> None:
    assert (store.engine.name, store.engine.durable) in {("memory", False), ("sqlite", True)}
