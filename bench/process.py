"""A server in a process of its own: started, waited for, and always ended."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).parents[1]
BARE = (sys.executable, "-m", "bench.bare")
_PATIENCE = 20.0  # seconds; for a server to get ready, and to end
_LOOK_EVERY = 0.02  # seconds


class Process(NamedTuple):
    """A server that answers: its process id, its address, and how long it took to get ready, in seconds."""

    pid: int
    address: str
    start_time: float


def statekeep(store: str = "memory:", *flags: str) -> tuple[str, ...]:
    """Return the command that serves Statekeep as its users start it."""
    serve = ("-m", "statekeep_server", "serve", "--listen", "127.0.0.1:0", "--grace", "1", "--store", store)
    return (sys.executable, *serve, *flags)


@contextmanager
def running(command: Sequence[str]) -> Iterator[Process]:
    """Run a server that says where it listens, as long as the block goes on. RuntimeError where it does not."""
    started = time.perf_counter()
    with _process(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        hung = threading.Timer(_PATIENCE, process.kill)
        hung.start()
        line = process.stdout.readline()
        hung.cancel()
        if not line:
            raise RuntimeError(f"the server ended before it was ready: {' '.join(command)}")
        yield Process(process.pid, json.loads(line)["listen"][0], time.perf_counter() - started)


@contextmanager
def listening(command: Sequence[str], address: str, log: Path) -> Iterator[Process]:
    """Run a server that says nothing, and wait until one can connect to its address. RuntimeError where one cannot."""
    started = time.perf_counter()
    with log.open("w") as said, _process(command, stdout=said) as process:
        while not _connects(address):
            if process.poll() is not None or time.perf_counter() - started > _PATIENCE:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-300:]}")
            time.sleep(_LOOK_EVERY)
        yield Process(process.pid, address, time.perf_counter() - started)


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resident(pid: int) -> int:
    """Return how many bytes of memory a process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no memory")


def cpu_time(pid: int) -> float:
    """Return how many seconds of processors a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _process(command: Sequence[str], stdout: int | IO[str]) -> "Iterator[subprocess.Popen[str]]":
    # Without setpriv a server outlives a bench that is killed without a chance to end it.
    bound = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    process: subprocess.Popen[str] = subprocess.Popen(
        (*bound, *command),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=None if stdout == subprocess.PIPE else subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a Ctrl-C at the terminal is for the bench alone
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _connects(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
