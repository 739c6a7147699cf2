"""How calls are gathered, without gRPC: turns of an event loop, and what is done in them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from statekeep_server.rpc.batches import ENOUGH, LONELY, LONGEST, PATIENCE, PROBE, Batches

Log = list[str]


async def call(batches: Batches, name: str, log: Log) -> None:
    turn = batches.join()
    if turn:
        await turn
    log.append(f"rule {name}")
    if batches.several:
        await asyncio.sleep(0)
    log.append(f"answer {name}")


async def together(batches: Batches, names: str, log: Log) -> None:
    await asyncio.gather(*[call(batches, name, log) for name in names])


async def find_company(batches: Batches) -> None:
    """Let calls come in twos until one looks for others, and so finds them."""
    for _ in range(PROBE):
        await together(batches, "xy", [])


def run(body: Callable[[Batches, Log], Coroutine[Any, Any, None]]) -> Log:
    log: Log = []

    async def main() -> None:
        await asyncio.wait_for(body(Batches(), log), timeout=30)

    asyncio.run(main())
    return log


def test_a_call_that_comes_alone_runs_at_once():
    async def body(batches: Batches, log: Log) -> None:
        assert batches.join() is None

    run(body)


def test_one_of_many_lone_calls_looks_for_others_and_goes_on_alone():
    async def body(batches: Batches, log: Log) -> None:
        waited = 0
        for _ in range(4 * (PROBE + 1)):
            turn = batches.join()
            if turn:
                waited += 1
                await turn
        assert waited == 4

    run(body)


def test_calls_that_come_together_run_their_rules_first_and_then_answer():
    async def body(batches: Batches, log: Log) -> None:
        await find_company(batches)
        await together(batches, "abc", log)

    assert run(body) == ["rule a", "rule b", "rule c", "answer a", "answer b", "answer c"]


def test_a_call_that_comes_a_little_later_is_waited_for():
    async def body(batches: Batches, log: Log) -> None:
        async def late(turns: int, name: str) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await call(batches, name, log)

        await find_company(batches)
        await asyncio.gather(call(batches, "a", log), late(PATIENCE // 2, "b"), late(PATIENCE, "c"))

    assert run(body) == ["rule a", "rule b", "rule c", "answer a", "answer b", "answer c"]


def test_a_batch_waits_no_longer_than_until_it_is_full():
    async def body(batches: Batches, log: Log) -> None:
        await find_company(batches)
        turns = [batches.join() for _ in range(ENOUGH)]
        await asyncio.sleep(0)
        assert all(turn and turn.done() for turn in turns)

    run(body)


def test_a_stream_of_calls_does_not_hold_up_the_first():
    async def body(batches: Batches, log: Log) -> None:
        await find_company(batches)
        first = batches.join()
        others = 0
        while first and not first.done():
            others += 1
            batches.join()
            await asyncio.sleep(0)
        assert others < ENOUGH

    run(body)


def test_a_call_waits_no_longer_than_a_millisecond_however_long_the_loops_turns_are():
    async def body(batches: Batches, log: Log) -> None:
        await find_company(batches)
        turn = batches.join()
        assert turn
        time.sleep(LONGEST / 1e9)  # noqa: ASYNC251 (what else the loop may have to do)
        await asyncio.sleep(0)
        assert turn.done()

    run(body)


def test_calls_that_were_cancelled_are_no_company():
    async def body(batches: Batches, log: Log) -> None:
        await find_company(batches)
        for _ in range(LONELY):
            turns = [batches.join() for _ in range(3)]
            for turn in turns:
                assert turn
                turn.cancel()
            for _ in range(PATIENCE + 2):
                await asyncio.sleep(0)
        assert batches.join() is None

    run(body)


def test_calls_that_come_alone_again_run_at_once_again():
    async def body(batches: Batches, log: Log) -> None:
        await find_company(batches)
        for _ in range(LONELY):
            turn = batches.join()
            assert turn
            await turn
        assert batches.join() is None

    run(body)


def test_a_call_that_is_cancelled_while_it_waits_takes_nothing_from_the_others():
    async def body(batches: Batches, log: Log) -> None:
        await find_company(batches)
        calls: list[Awaitable[None]] = [asyncio.ensure_future(call(batches, name, log)) for name in "abc"]
        await asyncio.sleep(0)
        assert isinstance(calls[1], asyncio.Task)
        calls[1].cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), asyncio.CancelledError, type(None)]

    assert run(body) == ["rule a", "rule c", "answer a", "answer c"]
