"""The server on the SQLite engine beside the server in memory: the same calls in turns, one server after the other."""

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median
from typing import NamedTuple

import grpc

from bench import disk, load
from bench.load import Shape
from bench.process import BENCH_SERVER, Process, running
from bench.table import Row
from bench.turns import Effort, Turn, turn
from bench.workloads import WORKLOADS, Stubs, Workload

_BOUNDED = [("grpc.service_config", '{"methodConfig": [{"name": [{}], "timeout": "60s"}]}')]  # for every call
_GOALS = {"Get": 0.75, "StreamHistory": 0.5}
_ALONE, _TOGETHER = Shape(1, 1), Shape(4, 16)


class _Side(NamedTuple):
    server: Process
    stubs: Stubs


def rows(effort: Effort) -> Iterator[Row]:
    """Measure, and yield the figures: the floor is the in-memory engine's."""
    with ExitStack() as stack:
        memory, sqlite = (_side(stack, store) for store in ("memory:", stack.enter_context(disk.file())))
        for workload in WORKLOADS[1:]:
            yield _beside(workload, memory, sqlite, effort)
        yield _callers(sqlite, effort)


def _side(stack: ExitStack, store: str) -> _Side:
    server = stack.enter_context(running((*BENCH_SERVER, store)))
    channel = stack.enter_context(grpc.insecure_channel(server.address, _BOUNDED))
    return _Side(server, Stubs(channel))


def _beside(workload: Workload, memory: _Side, sqlite: _Side, effort: Effort) -> Row:
    floors: list[Turn] = []
    subjects: list[Turn] = []
    for number in range(-1, effort.turns):
        sides = [(memory, floors), (sqlite, subjects)]
        for side, turns in sides if number % 2 else reversed(sides):
            calls = round(turns[-1].sent.rate * effort.seconds) if turns else 64
            turns.append(_turn(workload, side, workload.shape, calls, f"{workload.shape}-{number}"))
    name = f"{workload.name.split(' x ')[0]}, {workload.shape}, SQLite"
    least = _GOALS.get(workload.name.split()[0])
    ratios = [subject.sent.rate / floor.sent.rate for subject, floor in zip(subjects[1:], floors[1:], strict=True)]
    costs = [floor.cost / subject.cost for subject, floor in zip(subjects[1:], floors[1:], strict=True)]
    ratio = median(ratios)
    return Row(
        name,
        median(done.sent.rate for done in subjects[1:]) * workload.units,
        workload.unit,
        median(done.sent.rate for done in floors[1:]) * workload.units,
        ratio,
        (min(ratios), max(ratios)),
        median(costs),
        f"≥ {least:.2f}" if least else "",
        ratio >= least if least else None,
    )


def _callers(side: _Side, effort: Effort) -> Row:
    """Compare many callers with one, through gRPC."""
    workload = next(workload for workload in WORKLOADS if workload.name == "AppendNextEvent")
    alone: list[Turn] = []
    together: list[Turn] = []
    for number in range(-1, effort.turns):
        for shape, turns in ((_ALONE, alone), (_TOGETHER, together)):
            calls = round(turns[-1].sent.rate * effort.seconds) if turns else 64
            turns.append(_turn(workload, side, shape, calls, f"callers-{shape}-{number}"))
    ratios = [many.sent.rate / one.sent.rate for many, one in zip(together[1:], alone[1:], strict=True)]
    return Row(
        "AppendNextEvent, 64 callers beside one, SQLite",
        median(done.sent.rate for done in together[1:]),
        "requests/s",
        median(done.sent.rate for done in alone[1:]),
        median(ratios),
        (min(ratios), max(ratios)),
    )


def _turn(workload: Workload, side: _Side, shape: load.Shape, calls: int, place: str) -> Turn:
    place = f"{workload.name.split()[0]}-{place}"
    requests = workload.prepare(side.stubs, place)
    done = turn(side.server, shape, workload.method, requests.subject, calls)
    workload.check(side.stubs, place, done.sent)
    return done
