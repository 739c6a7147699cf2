"""A server in a process of its own: started, waited for, and always ended."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BENCH_SERVER = (sys.executable, "-m", "bench.server")
STATEKEEP = (sys.executable, "-m", "statekeep_server", "serve", "--listen", "127.0.0.1:0")
_PATIENCE = 20.0  # seconds; for a server to get ready, and to end


class Process(NamedTuple):
    """A server that answers: its process id, its address, and how long it took to get ready, in seconds."""

    pid: int
    address: str
    start_time: float


@contextmanager
def running(command: Sequence[str]) -> Iterator[Process]:
    """Run a server for as long as the block goes on. RuntimeError where it does not get ready."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C at the terminal is for the bench alone
    )
    assert process.stdout
    hung = threading.Timer(_PATIENCE, process.kill)
    hung.start()
    try:
        line = process.stdout.readline()
        hung.cancel()
        if not line:
            raise RuntimeError(f"the server ended before it was ready: {' '.join(command)}")
        yield Process(process.pid, json.loads(line)["listen"][0], time.perf_counter() - started)
    finally:
        hung.cancel()
        _end(process)


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


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
