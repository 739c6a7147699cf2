"""Streams that go on where they were after a lost connection, without a gap and without a repeat."""

import random
import time
from asyncio import CancelledError
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import grpc

from statekeep._calls import Calls
from statekeep._waiting import Messages
from statekeep.errors import UnavailableError

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)

# Seconds, at least, before the first try again; each further one waits twice as long, up to the longest.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.5
# How often a read that does not follow, or never had a message, tries without getting any further.
TRIES = 5


class Place(Protocol[Item_co]):
    """Where a read stands: what it has handed out, and so how it goes on from there."""

    @property
    def revision(self) -> int:
        """Everything up to here was handed out."""

    @property
    def caught_up(self) -> bool:
        """All that was there when the read began was handed out."""

    def open(self, calls: Calls, timeout: float | None) -> Messages[Any] | None:
        """Begins the stream that goes on from here; None where there is nothing more to ask for."""

    def take(self, message: Any) -> Iterator[Item_co]:
        """Hands out what a message brings, and moves on with each item. All of the message before was handed out."""


class Patience:
    """How long to go on trying while nothing comes.

    A read tries a few times. One that follows, once it had its first message, tries for ``retry_for``
    seconds from the first failure since a message came, however long ago that was, or without an end where
    ``retry_for`` is None.
    """

    def __init__(self, *, follows: bool, retry_for: float | None = None) -> None:
        self._follows = follows
        self._retry_for = retry_for
        self._began = False
        self._tries = 0
        self._lost_at = 0.0

    def progress(self) -> None:
        """A message came."""
        self._began = True
        self._tries = 0

    def pause(self, error: UnavailableError) -> float:
        """Seconds to wait before the next try. Raises the error where there is none."""
        now = time.monotonic()
        if self._tries == 0:
            self._lost_at = now
        self._tries += 1
        if self._is_over(now):
            raise error
        at_least = self._own_pause() if error.retry_delay is None else error.retry_delay
        # Up to twice as long, or everyone who lost the same server would come back at once.
        return at_least * random.uniform(1, 2)  # noqa: S311 # jitter is no secret

    def _own_pause(self) -> float:
        # The power is bounded, or it would overflow some day of a long outage.
        return min(FIRST_PAUSE * 2.0 ** min(self._tries - 1, 30), LONGEST_PAUSE)

    def _is_over(self, now: float) -> bool:
        if not (self._follows and self._began):
            return self._tries >= TRIES
        return self._retry_for is not None and now - self._lost_at >= self._retry_for


class AsyncReading(Generic[Item]):
    """An iterator over a stream. A lost connection is made again, and the read goes on where it was.

    Entering it as a context (``async with``) returns once the server has answered: whatever is written from
    then on, a follower sees. It belongs to the event loop it was first used on; ``aclose`` ends the call.
    """

    def __init__(self, calls: Calls, place: Place[Item], patience: Patience, timeout: float | None = None) -> None:
        self._calls = calls
        self._place = place
        self._patience = patience
        self._timeout = timeout
        self._deadline: float | None = None
        self._messages: Messages[Any] | None = None
        self.items: Iterator[Item] = iter(())
        self._closed = False

    @property
    def revision(self) -> int:
        """The revision up to which everything was handed out: a later read can go on after it."""
        return self._place.revision

    @property
    def caught_up(self) -> bool:
        """Whether all that was there when the read began was handed out."""
        return self._place.caught_up

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        for item in self.items:
            return item
        return await self.next_of_more()

    async def next_of_more(self) -> Item:
        """The next item, where all that came before was handed out."""
        while True:
            await self._fill()
            for item in self.items:
                return item

    async def __aenter__(self) -> Self:
        if self._messages is None:
            with suppress(StopAsyncIteration):  # ended already, without an item
                await self._fill()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the read and its call."""
        self._closed = True
        if messages := self._drop():
            messages.join()

    def __del__(self) -> None:
        self._drop()

    def _drop(self) -> Messages[Any] | None:
        """Gives up the call, and answers it."""
        messages, self._messages = self._messages, None
        if messages is not None:
            messages.cancel()
        return messages

    async def _fill(self) -> None:
        """Waits for the next message. Raises StopAsyncIteration after the last."""
        message = None
        while message is None:
            if self._closed:
                await self.aclose()
                raise StopAsyncIteration
            try:
                message = await self._next_message()
            except grpc.RpcError as failure:
                await self._lose(failure)
            except CancelledError:
                # Nobody may come back for the rest. Who does gets a new call, from where this one was.
                self._drop()
                raise
        self._patience.progress()
        self.items = self._place.take(message)

    async def _next_message(self) -> Any | None:
        """The next message; None, and closed, at the end."""
        messages = self._messages or self._open()
        message = await messages.next() if messages else None
        self._closed = self._closed or message is None
        return message

    def _open(self) -> Messages[Any] | None:
        messages = self._messages = self._place.open(self._calls, self._time_left())
        if self._closed and messages:  # by another thread, which did not see this call
            messages.cancel()
        return messages

    async def _lose(self, failure: grpc.RpcError) -> None:
        """Gives up a call that failed, and waits before the next. Raises where there is to be none."""
        self._messages = None
        if self._closed:
            return
        error = self._calls.error_of(failure)
        if not isinstance(error, UnavailableError):
            raise error from None
        pause = self._patience.pause(error)
        await self._calls.waiting.pause(pause, self._calls.connection.closed)

    def _time_left(self) -> float | None:
        if self._timeout is None:
            return None
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._timeout
        return max(self._deadline - now, 0.0)
