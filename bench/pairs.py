"""`python -m bench.pairs`: a history beside a constant stream, in 20 pairs of fresh processes.

Of one program one process is faster than the next by up to a fifth for as long as it runs. Where two programs are
within that, many processes of each tell more than many turns of a few.
"""

from statistics import median

import grpc
from statekeep.v1 import state_store_pb2 as state

from bench.bare import STREAM
from bench.contest import Turn
from bench.load import ONE, Load
from bench.process import BARE, running, statekeep
from bench.stage import BOUNDED
from bench.streams import HISTORY
from bench.workloads import EVENT_SIZE, STREAM_HISTORY, Stubs, constant_stream, fill_thread, stream

_PAIRS, _SECONDS = 20, 0.6
_THREAD = "whole"


def main() -> None:
    """Measure and print."""
    rates, costs = [], []
    for number in range(_PAIRS):
        mine, sizes = _history()
        floor = _constant(sizes)
        rates.append(mine.rate / floor.rate)
        costs.append((floor.cost or 0) / (mine.cost or 1))
        print(f"{number + 1:2}  {mine.rate:10,.0f} events/s, {rates[-1]:.2f} of the constant stream", flush=True)
    print(f"median {median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f}), in processor time {median(costs):.2f}")


def _history() -> tuple[Turn, list[int]]:
    """Measure a thread that is read, and return the sizes of its messages too."""
    request = state.StreamHistoryRequest(thread_id=_THREAD)
    with running(statekeep()) as server, grpc.insecure_channel(server.address, BOUNDED) as channel:
        stubs = Stubs(channel)
        fill_thread(stubs, _THREAD, HISTORY, EVENT_SIZE)
        prepared, sizes = stream(stubs, request, 1, HISTORY)
        return _warmed(Load(server, ONE, STREAM_HISTORY, lambda number: prepared, HISTORY)), sizes


def _constant(sizes: list[int]) -> Turn:
    with running(BARE) as server:
        return _warmed(Load(server, ONE, STREAM, lambda number: constant_stream(sizes), HISTORY))


def _warmed(load: Load) -> Turn:
    side = load.side("")
    side.turn(-1, _SECONDS / 3)
    return side.turn(0, _SECONDS)


if __name__ == "__main__":
    main()
