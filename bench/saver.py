"""LangGraph's SqliteSaver beside a server on the SQLite engine: saving checkpoints, and reading a thread's history.

Each side is called as its users call it, by one caller: the saver in the process that uses it, Statekeep over gRPC.
Both make Python values of what they read. The last row is what the server sends, as bytes, of events that hold the
same.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import grpc
from statekeep.v1 import state_store_pb2 as pb
from statekeep.v1.value_pb2 import Value

from bench import disk, load
from bench.process import BENCH_SERVER, Process, running
from bench.table import Row
from bench.workloads import STREAM_HISTORY, Stubs

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

MISSING = "bench: langgraph-checkpoint-sqlite is missing, so its rows are left out (pip install -e '.[bench]')"

_CHECKPOINTS = 1_000  # of a thread; one page
_STATE = {"messages": ["m" * 100] * 2, "step": 7}


def available() -> bool:
    """Whether LangGraph's SqliteSaver is here."""
    try:
        import langgraph.checkpoint.sqlite  # noqa: F401 (to see whether it can be)
    except ImportError:
        return False
    return True


def rows(turns: int) -> Iterator[Row]:
    """Measure, and yield the figures: the floor is the saver's."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with (
        disk.file() as store,
        tempfile.TemporaryDirectory(prefix="statekeep-bench-") as directory,
        SqliteSaver.from_conn_string(str(Path(directory) / "saver.db")) as saver,
        running((*BENCH_SERVER, store)) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        stubs = Stubs(channel)
        _put(saver, "warm", 20)
        _save(stubs, "warm", 20)
        yield _row("Saving a checkpoint, beside SqliteSaver", turns, lambda turn: _saving(saver, stubs, turn))
        _put(saver, "read", _CHECKPOINTS)
        _save(stubs, "read", _CHECKPOINTS)
        yield _row("Reading checkpoints, beside SqliteSaver", turns, lambda turn: _reading(saver, stubs))
        _append(stubs, "read", _CHECKPOINTS)
        yield _row("Sending history, beside SqliteSaver", turns, lambda turn: _sending(saver, stubs, server), goal=10)


def _row(name: str, turns: int, pair: Callable[[int], tuple[float, float]], goal: float | None = None) -> Row:
    measured = [pair(turn) for turn in range(turns)]
    ratios = [ours / theirs for theirs, ours in measured]
    ratio = median(ratios)
    return Row(
        name,
        median(ours for _, ours in measured),
        "checkpts/s",
        median(theirs for theirs, _ in measured),
        ratio,
        (min(ratios), max(ratios)),
        goal=f"≥ {goal:g}" if goal else "",
        met=ratio >= goal if goal else None,
    )


def _rate(work: Callable[[], None], count: int) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def _saving(saver: "SqliteSaver", stubs: Stubs, turn: int) -> tuple[float, float]:
    count = 200
    theirs = _rate(lambda: _put(saver, f"put-{turn}", count), count)
    return theirs, _rate(lambda: _save(stubs, f"put-{turn}", count), count)


def _reading(saver: "SqliteSaver", stubs: Stubs) -> tuple[float, float]:
    return _rate(lambda: _list(saver), _CHECKPOINTS), _rate(lambda: _list_ours(stubs), _CHECKPOINTS)


def _sending(saver: "SqliteSaver", stubs: Stubs, server: Process) -> tuple[float, float]:
    request = pb.StreamHistoryRequest(thread_id="read")
    sizes = [len(message) for message in stubs.stream(request)]
    sent = load.send(server.address, load.Shape(1, 1), STREAM_HISTORY, request.SerializeToString(), 300)
    assert sent.data == sent.calls * (sum(sizes) + load.HEADER * len(sizes)), sent
    return _rate(lambda: _list(saver), _CHECKPOINTS), sent.rate * _CHECKPOINTS


def _put(saver: "SqliteSaver", thread: str, count: int) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    for step in range(count):
        checkpoint = empty_checkpoint() | {"channel_values": _STATE}
        config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {})


def _save(stubs: Stubs, thread: str, count: int) -> None:
    state = Value(json=json.dumps(_STATE))
    for step in range(count):
        checkpoint = pb.Checkpoint(thread_id=thread, sequence=step, state=state)
        stubs.state.SaveCheckpoint(pb.SaveCheckpointRequest(checkpoint=checkpoint))


def _append(stubs: Stubs, thread: str, count: int) -> None:
    event = pb.Event(type="step", data=Value(json=json.dumps(_STATE)))
    stubs.state.AppendEvents(pb.AppendEventsRequest(thread_id=thread, events=[event] * count))


def _list(saver: "SqliteSaver") -> None:
    found = list(saver.list({"configurable": {"thread_id": "read"}}))
    assert len(found) == _CHECKPOINTS, len(found)
    assert found[-1].checkpoint["channel_values"] == _STATE


def _list_ours(stubs: Stubs) -> None:
    request = pb.ListCheckpointsRequest(thread_id="read", page_size=_CHECKPOINTS)
    found = [json.loads(checkpoint.state.json) for checkpoint in stubs.state.ListCheckpoints(request).checkpoints]
    assert len(found) == _CHECKPOINTS, len(found)
    assert found[-1] == _STATE
