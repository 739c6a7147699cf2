"""The server on the SQLite engine, beside the server in memory and beside LangGraph's SqliteSaver."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import grpc
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value

from bench import disk, saver
from bench.contest import Effort, Side, contest, timed
from bench.load import MANY, ONE, Load, Prepared, Shape
from bench.process import Process, running, statekeep
from bench.stage import BOUNDED
from bench.streams import HISTORY
from bench.table import Row
from bench.workloads import (
    APPEND_EVENTS,
    APPEND_NEXT,
    EVENT_SIZE,
    GET,
    SET,
    STREAM_HISTORY,
    Stubs,
    Workload,
    fill_thread,
    stream,
)

_GOALS = {GET: 0.75}
_STREAM_GOAL = 0.5
_TOGETHER = Shape(4, 16)
_CHECKPOINTS = 1_000  # of a thread; one page
_SAVED = 50  # checkpoints, between two looks at the clock


class _Store(NamedTuple):
    """A server on a store, with a client."""

    server: Process
    stubs: Stubs

    def load(self, name: str, shape: Shape, workload: Workload) -> Side:
        """Return calls, on a thread or key for each turn."""
        place = f"{workload.name.split()[0]}-{shape.connections}-{shape.calls}-{{}}".format

        def prepare(number: int) -> Prepared:
            return workload.prepare(self.stubs, place(number))

        return Load(self.server, shape, workload.method, prepare, workload.units).side(name)

    def history(self, name: str, thread: str, count: int) -> Side:
        """Return reads of a thread of so many events."""
        request = state.StreamHistoryRequest(thread_id=thread)
        prepared, _ = stream(self.stubs, request, 1, count)
        return Load(self.server, ONE, STREAM_HISTORY, lambda number: prepared, count).side(name)


def rows(effort: Effort) -> Iterator[Row]:
    """Measure, and yield the figures."""
    with ExitStack() as stack:
        memory, sqlite = (_store(stack, store) for store in ("memory:", stack.enter_context(disk.file())))
        for workload in (GET, SET, APPEND_NEXT, APPEND_EVENTS):
            floor = memory.load("in-memory engine", MANY, workload)._replace(goal=_GOALS.get(workload))
            side = sqlite.load("SQLite", MANY, workload)
            yield from contest(f"SQLite: {workload.name}, {MANY}", workload.unit, side, [floor], effort)
        for store in (memory, sqlite):
            fill_thread(store.stubs, "whole", HISTORY)
        floor = memory.history("in-memory engine", "whole", HISTORY)._replace(goal=_STREAM_GOAL)
        name = f"SQLite: StreamHistory, {HISTORY:,} x {EVENT_SIZE} B, 1 connection"
        yield from contest(name, "events/s", sqlite.history("SQLite", "whole", HISTORY), [floor], effort)
        one, many = (sqlite.load("one caller", shape, APPEND_NEXT) for shape in (ONE, _TOGETHER))
        yield from contest(f"SQLite: AppendNextEvent, {_TOGETHER}", "calls/s", many, [one], effort)
        yield from _beside_saver(sqlite, effort)


def _store(stack: ExitStack, store: str) -> _Store:
    server = stack.enter_context(running(statekeep(store)))
    return _Store(server, Stubs(stack.enter_context(grpc.insecure_channel(server.address, BOUNDED))))


def _beside_saver(store: _Store, effort: Effort) -> Iterator[Row]:
    """Measure one caller in Python, who calls each as its users do; and what the server sends, of as many events."""
    with saver.on_disk() as kept:
        if not kept:
            return
        number = iter(range(1_000_000))
        theirs = timed("SqliteSaver.put", lambda: len(saver.put(kept, f"put-{next(number)}", _SAVED)))
        mine = timed("Statekeep", lambda: _save(store.stubs, f"put-{next(number)}", _SAVED))
        yield from contest("SQLite: saving a checkpoint, Python", "checkpts/s", mine, [theirs], effort)
        saver.put(kept, saver.THREAD, _CHECKPOINTS)
        _save(store.stubs, saver.THREAD, _CHECKPOINTS)
        theirs = timed("SqliteSaver.list", saver.listing(kept, _CHECKPOINTS))
        mine = timed("Statekeep", _listing(store.stubs))
        yield from contest("SQLite: reading checkpoints, Python", "checkpts/s", mine, [theirs], effort)
        events = [state.Event(type="step", data=Value(json=json.dumps(saver.STATE)))] * _CHECKPOINTS
        store.stubs.state.AppendEvents(state.AppendEventsRequest(thread_id=saver.THREAD, events=events))
        sent = store.history("Statekeep", saver.THREAD, _CHECKPOINTS)
        yield from contest("SQLite: sending a thread", "events/s", sent, [theirs._replace(goal=10)], effort)


def _save(stubs: Stubs, thread: str, count: int) -> int:
    value = Value(json=json.dumps(saver.STATE))
    for step in range(count):
        checkpoint = state.Checkpoint(thread_id=thread, sequence=step, state=value)
        assert stubs.state.SaveCheckpoint(state.SaveCheckpointRequest(checkpoint=checkpoint)).checkpoint.revision
    return count


def _listing(stubs: Stubs) -> Callable[[], int]:
    request = state.ListCheckpointsRequest(thread_id=saver.THREAD, page_size=_CHECKPOINTS)

    def work() -> int:
        found = [json.loads(checkpoint.state.json) for checkpoint in stubs.state.ListCheckpoints(request).checkpoints]
        assert len(found) == _CHECKPOINTS, len(found)
        assert found[-1] == saver.STATE
        return _CHECKPOINTS

    return work
