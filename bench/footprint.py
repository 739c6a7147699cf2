"""What the server takes before anyone calls: memory for each event and each idle follower, and the time to start."""

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

from bench import memory, tails
from bench.contest import Effort
from bench.process import resident, running, statekeep
from bench.table import Row

_STARTS = 5
_FOLLOWERS, _WARM = 1_000, 100
_FOLLOWER_KIB = 35


def rows(effort: Effort) -> Iterator[Row]:
    """Measure, and yield the figures."""
    for form, goal in memory.GOALS.items():
        beyond = memory.overhead(form, 20_000 if effort.quick else 200_000).beyond
        yield Row(f"Memory beyond the wire's, {form}", beyond, "B/event", goal=f"≤ {goal}", met=beyond <= goal)
    count = _FOLLOWERS // 10 if effort.quick else _FOLLOWERS
    own = _idle_follower(count, own=True) / 1024
    name = f"Memory of an idle follower, {count:,} of them"
    yield Row(f"{name}, own connections", own, "KiB", goal=f"≤ {_FOLLOWER_KIB}", met=own <= _FOLLOWER_KIB)
    yield Row(f"{name}, one connection", _idle_follower(count, own=False) / 1024, "KiB")
    start = median(_start_times(1 if effort.quick else _STARTS))
    yield Row("Start to ready", start, "s", goal="≤ 0.30", met=start <= 0.3)


def _idle_follower(count: int, *, own: bool) -> float:
    """Return the bytes for each of `count` followers that wait, of a server that holds nothing else."""
    with running(statekeep()) as server, ExitStack() as stack:
        tails.statekeep(stack, server.address, "warm", _WARM, _WARM if own else 1)
        before = resident(server.pid)
        tails.statekeep(stack, server.address, "idle", count, count if own else 1)
        return (resident(server.pid) - before) / count


def _start_times(count: int) -> Iterator[float]:
    for _ in range(count):
        with running(statekeep()) as server:
            yield server.start_time
