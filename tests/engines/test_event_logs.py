"""View: logs of events, which are read in chunks that go out as they are."""

import random
from collections import defaultdict

import pytest
from engines.engine_support import CHUNK, MAIN, NEVER, New, Store, chunks, events_in, whole
from statekeep.v1 import state_store_pb2 as pb
from statekeep_server.core.journal import Record, View
from statekeep_server.core.wire import varint


def text_of(frame_size: int) -> str:
    """Return a text that makes an event's frame about so large."""
    return "x" * max(0, frame_size - 40)


def exactly(store: Store, frame_size: int) -> New:
    """Return a record whose frame has this size, wherever it is appended."""
    probe = store.append("probe", New(number=1, text="x" * frame_size))[0]
    return New(number=1, text="x" * (frame_size - (len(probe.frame) - frame_size)))


def test_a_chunk_is_a_message_of_stream_history_with_its_revision(store: Store) -> None:
    made = store.append("p", *(New(id=f"e{number}", text="type") for number in range(5)))
    chunk = store.look("p", lambda view: view.chunk(MAIN, 0, NEVER))
    message = pb.StreamHistoryResponse.FromString(chunk.message)
    assert list(message.events) == [whole(record.frame) for record in made]
    assert message.revision == chunk.revision == made[-1].revision
    assert not message.caught_up
    assert message.checkpoints == []
    assert (chunk.records, chunk.complete) == (5, True)
    assert chunk.message == b"".join(record.frame for record in made) + b"\x20" + varint(made[-1].revision)


def test_a_sealed_chunk_is_such_a_message_too(store: Store) -> None:
    for _ in range(10):
        store.append("p", New(text=text_of(100_000)))
    found = store.look("p", chunks)
    assert [chunk.records for chunk in found] == [2] * 5
    for chunk in found:
        message = pb.StreamHistoryResponse.FromString(chunk.message)
        assert message.revision == chunk.revision == message.events[-1].revision
        assert len(message.events) == chunk.records


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([CHUNK], [1]),
        ([CHUNK, 100], [1, 1]),
        ([100, CHUNK], [1, 1]),
        ([CHUNK // 2, CHUNK // 2], [2]),
        ([CHUNK // 2, CHUNK // 2, 100], [2, 1]),
        ([CHUNK // 2, CHUNK // 2 + 1], [1, 1]),
        ([CHUNK - 100, 100], [2]),
        ([CHUNK - 99, 100], [1, 1]),
        ([CHUNK + 1, CHUNK + 1], [1, 1]),
        ([4 * CHUNK], [1]),
        ([100, 4 * CHUNK, 100], [1, 1, 1]),
        ([CHUNK - 1, 4 * CHUNK, CHUNK], [1, 1, 1]),
        ([100] * 5000, None),
    ],
    ids=lambda part: str(part)[:40],
)
def test_chunks_are_cut_at_256_kib_or_hold_one_record(store: Store, sizes: list[int], parts: list[int] | None) -> None:
    news = {size: exactly(store, size) for size in set(sizes)}
    made = store.append("p", *(news[size] for size in sizes))
    assert [len(record.frame) for record in made] == sizes
    found = store.look("p", chunks)
    assert [event.revision for chunk in found for event in events_in(chunk)] == [record.revision for record in made]
    for chunk in found:
        sent = {event.revision for event in events_in(chunk)}
        assert sum(len(record.frame) for record in made if record.revision in sent) <= CHUNK or chunk.records == 1
    if parts:
        assert [chunk.records for chunk in found] == parts
    else:
        assert len(found) == 2


@pytest.mark.parametrize("seed", range(6))
def test_every_chunk_is_the_first_part_of_what_was_asked_for(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    made: list[Record] = []
    for _ in range(40):
        sizes = [chance.choice([60, 5_000, 60_000, 130_000, 260_000, 400_000]) for _ in range(chance.randrange(1, 4))]
        made += store.append("p", *(New(text=text_of(size)) for size in sizes))
        store.append("p", *[New("eother")] * chance.randrange(3))
    revisions = [record.revision for record in made]
    sizes_at = {record.revision: len(record.frame) for record in made}

    def query(view: View) -> int:
        asked = 0
        for _ in range(400):
            after = chance.choice([0, *revisions, revisions[0] - 1]) + chance.choice([0, 0, 0, 1, -1])
            until = chance.choice([NEVER, *revisions]) + chance.choice([0, 0, 1, -1])
            count = chance.choice([None, None, 1, 2, 3, 7, 1000])
            expected = [revision for revision in revisions if after < revision <= until]
            chunk = view.chunk(MAIN, after, until, count)
            if not expected:
                assert chunk is None
                continue
            sent = [event.revision for event in events_in(chunk)]
            limited = expected[:count]
            assert sent == limited[: len(sent)]
            assert len(sent) == chunk.records >= 1
            assert chunk.revision == sent[-1] == pb.StreamHistoryResponse.FromString(chunk.message).revision
            assert chunk.complete == (sent == expected)
            assert len(sent) == 1 or sum(sizes_at[revision] for revision in sent) <= CHUNK
            asked += 1
        return asked

    assert store.look("p", query) > 100


def test_whether_a_chunk_is_complete_goes_by_what_was_asked_for(store: Store) -> None:
    made = store.append("p", *[New()] * 5)
    third = made[2].revision

    def query(view: View) -> list[bool]:
        asked = [
            (NEVER, 3),
            (third, 3),
            (third, None),
            (NEVER, 3),
            (NEVER, 5),
            (NEVER, None),
            (third + 1, 3),
            (third, 9),
        ]
        return [view.chunk(MAIN, 0, until, count).complete for until, count in asked]

    assert store.look("p", query) == [False, True, True, False, True, True, False, True]
    store.append("p", New())
    assert store.look("p", lambda view: view.chunk(MAIN, 0, NEVER, 5).complete) is False
    assert store.look("p", lambda view: view.chunk(MAIN, 0, made[4].revision).complete) is True


@pytest.mark.parametrize("seed", range(3))
def test_walking_chunks_gives_each_record_once_wherever_it_begins(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    made = []
    for _ in range(60):
        made += store.append("p", New(text=text_of(chance.choice([60, 30_000, 90_000, 300_000]))))
    revisions = [record.revision for record in made]
    total = sum(len(record.frame) for record in made)

    def query(view: View) -> None:
        for start, after in enumerate([revisions[0] - 1, *revisions]):
            found = chunks(view, after=after)
            assert [event.revision for chunk in found for event in events_in(chunk)] == revisions[start:]
            assert [chunk.complete for chunk in found] == [False] * (len(found) - 1) + [True] * bool(found)
        assert len(chunks(view)) <= 2 * total // CHUNK + 2

    assert store.look("p", query) is None


def test_back_counts_records_and_gives_the_revision_before_them(store: Store) -> None:
    made = []
    for number in range(20):
        made += store.append("p", New(text=text_of(50_000)))
        store.append("p", *[New("eother")] * (number % 3))
    revisions = [record.revision for record in made]

    def query(view: View) -> None:
        for until in {0, NEVER, view.revision, *revisions, *(revision + 1 for revision in revisions)}:
            there = [revision for revision in revisions if revision <= until]
            for count in (0, 1, 2, 19, 20, 21, 2**62):
                found, before = view.back(MAIN, count, until)
                assert found == min(count, len(there))
                if found:
                    assert [revision for revision in there if revision > before] == there[-found:]
                    assert before == there[-found] - 1
                else:
                    assert before in (until, min(until, view.revision))

    assert store.look("p", query) is None


@pytest.mark.parametrize(
    "numbers",
    [
        [1, 2, 3, 4],
        [5, 6, 7],
        [0, 1, 2],
        [1, 3],
        [1, 1, 1],
        [3, 2, 1],
        [1, 2, 3, 2, 3, 4],
        [0, 0],
        [2**53 - 1, 0, 2**53 - 1],
        [7],
        [1, 2, 2],
        [10, 11, 12, 0, 13],
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [60, 200_000])
def test_numbers_come_back_as_given_with_gaps_repeats_and_out_of_order(
    store: Store, numbers: list[int], size: int
) -> None:
    for count, number in enumerate(numbers, 1):
        store.append("p", New(number=number, text=text_of(size)))
        assert store.look("p", lambda view: [record.number for record in view.scan(MAIN)]) == numbers[:count]
        assert store.look("p", lambda view: view.number(MAIN)) == max(numbers[:count])
    assert [event.sequence for chunk in store.look("p", chunks) for event in events_in(chunk)] == numbers


def colliding_ids() -> list[list[str]]:
    """Return ids that share the lower 32 bits of their hash: by the birthday rule some of many do."""
    by_mark = defaultdict(list)
    for number in range(400_000):
        by_mark[hash(f"id{number}") & 0xFFFFFFFF].append(f"id{number}")
    return [ids for ids in by_mark.values() if len(ids) > 1]


def test_ids_whose_hashes_collide_are_told_apart(store: Store) -> None:
    pairs = colliding_ids()
    assert pairs
    present = [New(id=ids[0], text=f"of {ids[0]}") for ids in pairs]
    store.append("p", *(New(id=f"other{number}") for number in range(500)), *present)
    for ids in pairs:
        assert whole(store.look("p", lambda view, ids=ids: view.find(MAIN, ids[0])).frame).type == f"of {ids[0]}"
        assert store.look("p", lambda view, ids=ids: view.find(MAIN, ids[1])) is None
    store.append("p", *(New(id=ids[1], text=f"of {ids[1]}") for ids in pairs))
    for event_id in (event_id for ids in pairs for event_id in ids[:2]):
        found = store.look("p", lambda view, event_id=event_id: view.find(MAIN, event_id))
        assert whole(found.frame).type == f"of {event_id}"


def test_each_of_thousands_of_ids_is_found_at_its_place(store: Store) -> None:
    ids = [f"{number}-{'é' * (number % 5)}\U0001f4be" for number in range(5000)]
    revisions = {}
    for start in range(0, 5000, 250):
        made = store.append("p", *(New(id=event_id, text=text_of(200)) for event_id in ids[start : start + 250]), New())
        revisions.update({record.id: record.revision for record in made})

    def query(view: View) -> int:
        found = 0
        for event_id in ids:
            record = view.find(MAIN, event_id)
            assert record.revision == revisions[event_id]
            assert whole(record.frame).id == event_id
            assert view.find(MAIN, f"{event_id}x") is None
            found += 1
        return found

    assert store.look("p", query) == 5000
    assert len(store.look("p", chunks)) > 2


def test_an_id_that_begins_like_another_is_another(store: Store) -> None:
    store.append("p", New(id="ab"), New(id="a"))
    assert whole(store.look("p", lambda view: view.find(MAIN, "a")).frame).id == "a"
    assert whole(store.look("p", lambda view: view.find(MAIN, "ab")).frame).id == "ab"
    assert store.look("p", lambda view: view.find(MAIN, "abc")) is None


def test_ids_count_per_log(store: Store) -> None:
    store.append("p", New(id="e"))
    assert store.look("p", lambda view: view.find("eother", "e")) is None


@pytest.mark.parametrize("size", [60, 150_000])
def test_records_in_segments_and_behind_them_are_scanned_alike(store: Store, size: int) -> None:
    made = store.append("p", *(New(id=f"e{number}", text=text_of(size)) for number in range(25)))

    def query(view: View) -> None:
        assert [record.frame for record in view.scan(MAIN)] == [record.frame for record in made]
        for record in made:
            (one,) = view.scan(MAIN, after=record.revision - 1, before=record.revision + 1)
            assert one.frame == view.find(MAIN, record.id).frame == record.frame

    assert store.look("p", query) is None


def test_a_batch_larger_than_a_chunk_is_appended_whole(store: Store) -> None:
    made = store.append("p", *(New(text=text_of(100_000)) for _ in range(50)))
    assert store.look("p", lambda view: view.count(MAIN)) == 50
    assert sum(chunk.records for chunk in store.look("p", chunks)) == len(made)
