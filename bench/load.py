"""Load, from h2load: a program in C that sends one request over HTTP/2 many times, and costs little itself.

It counts answers with HTTP status 200, which failed gRPC calls have too. So each turn is checked by the bytes of its
answers, for an error has none, and by what a Python client, which does look at grpc-status, reads of it afterwards.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import IO, NamedTuple

from bench.contest import Side, Turn
from bench.process import Process, cpu_time

MISSING = "bench: h2load is missing; it makes the load (Debian: apt-get install nghttp2-client)"
HEADER = 5  # bytes before each gRPC message: not compressed, and its length
_FIRST = 32  # calls, to warm up and to see how many fill a turn
_PATIENCE = 60.0  # seconds; a turn takes about one
_FIGURES = re.compile(
    r"finished in .*?, (?P<rate>[\d.]+) req/s.*?(?P<succeeded>\d+) succeeded.*?headers .*? \((?P<data>\d+)\) data",
    re.DOTALL,
)


class Shape(NamedTuple):
    """How many connections there are, and how many calls are under way at once on each."""

    connections: int
    calls: int

    def __str__(self) -> str:
        callers = self.connections * self.calls
        return "1 caller" if callers == 1 else f"{callers} callers"


ONE, MANY = Shape(1, 1), Shape(4, 8)


class Sent(NamedTuple):
    """What a turn came to: calls made, calls a second, and bytes that came as messages, each with its header."""

    calls: int
    rate: float
    data: int


class Prepared(NamedTuple):
    """What each call of a turn sends, and what looks afterwards whether all calls did what they should."""

    request: bytes
    check: Callable[[Sent], None]


def answers(size: int) -> Callable[[Sent], None]:
    """Return a check that each call was answered with so many bytes, headers included."""

    def check(sent: Sent) -> None:
        assert sent.data == sent.calls * size, (sent, size)

    return check


class Load:
    """Turns of h2load on one method: as many calls as fill the time, going by the turn before."""

    def __init__(
        self, server: Process, shape: Shape, method: str, prepare: Callable[[int], Prepared], units: int = 1
    ) -> None:
        """Of each call come `units` of what is counted. `prepare` gets the turn's number."""
        self._server, self._shape, self._method, self._prepare, self._units = server, shape, method, prepare, units
        self._rate = 0.0

    def side(self, name: str, goal: float | None = None) -> Side:
        """Return it as a side of a contest."""
        return Side(name, self.turn, goal)

    def turn(self, number: int, seconds: float) -> Turn:
        """Make a turn. AssertionError where a call did not do what it should, RuntimeError where one has no answer."""
        prepared = self._prepare(number)
        calls = round(self._rate * seconds) if self._rate else _FIRST
        before = cpu_time(self._server.pid)
        sent = send(self._server.address, self._shape, self._method, prepared.request, calls)
        cost = (cpu_time(self._server.pid) - before) / sent.calls / self._units
        prepared.check(sent)
        self._rate = sent.rate
        return Turn(sent.rate * self._units, cost)


def available() -> bool:
    """Whether there is h2load here."""
    return shutil.which("h2load") is not None


def version() -> str:
    """Return h2load's version."""
    said = subprocess.run(["h2load", "--version"], capture_output=True, text=True, check=True, timeout=10)
    return said.stdout.strip().rpartition("/")[2]


def send(address: str, shape: Shape, method: str, request: bytes, calls: int) -> Sent:
    """Make calls, all with the same request. RuntimeError where one got no answer."""
    return send_all(address, shape, method, [request], calls)[0]


def send_all(address: str, shape: Shape, method: str, requests: Sequence[bytes], calls: int) -> list[Sent]:
    """Make so many calls of each request, all requests at once, each from a load of its own."""
    calls = max(calls, shape.connections * shape.calls)
    with ExitStack() as stack:
        started = [_start(stack, address, shape, method, request, calls) for request in requests]
        return [_figures(process, method, calls) for process in started]


def _start(
    stack: ExitStack, address: str, shape: Shape, method: str, request: bytes, calls: int
) -> "subprocess.Popen[str]":
    # It has no name, so nothing is left behind.
    body: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
    body.write(b"\0" + len(request).to_bytes(4, "big") + request)
    body.flush()
    process = subprocess.Popen(
        [
            *("h2load", f"-n{calls}", f"-c{shape.connections}", f"-m{shape.calls}", f"-d/dev/fd/{body.fileno()}"),
            *("-H", "content-type: application/grpc", "-H", "te: trailers", f"http://{address}{method}"),
        ],
        pass_fds=[body.fileno()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    stack.callback(_end, process)
    return process


def _figures(process: "subprocess.Popen[str]", method: str, calls: int) -> Sent:
    try:
        said, _ = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"h2load on {method} took longer than {_PATIENCE:.0f} s for {calls:,} calls") from error
    figures = _FIGURES.search(said)
    if not figures or int(figures["succeeded"]) != calls:
        raise RuntimeError(f"h2load on {method} failed:\n{said}")
    return Sent(calls, float(figures["rate"]), int(figures["data"]))


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.kill()
        process.communicate()
