"""What a partition counts: its keys, its records, and on the engine in memory the bytes it takes."""

import asyncio
import gc
import tracemalloc
from collections.abc import Callable

import pytest
from engines.engine_support import MAIN, SAVED, New, Store, appending, at_once, key
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1.value_pb2 import Value
from statekeep_server.core.journal import Call, LogState, PartitionState, View
from statekeep_server.core.scratch import Scratch
from statekeep_server.engines.memory import MemoryEngine
from statekeep_server.engines.sorted_names import SortedNames


def counted(store: Store, partition: str) -> tuple[int, int]:
    return store.look(partition, lambda view: (view.alive, view.kept))


def test_keys_that_have_a_value_are_counted(store: Store) -> None:
    assert counted(store, "p") == (0, 0)
    store.append("p", New(key("a")), New(key("b")), New(key("a")))
    assert counted(store, "p") == (2, 3)
    store.append("p", New(key("a"), deleted=True))
    assert counted(store, "p") == (1, 4)
    store.append("p", New(key("a")))
    assert counted(store, "p") == (2, 5)


def test_events_of_all_branches_are_counted_and_nothing_else(store: Store) -> None:
    store.append("p", New(), New("edraft"), New(SAVED, 1, "c"), New("b", id="draft"), New("r", id="request"))
    assert counted(store, "p") == (0, 2)


def test_what_is_trimmed_swept_or_dropped_is_counted_no_more(store: Store) -> None:
    first, second, _ = store.append("p", New(key("a")), New(key("a")), New(key("b"), expires=5))
    store.trim("p", key("a"), first.revision)
    assert counted(store, "p") == (2, 2)
    assert store.sweep(10) == 1
    assert counted(store, "p") == (1, 1)
    store.trim("p", key("a"), second.revision)
    assert counted(store, "p") == (0, 0)
    store.append("p", New(key("a")))
    assert counted(store, "p") == (1, 1)
    store.drop("p")
    assert counted(store, "p") == (0, 0)


def test_a_write_sees_what_the_one_before_it_left(store: Store) -> None:
    for number in range(5):
        store.append("p", New(key("a")))
        seen: list[int] = []

        def look(view: View, seen: list[int] = seen) -> object:
            seen.append(view.kept)
            return None

        store.look("p", look)
        assert seen[-1] == number + 1


def test_a_partition_that_was_put_together_has_its_counts(store: Store) -> None:
    now = 1_900_000_000_000_000
    logs = [LogState(key("gone"), 3, now)]
    news = [New(key("a"), 1), New(key("a"), 2), New(key("b"), 1), New(key("b"), 2, deleted=True), New(key("gone"), 2)]

    async def restored() -> None:
        restore = await store.engine.restore("p", PartitionState(now, now + 10, now + 1, now, now))
        made = [new.at(now + place, new.number or 0) for place, new in enumerate(news, 1)]
        await restore.add(lambda view: (logs, made))
        await restore.add(lambda view: ((), ()))
        assert await restore.finish()
        await restore.close()

    store.run(restored())
    assert counted(store, "p") == (1, 5)  # a version below one that was trimmed is no value
    store.append("p", New(key("gone")))
    assert counted(store, "p") == (2, 6)


# --- bytes, of the engine in memory

SHAPES: dict[str, Callable[[int], tuple[str, New]]] = {
    "many keys": lambda number: ("s", New(key(f"key-{number}"), text="x" * 50)),
    "many versions": lambda number: ("s", New(key(f"key-{number % 10}"), text="x" * 50)),
    "large versions": lambda number: ("s", New(key(f"key-{number % 10}"), text="x" * 2000)),
    "many scopes": lambda number: (f"s{number}", New(key("k"), text="x" * 50)),
    "one thread": lambda number: ("t", New(text="x" * 50)),
    "one thread with ids": lambda number: ("t", New(id=f"event-{number}", text="x" * 50)),
    "threads of one": lambda number: (f"t{number}", New(text="x" * 50)),
    "threads of ten": lambda number: (f"t{number // 10}", New(text="x" * 50)),
    "checkpoints": lambda number: ("t", New(SAVED, number, f"c{number}", text="x" * 200)),
}


def fill(engine: MemoryEngine, runner: asyncio.Runner, shape: str, count: int) -> None:
    async def run() -> None:
        for number in range(count):
            partition, new = SHAPES[shape](number)
            await engine.write(partition, appending(new))

    runner.run(run())


@pytest.mark.parametrize("shape", SHAPES)
def test_what_the_engine_says_it_takes_is_near_to_what_python_says(shape: str, runner: asyncio.Runner) -> None:
    fill(MemoryEngine(), runner, shape, 50)
    engine = MemoryEngine()
    gc.collect()
    tracemalloc.start()
    fill(engine, runner, shape, 2_000)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.7 < engine.held / taken < 1.5, f"{engine.held / taken:.2f}"


@pytest.mark.parametrize(("instances", "keys", "size"), [(2000, 1, 20), (100, 30, 20), (20, 30, 3000), (2000, 0, 0)])
def test_what_scratch_says_it_takes_is_near_to_what_python_says(instances: int, keys: int, size: int) -> None:
    rules = Scratch()
    gc.collect()
    tracemalloc.start()
    for number in range(instances):
        rules.open(scratch.ScratchOpenRequest(instance_id=f"i{number}"), Call(1))
        for place in range(keys):
            put = scratch.ScratchPutRequest(instance_id=f"i{number}", key=f"k{place}", value=Value(text="x" * size))
            rules.put(put, Call(1))
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.7 < rules.held / taken < 1.5, f"{rules.held / taken:.2f}"


def test_scratch_counts_down_to_nothing_whichever_way_values_go() -> None:
    rules = Scratch()

    def put(instance: str, key: str, size: int) -> None:
        put = scratch.ScratchPutRequest(instance_id=instance, key=key, value=Value(data=bytes(size)))
        rules.put(put, Call(1))

    for instance in ("a", "b", "c", "d"):
        for size in (10, 1000, 5):
            put(instance, "é", size)
            put(instance, "k", size)
    assert rules.values == 8
    rules.clear(scratch.ScratchClearRequest(instance_id="a", key="k"), Call(1))
    rules.clear(scratch.ScratchClearRequest(instance_id="a"), Call(1))
    rules.open(scratch.ScratchOpenRequest(instance_id="b"), Call(1))
    rules.close(scratch.ScratchCloseRequest(instance_id="c"), Call(1))
    attached = rules.attach(scratch.ScratchAttachRequest(instance_id="d"), Call(1))
    put("d", "k", 10)
    rules.close(scratch.ScratchCloseRequest(instance_id="d"), Call(1))
    rules.detach(attached)
    assert (rules.size, rules.values, len(rules)) == (0, 0, 2)
    put("a", "k", 10)
    put("a", "k2", 10)
    late = Call(2 * 3600 * 1_000_000)
    rules.put(
        scratch.ScratchPutRequest(instance_id="a", key="k", value=Value(data=b"x")), late
    )  # a new one of the name
    assert rules.values == 1
    assert rules.sweep(2 * late.now) == 2
    assert (rules.size, rules.values, rules.held) == (0, 0, 0)


def test_the_bytes_go_with_what_is_trimmed_swept_and_dropped(runner: asyncio.Runner) -> None:
    engine = MemoryEngine()
    store = Store(engine, runner)
    assert engine.held == 0
    store.append("t", New(text="x" * 10_000))
    store.drop("t")
    assert engine.held == 0
    first, *_ = store.append("s", New(key("a"), text="x" * 10_000), New(key("b"), text="x" * 10_000, expires=5))
    full = engine.held
    store.trim("s", key("a"), first.revision)
    assert full - 11_000 < engine.held < full - 9_000
    store.sweep(10)
    assert engine.held < full - 19_000
    store.drop("s")
    assert engine.held == 0


@pytest.mark.usefixtures("provoked")
def test_no_byte_is_lost_where_many_threads_write_at_once(runner: asyncio.Runner) -> None:
    engine = MemoryEngine()

    def writer(number: int) -> Callable[[], object]:
        async def write() -> None:
            for round_number in range(60):
                name = f"{round_number % 3}-{number % 2}"
                await engine.write(name, appending(New(MAIN), New(key(f"k{number}"))))

        return write

    at_once(*(writer(number) for number in range(6)))  # type: ignore[arg-type]
    assert engine.held == sum(partition.size for partition in engine._partitions.values())
    store = Store(engine, runner)
    for name in store.partitions():
        store.drop(name)
    assert engine.held == 0


@pytest.mark.parametrize("way", ["written", "restored"])
def test_a_write_to_a_partition_that_was_just_begun_is_counted_once(way: str) -> None:
    class Names(SortedNames):
        """Has another thread write as soon as there is a partition to write to."""

        def add(self, name: str) -> None:
            super().add(name)
            at_once(lambda: engine.write(name, appending(New(text="y" * 100))))

    async def begin() -> None:
        if way == "written":
            await engine.write("t", appending(New()))
            return
        restore = await engine.restore("t", PartitionState(1, 1, 1, 1, 1))
        await restore.add(lambda view: ((), [New().at(1, 1)]))
        assert await restore.finish()
        await restore.close()

    engine = MemoryEngine()
    engine._names = Names()
    asyncio.run(begin())
    assert engine.held == engine._partitions["t"].size > 100
