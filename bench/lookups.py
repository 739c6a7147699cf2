"""Finding something among much: the checkpoint at an event, and a scope's keys with their values."""

from collections.abc import Callable, Iterator

from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value

from bench import etcd, saver
from bench.contest import attempt, contest, timed
from bench.load import HEADER, MANY, ONE, Prepared, answers
from bench.stage import Stage
from bench.table import Row
from bench.valkey import Valkey, command
from bench.workloads import VALUE, Stubs, event, fill_scope

LATEST = "/statekeep.v1.StateStore/LatestCheckpoint"
_CHECKPOINTS = 5_000
_KEYS = 10_000
_PAGE = 1_000


def rows(stage: Stage) -> Iterator[Row]:
    """Measure, and yield the figures."""
    yield from _latest(stage, _CHECKPOINTS // 10 if stage.effort.quick else _CHECKPOINTS)
    yield from _keys(stage, _KEYS)


def latest(stubs: Stubs, thread: str, at_event: str, sequence: int) -> Prepared:
    """Prepare LatestCheckpoint at an event, which must find the checkpoint of that sequence."""
    request = state.LatestCheckpointRequest(thread_id=thread, at_event_id=at_event)
    answer = stubs.state.LatestCheckpoint(request)
    assert answer.checkpoint.sequence == sequence, answer
    return Prepared(request.SerializeToString(), answers(HEADER + answer.ByteSize()))


def checkpoint(stubs: Stubs, thread: str, sequence: int) -> None:
    """Save a checkpoint."""
    saved = state.Checkpoint(thread_id=thread, sequence=sequence, state=Value(json='{"step": 7}'))
    stubs.state.SaveCheckpoint(state.SaveCheckpointRequest(checkpoint=saved))


def _latest(stage: Stage, count: int) -> Iterator[Row]:
    thread, middle = "checkpoints", count // 2
    events = [event(120, event_id=f"event-{number}") for number in range(1, count + 1)]
    stage.stubs.state.AppendEvents(state.AppendEventsRequest(thread_id=thread, events=events))
    for number in range(1, count + 1):
        checkpoint(stage.stubs, thread, number)
    prepared = latest(stage.stubs, thread, f"event-{middle}", middle)
    others = stage.beside_empty(MANY, len(prepared.request))
    side = stage.load(MANY, LATEST, lambda number: prepared)
    yield from contest(f"LatestCheckpoint(at) among {count:,}, {MANY}", "calls/s", side, others, stage.effort)
    yield from _latest_in_python(stage, thread, count)


def _latest_in_python(stage: Stage, thread: str, count: int) -> Iterator[Row]:
    """Measure a caller in Python beside LangGraph's way to the same: the newest checkpoint before one."""
    middle = count // 2
    request = state.LatestCheckpointRequest(thread_id=thread, at_event_id=f"event-{middle}")

    def find() -> int:
        assert stage.stubs.state.LatestCheckpoint(request).checkpoint.sequence == middle
        return 1

    with saver.filled(0) as savers:
        others = []
        for each in savers:
            places = saver.put(each, saver.THREAD, count)
            others.append(timed(f"LangGraph {each.name}.list", saver.latest(each, places[middle], middle - 1)))
        name = f"LatestCheckpoint(at) among {count:,}, Python, {ONE}"
        yield from contest(name, "calls/s", timed("Statekeep", find), others, stage.effort)


def _keys(stage: Stage, count: int) -> Iterator[Row]:
    """Measure a caller in Python that takes all keys, undecoded: page by page, and beside it others at once."""
    scope, value = memory.Scope(name=f"list-{count}"), VALUE.SerializeToString()
    fill_scope(stage.stubs, scope, count)
    requests, size = _pages(stage.stubs, scope, count)

    def read() -> int:
        assert sum(len(stage.stubs.list(request)) for request in requests) == size
        return count

    def in_valkey(peer: Valkey) -> Callable[[], int]:
        peer.hash("list", count, value)
        return peer.reading(command("HGETALL", "list"), value, count)

    others = stage.beside_valkey("Valkey HGETALL, raw", in_valkey)
    if peer := stage.etcd:
        others += attempt("etcd Range", lambda: timed("etcd Range", _range(peer, count, value)))
    name = f"List of {count:,} keys with values, Python, {ONE}"
    yield from contest(name, "keys/s", timed("Statekeep", read), others, stage.effort)


def _pages(stubs: Stubs, scope: memory.Scope, count: int) -> tuple[list[memory.MemoryListRequest], int]:
    """Return the requests of all pages, whose keys must be `count`, and how many bytes answer them."""
    requests: list[memory.MemoryListRequest] = []
    keys, size, token = 0, 0, ""
    while token or not requests:
        requests.append(memory.MemoryListRequest(scope=scope, page_size=_PAGE, page_token=token, include_values=True))
        answer = stubs.memory.List(requests[-1])
        assert all(entry.value == VALUE for entry in answer.entries)
        keys, size, token = keys + len(answer.entries), size + answer.ByteSize(), answer.next_page_token
    assert keys == count, keys
    return requests, size


def _range(peer: etcd.Etcd, count: int, value: bytes) -> Callable[[], int]:
    request = peer.ranging("list/", count, value)(0).request

    def read() -> int:
        assert peer.call(etcd.RANGE, request).count(value) == count
        return count

    return read
