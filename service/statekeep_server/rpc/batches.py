"""Calls that come at nearly the same time, run one right after the other.

Between two calls gRPC's code pushes ours out of the processor's caches and branch predictors, and code that finds
nothing of its own there takes three to four times as long as code that ran just before. gRPC hands over one call at a
time, however many wait. So, where calls come together, each waits as long as more keep coming, and then they run: first
the rules of all, then the answers of all. Who calls alone does not wait.
"""

import asyncio
import time

ENOUGH = 32  # calls that are waiting, after which no more are waited for
PATIENCE = 32  # turns of the event loop without another call, of 2 µs each where nothing else goes on
LONGEST = 1_000_000  # nanoseconds that a call waits at most, if the loop's turns are longer or calls keep coming
LONELY = 4  # batches of one after which calls seem to come alone
PROBE = 64  # calls, of those that come alone, of which one looks whether it is so


class Batches:
    """Gathers calls into batches, on one event loop."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._seen = 0  # calls that were waiting at the last look
        self._idle = 0  # looks since another call came
        self._since = 0  # when the first of those that wait came
        self._lonely = LONELY  # batches of one since the last of several
        self._unwatched = 0  # calls that ran at once since the last look
        self.several = False
        """Whether there are others in the batch that runs, who are to run before this one answers."""

    def join(self) -> "asyncio.Future[None] | None":
        """Return what is done when this call's batch begins; None for a call that is to run at once."""
        if self._lonely >= LONELY and not self._waiting and self._unwatched < PROBE:
            self._unwatched += 1
            return None
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._since = time.perf_counter_ns()
            loop.call_soon(self._look)
        turn = loop.create_future()
        self._waiting.append(turn)
        return turn

    def _look(self) -> None:
        """Begin the batch, or look again on the event loop's next turn."""
        came = len(self._waiting)
        self._idle = self._idle + 1 if came == self._seen else 0
        self._seen = came
        waited = time.perf_counter_ns() - self._since
        if came < ENOUGH and self._idle < PATIENCE and waited < LONGEST:
            asyncio.get_running_loop().call_soon(self._look)
        else:
            self._begin()

    def _begin(self) -> None:
        batch = [turn for turn in self._waiting if not turn.done()]  # one that is done was cancelled
        self._waiting = []
        self.several = len(batch) > 1
        self._lonely = 0 if self.several else self._lonely + 1
        self._seen = self._idle = self._unwatched = 0
        for turn in batch:
            turn.set_result(None)
