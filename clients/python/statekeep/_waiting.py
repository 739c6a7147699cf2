"""The two ways to wait for a server: by blocking a thread, and on an event loop.

Everything else of this package is written once, as coroutines that wait only through one of these. Over
:class:`Blocking` such a coroutine never suspends, and :func:`run` finishes it at once.

Both stand on the synchronous channel: objects of ``grpc.aio`` belong to the first event loop that uses them
(grpc#25364, #42357), while futures of the synchronous stubs serve every loop and thread.
"""

# ruff: noqa: ASYNC109 # the timeout is gRPC's own deadline, which the server sees too

from __future__ import annotations  # gRPC's classes take type parameters in their type stubs alone

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar, cast

import grpc

Q = TypeVar("Q")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
R = TypeVar("R")

Options = Mapping[str, Any]


class Messages(Protocol[A_co]):
    """The answers of a stream."""

    async def next(self) -> A_co | None:
        """The next message; None at the end. Raises grpc.RpcError."""

    def cancel(self) -> None:
        """Ends the call, from any thread."""

    def join(self) -> None:
        """Waits until nothing of it runs any more."""


class Waiting(Protocol):
    """A way to wait."""

    async def answer(self, method: grpc.UnaryUnaryMultiCallable[Q, A], request: Q, options: Options) -> A:
        """The answer of a unary call. Raises grpc.RpcError."""

    async def settled(self, future: grpc.Future[Any], timeout: float | None) -> None:
        """Returns when the future is done. Raises TimeoutError after so many seconds."""

    def messages(self, method: grpc.UnaryStreamMultiCallable[Q, A], request: Q, options: Options) -> Messages[A]:
        """Begins a stream."""

    async def pause(self, seconds: float, until: threading.Event) -> None:
        """Lets time pass."""


class Blocking:
    """Waits by blocking the thread that calls."""

    async def answer(self, method: grpc.UnaryUnaryMultiCallable[Q, A], request: Q, options: Options) -> A:
        return method(request, **options)

    async def settled(self, future: grpc.Future[Any], timeout: float | None) -> None:
        try:
            future.result(timeout)
        except grpc.FutureTimeoutError:
            future.cancel()
            raise TimeoutError from None

    def messages(self, method: grpc.UnaryStreamMultiCallable[Q, A], request: Q, options: Options) -> Messages[A]:
        return _Iterated(method(request, **options))

    async def pause(self, seconds: float, until: threading.Event) -> None:
        until.wait(seconds)


class Awaiting:
    """Waits on the running event loop, whichever that is."""

    async def answer(self, method: grpc.UnaryUnaryMultiCallable[Q, A], request: Q, options: Options) -> A:
        call = method.future(request, **options)
        await self.settled(call, None)
        return call.result()

    async def settled(self, future: grpc.Future[Any], timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def wake(_: grpc.Future[Any]) -> None:
            _tell(loop, _settle, done)

        future.add_done_callback(wake)
        try:
            async with asyncio.timeout(timeout):
                await done
        except BaseException:
            future.cancel()
            raise

    def messages(self, method: grpc.UnaryStreamMultiCallable[Q, A], request: Q, options: Options) -> Messages[A]:
        return _Pumped(method(request, **options))

    async def pause(self, seconds: float, until: threading.Event) -> None:
        await asyncio.sleep(seconds)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Finishes a coroutine that waits through Blocking, and so never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast("R", stop.value)
    raise AssertionError("a blocking call was suspended")


class Readiness:
    """The question whether a server is there, which waits for one, and ends as a stream does on closing.

    Any answer will do, also that there is no such method. gRPC's channel_ready_future is no choice: it polls on
    a thread that fails aloud when the channel closes under it, and cannot be cancelled twice.

    Raises:
        ValueError: The channel is closed.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/grpc.health.v1.Health/Check")
        self.call = ask.future(b"", wait_for_ready=True)

    def cancel(self) -> None:
        self.call.cancel()

    def join(self) -> None:
        """Nothing of it runs on its own."""


class _Iterated(Generic[A]):
    """A stream that is read by the thread that asks."""

    def __init__(self, call: grpc._CallIterator[A]) -> None:
        self._call = call

    async def next(self) -> A | None:
        return next(cast("Iterator[A]", self._call), None)

    def cancel(self) -> None:
        self._call.cancel()

    def join(self) -> None:
        """Nothing of it runs on its own."""


class _Pumped(Generic[A]):
    """A stream that a thread of its own reads, at most two messages ahead of the loop.

    Its own, for a follower would keep a thread of the loop's executor for good.
    """

    def __init__(self, call: grpc._CallIterator[A]) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[A | grpc.RpcError | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._room = threading.Semaphore(1)
        self._cancelled = False
        self._thread = threading.Thread(target=self._pump, name="statekeep-stream", daemon=True)
        self._thread.start()

    async def next(self) -> A | None:
        while not self._arrived:
            self._waiter = self._loop.create_future()
            await self._waiter
        outcome = self._arrived.popleft()
        self._room.release()
        if isinstance(outcome, grpc.RpcError):
            raise outcome
        return outcome

    def cancel(self) -> None:
        self._cancelled = True
        self._call.cancel()
        self._room.release()

    def join(self) -> None:
        self._thread.join()

    def _pump(self) -> None:
        outcome = self._read()
        while _tell(self._loop, self._arrive, outcome) and not isinstance(outcome, grpc.RpcError | None):
            if not self._cancelled:
                self._room.acquire()
            outcome = self._read()
        self._call.cancel()

    def _read(self) -> A | grpc.RpcError | None:
        try:
            return next(cast("Iterator[A]", self._call), None)
        except grpc.RpcError as failure:
            return failure

    def _arrive(self, outcome: A | grpc.RpcError | None) -> None:
        self._arrived.append(outcome)
        if self._waiter is not None:
            _settle(self._waiter)


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> bool:
    """Calls a function on the loop, from another thread. False where the loop is closed: nobody waits."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        return False
    return True


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
