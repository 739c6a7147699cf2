"""Whoever asks for much does not keep the others waiting."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from rpc_support import MIB, Stubs, connected, key_of, next_of, set_of, stream_of
from server_process import ServerProcess, environment
from statekeep.v1.value_pb2 import Value

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLLOWERS = 200
READING = 10
LARGE = {
    "text": Value(text="x" * 3_000_000),
    "numbers": Value(json=f"[{','.join(['1'] * 1_500_000)}]"),
    "lists": Value(json=f"[{','.join(['[]'] * 1_000_000)}]"),
    "nested": Value(json=f"[{','.join([('[' * 500) + (']' * 500)] * 2_900)}]"),
}


def share(times: Sequence[float], part: float) -> float:
    """Return the time that so large a part of them do not exceed."""
    return sorted(times)[min(len(times) - 1, int(part * len(times)))]


@contextmanager
def python(script: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a script beside this one; it is ended with the block."""
    paths = os.pathsep.join(str(ROOT / part) for part in ("service", "clients/python"))
    process = subprocess.Popen(
        [sys.executable, str(HERE / script), *arguments],
        env=environment({"PYTHONPATH": paths}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@contextmanager
def two_hundred_followers(address: str, thread: str) -> Iterator[None]:
    """Have followers on a thread, of which some read all and the others nothing."""
    with connected(address) as stuck, connected(address) as reading:
        streams = [stuck.state.StreamHistory(stream_of(thread, follow=True)) for _ in range(FOLLOWERS - READING)]
        read = [reading.state.StreamHistory(stream_of(thread, follow=True)) for _ in range(READING)]
        for stream in (*streams, *read):
            assert next(stream).caught_up
        readers = [threading.Thread(target=exhaust, args=(stream,), daemon=True) for stream in read]
        for reader in readers:
            reader.start()
        try:
            yield
        finally:
            for stream in (*streams, *read):
                stream.cancel()
            for reader in readers:
                reader.join(30)


def exhaust(stream: Any) -> None:
    try:
        for _ in stream:
            pass
    except grpc.RpcError:
        return


def write_large(own: Stubs, thread: str, times: int) -> None:
    for number in range(times):
        value = list(LARGE.values())[number % len(LARGE)]
        own.state.AppendNextEvent(next_of(thread, data=value))
        own.memory.Set(set_of(thread, "k", value.json or "1"))


def kept_loop(server: "subprocess.Popen[str]") -> list[float]:
    """Return how long the watched server kept its loop, each time since the last call of this."""
    assert server.stdin
    server.stdin.write("\n")
    server.stdin.flush()
    return list(json.loads(line(server)))


def test_two_hundred_followers_and_writers_of_3_mb_keep_the_loop_no_longer_than_one_such_write(name: str) -> None:
    with python("watched_server.py") as server:
        address = line(server)
        with connected(address) as own:
            kept_loop(server)
            write_large(own, f"{name}-alone", 2 * len(LARGE))
            alone = kept_loop(server)
        with two_hundred_followers(address, name), connected(address) as own:
            writers = [threading.Thread(target=write_large, args=(own, name, 8)) for _ in range(3)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join(90)
        kept = kept_loop(server)
    assert share(kept, 0.99) < 1.5 * max(alone), f"{max(kept) * 1000:.0f} ms, and alone {max(alone) * 1000:.0f} ms"


@pytest.mark.soak
def test_health_answers_within_100_ms_beside_two_hundred_followers_and_writes_of_3_mb(
    start_server: Any, name: str
) -> None:
    process: ServerProcess = start_server()
    with (
        two_hundred_followers(process.address, name),
        connected(process.address) as own,
        python("health_probe.py", process.address, "20") as probe,
    ):
        assert line(probe) == "ready"
        over = time.monotonic() + 20
        while time.monotonic() < over:
            write_large(own, name, 4)
        took = json.loads(line(probe))
    assert share(took, 0.5) < 0.05, f"median {share(took, 0.5) * 1000:.0f} ms"
    assert share(took, 0.99) < 0.1, f"p99 {share(took, 0.99) * 1000:.0f} ms of {len(took)} answers"


def timed(own: Stubs, thread: str) -> float:
    began = time.perf_counter()
    own.state.AppendNextEvent(next_of(thread, data=Value(data=bytes(50_000))))
    return time.perf_counter() - began


def test_fifty_readers_that_never_read_slow_no_writer_and_cost_bounded_memory(start_server: Any, name: str) -> None:
    process: ServerProcess = start_server()
    with connected(process.address) as stuck, connected(process.address) as own:
        held = [stuck.state.StreamHistory(stream_of(f"{name}-stuck", follow=True)) for _ in range(50)]
        for stream in held:
            next(stream)
        for thread in ("stuck", "free"):
            timed(own, f"{name}-{thread}")
        before = process.rss()
        # In turns, so that whatever else the machine does falls on both alike.
        times = [(timed(own, f"{name}-stuck"), timed(own, f"{name}-free")) for _ in range(400)]
        grown = process.rss() - before
        stuck_times, free_times = [list(kind) for kind in zip(*times, strict=True)]
        for stream in held:
            stream.cancel()
        assert own.memory.Get(key_of(name, "k"), timeout=20) is not None
    assert grown < 800 * 50_000 + 60 * MIB, f"{grown / MIB:.0f} MiB"
    assert share(stuck_times, 0.5) < 1.5 * share(free_times, 0.5) + 0.001
    # One in twenty, and with room: a few of 400 are late by whatever else the machine does.
    assert share(stuck_times, 0.95) < 2 * share(free_times, 0.95) + 0.02
