"""Reading a thread: whole, in large events, and from its middle, beside a constant stream, Valkey and etcd."""

from collections.abc import Callable, Iterator

import statekeep
from statekeep.v1 import state_store_pb2 as state

from bench import etcd, saver
from bench.contest import Side, contest, timed
from bench.load import ONE, Shape
from bench.stage import Stage
from bench.table import Row
from bench.valkey import Valkey, command
from bench.workloads import EVENT_SIZE, STREAM_HISTORY, Stubs, check_events, event, fill_thread, stream

HISTORY = 10_000  # events
_LARGE, _LARGE_SIZE = 100, 100_000  # events, bytes
_RESUMED = 1_000  # events
LONG = 1_000_000  # events
_FOUR = Shape(2, 2)


def rows(stage: Stage) -> Iterator[Row]:
    """Measure, and yield the figures."""
    yield from _whole(stage, HISTORY, EVENT_SIZE, (4.0, 1.2, 0.97))
    yield from _two_connections(stage)
    yield from _decoded(stage)
    yield from _whole(stage, _LARGE, _LARGE_SIZE, (None, None, None))
    yield from _resumed(stage, LONG // 20 if stage.effort.quick else LONG)


def _whole(
    stage: Stage, count: int, size: int, goals: tuple[float | None, float | None, float | None]
) -> Iterator[Row]:
    """Measure a thread that is read from its first event; goals are beside etcd, Valkey and the constant stream."""
    place = f"whole-{size}"
    for cast in stage.casts:
        fill_thread(cast.stubs, place, count, size)
    subject, sizes = _subject(stage, place, ONE, count)
    value = event(size).SerializeToString()
    others = stage.beside_constant(ONE, sizes, count, goals[2])

    def in_valkey(peer: Valkey) -> Callable[[], int]:
        peer.stream(place, count, value)
        return peer.reading(command("XRANGE", place, "-", "+"), value, count)

    others += stage.beside_valkey("Valkey XRANGE, raw", in_valkey, goals[1])
    others += stage.beside_etcd(
        "etcd Range", ONE, etcd.RANGE, lambda peer: peer.ranging(f"{place}/", count, value), count, goals[0]
    )
    shown = f"{size} B" if size < 1_000 else f"{size // 1_000} KB"
    yield from contest(f"StreamHistory, {count:,} x {shown}, 1 connection", "events/s", subject, others, stage.effort)


def _subject(stage: Stage, thread: str, shape: Shape, count: int) -> tuple[Side, list[int]]:
    """Return a thread that is read in each cast, and the sizes of its messages."""
    request = state.StreamHistoryRequest(thread_id=thread)
    _, sizes = stream(stage.stubs, request, 1, count)
    subject = stage.load_each(shape, STREAM_HISTORY, lambda stubs, number: stream(stubs, request, 1, count)[0], count)
    return subject, sizes


def _two_connections(stage: Stage) -> Iterator[Row]:
    side, sizes = _subject(stage, f"whole-{EVENT_SIZE}", _FOUR, HISTORY)
    others = stage.beside_constant(_FOUR, sizes, HISTORY)
    yield from contest(
        f"StreamHistory, {HISTORY:,} x {EVENT_SIZE} B, 2 connections x 2", "events/s", side, others, stage.effort
    )


def _decoded(stage: Stage) -> Iterator[Row]:
    """Measure what programs in Python get: the client's events, their values, or the stub's messages.

    Of the savers they get checkpoints, whose values are always made.
    """
    kept = HISTORY // 10 if stage.effort.quick else HISTORY
    with statekeep.Client(stage.server.address) as client, saver.filled(kept) as savers:

        def read() -> int:
            sequences = [event.sequence for event in client.state.history(f"whole-{EVENT_SIZE}")]
            assert sequences == list(range(1, HISTORY + 1)), len(sequences)
            return HISTORY

        def read_messages() -> int:
            check_events(stage.stubs, f"whole-{EVENT_SIZE}", 1, HISTORY)
            return HISTORY

        def read_values() -> int:
            found = [event.data for event in client.state.history("values")]
            assert len(found) == HISTORY, len(found)
            assert found[-1] == saver.STATE, found[-1]
            return HISTORY

        for _ in range(HISTORY // 1_000):
            client.state.append_many("values", [statekeep.NewEvent("step", saver.STATE) for _ in range(1_000)])
        goals = {"SqliteSaver": 10.0}
        others = [
            timed(f"LangGraph {each.name}.list", saver.listing(each, kept), goals.get(each.name)) for each in savers
        ]
        values = [side._replace(goal=None) for side in others]
        name = f"StreamHistory, {HISTORY:,} x {EVENT_SIZE} B, Python"
        yield from contest(f"{name} client", "events/s", timed("Statekeep", read), others, stage.effort)
        named = f"StreamHistory, {HISTORY:,} events' data as values, Python"
        yield from contest(named, "events/s", timed("Statekeep", read_values), values, stage.effort)
        yield from contest(f"{name} stub", "events/s", timed("Statekeep", read_messages), others, stage.effort)


def after(stubs: Stubs, thread: str, sequence: int, limit: int) -> state.StreamHistoryRequest:
    """Return a request for what follows an event, in a thread where each event is the next revision."""
    request = state.StreamHistoryRequest(thread_id=thread, limit=1)
    (first,) = [event for answer in stubs.state.StreamHistory(request) for event in answer.events]
    return state.StreamHistoryRequest(
        thread_id=thread, after_revision=first.revision + sequence - first.sequence, limit=limit
    )


def _resumed(stage: Stage, held: int) -> Iterator[Row]:
    """Measure a reader that comes back in the middle of a long thread, and takes the next events."""
    long, short, middle = f"thread-{held}", f"thread-{_RESUMED}", held // 2
    fill_thread(stage.stubs, long, held)
    fill_thread(stage.stubs, short, _RESUMED)
    request = after(stage.stubs, long, middle, _RESUMED)
    prepared, sizes = stream(stage.stubs, request, middle + 1, _RESUMED)
    whole, _ = stream(stage.stubs, state.StreamHistoryRequest(thread_id=short), 1, _RESUMED)
    others: list[Side] = stage.beside_constant(ONE, sizes, _RESUMED)
    others.append(stage.load(ONE, STREAM_HISTORY, lambda number: whole, _RESUMED)._replace(name="a thread of as many"))
    value = event(EVENT_SIZE).SerializeToString()

    def in_valkey(peer: Valkey) -> Callable[[], int]:
        peer.stream(long, held, value)
        read = command("XRANGE", long, f"{middle + 1}-0", "+", "COUNT", str(_RESUMED))
        return peer.reading(read, value, _RESUMED)

    others += stage.beside_valkey("Valkey XRANGE COUNT, raw", in_valkey)
    name = f"Resume in the middle of {held:,}, {_RESUMED:,} events"
    side = stage.load(ONE, STREAM_HISTORY, lambda number: prepared, _RESUMED)
    yield from contest(name, "events/s", side, others, stage.effort)
