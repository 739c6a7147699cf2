"""Turns on the event loop, for those whose next step takes long: one such step at a time, and others in between.

gRPC copies what it is to send, which for a message of 3 MB takes a millisecond or two. Where two hundred followers are
woken at once, nobody else would be answered before the last of them has its copy. To look through a request of 3 MB
takes up to 40 ms, and gRPC hands over all that have come.
"""

import asyncio
from collections import deque

LARGE = 512 * 2**10  # bytes, from which on there is a pause after a step
PAUSE = 0.002  # seconds: an answer takes several of the loop's turns, with gRPC's own thread in between


class Turns:
    """A queue for turns, on one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    def take(self, size: int) -> "asyncio.Future[None]":
        """Return what is done when it is the turn of a step for so many bytes."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._next)
        self._waiting.append((turn, size))
        return turn

    def _next(self) -> None:
        while self._waiting and self._waiting[0][0].done():  # it had its turn, or was cancelled
            self._waiting.popleft()
        if self._waiting:
            turn, size = self._waiting[0]
            turn.set_result(None)  # who waits for it goes on in the loop's next turn, before what follows here
            asyncio.get_running_loop().call_soon(self._rest, size)

    def _rest(self, size: int) -> None:
        """Leave the loop to others, after a step for so many bytes."""
        loop = asyncio.get_running_loop()
        if size < LARGE:
            loop.call_soon(self._next)
        else:
            loop.call_later(PAUSE, self._next)
