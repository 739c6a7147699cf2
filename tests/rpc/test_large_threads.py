"""What stays as fast in a large thread as in a small one."""

import statistics
import time
from collections.abc import Callable, Iterator

import pytest
from rpc_support import Stubs, call_many, connected, next_of, stream_of
from server_process import ServerProcess
from statekeep.v1 import state_store_pb2 as state

EVENTS = 100_000


@pytest.fixture(scope="module")
def own(own_server: ServerProcess) -> Iterator[Stubs]:
    """Give a server with one thread of 100,000 events, and one of ten."""
    with connected(own_server.address) as own:
        batches = (
            state.AppendEventsRequest(
                thread_id="large", events=[state.Event(id=f"e{start + n}", type="x") for n in range(2_000)]
            )
            for start in range(0, EVENTS, 2_000)
        )
        call_many(own.state.AppendEvents, batches, at_once=4)
        call_many(own.state.AppendNextEvent, (next_of("small", f"e{number}", type="x") for number in range(10)))
        yield own


def timed(call: Callable[[int], object], number: int) -> float:
    """Return the time of a call, in seconds."""
    start = time.perf_counter()
    call(number)
    return time.perf_counter() - start


CALLS: dict[str, Callable[[Stubs, str], Callable[[int], object]]] = {
    "append": lambda own, thread: lambda _: own.state.AppendNextEvent(next_of(thread)),
    "append with an id": lambda own, thread: lambda n: own.state.AppendNextEvent(next_of(thread, f"{thread}-{n}")),
    "append again": lambda own, thread: lambda _: own.state.AppendNextEvent(next_of(thread, "e7", type="x")),
    "the last five": lambda own, thread: lambda _: list(own.state.StreamHistory(stream_of(thread, last=5))),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_on_a_large_thread_is_as_fast_as_on_a_small_one(kind: str, own: Stubs) -> None:
    on_small, on_large = (CALLS[kind](own, thread) for thread in ("small", "large"))
    # In turns, so that whatever else the machine does falls on both alike.
    ratios = [timed(on_large, number) / timed(on_small, number) for number in range(300)]
    assert statistics.median(ratios) < 3, f"{statistics.median(ratios):.1f} times as long as on a small one"
