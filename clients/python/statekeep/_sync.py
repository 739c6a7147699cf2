"""The blocking face of what is written once, as coroutines."""

import functools
from collections.abc import Callable, Coroutine, Iterator
from types import MethodType, TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

from statekeep._calls import AsyncPages
from statekeep._reading import AsyncReading
from statekeep._waiting import run

P = ParamSpec("P")
R = TypeVar("R")
X = TypeVar("X")
Item = TypeVar("Item")


class Pages(Generic[Item]):
    """Iterates over the items of all pages, each page fetched when the one before it is used up."""

    def __init__(self, pages: AsyncPages[Item]) -> None:
        self._pages = pages

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        try:
            for item in self._pages.items:
                return item
            return run(self._pages.next_of_more())
        except StopAsyncIteration:
            raise StopIteration from None


class Reading(Generic[Item]):
    """An iterator over a stream. A lost connection is made again, and the read goes on where it was.

    Entering it as a context (``with``) returns once the server has answered: whatever is written from then
    on, a follower sees. ``close`` ends the call; another thread may call it.
    """

    def __init__(self, reading: AsyncReading[Item]) -> None:
        self._reading = reading

    @property
    def revision(self) -> int:
        """The revision up to which everything was handed out: a later read can go on after it."""
        return self._reading.revision

    @property
    def caught_up(self) -> bool:
        """Whether all that was there when the read began was handed out."""
        return self._reading.caught_up

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        try:
            for item in self._reading.items:
                return item
            return run(self._reading.next_of_more())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        run(self._reading.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the read and its call."""
        run(self._reading.aclose())


class Face(Protocol):
    """A blocking object over the one with the coroutines, whose waiting blocks."""

    @property
    def _methods(self) -> Any: ...


class Method(Generic[P, R]):
    """A blocking method made of one written as a coroutine, with its arguments and documentation."""

    def __init__(self, written: Callable[Concatenate[Any, P], X], finish: Callable[[X], R]) -> None:
        @functools.wraps(written)
        def method(face: Face, *args: P.args, **kwargs: P.kwargs) -> R:
            return finish(written(face._methods, *args, **kwargs))

        self._method = method

    def __get__(self, face: Face | None, owner: type) -> Callable[P, R]:
        bound = self._method if face is None else MethodType(self._method, face)
        return cast("Callable[P, R]", bound)


def call(written: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Method[P, R]:
    """Of a coroutine: a method that returns what it returns."""
    return Method(written, run)


def pages(written: Callable[Concatenate[Any, P], AsyncPages[Item]]) -> Method[P, Pages[Item]]:
    """Of an asynchronous iterator over pages: a plain one."""
    return Method(written, Pages)


def reading(written: Callable[Concatenate[Any, P], AsyncReading[Item]]) -> Method[P, Reading[Item]]:
    """Of an asynchronous iterator over a stream: a plain one."""
    return Method(written, Reading)
