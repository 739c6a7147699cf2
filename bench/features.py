"""A server with all its limits and metrics, beside one without any: what those cost a call."""

from collections.abc import Iterator
from contextlib import ExitStack

import grpc

from bench.contest import Effort, Side, contest
from bench.load import MANY, Load, Prepared
from bench.process import Process, running, statekeep
from bench.stage import BOUNDED
from bench.table import Row
from bench.workloads import APPEND_NEXT, GET, SET, Stubs, Workload

_MOST = "1000000000"
_ALL = (
    *("--metrics", "127.0.0.1:0", "--max-memory", "100GiB", "--max-scope-keys", _MOST, "--max-scope-versions", _MOST),
    *("--max-thread-events", _MOST, "--max-scratch-bytes", "100GiB", "--max-calls", _MOST, "--max-stream-age", "100d"),
)
_GOAL = 0.95


def rows(effort: Effort) -> Iterator[Row]:
    """Measure, and yield the figures."""
    with ExitStack() as stack:
        plain, full = (stack.enter_context(running(statekeep("memory:", *flags))) for flags in ((), _ALL))
        for workload in (GET, SET, APPEND_NEXT):
            sides = [
                _side(stack, name, server, workload) for name, server in (("with all", full), ("with none", plain))
            ]
            name = f"{workload.name} with limits and metrics, {MANY}"
            yield from contest(name, workload.unit, sides[0], [sides[1]._replace(goal=_GOAL)], effort)


def _side(stack: ExitStack, name: str, server: Process, workload: Workload) -> Side:
    stubs = Stubs(stack.enter_context(grpc.insecure_channel(server.address, BOUNDED)))

    def prepare(number: int) -> Prepared:
        return workload.prepare(stubs, f"{workload.name.split()[0]}-{number}")

    return Load(server, MANY, workload.method, prepare, workload.units).side(name)
