"""Past one core: what several server processes would give on this machine, and what it would cost to have them.

    python -m bench.workers

Three arrangements are measured in turns, with the same calls:

    one       the server as it is: one process
    apart     two servers on one port (SO_REUSEPORT), each with an engine of its own: what two processes give at most,
              as if sharing cost nothing
    shared    two processes that speak gRPC, and hand each call over a Unix socket to a third, which has the engine:
              the least that sharing an engine costs

The load is h2load's, on the same processors.
"""

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import grpc
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.memory_pb2_grpc import MemoryStub
from statekeep.v1.state_store_pb2_grpc import StateStoreStub

from bench import load
from bench.machine import machine
from bench.process import cpu_time
from bench.worker import EVENT, HISTORY, SCOPE

_TURNS, _SECONDS = 7, 1.0
_SHAPE = load.Shape(16, 2)  # many connections, for the kernel spreads these over the processes of a port
_PATIENCE = 20.0

Call = tuple[str, str, Any]
_CALLS: Mapping[str, Call] = {
    "Get": ("statekeep.v1.Memory", "Get", memory.MemoryGetRequest(scope=SCOPE, key="k")),
    "AppendNextEvent": ("statekeep.v1.StateStore", "AppendNextEvent", state.AppendNextEventRequest(event=EVENT)),
    "StreamHistory": ("statekeep.v1.StateStore", "StreamHistory", state.StreamHistoryRequest(thread_id="read")),
}


class Arrangement(NamedTuple):
    """Servers that answer on one port, and all their processes."""

    address: str
    pids: list[int]


@contextmanager
def _started(*command: str) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.worker", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    try:
        assert process.stdout.readline(), command
        yield process.pid
    finally:
        try:
            process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def _arrangements() -> Iterator[dict[str, Arrangement]]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="statekeep-bench-"))
        path = str(Path(folder) / "engine.sock")
        ports = [_reserve(stack) for _ in range(3)]
        one = [stack.enter_context(_started("apart", ports[0]))]
        apart = [stack.enter_context(_started("apart", ports[1])) for _ in range(2)]
        shared = [stack.enter_context(_started("engine", path))]
        shared += [stack.enter_context(_started("front", ports[2], path)) for _ in range(2)]
        together = zip(("one", "apart", "shared"), ports, (one, apart, shared), strict=True)
        yield {name: Arrangement(f"127.0.0.1:{port}", pids) for name, port, pids in together}


def _reserve(stack: ExitStack) -> str:
    """Return a port that nobody else gets, and that servers with SO_REUSEPORT can share."""
    holder = stack.enter_context(socket.socket())
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))  # it does not listen, so no connection comes to it
    return str(holder.getsockname()[1])


def _sizes(address: str) -> dict[str, int]:
    """Return how many bytes each call answers, having looked at what they are."""
    with grpc.insecure_channel(address) as channel:
        entry: Any = MemoryStub(channel).Get(_CALLS["Get"][2], timeout=_PATIENCE)
        appended: Any = StateStoreStub(channel).AppendNextEvent(_CALLS["AppendNextEvent"][2], timeout=_PATIENCE)
        read: list[Any] = list(StateStoreStub(channel).StreamHistory(_CALLS["StreamHistory"][2], timeout=_PATIENCE))
    assert entry.entry.version == 1, entry
    assert appended.event.type == "step", appended
    assert sum(len(message.events) for message in read) == HISTORY
    answers = {"Get": [entry], "AppendNextEvent": [appended], "StreamHistory": read}
    return {name: sum(one.ByteSize() + load.HEADER for one in messages) for name, messages in answers.items()}


def _turn(arrangement: Arrangement, name: str, calls: int, size: int) -> tuple[float, float]:
    service, method, request = _CALLS[name]
    before = sum(map(cpu_time, arrangement.pids))
    sent = load.send(arrangement.address, _SHAPE, f"/{service}/{method}", request.SerializeToString(), calls)
    assert abs(sent.data / sent.calls - size) < 16 + size * 0.005, (sent, size)  # times and numbers differ in length
    return sent.rate, (sum(map(cpu_time, arrangement.pids)) - before) / sent.calls * 1e6


def main() -> None:
    """Measure, and print a table."""
    print(f"{machine()}\n\n| call, {_SHAPE} | arrangement | calls/s | of one | CPU a call, µs |\n|---|---|---|---|---|")
    with _arrangements() as arrangements:
        sizes = {name: _sizes(one.address) for name, one in arrangements.items()}
        for call in _CALLS:
            turns: dict[str, list[tuple[float, float]]] = {name: [] for name in arrangements}
            for number in range(-1, _TURNS):
                for name in sorted(arrangements, reverse=bool(number % 2)):
                    calls = round(turns[name][-1][0] * _SECONDS) if turns[name] else 64
                    turns[name].append(_turn(arrangements[name], call, calls, sizes[name][call]))
            for name, done in turns.items():
                ratio = median(ours[0] / one[0] for ours, one in zip(done[1:], turns["one"][1:], strict=True))
                rate, cost = median(rate for rate, _ in done[1:]), median(cost for _, cost in done[1:])
                print(f"| {call} | {name} | {rate:,.0f} | {ratio:.2f} | {cost:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
