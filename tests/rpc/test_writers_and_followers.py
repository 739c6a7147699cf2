"""Followers beside writers at full speed: no gap, no repeat, whenever they come and wherever they resume."""

import asyncio
import random
from typing import Any

import grpc
from rpc_support import connected, events_in, next_of, set_of, stream_of, watch_of
from server_process import ServerProcess
from statekeep.v1 import memory_pb2_grpc, state_store_pb2_grpc
from statekeep.v1 import state_store_pb2 as state

EVENTS = 1_200
WRITERS = 4
FOLLOWERS = 200
LAST = "last"


class Journal:
    """Writers at full speed, and the revisions they were given so far. The last event's id is LAST."""

    def __init__(self, address: str, name: str) -> None:
        self.address = address
        self.name = name
        self.revisions: list[int] = []
        self._waiting: list[tuple[int, asyncio.Event]] = []

    async def has_written(self, count: int) -> None:
        """Wait until so many events are written."""
        reached = asyncio.Event()
        self._waiting.append((count, reached))
        self._wake()
        await reached.wait()

    def _wake(self) -> None:
        for count, reached in self._waiting:
            if len(self.revisions) >= count:
                reached.set()

    async def write(self) -> None:
        async with grpc.aio.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub: Any = state_store_pb2_grpc.StateStoreStub(channel)
            await asyncio.gather(*(self._writer(stub, f"w{writer}") for writer in range(WRITERS)))
            await stub.AppendNextEvent(next_of(self.name, LAST))

    async def _writer(self, stub: Any, writer: str) -> None:
        for number in range(EVENTS // WRITERS):
            if number % 10 == 9:
                batch = [state.Event(id=f"{writer}-{number}-{part}", type="x") for part in range(2)]
                await stub.AppendEvents(state.AppendEventsRequest(thread_id=self.name, events=batch))
            else:
                answer = await stub.AppendNextEvent(next_of(self.name, f"{writer}-{number}"))
                self.revisions.append(answer.event.revision)
                self._wake()


async def follow(journal: Journal, channel: grpc.aio.Channel, chance: random.Random) -> list[tuple[int, str]]:
    """Join at some moment, from the start or by cursor; leave now and then, and resume; until all is read."""
    stub: Any = state_store_pb2_grpc.StateStoreStub(channel)
    found: list[tuple[int, str]] = []
    join_at = chance.randrange(EVENTS * 3 // 4)
    await journal.has_written(join_at)
    cursor = chance.choice(journal.revisions) if journal.revisions and chance.random() < 0.7 else 0
    while True:
        stream = stub.StreamHistory(stream_of(journal.name, after_revision=cursor, follow=True), timeout=60)
        caught_up = 0
        leave_after = chance.randrange(1, 200)
        async for message in stream:
            found += [(event.revision, event.id) for event in message.events]
            caught_up += message.caught_up
            assert message.revision >= cursor
            cursor = message.revision
            leave_after -= 1
            if found and found[-1][1] == LAST:
                stream.cancel()
                return found
            if leave_after == 0:
                break
        assert caught_up <= 1
        stream.cancel()


def test_followers_that_join_and_resume_at_any_moment_miss_nothing_and_get_nothing_twice(
    own_server: ServerProcess, name: str
) -> None:
    async def run() -> list[list[tuple[int, str]]]:
        journal = Journal(own_server.address, name)
        async with grpc.aio.insecure_channel(own_server.address) as channel:
            followers = [follow(journal, channel, random.Random(number)) for number in range(FOLLOWERS)]
            _, *found = await asyncio.gather(journal.write(), *followers)
        return found

    found = asyncio.run(run())
    with connected(own_server.address) as own:
        stored = [(event.revision, event.id) for event in events_in(own, name)]
    assert len(stored) > EVENTS
    for records in found:
        assert records == stored[len(stored) - len(records) :]


def test_watchers_that_join_at_any_moment_miss_nothing_and_get_nothing_twice(
    own_server: ServerProcess, name: str
) -> None:
    keys = 600

    async def write(channel: grpc.aio.Channel) -> None:
        stub: Any = memory_pb2_grpc.MemoryStub(channel)
        for number in range(keys):
            await stub.Set(set_of(name, f"k{number}"))
        await stub.Set(set_of(name, "last"))

    async def watch(channel: grpc.aio.Channel, chance: random.Random) -> list[str]:
        stub: Any = memory_pb2_grpc.MemoryStub(channel)
        await asyncio.sleep(chance.random() / 2)
        found: list[str] = []
        cursor = 0
        while True:
            stream = stub.Watch(watch_of(name, after_revision=cursor), timeout=60)
            leave_after = chance.randrange(1, 100)
            async for message in stream:
                found += [entry.key for entry in message.entries]
                cursor = message.revision
                leave_after -= 1
                if leave_after == 0:
                    break
                if found and found[-1] == "last":
                    stream.cancel()
                    return found
            stream.cancel()

    async def run() -> list[list[str]]:
        async with grpc.aio.insecure_channel(own_server.address) as channel:
            watchers = [watch(channel, random.Random(number)) for number in range(30)]
            _, *found = await asyncio.gather(write(channel), *watchers)
        return found

    expected = [*(f"k{number}" for number in range(keys)), "last"]
    assert asyncio.run(run()) == [expected] * 30
