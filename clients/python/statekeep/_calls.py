"""Calls through a connection, answered or failed with the errors of this package."""

# ruff: noqa: ASYNC109 # the timeout is gRPC's own deadline, which the server sees too

from __future__ import annotations  # gRPC's classes take type parameters in their type stubs alone

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

import grpc

from statekeep._connection import Connection
from statekeep._status import error_of
from statekeep._waiting import Messages, Readiness, Waiting
from statekeep.errors import ClosedError, DeadlineExceededError, StatekeepError, UnavailableError

Q = TypeVar("Q")
A = TypeVar("A")
Item = TypeVar("Item")


class Calls:
    """A connection, and the way to wait for it."""

    def __init__(self, connection: Connection, waiting: Waiting) -> None:
        self.connection = connection
        self.waiting = waiting

    async def answer(self, method: grpc.UnaryUnaryMultiCallable[Q, A], request: Q, timeout: float | None) -> A:
        """The answer of a unary call.

        Raises:
            StatekeepError: The call failed; of the class that its reason or code says.
        """
        self.connection.check_open()
        try:
            return await self.waiting.answer(method, request, self.connection.unary_options(timeout))
        except grpc.RpcError as failure:
            raise self.error_of(failure) from None
        except ValueError:
            raise self._closed_meanwhile() from None

    def messages(
        self, method: grpc.UnaryStreamMultiCallable[Q, A], request: Q, timeout: float | None, *, reopened: bool
    ) -> Messages[A]:
        """Begins a stream, which ends with the connection. Who reopens it when it is lost does the waiting too."""
        self.connection.check_open()
        try:
            messages = self.waiting.messages(
                method, request, self.connection.stream_options(timeout, reopened=reopened)
            )
        except ValueError:
            raise self._closed_meanwhile() from None
        self.connection.add(messages)
        return messages

    async def ready(self, timeout: float | None) -> None:
        """Returns once the server answers."""
        self.connection.check_open()
        try:
            readiness = Readiness(self.connection.channel)
        except ValueError:
            raise self._closed_meanwhile() from None
        self.connection.add(readiness)
        try:
            await self.waiting.settled(readiness.call, timeout)
        except TimeoutError:
            raise DeadlineExceededError(f"no server answered at {self.connection.address} within {timeout} s") from None
        except (grpc.RpcError, grpc.FutureCancelledError):
            pass  # an answer, or closing: told apart below, for a wait on a loop raises neither
        self.connection.check_open()
        if readiness.call.code() is grpc.StatusCode.UNAVAILABLE:
            raise UnavailableError(f"the server at {self.connection.address} went away")

    def error_of(self, failure: grpc.RpcError) -> StatekeepError:
        """The error for a failed call."""
        if self.connection.closed.is_set():
            return self._closed_meanwhile()
        return error_of(failure)

    def _closed_meanwhile(self) -> ClosedError:
        # All that gRPC raises ValueError for once a request is built is a channel that was closed.
        return ClosedError("the Statekeep client was closed")


class AsyncPages(Generic[Item]):
    """Iterates over the items of all pages, each page fetched when the one before it is used up."""

    def __init__(self, fetch: Callable[[str], Awaitable[tuple[Iterable[Item], str]]]) -> None:
        self._fetch = fetch
        self._token: str | None = ""
        self.items: Iterator[Item] = iter(())

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        for item in self.items:
            return item
        return await self.next_of_more()

    async def next_of_more(self) -> Item:
        """The next item, where all of the page before was handed out. Raises StopAsyncIteration after the last."""
        while self._token is not None:
            items, token = await self._fetch(self._token)
            self.items, self._token = iter(items), token or None
            for item in self.items:
                return item
        raise StopAsyncIteration
