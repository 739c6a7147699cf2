"""One asynchronous client over many loops and threads, and what is left of it: nothing."""

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
import statekeep
from statekeep import NewEvent, errors
from statekeep.v1 import memory_pb2, state_store_pb2


@pytest.fixture
def endless(play: Any) -> tuple[str, threading.Semaphore, threading.Event]:
    """A server whose history never ends: its address, what is released per message sent, and when the call ended."""
    sent, ended = threading.Semaphore(0), threading.Event()

    def behave(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        context.add_callback(ended.set)
        number = 0
        while context.is_active():
            number += 1
            sent.release()
            yield state_store_pb2.StreamHistoryResponse(
                events=[{"sequence": number, "revision": number, "data": {"data": bytes(200_000)}}], revision=number
            )

    return play({"StateStore.StreamHistory": behave}), sent, ended


async def fails(reading: statekeep.AsyncReading[Any]) -> None:
    """Takes what was read ahead, after which the reading fails because its client is closed."""
    with pytest.raises(errors.ClosedError):
        _ = [event async for event in reading]


def streams() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "statekeep-stream"]


def test_one_client_serves_many_loops_at_once(address: str, name: str) -> None:
    client = statekeep.AsyncClient(address)
    together = threading.Barrier(8)

    async def append() -> list[int]:
        appended = [client.state.append_next(name, NewEvent("x")) for _ in range(25)]
        return [event.sequence for event in await asyncio.gather(*appended)]

    def run() -> list[int]:
        together.wait()
        return asyncio.run(append())

    with ThreadPoolExecutor(8) as threads:
        runs = [threads.submit(run) for _ in range(8)]
        numbers = [number for one in runs for number in one.result()]
    assert sorted(numbers) == list(range(1, 201))
    asyncio.run(client.close())


def test_one_client_serves_one_loop_after_the_other(address: str, name: str) -> None:
    client = statekeep.AsyncClient(address)

    async def append_and_read() -> list[int]:
        await client.state.append_next(name, NewEvent("x"))
        return [event.sequence async for event in client.state.history(name)]

    assert [asyncio.run(append_and_read()) for _ in range(3)] == [[1], [1, 2], [1, 2, 3]]
    asyncio.run(client.close())


def test_a_blocking_client_works_inside_a_running_loop(client: statekeep.Client, name: str) -> None:
    async def block() -> list[int]:
        client.state.append_next(name, NewEvent("x"))
        return [event.sequence for event in client.state.history(name)]

    assert asyncio.run(block()) == [1]


def test_cancelling_the_task_cancels_the_call(play: Any) -> None:
    began, ended = threading.Event(), threading.Event()

    def behave(request: Any, context: grpc.ServicerContext) -> Any:
        context.add_callback(ended.set)
        began.set()
        ended.wait(60)
        return memory_pb2.MemoryGetResponse()

    async def cancel(address: str) -> None:
        async with statekeep.AsyncClient(address) as client:
            task = asyncio.create_task(client.memory.get("k", scope="s"))
            await asyncio.to_thread(began.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(ended.wait, 10)

    asyncio.run(cancel(play({"Memory.Get": behave})))


def test_a_stream_is_read_only_a_little_ahead(endless: Any) -> None:
    address, sent, ended = endless

    async def read() -> None:
        async with statekeep.AsyncClient(address) as client:
            history = client.state.history("t")
            assert (await anext(history)).sequence == 1
            # gRPC's own window takes some messages more; what matters is that it does not go on for ever.
            taken = 0
            while await asyncio.to_thread(sent.acquire, True, 0.3):
                taken += 1
            assert taken < 500
            assert [(await anext(history)).sequence for _ in range(50)] == list(range(2, 52))
            await history.aclose()

    asyncio.run(read())
    assert ended.wait(10)
    assert streams() == []


def test_leaving_the_loop_over_a_stream_ends_its_call_and_thread(endless: Any) -> None:
    address, _, ended = endless

    async def read() -> None:
        client = statekeep.AsyncClient(address)
        async for event in client.state.history("t"):
            if event.sequence == 2:
                break
        gc.collect()
        assert await asyncio.to_thread(ended.wait, 10)
        await client.close()

    asyncio.run(read())


def test_closing_the_client_ends_every_stream_and_its_thread(endless: Any) -> None:
    address, _, _ = endless

    async def read() -> None:
        client = statekeep.AsyncClient(address)
        readings = [client.state.history("t") for _ in range(3)]
        for reading in readings:
            await anext(reading)
        assert len(streams()) == 3
        await client.close()
        assert streams() == []
        for reading in readings:
            await fails(reading)

    asyncio.run(read())


def test_a_hundred_followers_leave_the_loops_executor_free(address: str, name: str) -> None:
    async def follow() -> None:
        async with statekeep.AsyncClient(address) as client:
            tails = [client.state.tail(name) for _ in range(100)]
            events = [asyncio.create_task(anext(tail)) for tail in tails]
            assert await asyncio.to_thread(lambda: "free") == "free"
            await client.state.append_next(name, NewEvent("x"))
            assert [event.sequence for event in await asyncio.gather(*events)] == [1] * 100

    asyncio.run(follow())
    assert streams() == []


def test_an_iterator_that_is_ended_stays_ended(address: str, name: str) -> None:
    async def read() -> None:
        async with statekeep.AsyncClient(address) as client:
            history = client.state.history(name)
            for _ in range(2):
                with pytest.raises(StopAsyncIteration):
                    await anext(history)

    asyncio.run(read())


@pytest.mark.parametrize(
    "program",
    [
        "client = statekeep.Client(address); client.memory.get('k', scope='s')",
        "tail = statekeep.Client(address).state.tail('t'); tail.__enter__()",
        "asyncio.run(statekeep.AsyncClient(address).state.tail('t').__aenter__())",
        """
client = statekeep.AsyncClient(address)
async def follow():
    global tail
    tail = client.state.tail('t')
    await tail.__aenter__()
asyncio.run(follow())
""",
        "threading.Thread(target=lambda: next(statekeep.Client(address).state.tail('t')), daemon=True).start()",
    ],
)
def test_a_program_that_closes_nothing_ends_all_the_same(address: str, program: str) -> None:
    program = f"import asyncio, threading, statekeep\naddress = {address!r}\n{program}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
