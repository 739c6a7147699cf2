"""Eight writers at once, each its own program, on one thread and on a thread each; beside eight of etcd."""

import statistics
from collections.abc import Callable, Iterator, Sequence

from statekeep.v1 import state_store_pb2 as state

from bench import etcd
from bench.bare import EMPTY
from bench.contest import Side, Turn, attempt, contest
from bench.load import ONE, Sent, send_all
from bench.process import Process
from bench.stage import Stage
from bench.table import Row
from bench.workloads import APPEND_NEXT, EVENT_SIZE, check_events, empty, event

_WRITERS = 8
_FIRST = 32  # calls of each, to see how many fill a turn

Requests = Callable[[int], list[bytes]]
"""What the writers send in a turn."""
Check = Callable[[int, list[Sent]], None]


def rows(stage: Stage) -> Iterator[Row]:
    """Measure, and yield the figures."""
    for places in (1, _WRITERS):
        names = [f"writers-{places}-{place % places}-{{}}".format for place in range(_WRITERS)]
        yield from contest(
            f"AppendNextEvent, {_WRITERS} writers on {places} thread{'s' * (places > 1)}",
            "calls/s",
            _statekeep(stage, names, places),
            [_floor(stage), *_etcd(stage, names, places)],
            stage.effort,
        )


def _statekeep(stage: Stage, names: Sequence[Callable[[int], str]], places: int) -> Side:
    def requests(number: int) -> list[bytes]:
        return [
            state.AppendNextEventRequest(event=event(EVENT_SIZE, name(number))).SerializeToString() for name in names
        ]

    def check(number: int, sent: list[Sent]) -> None:
        for name in names[:places]:
            check_events(stage.stubs, name(number), 1, sent[0].calls * _WRITERS // places)

    return _side("Statekeep", stage.server, APPEND_NEXT.method, requests, check)


def _floor(stage: Stage) -> Side:
    prepared = empty(EVENT_SIZE)

    def check(number: int, sent: list[Sent]) -> None:
        for each in sent:
            prepared.check(each)

    return _side(
        "empty call, bare server", stage.casts[0].bare, EMPTY, lambda number: [prepared.request] * _WRITERS, check
    )


def _etcd(stage: Stage, names: Sequence[Callable[[int], str]], places: int) -> list[Side]:
    if not (peer := stage.etcd):
        return []
    value = event(EVENT_SIZE).SerializeToString()

    def requests(number: int) -> list[bytes]:
        return [etcd.put_request(name(number), value) for name in names]

    def check(number: int, sent: list[Sent]) -> None:
        for name in names[:places]:
            peer.check_version(name(number), sent[0].calls * _WRITERS // places)

    return attempt("etcd Put", lambda: _side("etcd Put", peer.process, etcd.PUT, requests, check))


def _side(name: str, server: Process, method: str, requests: Requests, check: Check) -> Side:
    rate = 0.0

    def turn(number: int, seconds: float) -> Turn:
        nonlocal rate
        calls = round(rate / _WRITERS * seconds) if rate else _FIRST
        sent = send_all(server.address, ONE, method, requests(number), calls)
        check(number, sent)
        rate = _WRITERS * statistics.median(each.rate for each in sent)
        return Turn(rate)

    return Side(name, turn)
