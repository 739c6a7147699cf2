"""The two faces of the client, each with the way to wait for it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import statekeep

WITHIN = 30.0
"""Seconds that a call, or a read, may take."""
_OPTIONS = (("grpc.max_receive_message_length", 4 << 20),)


@contextmanager
def _closed_when_late(stream: Any) -> Iterator[None]:
    """Close a stream that takes too long: a thread that waits for one cannot be woken otherwise."""
    close = getattr(stream, "close", None)  # pages have none: their calls have deadlines
    timer = threading.Timer(WITHIN, close) if close else None
    if timer:
        timer.start()
    try:
        yield
    finally:
        if timer:
            timer.cancel()
            timer.join()


class Blocking:
    """The blocking client."""

    def __init__(self, address: str) -> None:
        self.client: Any = statekeep.Client(address, timeout=WITHIN, options=_OPTIONS)

    def answer(self, call: Any) -> Any:
        """Return what a call answers."""
        return call

    def all_of(self, stream: Any) -> list[Any]:
        """Return all that pages, or a stream that ends, have."""
        with _closed_when_late(stream):
            return list(stream)

    def enter(self, opened: Any) -> Any:
        """Enter what stays open; return what that gives."""
        return opened.__enter__()

    def next_of(self, stream: Any) -> Any:
        """Return the next record of a stream. Raises TimeoutError where none comes."""
        with _closed_when_late(stream):
            for record in stream:
                return record
        raise TimeoutError("the stream ended, or nothing came")

    def leave(self, opened: Any) -> None:
        """Leave what was entered."""
        opened.__exit__(None, None, None)

    def close(self) -> None:
        """Close the client."""
        self.client.close()


class Looping:
    """The asynchronous client, on an event loop of its own."""

    def __init__(self, address: str) -> None:
        self._loop = asyncio.Runner()
        self.client: Any = statekeep.AsyncClient(address, timeout=WITHIN, options=_OPTIONS)

    def answer(self, call: Any) -> Any:
        return self._run(call)

    def all_of(self, stream: Any) -> list[Any]:
        return self._run(_collected(stream))

    def enter(self, opened: Any) -> Any:
        return self._run(opened.__aenter__())

    def next_of(self, stream: Any) -> Any:
        return self._run(anext(stream))

    def leave(self, opened: Any) -> None:
        self._run(opened.__aexit__(None, None, None))

    def close(self) -> None:
        self._run(self.client.close())
        self._loop.close()

    def _run(self, coroutine: Any) -> Any:
        async def within() -> Any:
            async with asyncio.timeout(WITHIN):
                return await coroutine

        return self._loop.run(within())


async def _collected(stream: Any) -> list[Any]:
    return [record async for record in stream]


Face = Blocking | Looping
