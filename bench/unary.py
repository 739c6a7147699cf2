"""Unary calls, of one caller and of 32, beside the empty call of a bare server and beside etcd's."""

from collections.abc import Iterator

from bench import etcd
from bench.contest import Side, contest
from bench.load import MANY, ONE, Prepared, Shape
from bench.stage import Stage
from bench.table import Row
from bench.workloads import APPEND_EVENTS, APPEND_NEXT, EVENT_SIZE, GET, SET, VALUE, Stubs, Workload, event

_ETCD_MANY = Shape(8, 32)
_GOALS = {(GET, ONE): 1.1, (SET, ONE): 1.1, (APPEND_NEXT, ONE): 1.1, (GET, MANY): 0.92, (SET, MANY): 0.9}
_GOALS[APPEND_NEXT, MANY] = 0.92


def rows(stage: Stage) -> Iterator[Row]:
    """Measure, and yield the figures."""
    yield from _itself(stage)
    for shape in (ONE, MANY):
        for workload in (GET, SET, APPEND_NEXT):
            yield from _call(stage, workload, shape)
    yield from _batches(stage)


def _subject(stage: Stage, workload: Workload, shape: Shape) -> tuple[Side, int]:
    """Return a workload as it is measured on a thread or key for each turn, and the bytes of its requests."""
    place = f"{workload.name.split()[0]}-{shape.connections}-{{}}".format

    def prepare(stubs: Stubs, number: int) -> Prepared:
        return workload.prepare(stubs, place(number))

    size = len(workload.prepare(stage.stubs, place("sample")).request)
    return stage.load_each(shape, workload.method, prepare, workload.units), size


def _itself(stage: Stage) -> Iterator[Row]:
    """Say what the ratios are worth: the floor, beside itself."""
    again, floor = stage.beside_empty(MANY, EVENT_SIZE)[0], stage.beside_empty(MANY, EVENT_SIZE)
    yield from contest(f"Empty call, bare server, {MANY}", "calls/s", again, floor, stage.effort)


def _call(stage: Stage, workload: Workload, shape: Shape) -> Iterator[Row]:
    side, size = _subject(stage, workload, shape)
    others = stage.beside_empty(shape, size, _GOALS[workload, shape])
    if workload is GET:
        value = VALUE.SerializeToString()
        others += stage.beside_etcd("etcd Range of a key", shape, etcd.RANGE, lambda peer: peer.getting("get", value))
    else:
        value = VALUE.SerializeToString() if workload is SET else event(EVENT_SIZE).SerializeToString()
        key = f"{workload.name}-{shape}"
        others += stage.beside_etcd("etcd Put", shape, etcd.PUT, lambda peer: peer.putting(key, value))
    yield from contest(f"{workload.name}, {shape}", workload.unit, side, others, stage.effort)


def _batches(stage: Stage) -> Iterator[Row]:
    side, size = _subject(stage, APPEND_EVENTS, MANY)
    value = event(EVENT_SIZE).SerializeToString()
    others = stage.beside_empty(MANY, size, units=APPEND_EVENTS.units) + stage.beside_etcd(
        f"etcd Put, {_ETCD_MANY}",
        _ETCD_MANY,
        etcd.PUT,
        lambda peer: peer.putting("batches", value),
        goal=5,
    )
    name = f"{APPEND_EVENTS.name}, {MANY}"
    yield from contest(name, APPEND_EVENTS.unit, side, others, stage.effort, least=130_000)
