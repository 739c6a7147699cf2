"""What the SQLite engine does without gRPC: how far callers share a sync, and whether a large file slows it down."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import uvloop
from statekeep.v1 import state_store_pb2 as pb
from statekeep_server.core import state_store
from statekeep_server.core.journal import EVENTS, MAIN, Call
from statekeep_server.engines import Engine, open_engine

from bench.contest import Effort
from bench.table import Row
from bench.workloads import BATCH, EVENT_SIZE, event

CALLERS = 64
_SMALL, _LARGE = 1_000, 1_000_000  # events
_FILL = 1_000  # events of a batch that only fills a file
_APPENDS = 250  # of a turn

Append = Callable[[Engine, str], Awaitable[object]]


@contextmanager
def file() -> Iterator[str]:
    """Give the URL of a store in a directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="statekeep-bench-") as directory:
        yield f"sqlite:{Path(directory) / 'state.db'}"


def rows(effort: Effort) -> Iterator[Row]:
    """Measure, and yield the figures."""
    quick, turns = effort.quick, effort.turns
    with file() as store:
        yield from uvloop.run(_groups(store, turns))
    with file() as small, file() as large:
        count = _LARGE // 50 if quick else _LARGE
        yield from uvloop.run(_sizes(small, large, count, turns))
        yield uvloop.run(_opening(large, count))


async def append_next(engine: Engine, thread: str) -> object:
    """Append one event."""
    request = pb.AppendNextEventRequest(event=event(EVENT_SIZE, thread))
    call = Call(time.time_ns() // 1000)
    return await engine.write(
        state_store.partition(thread), lambda view: state_store.append_next_event(view, request, call)
    )


def _batch(count: int) -> Append:
    made = [event(EVENT_SIZE)] * count

    async def append(engine: Engine, thread: str) -> object:
        request = pb.AppendEventsRequest(thread_id=thread, events=made)
        call = Call(time.time_ns() // 1000)
        return await engine.write(
            state_store.partition(thread), lambda view: state_store.append_events(view, request, call)
        )

    return append


async def _rate(engine: Engine, append: Append, thread: str, callers: int, each: int) -> float:
    """Return how many appends a second `callers` make, each one after the other."""

    async def call() -> None:
        for _ in range(each):
            await append(engine, thread)

    before = await _count(engine, thread)
    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(callers)))
    taken = time.perf_counter() - started
    size = (await _count(engine, thread) - before) / (callers * each)
    assert size in (1, BATCH), size
    return callers * each / taken


async def _count(engine: Engine, thread: str) -> int:
    return await engine.read(state_store.partition(thread), lambda view: view.count(EVENTS + MAIN))


async def _groups(store: str, turns: int) -> list[Row]:
    engine = open_engine(store)
    batch = _batch(BATCH)
    one, many, batches, lone_batches = [], [], [], []
    await _rate(engine, append_next, "warm", CALLERS, 20)
    for turn in range(turns):
        one.append(await _rate(engine, append_next, f"one-{turn}", 1, 500))
        many.append(await _rate(engine, append_next, f"many-{turn}", CALLERS, 150))
        batches.append(BATCH * await _rate(engine, batch, f"batch-{turn}", 8, 25))
        lone_batches.append(BATCH * await _rate(engine, batch, f"lone-{turn}", 1, 100))
    await engine.close()
    ratios = [more / single for more, single in zip(many, one, strict=True)]
    ratio, rate, lone = median(ratios), median(batches), median(lone_batches)
    return [
        Row(
            f"Disk: AppendNextEvent, {CALLERS} callers",
            median(many),
            "appends/s",
            "one caller",
            median(one),
            ratio,
            min(ratios),
            max(ratios),
            goal="≥ 10",
            met=ratio >= 10,
        ),
        Row(f"Disk: AppendEvents of {BATCH}, 8 callers", rate, "events/s", goal="≥ 50,000", met=rate >= 50_000),
        Row(f"Disk: AppendEvents of {BATCH}, one caller", lone, "events/s", goal="≥ 50,000", met=lone >= 50_000),
    ]


async def _filled(store: str, count: int) -> Engine:
    engine = open_engine(store)
    fill = _batch(_FILL)
    for _ in range(count // _FILL):
        await fill(engine, "thread")
    return engine


async def _times(engine: Engine) -> list[float]:
    times = []
    for _ in range(_APPENDS):
        started = time.perf_counter()
        await append_next(engine, "thread")
        times.append((time.perf_counter() - started) * 1000)
    return times


async def _sizes(small_store: str, large_store: str, count: int, turns: int) -> list[Row]:
    small, large = await _filled(small_store, _SMALL), await _filled(large_store, count)
    in_small: list[float] = []
    in_large: list[float] = []
    ratios = []
    for turn in range(turns + 1):
        sides = [(small, in_small), (large, in_large)]
        for engine, times in sides if turn % 2 else reversed(sides):
            measured = await _times(engine)
            if turn:  # the first is to warm up
                times.extend(measured)
        if turn:
            ratios.append(_p99(in_large[-_APPENDS:]) / _p99(in_small[-_APPENDS:]))
    await small.close()
    await large.close()
    ratio = median(ratios)
    name = f"Disk: p99 of an append at {count:,} events"
    return [
        Row(
            name,
            _p99(in_large),
            "ms",
            f"at {_SMALL:,}",
            _p99(in_small),
            ratio,
            min(ratios),
            max(ratios),
            goal="≤ 1.5",
            met=ratio <= 1.5,
        )
    ]


def _p99(times: list[float]) -> float:
    return quantiles(times, n=100)[98]


async def _opening(store: str, count: int) -> Row:
    started = time.perf_counter()
    engine = open_engine(store)
    taken = time.perf_counter() - started
    assert await _count(engine, "thread") >= count
    await engine.close()
    return Row(f"Disk: opening a file of {count:,} events", taken, "s", goal="≤ 1.00", met=taken <= 1)
