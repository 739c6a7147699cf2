"""What calls cost where much is kept: the same on a thread and a scope of 1,000, 100,000 and 1,000,000 records."""

from collections.abc import Callable, Iterator

from statekeep.v1 import memory_pb2 as memory

from bench import lookups
from bench.contest import Side, contest
from bench.load import HEADER, MANY, Prepared, answers
from bench.stage import Stage
from bench.streams import LONG, after
from bench.table import Row
from bench.workloads import (
    APPEND_NEXT,
    GET,
    SET,
    STREAM_HISTORY,
    VALUE,
    Stubs,
    append_next,
    fill_scope,
    fill_thread,
    get,
    set_value,
    stream,
)

_SMALL, _MIDDLE = 1_000, 100_000
_PAGE = 100
_LEAST = 0.83  # of the rate with 1,000: at most 1.2 times the cost

Prepare = Callable[[Stubs, int, int], Prepared]
"""Prepares a turn where so many records are; the last is the turn's number."""


def rows(stage: Stage) -> Iterator[Row]:
    """Measure, and yield the figures."""
    sizes = (_SMALL, 10_000) if stage.effort.quick else (_SMALL, _MIDDLE, LONG)
    for size in sizes:
        fill_thread(stage.stubs, f"thread-{size}", size)
        fill_scope(stage.stubs, _scope(size), size)
        lookups.checkpoint(stage.stubs, f"thread-{size}", 1)
    for name, method, prepare in _CALLS:
        yield from _grown(stage, name, method, prepare, sizes)


def _grown(stage: Stage, name: str, method: str, prepare: Prepare, sizes: tuple[int, ...]) -> Iterator[Row]:
    small, *middle, large = (_with(stage, method, prepare, size) for size in sizes)
    others = [small._replace(goal=_LEAST), *middle]
    yield from contest(f"{name} with {sizes[-1]:,} records, {MANY}", "calls/s", large, others, stage.effort)


def _with(stage: Stage, method: str, prepare: Prepare, size: int) -> Side:
    side = stage.load(MANY, method, lambda number: prepare(stage.stubs, size, number))
    return side._replace(name=f"with {size:,}")


def _scope(size: int) -> memory.Scope:
    return memory.Scope(name=f"scope-{size}")


def _get(stubs: Stubs, size: int, number: int) -> Prepared:
    return get(stubs, f"key/{size // 2:07}", _scope(size))


def _set(stubs: Stubs, size: int, number: int) -> Prepared:
    scope = _scope(size)
    if size == _SMALL:  # a new one each turn, or it would soon be large
        scope = memory.Scope(name=f"scope-{size}-{number}")
        fill_scope(stubs, scope, size)
    return set_value(stubs, f"new/{number}", scope)


def _append(stubs: Stubs, size: int, number: int) -> Prepared:
    thread = f"thread-{size}"
    if size == _SMALL:  # as above
        thread = f"thread-{size}-{number}"
        fill_thread(stubs, thread, size)
    return append_next(stubs, thread)


def _resume(stubs: Stubs, size: int, number: int) -> Prepared:
    return stream(stubs, after(stubs, f"thread-{size}", size // 2, _PAGE), size // 2 + 1, _PAGE)[0]


def _latest(stubs: Stubs, size: int, number: int) -> Prepared:
    request = after(stubs, f"thread-{size}", size // 2, 1)
    (at_event,) = [event.id for answer in stubs.state.StreamHistory(request) for event in answer.events]
    return lookups.latest(stubs, f"thread-{size}", at_event, 1)


def _page(stubs: Stubs, size: int, number: int) -> Prepared:
    prefix = f"key/{size // 2:07}"[:-2]  # of a hundred keys
    request = memory.MemoryListRequest(scope=_scope(size), prefix=prefix, page_size=_PAGE, include_values=True)
    answer = stubs.memory.List(request)
    assert [entry.value for entry in answer.entries] == [VALUE] * _PAGE, len(answer.entries)
    return Prepared(request.SerializeToString(), answers(HEADER + answer.ByteSize()))


_CALLS: tuple[tuple[str, str, Prepare], ...] = (
    ("Get", GET.method, _get),
    ("Set", SET.method, _set),
    ("AppendNextEvent", APPEND_NEXT.method, _append),
    (f"Resume, {_PAGE} events", STREAM_HISTORY, _resume),
    ("LatestCheckpoint(at)", lookups.LATEST, _latest),
    (f"List of {_PAGE} by prefix", "/statekeep.v1.Memory/List", _page),
)
