"""`make bench`: every figure in one run, as a table.

A ratio is of the floor that was measured in turns with it, on the same server: an empty call with the same request,
or a stream of the same bytes from a constant. CPU is the same ratio in what the server's processors did, which others'
load disturbs less. How far the empty call is from itself says what the ratios are worth; the other figures are as good
as the machine is quiet.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median

import grpc

from bench import disk, load, memory, saver, stores, table
from bench.followers import idle_follower
from bench.machine import machine
from bench.process import BENCH_SERVER, STATEKEEP, Process, running
from bench.table import Row
from bench.turns import Effort, measure
from bench.workloads import WORKLOADS, Stubs, Workload

_FULL = Effort(turns=11, seconds=0.6)
_QUICK = Effort(turns=3, seconds=0.3)
_STARTS = 5
_FOLLOWERS = 500
_BYTES_BEYOND = 250
_BOUNDED = [("grpc.service_config", '{"methodConfig": [{"name": [{}], "timeout": "60s"}]}')]  # for every call


def main() -> int:
    """Measure, and return the exit code: 0, 1 where the server failed a check, 2 without h2load."""
    options = _options()
    if not load.available():
        print(load.MISSING, file=sys.stderr)
        return 2
    about = machine()
    print(f"{about}\n\n{table.head()}", flush=True)
    rows = []
    try:
        for row in _rows(options.quick, options.only):
            print(row.line(), flush=True)
            rows.append(row)
    except (AssertionError, RuntimeError, grpc.RpcError) as error:
        print(f"bench: the server did not do what it should: {error!r:.500}", file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "rows": [asdict(row) for row in rows]}, indent=2) + "\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Measures Statekeep beside its floors.")
    parser.add_argument("--quick", action="store_true", help="few and short turns: under a minute, and less sure")
    parser.add_argument("--only", choices=("memory", "sqlite"), help="measure one engine's part alone")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to a file too")
    return parser.parse_args()


def _rows(quick: bool, only: str | None) -> Iterator[Row]:
    if only != "sqlite":
        yield from _in_memory(quick)
    if only != "memory":
        yield from stores.rows(_QUICK if quick else _FULL)
        yield from disk.rows(quick)
        if saver.available():
            yield from saver.rows(_QUICK.turns if quick else _FULL.turns)
        else:
            print(saver.MISSING, file=sys.stderr)


def _in_memory(quick: bool) -> Iterator[Row]:
    with running(BENCH_SERVER) as server:
        follower = idle_follower(server, _FOLLOWERS)  # first, while the server holds no memory that it could reuse
        with grpc.insecure_channel(server.address, _BOUNDED) as channel:
            for workload in WORKLOADS:
                yield _speed(workload, Stubs(channel), server, _QUICK if quick else _FULL)
    for form in memory.FORMS:
        yield _memory(form, 50_000 if quick else 200_000)
    yield Row("Memory for an idle follower", follower / 1024, "KiB")
    yield Row("Start to ready", median(_start_times()), "s")


def _speed(workload: Workload, stubs: Stubs, server: Process, effort: Effort) -> Row:
    outcome = measure(workload, stubs, server, effort)
    goal, met = "", None
    if workload.least_ratio is not None:
        goal, met = f"≥ {workload.least_ratio:.2f}", outcome.ratio >= workload.least_ratio
    if workload.least_rate is not None:
        goal, met = f"≥ {workload.least_rate:,.0f}", outcome.rate >= workload.least_rate
    return Row(
        f"{workload.name}, {workload.shape}",
        outcome.rate,
        workload.unit,
        outcome.floor,
        outcome.ratio,
        (outcome.least, outcome.greatest),
        outcome.cpu_ratio,
        goal,
        met,
    )


def _memory(form: str, count: int) -> Row:
    beyond = memory.overhead(form, count).beyond
    name = f"Memory, {form}"
    return Row(name, beyond, "B/event", goal=f"≤ {_BYTES_BEYOND}", met=beyond <= _BYTES_BEYOND)


def _start_times() -> Iterator[float]:
    for _ in range(_STARTS):
        with running(STATEKEEP) as server:
            yield server.start_time


if __name__ == "__main__":
    sys.exit(main())
