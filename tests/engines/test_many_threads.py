"""Engine: used from many threads and event loops at once, nothing is lost, doubled, or seen by halves.

Every job runs on a thread and an event loop of its own, with the interpreter switching between them as often as it can.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from engines.engine_support import (
    MAIN,
    NEVER,
    SAVED,
    Countdown,
    New,
    Store,
    appending,
    at_once,
    chunks,
    dropping,
    events_in,
    key,
    records,
    whole,
)
from statekeep_server.core.journal import KEY, Change, Record, View
from statekeep_server.engines import Engine

pytestmark = pytest.mark.usefixtures("provoked")

WRITERS = 16


def all_events(view: View) -> list[tuple[int, int]]:
    """Return the numbers and revisions of all events, as chunks carry them."""
    return [(event.sequence, event.revision) for chunk in chunks(view) for event in events_in(chunk)]


async def append_many(engine: Engine, partition: str, times: int, *news: New) -> list[int]:
    """Append again and again, and return the revisions."""
    revisions: list[int] = []
    for _ in range(times):
        revisions += [record.revision for record in await engine.write(partition, appending(*news))]
    return revisions


def test_16_writers_on_one_partition_give_each_number_once(engine: Engine, store: Store) -> None:
    answers = at_once(*[lambda: append_many(engine, "p", 400, New())] * WRITERS)
    seen = store.look("p", all_events)
    assert [number for number, _ in seen] == list(range(1, WRITERS * 400 + 1))
    assert sorted(revision for answer in answers for revision in answer) == [revision for _, revision in seen]
    assert all(answer == sorted(answer) for answer in answers)
    assert store.look("p", lambda view: view.count(MAIN)) == WRITERS * 400


def test_16_writers_on_16_partitions_disturb_each_other_in_nothing(engine: Engine, store: Store) -> None:
    at_once(*[lambda name=name: append_many(engine, f"p{name}", 150, New(text="x" * 5000)) for name in range(WRITERS)])
    for name in range(WRITERS):
        assert [number for number, _ in store.look(f"p{name}", all_events)] == list(range(1, 151))
    assert store.partitions() == sorted(f"p{name}" for name in range(WRITERS))


def test_16_writers_beginning_the_same_partitions_begin_each_once(engine: Engine, store: Store) -> None:
    def begin(view: View) -> Change[bool]:
        return Change(not view.exists, [] if view.exists else records(view, [New(), New(key("k"))]))

    async def begin_all(seed: int) -> int:
        names = [f"p{number}" for number in range(200)]
        random.Random(seed).shuffle(names)
        return sum([await engine.write(name, begin) for name in names])

    won = at_once(*[lambda seed=seed: begin_all(seed) for seed in range(WRITERS)])
    assert sum(won) == 200
    assert len(store.partitions()) == 200
    assert {store.look(name, lambda view: view.revision - view.life) for name in store.partitions()} == {2}
    assert len({store.look(name, lambda view: view.life) for name in store.partitions()}) == 200


def test_of_many_who_expect_the_same_number_one_wins_each_time(engine: Engine, store: Store) -> None:
    def expecting(number: int) -> Callable[[View], Change[bool]]:
        return lambda view: Change(True, records(view, [New()])) if view.number(MAIN) == number else Change(False)

    async def compete() -> int:
        return sum([await engine.write("p", expecting(number)) for number in range(600)])

    assert sum(at_once(*[compete] * 8)) == 600
    assert store.look("p", lambda view: view.number(MAIN)) == 600


def test_a_decision_that_fails_among_others_leaves_nothing(engine: Engine, store: Store) -> None:
    def failing(view: View) -> Change[None]:
        records(view, [New(id="failed")])
        raise LookupError

    async def fail_and_append() -> int:
        failed = 0
        for _ in range(300):
            try:
                await engine.write("p", failing)
            except LookupError:
                failed += 1
            await engine.write("p", appending(New()))
        return failed

    assert at_once(*[fail_and_append] * 8) == [300] * 8
    assert [number for number, _ in store.look("p", all_events)] == list(range(1, 2401))
    assert store.look("p", lambda view: view.find(MAIN, "failed")) is None


# --- what readers see


def reading(
    engine: Engine, countdown: Countdown, query: Callable[[View], Any], partition: str = "p"
) -> Callable[[], Awaitable[list[Any]]]:
    """Return a job that reads until the writers are done, and once more, and returns the answers but for repeats."""

    async def read() -> list[Any]:
        answers: list[Any] = []
        last_round = False
        while not last_round:
            last_round = not countdown.running
            answer = await engine.read(partition, query)
            if not answers or answers[-1] != answer:
                answers.append(answer)
        return answers

    return read


@pytest.mark.parametrize("size", [1, 20_000])
def test_readers_see_batches_whole_and_no_holes(engine: Engine, store: Store, size: int) -> None:
    batch = [New(text="x" * size)] * 3 + [New("eother")] + [New(key("k"))] + [New(text="y" * size)] * 2
    countdown = Countdown(4)

    def query(view: View) -> tuple[int, int]:
        seen = all_events(view)
        assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
        assert len(seen) % 5 == 0
        assert [record.revision for record in view.scan(MAIN)] == [revision for _, revision in seen]
        assert len(list(view.scan("eother"))) == len(list(view.journal(KEY, 0))) == len(seen) // 5
        assert not seen or seen[-1][1] == view.revision
        head = view.head(key("k"))
        assert (head.number if head else 0) == len(seen) // 5
        return view.revision, len(seen)

    writers = [lambda: countdown.after(append_many(engine, "p", 30, *batch))] * 4
    answers = at_once(*writers, *[reading(engine, countdown, query)] * 4)
    for seen in answers[4:]:
        assert seen == sorted(seen)
        assert seen[-1][1] == 4 * 30 * 5
    assert store.look("p", query)[1] == 600


def test_counts_and_numbers_are_of_the_views_moment(engine: Engine, store: Store) -> None:
    batch = [New()] * 5 + [New(SAVED)] * 5
    countdown = Countdown(4)

    def query(view: View) -> int:
        there = len(list(view.scan(MAIN)))
        assert (view.count(MAIN), view.number(MAIN)) == (there, there)
        assert (view.count(SAVED), view.number(SAVED)) == (there, there)
        return there

    writers = [lambda: countdown.after(append_many(engine, "p", 200, *batch))] * 4
    answers = at_once(*writers, *[reading(engine, countdown, query)] * 4)
    assert {seen[-1] for seen in answers[4:]} == {4000}
    assert store.look("p", query) == 4000


def test_live_counts_whole_batches(engine: Engine, store: Store) -> None:
    countdown = Countdown(2)

    async def set_and_delete(letter: str) -> None:
        names = [key(f"{letter}{number}") for number in range(20)]
        for round_ in range(200):
            await engine.write("p", appending(*(New(name, deleted=bool(round_ % 2)) for name in names)))

    writers = [lambda letter=letter: countdown.after(set_and_delete(letter)) for letter in "ab"]
    answers = at_once(*writers, *[reading(engine, countdown, lambda view: view.live(KEY, 0))] * 4)
    assert {count for seen in answers[2:] for count in seen} <= {0, 20, 40}
    assert store.look("p", lambda view: view.live(KEY, 0)) == 0


def test_logs_are_listed_as_of_the_views_moment(engine: Engine, store: Store) -> None:
    countdown = Countdown(2)

    async def begin_logs(letter: str) -> None:
        for round_ in range(40):
            await engine.write("p", appending(*(New(key(f"{letter}{round_}-{n}")) for n in range(10))))

    def query(view: View) -> int:
        names = list(view.logs(KEY))
        assert names == sorted(names)
        assert len(names) == len(list(view.journal(KEY, 0)))
        return len(names)

    writers = [lambda letter=letter: countdown.after(begin_logs(letter)) for letter in "ab"]
    answers = at_once(*writers, *[reading(engine, countdown, query)] * 4)
    assert {count % 10 for seen in answers[2:] for count in seen} == {0}
    assert store.look("p", query) == 800


def replace(round_: int) -> Callable[[View], Change[None]]:
    """Return a decision to replace checkpoint "c", among a batch of others."""

    def decide(view: View) -> Change[None]:
        old = view.find(SAVED, "c")
        other = [New(f"cother{number}") for number in range(10)]
        made = records(view, [New(SAVED, round_ % 5, "c", f"round {round_}"), *other])
        return Change(None, made, [old] if old else [])

    return decide


REPLACED_LOOKS: dict[str, Callable[[View], Sequence[Record | None]]] = {
    "find": lambda view: [view.find(SAVED, "c")],
    "upto": lambda view: [view.upto(SAVED, NEVER)],
    "scan": lambda view: list(view.scan(SAVED)),
    "scan newest first": lambda view: list(view.scan(SAVED, newest_first=True)),
    "count": lambda view: [next(view.scan(SAVED))] * view.count(SAVED),
}


@pytest.mark.parametrize("look", REPLACED_LOOKS.values(), ids=REPLACED_LOOKS)
def test_readers_see_a_replaced_checkpoint_never_neither_nor_both(
    engine: Engine, store: Store, look: Callable[[View], Sequence[Record | None]]
) -> None:
    rounds = 1000
    store.write("p", replace(0))
    countdown = Countdown(1)

    async def replace_many() -> None:
        for round_ in range(1, rounds):
            await engine.write("p", replace(round_))

    def query(view: View) -> int:
        found = look(view)
        assert len(found) == 1
        assert found[0] is not None
        return int(whole(found[0].frame).type.split()[1])

    answers = at_once(lambda: countdown.after(replace_many()), *[reading(engine, countdown, query)] * 4)
    for seen in answers[1:]:
        assert seen == sorted(set(seen))
        assert seen[-1] == rounds - 1


def test_ids_are_found_once_they_are_stored_and_never_sent_wrong(engine: Engine, store: Store) -> None:
    """The one who wrote an id finds it; one who looks for it while it is written finds it or nothing."""
    written = [0, 0]
    countdown = Countdown(2)

    async def write_ids(own: int) -> None:
        for number in range(1500):
            event_id = f"{own}-{number}"
            await engine.write("p", appending(New(id=event_id)))
            written[own] = number
            record = await engine.read("p", lambda view, event_id=event_id: view.find(MAIN, event_id))
            assert whole(record.frame).id == event_id

    async def look_for_ids(own: int, ahead: int) -> int:
        looked = 0
        while not looked or countdown.running:
            newest = written[own]
            number = max(0, newest + ahead)
            event_id = f"{own}-{number}"
            record = await engine.read("p", lambda view, event_id=event_id: view.find(MAIN, event_id))
            assert record is not None or ahead > 0 or not newest
            assert record is None or whole(record.frame).id == event_id
            looked += 1
        return looked

    writers = [lambda own=own: countdown.after(write_ids(own)) for own in (0, 1)]
    readers = [lambda own=own, ahead=ahead: look_for_ids(own, ahead) for own in (0, 1) for ahead in (-1, 1)]
    assert all(at_once(*writers, *readers)[2:])
    assert store.look("p", lambda view: view.count(MAIN)) == 3000


# --- followers


@pytest.mark.parametrize("size", [1, 30_000])
def test_followers_on_other_threads_see_every_record_exactly_once_in_order(
    engine: Engine, store: Store, size: int
) -> None:
    total = 4 * 200
    store.append("p", New("eother"))

    async def follow(begin: int) -> list[int]:
        bell = engine.bell("p")
        seen: list[int] = []
        revision = begin
        while len(seen) < total:
            chunk = await engine.read("p", lambda view, after=revision: view.chunk(MAIN, after, NEVER))
            if chunk is None:
                await bell.wait(None)
                continue
            seen += [event.sequence for event in events_in(chunk)]
            revision = chunk.revision
        bell.close()
        return seen

    followers = [lambda: follow(0)] * 8
    writers = [lambda: append_many(engine, "p", 200, New(text="x" * size))] * 4
    answers = at_once(*followers, *writers)
    assert all(answer == list(range(1, total + 1)) for answer in answers[:8])


def test_followers_that_stop_and_go_on_lose_and_repeat_nothing(engine: Engine, store: Store) -> None:
    total = 4 * 200
    store.append("p", New("eother"))

    async def resume_often(seed: int) -> list[int]:
        chance = random.Random(seed)
        seen: list[int] = []
        revision = 0
        while len(seen) < total:
            bell = engine.bell("p")
            for _ in range(chance.randrange(1, 5)):
                count = chance.choice([None, 1, 3])
                query = lambda view, after=revision, count=count: view.chunk(MAIN, after, NEVER, count)  # noqa: E731
                chunk = await engine.read("p", query)
                if chunk:
                    seen += [event.sequence for event in events_in(chunk)]
                    revision = chunk.revision
                elif len(seen) < total:
                    await bell.wait(None)
            bell.close()
        return seen

    followers = [lambda seed=seed: resume_often(seed) for seed in range(6)]
    answers = at_once(*followers, *[lambda: append_many(engine, "p", 200, New(text="x" * 9000))] * 4)
    assert all(answer == list(range(1, total + 1)) for answer in answers[:6])


# --- dropping, trimming, sweeping


def test_drops_and_new_beginnings_lose_and_double_nothing(engine: Engine, store: Store) -> None:
    """Every event that was appended is one that a drop counted, or is there at the end."""
    countdown = Countdown(8)

    async def drop_often() -> int:
        dropped = 0
        while countdown.running:
            dropped += await engine.write("p", dropping)
            await asyncio.sleep(0)
        return dropped

    def query(view: View) -> None:
        seen = all_events(view)
        assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
        assert all(revision > view.life for _, revision in seen)
        assert [revision for _, revision in seen] == [record.revision for record in view.scan(MAIN)]

    writers = [lambda: countdown.after(append_many(engine, "p", 400, New(), New()))] * 8
    jobs = [*writers, *[drop_often] * 2, *[reading(engine, countdown, query)] * 2]
    answers = at_once(*jobs)
    revisions = [revision for answer in answers[:8] for revision in answer]
    assert len(set(revisions)) == len(revisions) == 8 * 400 * 2
    assert sum(answers[8:10]) + store.look("p", lambda view: view.count(MAIN)) == 8 * 400 * 2
    assert store.partitions() in ([], ["p"])


def test_lives_of_one_partition_follow_each_other_and_never_overlap(engine: Engine) -> None:
    async def begin_and_end() -> list[tuple[int, int]]:
        lives = []
        for _ in range(500):

            def decide(view: View) -> Change[tuple[int, int]]:
                made = records(view, [New(), New()])
                return Change((view.life, made[-1].revision), made)

            lives.append(await engine.write("p", decide))
            await engine.write("p", dropping)
        return lives

    seen = [life for answer in at_once(*[begin_and_end] * 6) for life in answer]
    spans: dict[int, int] = {}
    for life, newest in seen:
        spans[life] = max(newest, spans.get(life, 0))
    lives = sorted(spans)
    assert all(spans[life] < following for life, following in pairwise(lives))
    assert len({newest for _, newest in seen}) == len(seen)


def test_a_listing_shows_what_stays_while_others_come_and_go(engine: Engine, store: Store) -> None:
    staying = [f"p{number:04}" for number in range(0, 1200, 4)]
    for name in staying:
        store.append(name, New())
    countdown = Countdown(4)

    async def come_and_go(offset: int) -> None:
        for number in range(offset, 1200, 12):
            await engine.write(f"p{number:04}", appending(New()))
        for number in range(offset, 1200, 12):
            await engine.write(f"p{number:04}", dropping)

    async def list_pages() -> int:
        walks = 0
        while not walks or countdown.running:
            names: list[str] = []
            while page := await engine.partitions("p", names[-1] if names else "", 50):
                names += page
            assert names == sorted(set(names))
            assert set(staying) <= set(names)
            walks += 1
        return walks

    jobs = [lambda offset=offset: countdown.after(come_and_go(offset)) for offset in (1, 2, 3, 5)]
    assert all(at_once(*jobs, *[list_pages] * 3)[4:])
    assert store.partitions() == staying


def purging(name: str, keep: int) -> Callable[[View], Change[int]]:
    def decide(view: View) -> Change[int]:
        gone = list(view.scan(name))
        gone = gone[: len(gone) - keep]
        return Change(len(gone), records(view, [New("p")]) if gone else [], gone)

    return decide


def test_purges_and_sweeps_remove_each_record_once(engine: Engine, store: Store) -> None:
    """Every version that was set is one that a purge or a sweep counted, or is there at the end."""
    names = [key(name) for name in "abc"]
    countdown = Countdown(6)

    async def set_many(seed: int) -> None:
        chance = random.Random(seed)
        for now in range(400):
            await engine.write("p", appending(New(chance.choice(names), expires=chance.choice([0, now + 5, now + 50]))))

    async def purge_many(seed: int) -> int:
        chance = random.Random(seed)
        removed = 0
        while countdown.running:
            removed += await engine.write("p", purging(chance.choice(names), chance.choice([0, 1, 3])))
            await asyncio.sleep(0)
        return removed

    async def sweep_many() -> int:
        removed = now = 0
        while countdown.running:
            removed += await engine.sweep(now % 400)
            now += 1
        return removed

    def query(view: View) -> None:
        journal = list(view.journal(KEY, 0))
        assert sorted(journal) == sorted(record for name in names for record in view.scan(name))
        assert [record.revision for record in journal] == sorted({record.revision for record in journal})
        for name in names:
            numbers = [record.number for record in view.scan(name)]
            assert numbers == sorted(set(numbers))
            head = view.head(name)
            assert head is None or head.number == view.number(name) == numbers[-1]

    writers = [lambda seed=seed: countdown.after(set_many(seed)) for seed in range(6)]
    removers = [*[lambda seed=seed: purge_many(seed) for seed in range(2)], *[sweep_many] * 2]
    answers = at_once(*writers, *removers, *[reading(engine, countdown, query)] * 3)
    there = sum(store.look("p", lambda view, name=name: view.count(name)) for name in names)
    assert sum(answers[6:10]) + there == 6 * 400
    assert sum(store.look("p", lambda view, name=name: view.number(name)) for name in names) == 6 * 400
    heads = [store.look("p", lambda view, name=name: view.head(name)) for name in names]
    assert store.look("p", lambda view: view.live(KEY, 0)) == sum(head is not None for head in heads)


def test_sweeps_at_once_count_each_record_once(engine: Engine, store: Store) -> None:
    for number in range(100):
        store.append(f"p{number}", *[New(key("k"), expires=10)] * 3)
    assert sum(at_once(*[lambda: engine.sweep(10)] * 6)) == 300
    assert store.sweep(10**9) == 0


def test_what_expires_in_partitions_that_begin_during_a_sweep_is_swept_later(engine: Engine, store: Store) -> None:
    countdown = Countdown(4)

    async def begin_many(own: int) -> None:
        for number in range(500):
            await engine.write(f"p{own}-{number}", appending(New(key("k"), expires=10)))

    async def sweep_early() -> int:
        removed = 0
        while countdown.running:
            removed += await engine.sweep(9)
        return removed

    jobs = [lambda own=own: countdown.after(begin_many(own)) for own in range(4)]
    assert at_once(*jobs, *[sweep_early] * 4)[4:] == [0] * 4
    assert store.sweep(10) == 2000


def test_what_begins_during_a_sweep_is_found_by_the_next(engine: Engine) -> None:
    countdown = Countdown(1)

    async def begin_and_sweep() -> int:
        removed = 0
        for number in range(3000):
            await engine.write(f"p{number}", appending(New(key("k"), expires=10)))
            removed += await engine.sweep(10)
        return removed

    async def sweep_early() -> int:
        removed = 0
        while countdown.running:
            removed += await engine.sweep(9)
        return removed

    answers = at_once(lambda: countdown.after(begin_and_sweep()), *[sweep_early] * 3)
    assert answers == [3000, 0, 0, 0]


def test_what_expires_in_partitions_that_end_and_begin_during_a_sweep_is_swept_later(
    engine: Engine, store: Store
) -> None:
    countdown = Countdown(4)

    async def begin_and_end(own: int) -> None:
        for _ in range(400):
            await engine.write(f"p{own}", dropping)
            await engine.write(f"p{own}", appending(New(key("k"), expires=10)))

    async def sweep_early() -> int:
        removed = 0
        while countdown.running:
            removed += await engine.sweep(9)
        return removed

    jobs = [lambda own=own: countdown.after(begin_and_end(own)) for own in range(4)]
    assert at_once(*jobs, *[sweep_early] * 4)[4:] == [0] * 4
    assert store.sweep(10) == 4


def test_writers_readers_and_sweeps_of_many_partitions_at_once(engine: Engine, store: Store) -> None:
    """A bit of all, so that what disturbs another kind of call is met."""
    partitions = [f"p{number}" for number in range(4)]

    async def mix(seed: int) -> Counter[str]:
        chance = random.Random(seed)
        done: Counter[str] = Counter()
        for _ in range(400):
            name = chance.choice(partitions)
            kind = chance.choice(["event", "event", "version", "saved", "drop", "read", "sweep", "list"])
            match kind:
                case "event":
                    await engine.write(name, appending(New(id=f"{seed}-{chance.random()}", text="x" * 9000)))
                case "version":
                    await engine.write(name, appending(New(key("k"), expires=chance.choice([0, 5]))))
                case "saved":
                    await engine.write(name, replace(chance.randrange(100)))
                case "drop":
                    done["dropped"] += await engine.write(name, dropping)
                case "read":
                    numbers = [number for number, _ in await engine.read(name, all_events)]
                    assert numbers == list(range(1, len(numbers) + 1))
                case "sweep":
                    await engine.sweep(10)
                case "list":
                    listed = await engine.partitions("p", "", 10)
                    assert set(listed) <= set(partitions)
            done[kind] += 1
        return done

    done = sum(at_once(*[lambda seed=seed: mix(seed) for seed in range(8)]), Counter())
    left = sum(store.look(name, lambda view: view.count(MAIN)) for name in partitions)
    assert done["event"] == done["dropped"] + left
