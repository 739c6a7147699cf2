"""Flows and checkpoints, as far as memory has to know of them.

A flow gives memory its scope; inside a checkpoint memory is out of reach. Both are decorators, of functions and
of coroutine functions, and contexts, plain and asynchronous. They start and schedule nothing.
"""

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast, overload

from statekeep._scopes import Process, Running, checkpoints, running

P = ParamSpec("P")
R = TypeVar("R")


class _Surrounding(ABC):
    """A context that is a decorator too. It keeps no state, so one serves any number of runs at once."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _around(self, function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator outlives its call: use `with` inside it instead of the decorator")
        if inspect.iscoroutinefunction(function):
            return cast("Callable[P, R]", self._around_coroutine(function))

        @functools.wraps(function)
        def surrounded(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return surrounded

    def _around_coroutine(self, function: Callable[P, Any]) -> Callable[P, Any]:
        @functools.wraps(function)
        async def surrounded(*args: P.args, **kwargs: P.kwargs) -> Any:
            with self:
                return await function(*args, **kwargs)

        return surrounded


class flow(_Surrounding):  # noqa: N801 # a decorator, written @flow("name")
    """Runs what it surrounds as a flow, which gives :mod:`statekeep.memory` its scope.

    A flow begins with what the process configured, or else in its own scope, of type ``flow``.

    Args:
        name: The flow's name.
        flow_id: Tells the flow from others of its name, and names its own scope; None: its name does.
        execution_id: This run of it; None: runs are not told apart.
    """

    def __init__(self, name: str, flow_id: str | None = None, execution_id: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError('a flow is given its name: @flow("name")')
        self.name = name
        self.flow_id = flow_id
        self.execution_id = execution_id

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Makes each call of the function a run of the flow."""
        return self._around(function)

    def __enter__(self) -> Self:
        running.set(Running(self.name, self.flow_id, self.execution_id, Process.scope, running.get()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = running.get()
        running.set(ended.outer if ended else None)


class _Checkpoint(_Surrounding):
    """A part of a flow in which every memory call is refused: ``@checkpoint`` or ``with checkpoint():``."""

    @overload
    def __call__(self, target: Callable[P, R]) -> Callable[P, R]: ...
    @overload
    def __call__(self, target: str | None = None) -> Self: ...
    def __call__(self, target: Callable[P, R] | str | None = None) -> Callable[P, R] | Self:
        """Surrounds a function; given a name, or nothing, answers itself."""
        return self._around(target) if callable(target) else self

    def __enter__(self) -> Self:
        checkpoints.set(checkpoints.get() + 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        checkpoints.set(checkpoints.get() - 1)


checkpoint = _Checkpoint()
