"""Turns on the event loop, for those whose next step takes long: one such step at a time, and others in between.

gRPC copies what it is to send, which for a message of 3 MB takes a millisecond or two. Where two hundred followers are
woken at once, nobody else would be answered before the last of them has its copy.
"""

import asyncio
from collections import deque

PAUSE = 0.002  # seconds between two turns: an answer takes several of the loop's, with gRPC's own thread in between


class Turns:
    """A queue for turns, on one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> "asyncio.Future[None]":
        """Return what is done when it is this one's turn."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._next)
        self._waiting.append(turn)
        return turn

    def _next(self) -> None:
        while self._waiting and self._waiting[0].done():  # it was cancelled
            self._waiting.popleft()
        if self._waiting:
            self._waiting[0].set_result(None)
            asyncio.get_running_loop().call_later(PAUSE, self._next)
