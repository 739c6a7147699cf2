"""View: what a log says of its records, held to a plain list of them."""

import random

import pytest
from engines.engine_support import MAIN, NEVER, SAVED, New, Store, key, records
from statekeep_server.core.journal import BRANCHES, KEY, PURGES, REQUESTS, Change, Record, View

RECORD_LOGS = [key("k"), SAVED, BRANCHES, PURGES, REQUESTS]


def seen(record: Record | None) -> tuple[int, int, bytes] | None:
    """Return what must come back of a record; an event's log and id are in its message."""
    return record and (record.revision, record.number, record.frame)


def all_seen(found: object) -> list[tuple[int, int, bytes] | None]:
    return [seen(record) for record in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("log", [MAIN, *RECORD_LOGS])
def test_a_log_gives_back_what_was_appended(store: Store, log: str) -> None:
    made = [*store.append("p", New(log, id="a"), New("bother"), New(log, id="b")), *store.append("p", New(log, id="c"))]
    own = [record for record in made if record.log == log and record.id]
    assert store.look("p", lambda view: all_seen(view.scan(log))) == all_seen(own)
    assert store.look("p", lambda view: all_seen(view.scan(log, newest_first=True))) == all_seen(own[::-1])
    assert store.look("p", lambda view: view.count(log)) == 3
    assert store.look("p", lambda view: view.number(log)) == own[-1].number
    assert store.look("p", lambda view: view.born(log)) == own[0].revision
    for record in own:
        assert seen(store.look("p", lambda view, record=record: view.find(log, record.id))) == seen(record)
    assert store.look("p", lambda view: view.find(log, "d")) is None
    assert store.look("p", lambda view: view.find(log, "")) is None


@pytest.mark.parametrize("log", RECORD_LOGS)
def test_a_record_comes_back_whole(store: Store, log: str) -> None:
    def decide(view: View) -> Change[Record]:
        record = Record(log, view.revision + 1, 7, b"\x0a\x02\xff\x00", "\U0001f4be", 2, True, NEVER)
        return Change(record, [record])

    record = store.write("p", decide)
    assert store.look("p", lambda view: next(view.scan(log))) == record
    assert store.look("p", lambda view: view.find(log, "\U0001f4be")) == record
    assert store.look("p", lambda view: view.upto(log, 7)) == record


@pytest.mark.parametrize("log", [MAIN, SAVED])
def test_a_scan_is_of_what_lies_between_two_revisions(store: Store, log: str) -> None:
    made = []
    for number in range(12):
        made += store.append("p", New(log, id=f"e{number}"))
        store.append("p", New("bother"), *[New(key("k"))] * (number % 3))
    revisions = [record.revision for record in made]
    bounds = sorted({0, NEVER, *(revision + off for revision in revisions for off in (-1, 0, 1))})

    def query(view: View) -> None:
        for after in bounds:
            for before in (*bounds, None):
                expected = [
                    revision for revision in revisions if after < revision < (NEVER if before is None else before)
                ]
                found = [record.revision for record in view.scan(log, after=after, before=before)]
                assert found == expected
                found = [record.revision for record in view.scan(log, after=after, before=before, newest_first=True)]
                assert found == expected[::-1]

    assert store.look("p", query) is None


class Model:
    """A log as a plain list, with what was trimmed."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.ever: list[Record] = []

    def hold(self, view: View, log: str) -> None:
        """Hold a view to this."""
        numbers = [record.number for record in self.ever]
        assert list(view.scan(log)) == self.records
        assert view.count(log) == len(self.records)
        assert view.number(log) == max(numbers, default=0)
        assert view.born(log) == (self.ever[0].revision if self.ever else 0)
        for number in {-1, 0, NEVER, *numbers, *(n + 1 for n in numbers), *(n - 1 for n in numbers)}:
            below = [record for record in self.records if record.number <= number]
            expected = max(below, key=lambda record: (record.number, record.revision), default=None)
            assert view.upto(log, number) == expected
        for record in self.ever:
            assert view.find(log, record.id) == (record if record in self.records else None)


@pytest.mark.parametrize("seed", range(12))
def test_a_log_of_records_agrees_with_a_plain_list(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    model, log = Model(), SAVED
    ascending = seed % 3 == 0
    for step in range(60):
        number = None if ascending else chance.choice([0, 1, 2, 3, 5, 2**53 - 1, chance.randrange(100)])
        gone = chance.sample(model.records, min(len(model.records), chance.choice([0, 0, 1, 1, 3])))

        def decide(view: View, number: int | None = number, gone: list[Record] = gone, step: int = step) -> Change:
            made = records(view, [New(log, number, f"id{step}")] if step % 5 else [New("p")])
            return Change(made, made, gone)

        made = store.write("p", decide)
        model.records = [record for record in model.records if record not in gone]
        for record in made:
            if record.log == log:
                model.records.append(record)
                model.ever.append(record)
        store.look("p", lambda view: model.hold(view, log))
    assert len(model.ever) == 48


@pytest.mark.parametrize("seed", range(6))
def test_a_counting_log_has_its_newest_record_as_head(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    live: list[Record] = []
    highest_gone = 0
    for _ in range(60):
        gone = chance.sample(live, min(len(live), chance.choice([0, 0, 1, 2])))
        appended = chance.random() < 0.7

        def decide(view: View, gone: list[Record] = gone, appended: bool = appended) -> Change:
            made = records(view, [New(key("k")) if appended else New("p")])
            return Change(made, made, gone)

        made = store.write("p", decide)
        live = [record for record in live if record not in gone] + [record for record in made if record.log == key("k")]
        highest_gone = max([highest_gone, *(record.number for record in gone)])
        newest = live[-1] if live else None
        expected = newest if newest and newest.number > highest_gone else None
        assert store.look("p", lambda view: view.head(key("k"))) == expected


def test_a_replaced_record_is_gone_by_id_number_and_place(store: Store) -> None:
    (old,) = store.append("p", New(SAVED, 5, "c"))

    def decide(view: View) -> Change[Record]:
        made = records(view, [New(SAVED, 3, "c", "new")])
        return Change(made[0], made, [old])

    new = store.write("p", decide)
    assert store.look("p", lambda view: view.find(SAVED, "c")) == new
    assert store.look("p", lambda view: view.upto(SAVED, NEVER)) == new
    assert store.look("p", lambda view: list(view.scan(SAVED))) == [new]
    assert store.look("p", lambda view: view.count(SAVED)) == 1


def test_a_trimmed_number_stays_the_highest(store: Store) -> None:
    made = store.append("p", *[New(key("k"))] * 3)
    store.trim("p", key("k"), *(record.revision for record in made))
    assert store.look("p", lambda view: (view.number(key("k")), view.count(key("k")))) == (3, 0)
    assert store.look("p", lambda view: view.born(key("k"))) == made[0].revision
    assert store.look("p", lambda view: list(view.logs(KEY))) == [key("k")]
    assert store.append("p", New(key("k")))[0].number == 4


def test_logs_are_listed_sorted_by_prefix_and_after_a_name(store: Store) -> None:
    names = [f"k{number}" for number in random.Random(2).sample(range(2000), 1500)]
    for start in range(0, 1500, 100):
        store.append("p", *(New(name) for name in names[start : start + 100]), New("bk1"), New(MAIN))
    assert store.look("p", lambda view: list(view.logs(KEY))) == sorted(names)
    assert store.look("p", lambda view: list(view.logs("k1"))) == sorted(n for n in names if n.startswith("k1"))
    for after in ("k", "k1", "k1500", names[0], names[7], "k9999", "l"):
        expected = sorted(name for name in names if name > after)
        assert store.look("p", lambda view, after=after: list(view.logs(KEY, after))) == expected
    assert store.look("p", lambda view: list(view.logs(""))) == sorted({*names, "bk1", MAIN})


@pytest.mark.parametrize("seed", range(4))
def test_the_journal_is_all_records_of_a_kind_in_order(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    model: list[Record] = []
    for _ in range(60):
        gone = chance.sample(model, min(len(model), chance.choice([0, 0, 0, 2, 5])))
        news = [
            New(chance.choice([key("a"), key("b"), key("ab"), SAVED, MAIN, "p"])) for _ in range(chance.randrange(1, 4))
        ]

        def decide(view: View, gone: list[Record] = gone, news: list[New] = news) -> Change:
            made = records(view, news)
            return Change(made, made, gone)

        made = store.write("p", decide)
        model = [record for record in model if record not in gone]
        model += [record for record in made if record.log[0] == KEY]
        for after in (0, made[0].revision - 3, made[-1].revision, model[len(model) // 2].revision if model else 1):
            expected = [record for record in model if record.revision > after]
            assert store.look("p", lambda view, after=after: list(view.journal(KEY, after))) == expected


def test_live_counts_heads_that_are_neither_deleted_nor_expired(store: Store) -> None:
    def live(now: int) -> int:
        return store.look("p", lambda view: view.live(KEY, now))

    store.append("p", *(New(key(name)) for name in "abcdef"), New(SAVED))
    assert live(0) == 6
    store.append("p", New(key("a"), deleted=True), New(key("b"), expires=10), New(key("c"), expires=20))
    assert [live(now) for now in (0, 9, 10, 19, 20)] == [5, 5, 4, 4, 3]
    store.append("p", New(key("b")), New(key("c"), deleted=True), New(key("a")))
    assert [live(now) for now in (0, 10, 20)] == [5, 5, 5]
    (record,) = store.append("p", New(key("d"), expires=5))
    store.trim("p", key("d"), record.revision)
    assert [live(now) for now in (0, 10)] == [4, 4]


@pytest.mark.parametrize("seed", range(6))
def test_live_agrees_with_the_heads_through_trims_and_sweeps(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    names = [key(name) for name in "abcd"]
    for now in range(1, 80):
        for _ in range(2):
            name = chance.choice(names)
            store.append("p", New(name, deleted=chance.random() < 0.2, expires=chance.choice([0, 0, now + 1, now + 9])))
        if chance.random() < 0.3:
            name = chance.choice(names)
            kept = store.look("p", lambda view, name=name: [record.revision for record in view.scan(name)])
            store.trim("p", name, *chance.sample(kept, len(kept) // 2))
        if chance.random() < 0.3:
            store.sweep(now)
        heads = [store.look("p", lambda view, name=name: view.head(name)) for name in names]
        expected = sum(bool(head and not head.deleted and not 0 < head.expires <= now) for head in heads)
        assert store.look("p", lambda view, now=now: view.live(KEY, now)) == expected


# --- sweeping


def test_a_sweep_removes_what_has_expired_everywhere(store: Store) -> None:
    for number in range(5):
        store.append(f"p{number}", New(key("k"), expires=10), New(key("k"), expires=20), New(key("k")))
    assert store.sweep(9) == 0
    assert store.sweep(10) == 5
    assert store.sweep(10) == 0
    assert [record.number for record in store.look("p3", lambda view: list(view.scan(key("k"))))] == [2, 3]
    assert store.sweep(1000) == 5
    assert store.look("p3", lambda view: view.head(key("k")).number) == 3
    assert store.look("p3", lambda view: [record.number for record in view.journal(KEY, 0)]) == [3]


def test_a_swept_head_uncovers_no_older_one(store: Store) -> None:
    store.append("p", New(key("k")), New(key("k"), expires=10))
    store.sweep(10)
    assert store.look("p", lambda view: view.head(key("k"))) is None
    assert store.look("p", lambda view: view.upto(key("k"), NEVER).number) == 1
    assert store.look("p", lambda view: view.number(key("k"))) == 2


def test_a_sweep_passes_over_what_was_trimmed_or_dropped(store: Store) -> None:
    (record,) = store.append("p", New(key("k"), expires=10))
    store.trim("p", key("k"), record.revision)
    store.append("gone", New(key("k"), expires=10))
    store.drop("gone")
    assert store.sweep(10) == 0


def test_a_sweep_of_a_partition_that_began_again_removes_what_is_its_own(store: Store) -> None:
    store.append("p", New(key("k"), expires=10))
    store.drop("p")
    store.append("p", New(key("k"), expires=20))
    assert store.sweep(10) == 0
    assert store.sweep(20) == 1


def test_a_sweep_moves_no_revision_and_no_cursor(store: Store) -> None:
    store.append("p", New(key("k"), expires=10), New())
    before = store.look("p", lambda view: (view.revision, view.oldest, view.life))
    store.sweep(10)
    assert store.look("p", lambda view: (view.revision, view.oldest, view.life)) == before


def test_what_expires_and_is_replaced_is_swept_once(store: Store) -> None:
    for _ in range(100):
        store.append("p", New(key("k"), expires=10))
    assert store.sweep(10) == 100
    assert store.look("p", lambda view: (view.count(key("k")), view.number(key("k")))) == (0, 100)
