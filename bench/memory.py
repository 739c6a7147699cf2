"""How much memory an event takes beyond its bytes on the wire, in the in-memory engine.

It is the growth of the resident set of a fresh process that runs rules and engine without gRPC. tracemalloc would
miss what the allocators waste, and the wire library's arenas; this counts all that an event makes the process hold.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

from statekeep.v1 import state_store_pb2 as pb
from statekeep_server.core import state_store
from statekeep_server.core.journal import EVENTS, MAIN, Call, View
from statekeep_server.core.wire import body
from statekeep_server.engines.memory import MemoryEngine

from bench.process import ROOT, resident
from bench.workloads import BATCH, EVENT_SIZE, event

_PATIENCE = 300.0  # seconds


class Overhead(NamedTuple):
    """Bytes an event: on the wire, and what the process holds beyond that."""

    wire: float
    beyond: float


def overhead(form: str, count: int) -> Overhead:
    """Return what `count` events take, in a process that holds nothing else. `form` is one of FORMS."""
    command = [sys.executable, "-m", "bench.memory", form, str(count)]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=_PATIENCE)
    return Overhead(*json.loads(said.stdout))


def _one_thread(count: int, new_id: Callable[[], str]) -> Iterator[pb.AppendEventsRequest]:
    for _ in range(count // BATCH):
        events = [event(EVENT_SIZE, event_id=new_id()) for _ in range(BATCH)]
        yield pb.AppendEventsRequest(thread_id="thread", events=events)


def _threads_of_ten(count: int, new_id: Callable[[], str]) -> Iterator[pb.AppendEventsRequest]:
    for place in range(count):
        made = event(EVENT_SIZE, event_id=new_id())
        yield pb.AppendEventsRequest(thread_id=f"thread-{place // 10}", events=[made])


def _uuid() -> str:
    return str(uuid.uuid4())


FORMS: dict[str, Callable[[int], Iterator[pb.AppendEventsRequest]]] = {
    "one thread, ids from the client": lambda count: _one_thread(count, _uuid),
    "one thread, ids from the server": lambda count: _one_thread(count, str),
    "threads of ten, ids from the client": lambda count: _threads_of_ten(count, _uuid),
    "threads of ten, ids from the server": lambda count: _threads_of_ten(count, str),
}


GOALS = {form: 50 if form.startswith("one thread") else 200 for form in FORMS}
"""How many bytes an event may take beyond its own on the wire."""


async def _append(engine: MemoryEngine, request: pb.AppendEventsRequest) -> None:
    call = Call(time.time_ns() // 1000)
    partition = state_store.partition(request.thread_id)
    await engine.write(partition, lambda view: state_store.append_events(view, request, call))


async def _wire_sizes(engine: MemoryEngine, partition: str) -> list[int]:
    def sizes(view: View) -> list[int]:
        return [len(body(record.frame)) for record in view.scan(EVENTS + MAIN)]

    return await engine.read(partition, sizes)


async def _measure(form: str, count: int) -> Overhead:
    warm, engine = MemoryEngine(), MemoryEngine()
    for request in FORMS[form](10 * BATCH):
        await _append(warm, request)
    gc.collect()
    before = resident(os.getpid())
    for request in FORMS[form](count):
        await _append(engine, request)
    gc.collect()
    grown = resident(os.getpid()) - before
    partitions = await engine.partitions(state_store.PARTITIONS, "", count)
    sizes = [size for partition in partitions for size in await _wire_sizes(engine, partition)]
    assert len(sizes) == count, (len(sizes), count)
    return Overhead(sum(sizes) / count, (grown - sum(sizes)) / count)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(sys.argv[1], int(sys.argv[2])))))
