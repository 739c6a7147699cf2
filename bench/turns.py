"""How a workload is measured: short turns of it and of its floor, one after the other.

Machines drift, by a factor of two on shared ones. From one second to the next they hardly do, so each turn is compared
with the floor's beside it, and the median of those ratios is the figure to trust.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from bench import load
from bench.load import Sent, Shape
from bench.process import Process, cpu_time
from bench.workloads import Stubs, Workload

_FIRST = 64  # calls, to warm up and to see how many fill a turn


@dataclass(frozen=True, slots=True)
class Effort:
    """How many turns there are, and how long each takes, in seconds."""

    turns: int
    seconds: float


class Turn(NamedTuple):
    """What a turn came to, and what each call of it cost the server's processors, in seconds."""

    sent: Sent
    cost: float


class Pair(NamedTuple):
    """A turn of the workload, and one of its floor."""

    subject: Turn
    floor: Turn

    @property
    def ratio(self) -> float:
        """How much of the floor's rate is reached."""
        return self.subject.sent.rate / self.floor.sent.rate

    @property
    def cpu_ratio(self) -> float:
        """What the floor costs, as a share of what the workload does: the same ratio, with no one else's load in it."""
        return self.floor.cost / self.subject.cost


class Outcome(NamedTuple):
    """What the turns came to: medians, in units a second, and the smallest and the greatest ratio; what `Pair` has."""

    rate: float
    floor: float
    ratio: float
    least: float
    greatest: float
    cpu_ratio: float


def measure(workload: Workload, stubs: Stubs, server: Process, effort: Effort) -> Outcome:
    """Measure a workload. AssertionError where a call did not do what it should."""
    pairs = list(_pairs(workload, stubs, server, effort))
    ratios = [pair.ratio for pair in pairs]
    return Outcome(
        median(pair.subject.sent.rate for pair in pairs) * workload.units,
        median(pair.floor.sent.rate for pair in pairs) * workload.units,
        median(ratios),
        min(ratios),
        max(ratios),
        median(pair.cpu_ratio for pair in pairs),
    )


def _pairs(workload: Workload, stubs: Stubs, server: Process, effort: Effort) -> Iterator[Pair]:
    pair = _pair(workload, stubs, server, -1, (_FIRST, _FIRST))
    for number in range(effort.turns):
        pair = _pair(workload, stubs, server, number, [round(done.sent.rate * effort.seconds) for done in pair])
        yield pair


def _pair(workload: Workload, stubs: Stubs, server: Process, number: int, calls: Sequence[int]) -> Pair:
    place = f"{workload.name.split()[0]}-{workload.shape}-{number}"
    requests = workload.prepare(stubs, place)
    if number % 2:  # so that neither order is favoured
        subject = turn(server, workload.shape, workload.method, requests.subject, calls[0])
        floor = turn(server, workload.shape, workload.floor, requests.floor, calls[1])
    else:
        floor = turn(server, workload.shape, workload.floor, requests.floor, calls[1])
        subject = turn(server, workload.shape, workload.method, requests.subject, calls[0])
    assert floor.sent.data == floor.sent.calls * requests.floor_data, floor
    workload.check(stubs, place, subject.sent)
    return Pair(subject, floor)


def turn(server: Process, shape: Shape, method: str, request: bytes, calls: int) -> Turn:
    """Make calls of one method on a server."""
    before = cpu_time(server.pid)
    sent = load.send(server.address, shape, method, request, calls)
    return Turn(sent, (cpu_time(server.pid) - before) / sent.calls)
