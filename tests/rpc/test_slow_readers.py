"""Readers that never read cost the server a cursor each, and nobody else anything."""

import threading
from typing import Any

from rpc_support import MIB, Stubs, connected, next_of, scope, stream_of, watch_of
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1.value_pb2 import Value

STUCK = 20
RECORD = Value(data=bytes(100_000))
RECORDS = 500  # 50 MB


class Reading(threading.Thread):
    """A follower that reads until it has so many records."""

    def __init__(self, stream: Any, field: str, count: int) -> None:
        super().__init__(daemon=True)
        self.stream, self.field, self.count = stream, field, count
        self.found: list[int] = []
        self.start()

    def run(self) -> None:
        for message in self.stream:
            self.found += [record.revision for record in getattr(message, self.field)]
            if len(self.found) >= self.count:
                break
        self.stream.cancel()


def test_followers_that_never_read_cost_no_memory_and_slow_nobody(start_server: Any, name: str) -> None:
    process: ServerProcess = start_server()
    with (
        connected(process.address) as stuck,
        connected(process.address) as reader,
        connected(process.address) as writer,
    ):
        writer.state.AppendNextEvent(next_of(name))
        held = [stuck.state.StreamHistory(stream_of(name, follow=True), timeout=100) for _ in range(STUCK)]
        readers = [
            Reading(reader.state.StreamHistory(stream_of(name, follow=True), timeout=100), "events", RECORDS + 1)
            for _ in range(3)
        ]
        before = process.rss()
        for _ in range(RECORDS):
            writer.state.AppendNextEvent(next_of(name, data=RECORD))
        for reading in readers:
            reading.join(60)
        grown = process.rss() - before
        stored = RECORDS * 100_000
        assert grown < stored + 60 * MIB, f"{grown / MIB:.0f} MiB for {stored / MIB:.0f} MiB that are stored"
        assert [len(reading.found) for reading in readers] == [RECORDS + 1] * 3
        for stream in held[:3]:  # nothing is lost for those who read late
            reading = Reading(stream, "events", RECORDS + 1)
            reading.join(60)
            assert reading.found == readers[0].found
        for stream in held:
            stream.cancel()


def test_watchers_that_never_read_cost_no_memory_and_slow_nobody(start_server: Any, name: str) -> None:
    process: ServerProcess = start_server()
    with (
        connected(process.address) as stuck,
        connected(process.address) as reader,
        connected(process.address) as writer,
    ):
        request = watch_of(name, after_revision=0, include_values=True)
        held = [stuck.memory.Watch(request, timeout=100) for _ in range(STUCK)]
        reading = Reading(reader.memory.Watch(request, timeout=100), "entries", 200)
        before = process.rss()
        for number in range(200):
            key = f"k{number}"
            writer.memory.Set(memory.MemorySetRequest(scope=scope(name), key=key, value=RECORD))
        reading.join(60)
        assert len(reading.found) == 200
        assert process.rss() - before < 200 * 100_000 + 40 * MIB
        late = Reading(held[0], "entries", 200)
        late.join(60)
        assert late.found == reading.found
        for stream in held:
            stream.cancel()


def test_histories_that_are_never_read_cost_no_memory(start_server: Any, name: str) -> None:
    process: ServerProcess = start_server()
    with connected(process.address) as stuck, connected(process.address) as own:
        for _ in range(200):
            own.memory.Set(memory.MemorySetRequest(scope=scope(name), key="k", value=RECORD))
        before = process.rss()
        request = memory.MemoryHistoryRequest(scope=scope(name), key="k", include_values=True)
        held = [stuck.memory.History(request, timeout=100) for _ in range(STUCK)]
        held += [stuck.state.StreamHistory(stream_of(name, follow=True), timeout=100) for _ in range(STUCK)]
        assert alive(own, name)
        assert process.rss() - before < 60 * MIB
        for stream in held:
            stream.cancel()


def alive(own: Stubs, name: str) -> bool:
    """Whether the server answers a few hundred calls."""
    for _ in range(300):
        own.memory.Get(memory.MemoryGetRequest(scope=scope(name), key="k", version=10**6))
    return True
