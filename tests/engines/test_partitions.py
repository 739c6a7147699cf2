"""Engine: partitions, their lives, and their listing."""

import asyncio
import gc
import random
import time
import tracemalloc

import pytest
from engines.engine_support import MAIN, NEVER, SAVED, New, Store, key, records
from statekeep_server.core.journal import KEY, Change, View
from statekeep_server.engines import NAMES, open_engine
from statekeep_server.engines.memory import MemoryEngine


def test_every_form_of_store_that_is_named_is_taken() -> None:
    assert NAMES == ("memory:", "sqlite:PATH")
    assert open_engine("memory:") is not open_engine("memory:")


@pytest.mark.parametrize("store", ["", "memory", "memory:x", "postgres://db", "{x}"])
def test_an_unknown_store_is_refused_with_those_there_are(store: str) -> None:
    with pytest.raises(ValueError, match=r"there is no store .* there is: memory:") as refusal:
        open_engine(store)
    assert repr(store) in str(refusal.value)
    assert all(name in str(refusal.value) for name in NAMES)


def everything(view: View) -> list[object]:
    """Return all that a view says."""
    return [
        view.exists,
        view.life,
        view.revision,
        view.oldest,
        view.head(key("k")),
        view.upto(SAVED, NEVER),
        view.find(MAIN, "e"),
        view.find(SAVED, "c"),
        view.number(MAIN),
        view.count(MAIN),
        view.born(MAIN),
        view.live("k", 0),
        list(view.scan(MAIN)),
        list(view.scan(SAVED, newest_first=True)),
        view.chunk(MAIN, 0, NEVER),
        view.back(MAIN, 5, 7),
        list(view.logs("")),
        list(view.journal("k", 0)),
    ]


NOTHING = [False, 0, 0, 0, None, None, None, None, 0, 0, 0, 0, [], [], None, (0, 7), [], []]


def test_the_view_of_an_unknown_partition_is_empty(store: Store) -> None:
    assert store.look("p", everything) == NOTHING


def test_the_view_of_an_unknown_log_in_a_partition_is_empty(store: Store) -> None:
    store.append("p", New("p"))
    assert store.look("p", everything)[4:10] == [None, None, None, None, 0, 0]
    assert store.look("p", lambda view: view.chunk(MAIN, 0, NEVER)) is None
    assert store.look("p", lambda view: list(view.scan(MAIN))) == []


def test_a_first_write_sees_a_life_that_holds_nothing(store: Store) -> None:
    def decide(view: View) -> Change[tuple[bool, bool, int, int]]:
        made = records(view, [New()])
        return Change((view.exists, view.life > 0, view.revision, made[0].revision), made)

    exists, has_life, revision, first = store.write("p", decide)
    assert (exists, has_life) == (False, True)
    assert first == revision + 1
    assert store.look("p", lambda view: (view.exists, view.revision)) == (True, first)


def test_revisions_go_on_one_by_one(store: Store) -> None:
    made = [record.revision for _ in range(3) for record in store.append("p", New(), New(key("k")))]
    assert made == list(range(made[0], made[0] + 6))
    assert store.look("p", lambda view: view.revision) == made[-1]


def test_the_oldest_cursor_of_a_new_partition_is_its_first_revision(store: Store) -> None:
    first = store.append("p", New(), New())[0].revision
    assert store.look("p", lambda view: view.oldest) == first


def test_the_oldest_cursor_moves_up_only(store: Store) -> None:
    made = store.append("p", *[New(key("k"))] * 4)
    oldest = made[0].revision + 3
    store.trim("p", key("k"), made[0].revision, oldest=oldest)
    assert store.look("p", lambda view: view.oldest) == oldest
    store.trim("p", key("k"), made[1].revision, oldest=oldest - 2)
    store.trim("p", key("k"), made[2].revision)
    assert store.look("p", lambda view: view.oldest) == oldest


def test_times_are_of_the_first_and_the_newest_record(store: Store) -> None:
    before = time.time_ns() // 1000
    store.append("p", New())
    created, updated = store.look("p", lambda view: (view.create_time, view.update_time))
    assert before <= created <= updated <= time.time_ns() // 1000
    while time.time_ns() // 1000 <= updated:
        pass
    store.append("p", New())
    assert store.look("p", lambda view: view.create_time) == created
    assert store.look("p", lambda view: view.update_time) > updated


def test_a_write_returns_its_answer(store: Store) -> None:
    assert store.write("p", lambda view: Change("nothing written")) == "nothing written"
    assert store.write("p", lambda view: Change("written", records(view, [New()]))) == "written"


def failing(view: View) -> Change[None]:
    records(view, [New(), New(key("k"))])
    raise LookupError("refused")


def test_a_decision_that_fails_leaves_nothing(store: Store) -> None:
    with pytest.raises(LookupError, match="refused"):
        store.write("p", failing)
    assert store.partitions() == []
    assert store.look("p", everything) == NOTHING


def test_a_decision_that_fails_leaves_a_partition_as_it_was(store: Store) -> None:
    store.append("p", New(), New(key("k")), New(SAVED, id="c"))
    before = store.look("p", everything)
    with pytest.raises(LookupError, match="refused"):
        store.write("p", failing)
    assert store.look("p", everything) == before
    assert store.append("p", New())[0].number == 2


def test_a_decision_that_changes_nothing_leaves_nothing(store: Store) -> None:
    assert store.write("p", lambda view: Change(view.exists)) is False
    assert store.partitions() == []
    store.append("p", New())
    before = store.look("p", everything)
    assert store.write("p", lambda view: Change(view.exists)) is True
    assert store.look("p", everything) == before


def test_a_query_that_fails_raises_what_it_raised(store: Store) -> None:
    store.append("p", New())
    for partition in ("p", "none"):
        with pytest.raises(LookupError, match="asked"):
            store.look(partition, lambda view: (_ for _ in ()).throw(LookupError("asked")))


def test_a_dropped_partition_is_gone_whole(store: Store) -> None:
    store.append("p", New(id="e"), New(SAVED, id="c"), New(key("k")))
    assert store.drop("p") == 1
    assert store.look("p", everything) == NOTHING
    assert store.partitions() == []


def test_dropping_what_is_not_there_is_nothing(store: Store) -> None:
    assert store.drop("p") == 0
    assert store.partitions() == []


def test_a_partition_that_begins_again_has_another_life_above_all_it_had(store: Store) -> None:
    lives, revisions = [], []
    for _ in range(100):
        revisions += [record.revision for record in store.append("p", *[New()] * 5)]
        lives.append(store.look("p", lambda view: view.life))
        assert store.look("p", lambda view: view.oldest) == revisions[-5]
        assert store.look("p", lambda view: view.count(MAIN)) == 5
        store.drop("p")
    assert len(set(lives)) == 100
    assert revisions == sorted(set(revisions))


@pytest.mark.parametrize("hours", [0, 1])
def test_a_life_lies_above_the_ones_before_it_also_where_the_clock_stands_still_or_goes_back(
    store: Store, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    old = store.append("p", *[New()] * 1000)
    store.append("other", New())
    store.drop("p")
    monkeypatch.setattr(time, "time_ns", lambda: now - hours * 3600 * 10**9)
    new = store.append("p", New())
    assert new[0].revision > old[-1].revision
    assert store.look("p", lambda view: view.oldest) > old[-1].revision
    assert store.look("p", lambda view: view.life) != store.look("other", lambda view: view.life)


def test_lives_of_partitions_that_begin_at_once_differ(store: Store) -> None:
    for number in range(500):
        store.append(f"p{number}", New())
    assert len({store.look(f"p{number}", lambda view: view.life) for number in range(500)}) == 500


def test_a_partitions_records_are_its_own(store: Store) -> None:
    store.append("p", New(id="e"))
    store.append("p2", New(id="f"))
    assert store.look("p", lambda view: view.find(MAIN, "f")) is None
    assert store.look("p2", lambda view: view.count(MAIN)) == 1


NAMES_OF_ALL_KINDS = ["a", "a\x001", "a\x002", "a-", "a/", "ab", "b", "_", "%", "é", "\uffff", "\U0001f4be", "A", "a_"]


def test_partitions_are_listed_sorted_by_code_point(store: Store) -> None:
    for name in NAMES_OF_ALL_KINDS:
        store.append(name, New())
    assert store.partitions() == sorted(NAMES_OF_ALL_KINDS)


@pytest.mark.parametrize("prefix", ["a", "a\x00", "_", "%", "é", "\U0001f4be", "zz", "", "b"])
def test_partitions_are_listed_by_a_literal_prefix(store: Store, prefix: str) -> None:
    for name in NAMES_OF_ALL_KINDS:
        store.append(name, New())
    assert store.partitions(prefix) == sorted(name for name in NAMES_OF_ALL_KINDS if name.startswith(prefix))


@pytest.mark.parametrize("after", ["", "a", "a\x00", "a\x001", "aa", "b", "\U0001f4be", "\U0010ffff"])
@pytest.mark.parametrize("prefix", ["", "a", "b"])
def test_partitions_are_listed_after_a_name(store: Store, prefix: str, after: str) -> None:
    for name in NAMES_OF_ALL_KINDS:
        store.append(name, New())
    expected = sorted(name for name in NAMES_OF_ALL_KINDS if name.startswith(prefix) and name > after)
    assert store.partitions(prefix, after) == expected
    assert store.partitions(prefix, after, 2) == expected[:2]


def test_thousands_of_partitions_stay_sorted_as_they_come_and_go(store: Store) -> None:
    names = [f"p{number:05}" for number in range(3000)]
    shuffled = random.Random(1).sample(names, len(names))
    for name in shuffled:
        store.append(name, New())
    assert store.partitions() == names
    gone = set(shuffled[:2500])
    for name in shuffled[:2500]:
        store.drop(name)
    assert store.partitions() == [name for name in names if name not in gone]
    assert (
        store.partitions("p00", after="p00100", limit=3)
        == [name for name in names if name not in gone and name > "p00100"][:3]
    )


def test_very_many_reads_of_unknown_names_create_nothing(store: Store) -> None:
    store.append("p", New(id="e"))

    async def read_unknown(first: int, last: int) -> int:
        found = 0
        for number in range(first, last):
            name = f"none{number}"
            found += await store.engine.read(name, lambda view: view.count(MAIN))
            found += await store.engine.read("p", lambda view, name=name: view.count(f"e{name}"))
            found += await store.engine.read("p", lambda view, name=name: view.find(MAIN, name) is not None)
        return found

    count = 50_000 if isinstance(store.engine, MemoryEngine) else 5_000  # a read of a file takes longer
    store.run(read_unknown(0, 100))
    gc.collect()
    tracemalloc.start()
    try:
        assert store.run(read_unknown(100, 100 + count)) == 0
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 100_000
    assert store.partitions() == ["p"]
    assert store.look("p", lambda view: list(view.logs(""))) == [MAIN]


def test_close_may_be_called_twice(store: Store) -> None:
    store.append("p", New())
    store.run(store.engine.close())
    store.run(store.engine.close())


def test_a_sweep_of_very_many_in_one_partition_lets_others_go_first(store: Store) -> None:
    count = 20_000
    store.append("p", *[New(key(f"key-{number}"), expires=10) for number in range(count)])

    async def sweep() -> tuple[int, int]:
        turns = 0
        sweeping = asyncio.ensure_future(store.engine.sweep(10))
        while not sweeping.done():
            turns += 1
            await asyncio.sleep(0)
        return await sweeping, turns

    removed, turns = store.run(sweep())
    assert removed == count
    assert turns > 10
    assert store.look("p", lambda view: view.live(KEY, 0)) == 0
    assert store.sweep(10) == 0
