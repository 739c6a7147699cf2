"""LangGraph's InMemorySaver and SqliteSaver: the checkpoints that its programs keep, called as those call them.

A saver lives in the process that uses it, and makes Python values of what it reads.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.contest import left_out

STATE = {"messages": ["m" * 100] * 2, "step": 7}
THREAD = "read"
_PLACE: Any = {"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}}


class Saver(NamedTuple):
    """A saver, by its name."""

    name: str
    saver: Any
    """Not its own type, which need not be installed."""


@contextmanager
def filled(count: int) -> Iterator[list[Saver]]:
    """Give both savers, each in memory, with `count` checkpoints in one thread; none where LangGraph is missing."""
    try:
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError:
        left_out("all rows beside LangGraph", "langgraph-checkpoint-sqlite is missing (pip install -e '.[bench]')")
        yield []
        return
    with SqliteSaver.from_conn_string(":memory:") as sqlite:
        savers = [Saver("SqliteSaver", sqlite), Saver("InMemorySaver", InMemorySaver())]
        for saver in savers:
            put(saver, THREAD, count)
        yield savers


@contextmanager
def on_disk() -> Iterator[Saver | None]:
    """Give a SqliteSaver on a file that is removed afterwards; None where LangGraph is missing."""
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError:
        left_out("rows beside SqliteSaver on disk", "langgraph-checkpoint-sqlite is missing")
        yield None
        return
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="statekeep-bench-"))
        file = str(Path(directory) / "saver.db")
        yield Saver("SqliteSaver", stack.enter_context(SqliteSaver.from_conn_string(file)))


def put(saver: Saver, thread: str, count: int) -> list[Any]:
    """Save `count` checkpoints, each after the other, and return where each is."""
    from langgraph.checkpoint.base import empty_checkpoint

    place = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    places = []
    for step in range(count):
        checkpoint = empty_checkpoint() | {"channel_values": STATE, "channel_versions": {"messages": 1, "step": 1}}
        place = saver.saver.put(place, checkpoint, {"source": "loop", "step": step}, {"messages": 1, "step": 1})
        places.append(place)
    return places


def listing(saver: Saver, count: int) -> Callable[[], int]:
    """Return what lists a thread's checkpoints, which must be `count`, and returns how many."""

    def work() -> int:
        found = list(saver.saver.list(_PLACE))
        assert len(found) == count, len(found)
        assert found[-1].checkpoint["channel_values"] == STATE, found[-1]
        return count

    return work


def latest(saver: Saver, before: Any, step: int) -> Callable[[], int]:
    """Return what looks up the newest checkpoint before one, which must be of that step, and returns 1."""

    def work() -> int:
        found = list(saver.saver.list(_PLACE, before=before, limit=1))
        assert [each.metadata["step"] for each in found] == [step], found
        return 1

    return work
