"""Load, from h2load: a program in C that sends one request over HTTP/2 many times, and costs little itself.

It counts answers with HTTP status 200, which failed gRPC calls have too: what it reports says how fast, and how many
bytes came, and whoever calls looks elsewhere whether the calls did what they should.
"""

import re
import shutil
import subprocess
import tempfile
from typing import NamedTuple

MISSING = "bench: h2load is missing; it makes the load (Debian: apt-get install nghttp2-client)"
HEADER = 5  # bytes before each gRPC message: not compressed, and its length
_PATIENCE = 120.0  # seconds; a turn takes about one
_FIGURES = re.compile(
    r"finished in .*?, (?P<rate>[\d.]+) req/s.*?(?P<succeeded>\d+) succeeded.*?headers .*? \((?P<data>\d+)\) data",
    re.DOTALL,
)


class Shape(NamedTuple):
    """How many connections there are, and how many calls are under way at once on each."""

    connections: int
    calls: int

    def __str__(self) -> str:
        return f"{self.connections}x{self.calls}"


UNARY = Shape(4, 8)


class Sent(NamedTuple):
    """What a turn came to: calls made, calls a second, and bytes that came as messages, each with its header."""

    calls: int
    rate: float
    data: int


def available() -> bool:
    """Whether there is h2load here."""
    return shutil.which("h2load") is not None


def version() -> str:
    """Return h2load's version."""
    said = subprocess.run(["h2load", "--version"], capture_output=True, text=True, check=True, timeout=10)
    return said.stdout.strip().rpartition("/")[2]


def send(address: str, shape: Shape, method: str, request: bytes, calls: int) -> Sent:
    """Make calls, all with the same request. RuntimeError where one got no answer."""
    calls = max(calls, shape.connections * shape.calls)
    with tempfile.TemporaryFile() as body:  # it has no name, so nothing is left behind
        body.write(b"\0" + len(request).to_bytes(4, "big") + request)
        body.flush()
        said = subprocess.run(
            [
                *("h2load", f"-n{calls}", f"-c{shape.connections}", f"-m{shape.calls}", f"-d/dev/fd/{body.fileno()}"),
                *("-H", "content-type: application/grpc", "-H", "te: trailers", f"http://{address}{method}"),
            ],
            pass_fds=[body.fileno()],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
    figures = _FIGURES.search(said.stdout)
    if not figures or int(figures["succeeded"]) != calls:
        raise RuntimeError(f"h2load on {method} failed:\n{said.stdout}{said.stderr}")
    return Sent(calls, float(figures["rate"]), int(figures["data"]))
