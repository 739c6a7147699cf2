"""Engine: bells, which wake who waits for a partition, from whatever thread it is written."""

import asyncio
import gc
import threading
import weakref

import pytest
from engines.engine_support import MAIN, New, Store, appending, at_once, dropping, key, records
from statekeep_server.core.journal import Change
from statekeep_server.engines import Engine
from statekeep_server.engines.bells import Tower

LONG = 10.0  # seconds; a test that waits so long has failed


def test_a_bell_that_rang_before_the_wait_does_not_wait(store: Store) -> None:
    async def ring_and_wait() -> bool:
        bell = store.engine.bell("p")
        await store.engine.write("p", appending(New()))
        return await bell.wait(LONG)

    assert store.run(ring_and_wait()) is True


def test_a_bell_that_does_not_ring_waits_for_its_time(store: Store) -> None:
    async def wait() -> bool:
        return await store.engine.bell("p").wait(0.001)

    assert store.run(wait()) is False


@pytest.mark.parametrize("timeout", [0, -1, 1e-9])
def test_a_wait_of_no_time_is_over_at_once(store: Store, timeout: float) -> None:
    async def wait() -> tuple[bool, bool]:
        bell = store.engine.bell("p")
        silent = await bell.wait(timeout)
        bell.ring()
        return silent, await bell.wait(timeout)

    assert store.run(wait()) == (False, True)


def test_rings_are_not_counted(store: Store) -> None:
    async def wait() -> list[bool]:
        bell = store.engine.bell("p")
        for _ in range(5):
            await store.engine.write("p", appending(New()))
        return [await bell.wait(0.001), await bell.wait(0.001)]

    assert store.run(wait()) == [True, False]


def test_a_waiter_is_woken_by_a_task_of_its_own_loop(store: Store) -> None:
    async def wait() -> bool:
        bell = store.engine.bell("p")
        waiting = asyncio.create_task(bell.wait(LONG))
        await asyncio.sleep(0)
        await store.engine.write("p", appending(New()))
        return await waiting

    assert store.run(wait()) is True


def test_a_bell_hears_of_its_partitions_beginning_changes_and_end(store: Store) -> None:
    (record,) = store.append("expiring", New(key("k")))

    def trimming(view: object) -> Change[None]:
        return Change(None, records(view, [New("p")]), [record])  # type: ignore[arg-type]

    async def wait() -> list[bool]:
        bell = store.engine.bell("p")
        heard = [await bell.wait(0.001)]
        for decide in (appending(New()), appending(New(key("k"))), dropping, appending(New())):
            await store.engine.write("p", decide)
            heard.append(await bell.wait(LONG))
        other = store.engine.bell("expiring")
        await store.engine.write("expiring", trimming)
        heard.append(await other.wait(LONG))
        return heard

    assert store.run(wait()) == [False, True, True, True, True, True]


def test_a_bell_hears_of_no_other_partition_and_of_nothing_that_changed_nothing(store: Store) -> None:
    async def wait() -> bool:
        bell = store.engine.bell("p")
        await store.engine.write("p2", appending(New()))
        await store.engine.write("P", appending(New()))
        await store.engine.write("p", lambda view: Change(None))
        await store.engine.write("p", dropping)
        await store.engine.read("p", lambda view: view.revision)
        return await bell.wait(0.001)

    assert store.run(wait()) is False


def test_a_bell_creates_nothing(store: Store) -> None:
    async def ask() -> None:
        store.engine.bell("p").close()

    store.run(ask())
    assert store.partitions() == []
    assert store.look("p", lambda view: view.exists) is False


def test_every_bell_of_a_partition_rings(store: Store) -> None:
    async def wait() -> list[bool]:
        bells = [store.engine.bell("p") for _ in range(10)]
        waiting = [asyncio.create_task(bell.wait(LONG)) for bell in bells[:5]]
        await asyncio.sleep(0)
        await store.engine.write("p", appending(New()))
        return [*await asyncio.gather(*waiting), *[await bell.wait(LONG) for bell in bells[5:]]]

    assert store.run(wait()) == [True] * 10


def test_a_closed_bell_does_not_ring_and_leaves_the_others(store: Store) -> None:
    async def wait() -> list[bool]:
        first, second, third = (store.engine.bell("p") for _ in range(3))
        second.close()
        second.close()
        await store.engine.write("p", appending(New()))
        return [await bell.wait(0.001) for bell in (first, second, third)]

    assert store.run(wait()) == [True, False, True]


def test_a_wait_that_is_cancelled_leaves_the_bell_as_good_as_before(store: Store) -> None:
    async def wait() -> tuple[bool, bool]:
        bell = store.engine.bell("p")
        waiting = asyncio.create_task(bell.wait(LONG))
        await asyncio.sleep(0)
        waiting.cancel()
        cancelled = (await asyncio.gather(waiting, return_exceptions=True))[0]
        await store.engine.write("p", appending(New()))
        return isinstance(cancelled, asyncio.CancelledError), await bell.wait(LONG)

    assert store.run(wait()) == (True, True)


@pytest.mark.timeout(20)  # a timer of its own would wake the loop, and hide that the ring does not
def test_a_ring_by_hand_wakes_from_any_thread(store: Store) -> None:
    async def wait() -> bool:
        bell = store.engine.bell("p")
        waiting = asyncio.create_task(bell.wait(None))
        await asyncio.sleep(0)
        ringer = threading.Thread(target=bell.ring)
        ringer.start()
        rung = await waiting
        ringer.join()
        return rung

    assert store.run(wait()) is True


def test_a_bell_of_a_loop_that_is_closed_disturbs_no_writer(store: Store) -> None:
    async def ask() -> object:
        return store.engine.bell("p")

    bell = asyncio.run(ask())
    assert len(store.append("p", New())) == 1
    bell.close()
    assert len(store.append("p", New())) == 1


def test_closed_bells_are_let_go_of(engine: Engine, store: Store) -> None:
    async def ask() -> list[weakref.ref]:
        bells = [engine.bell(f"p{number % 3}") for number in range(30)]
        for bell in bells:
            bell.close()
        return [weakref.ref(bell) for bell in bells] if hasattr(type(bells[0]), "__weakref__") else []

    gone = store.run(ask())
    gc.collect()
    assert all(reference() is None for reference in gone)


def test_a_tower_keeps_nothing_of_closed_bells() -> None:
    tower = Tower()

    async def ask() -> None:
        bells = [tower.bell(f"p{number % 3}") for number in range(30)]
        for bell in bells:
            bell.close()

    asyncio.run(ask())
    assert tower._bells == {}


def test_one_ring_from_another_thread_ends_one_wait(store: Store) -> None:
    async def wait() -> list[bool | str]:
        happened: list[bool | str] = []
        bell = store.engine.bell("p")

        async def ring_again() -> None:
            for _ in range(5):
                await asyncio.sleep(0)
            happened.append("rung again")
            bell.ring()

        ringer = threading.Thread(target=bell.ring)
        ringer.start()
        ringer.join()
        again = asyncio.create_task(ring_again())
        happened += [await bell.wait(None)]
        happened += [await bell.wait(None)]
        await again
        return happened

    assert store.run(wait()) == [True, "rung again", True]


@pytest.mark.usefixtures("provoked")
def test_no_ring_from_another_thread_is_lost(store: Store) -> None:
    """Two threads call each other to and fro: a lost ring would leave both waiting."""
    rounds = 300

    async def play(own: str, other: str, begins: bool) -> int:
        bell = store.engine.bell(own)
        ready.wait(LONG)
        if begins:
            await store.engine.write(other, appending(New()))
        heard = 0
        while heard < rounds:
            count = await store.engine.read(own, lambda view: view.count(MAIN))
            if count == heard:
                assert await bell.wait(None), f"a wait after {heard} ended without a ring"
                continue
            heard = count
            if heard < rounds or not begins:
                await store.engine.write(other, appending(New()))
        bell.close()
        return heard

    ready = threading.Barrier(2)
    assert at_once(lambda: play("ping", "pong", True), lambda: play("pong", "ping", False)) == [rounds, rounds]


@pytest.mark.usefixtures("provoked")
def test_bells_come_and_go_while_others_ring(store: Store) -> None:
    async def come_and_go() -> int:
        heard = 0
        for _ in range(200):
            bell = store.engine.bell("p")
            await store.engine.write("p", appending(New()))
            heard += await bell.wait(None)
            bell.close()
        return heard

    assert at_once(*[come_and_go] * 6) == [200] * 6
    assert store.look("p", lambda view: view.count(MAIN)) == 1200
