"""A server with all its limits and metrics, beside one without any: what those cost a call."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import grpc

from bench.contest import Effort, Side, contest, each_in_turn
from bench.load import MANY, Load, Prepared
from bench.process import Process, running, statekeep
from bench.stage import BOUNDED, CASTS
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
        plain, full = [_servers(stack, flags, 1 if effort.quick else CASTS) for flags in ((), _ALL)]
        for workload in (GET, SET, APPEND_NEXT):
            subject = _side(stack, "with all", full, workload)
            beside = _side(stack, "with none", plain, workload)._replace(goal=_GOAL)
            name = f"{workload.name} with limits and metrics, {MANY}"
            yield from contest(name, workload.unit, subject, [beside], effort)


def _servers(stack: ExitStack, flags: Sequence[str], count: int) -> list[Process]:
    return [stack.enter_context(running(statekeep("memory:", *flags))) for _ in range(count)]


def _side(stack: ExitStack, name: str, servers: Sequence[Process], workload: Workload) -> Side:
    return each_in_turn([_of_one(stack, name, server, workload) for server in servers])


def _of_one(stack: ExitStack, name: str, server: Process, workload: Workload) -> Side:
    stubs = Stubs(stack.enter_context(grpc.insecure_channel(server.address, BOUNDED)))

    def prepare(number: int) -> Prepared:
        return workload.prepare(stubs, f"{workload.name.split()[0]}-{number}")

    return Load(server, MANY, workload.method, prepare, workload.units).side(name)
