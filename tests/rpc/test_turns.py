"""How steps that take long are spread over the turns of an event loop, without gRPC."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from google.protobuf.message import Message
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1.value_pb2 import Value
from statekeep_server.rpc import turns
from statekeep_server.rpc.batches import Batches
from statekeep_server.rpc.handlers import Traffic, method_handlers
from statekeep_server.rpc.services import MEMORY
from statekeep_server.rpc.turns import LARGE, Turns

Log = list[str]


async def step(queue: Turns, name: str, log: Log, size: int) -> None:
    await queue.take(size)
    log.append(name)


async def others(log: Log, turns: int) -> None:
    """Have something to do in so many of the loop's turns."""
    for _ in range(turns):
        log.append(".")
        await asyncio.sleep(0)


def run(body: Callable[[Turns, Log], Coroutine[Any, Any, None]]) -> Log:
    log: Log = []

    async def main() -> None:
        await asyncio.wait_for(body(Turns(), log), timeout=30)

    asyncio.run(main())
    return log


def test_steps_have_their_turns_in_order_and_others_go_in_between() -> None:
    async def body(queue: Turns, log: Log) -> None:
        await asyncio.gather(others(log, 30), *[step(queue, name, log, 1) for name in "abc"])

    log = "".join(run(body))
    assert log.replace(".", "") == "abc"
    assert not any(one + after in log for one, after in pairwise("abc"))


def test_after_a_large_step_there_is_a_pause_that_begins_when_the_step_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE", 3600)

    async def body(queue: Turns, log: Log) -> None:
        waiting = [asyncio.ensure_future(step(queue, name, log, LARGE)) for name in "ab"]
        await others(log, 100)
        assert [task.done() for task in waiting] == [True, False]
        waiting[1].cancel()

    assert "".join(run(body)).replace(".", "") == "a"


def test_a_turn_that_nobody_waits_for_any_more_goes_to_the_next() -> None:
    async def body(queue: Turns, log: Log) -> None:
        waiting = [asyncio.ensure_future(step(queue, name, log, LARGE)) for name in "abcd"]
        await asyncio.sleep(0)
        for place in (0, 1, 3):
            waiting[place].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await step(queue, "e", log, 1)

    assert run(body) == ["c", "e"]


def test_calls_with_large_requests_have_turns_and_small_ones_go_in_between() -> None:
    log: Log = []

    async def serve(request: Message) -> bytes:
        assert isinstance(request, memory.MemorySetRequest)
        log.append(request.key)
        return b""

    methods = {method.name: serve for method in MEMORY.methods}
    handle: Any = method_handlers(MEMORY, methods, Traffic(), Batches())["Set"].unary_unary

    def call(key: str, size: int) -> Coroutine[Any, Any, bytes]:
        request = memory.MemorySetRequest(key=key, value=Value(data=bytes(size)))
        answer: Coroutine[Any, Any, bytes] = handle(request.SerializeToString(), None)
        return answer

    async def small_ones() -> None:
        for _ in range(100):
            await call(".", 10)
            await asyncio.sleep(0)

    async def main() -> None:
        sizes = {"a": 65_536, "b": 65_536, "c": 3_000_000, "d": 65_536}
        await asyncio.gather(small_ones(), *[call(key, size) for key, size in sizes.items()])

    asyncio.run(asyncio.wait_for(main(), timeout=30))
    steps = "".join(log)
    assert steps.replace(".", "") == "abcd"
    assert not any(one + after in steps for one, after in pairwise("abcd"))
