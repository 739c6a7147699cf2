"""How long it takes from an append until each follower of the thread has the event, beside etcd and Valkey.

One writer appends again and again, each time when all have the event before. The followers are plain sockets, which
cost little; how it is for one that is a Python program is measured too.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain
from statistics import median, quantiles

import statekeep
from statekeep import NewEvent

from bench import tails
from bench.contest import Effort, attempt
from bench.stage import Stage
from bench.table import Row
from bench.tails import Tails

_CONNECTIONS = 10  # that many followers share; Valkey's clients have one each
_PATIENCE = 30.0  # seconds

Times = list[list[float]]
"""Milliseconds, by turn."""


def rows(stage: Stage) -> Iterator[Row]:
    """Measure, and yield the figures."""
    yield from _sockets(stage, 1, 1, 20 if stage.effort.quick else 100, goal=2)
    yield from _sockets(stage, 500, _CONNECTIONS, 5 if stage.effort.quick else 25, goal=50)
    for followers, each in ((1, 100), (500, 10)):
        count = each // 5 if stage.effort.quick else each
        times = [asyncio.run(_python(stage.server.address, followers, count)) for _ in range(stage.effort.turns)]
        yield from _figures(f"Append to delivery, {_named(followers)}, Python client", times, {}, None)


def _sockets(stage: Stage, followers: int, connections: int, each: int, goal: float) -> Iterator[Row]:
    """Measure `each` deliveries a turn, of all sides in turns."""
    with ExitStack() as stack:
        mine = tails.statekeep(stack, stage.server.address, f"tails-{followers}", followers, connections)
        others: dict[str, Callable[[], Tails]] = {}
        if etcd := stage.etcd:
            others["etcd Watch"] = lambda: tails.etcd_watches(stack, etcd, followers, connections)
        if valkey := stage.valkey:
            others["Valkey XREAD"] = lambda: tails.valkey_readers(stack, valkey, followers)
        begun = {name: side for name, begin in others.items() for side in attempt(f"delivery beside {name}", begin)}
        times, theirs = _turns(mine, begun, stage.effort, each)
    yield from _figures(f"Append to delivery, {_named(followers)}", times, theirs, goal)


def _turns(mine: Tails, others: dict[str, Tails], effort: Effort, each: int) -> tuple[Times, dict[str, Times]]:
    times: Times = []
    theirs: dict[str, Times] = {name: [] for name in others}
    for number in range(-1, effort.turns):
        times.append(_deliveries(mine, number, each))
        for name in list(theirs):
            made = attempt(f"delivery beside {name}", partial(_deliveries, others[name], number, each))
            theirs[name] += made
            if not made:
                del theirs[name]
    # The first turn is to warm up.
    return times[1:], {name: measured[1:] for name, measured in theirs.items()}


def _deliveries(side: Tails, number: int, each: int) -> list[float]:
    return [side.deliver(f"turn-{number}-{place:06}.") * 1000 for place in range(each)]


def _figures(name: str, times: Times, theirs: dict[str, Times], goal: float | None) -> Iterator[Row]:
    """Yield the median and the 99th percentile; the ratio is of milliseconds, so less is better."""
    yield from _figure(f"{name}, p50", median, times, theirs, None)
    yield from _figure(f"{name}, p99", _p99, times, theirs, goal)


def _figure(
    name: str, of: Callable[[list[float]], float], times: Times, theirs: dict[str, Times], goal: float | None
) -> Iterator[Row]:
    figure = of(list(chain(*times)))
    met = figure <= goal if goal else None
    if goal or not theirs:
        yield Row(name, figure, "ms", goal=f"≤ {goal:g}" if goal else "", met=met)
    for other, measured in theirs.items():
        floor = of(list(chain(*measured)))
        ratios = [of(one) / of(two) for one, two in zip(times, measured, strict=True)]
        yield Row(name, figure, "ms", other, floor, figure / floor, min(ratios), max(ratios))


def _p99(times: list[float]) -> float:
    return quantiles(times, n=100, method="inclusive")[98]


def _named(followers: int) -> str:
    return "one follower" if followers == 1 else f"the last of {followers}"


async def _python(address: str, followers: int, count: int) -> list[float]:
    """Return how many milliseconds each of `count` deliveries took, all in this process."""
    thread = f"python-{followers}-{time.monotonic_ns()}"
    got: asyncio.Queue[str] = asyncio.Queue()

    async def follow() -> None:
        async for event in client.state.tail(thread):
            got.put_nowait(event.id)

    async with statekeep.AsyncClient(address) as client, asyncio.timeout(_PATIENCE + count):
        tasks = [asyncio.create_task(follow()) for _ in range(followers)]
        times = [await _deliver(client, thread, got, f"event-{number}", followers) for number in range(-5, count)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return times[5:]  # the first find followers that are not there yet


async def _deliver(
    client: statekeep.AsyncClient, thread: str, got: asyncio.Queue[str], event_id: str, followers: int
) -> float:
    started = time.perf_counter()
    append = asyncio.create_task(client.state.append_next(thread, NewEvent("step", "d" * 200, id=event_id)))
    ids = [await got.get() for _ in range(followers)]
    taken = (time.perf_counter() - started) * 1000
    assert ids == [event_id] * followers, (set(ids), event_id)
    await append
    return taken
