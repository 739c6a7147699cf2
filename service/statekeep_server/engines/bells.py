"""Bells within one process: who waits for a partition is woken by who writes to it, on whatever thread that is."""

import asyncio
from contextlib import suppress
from threading import Lock


class LocalBell:
    """Wakes one waiter on its own event loop. It is a flag, not a queue: many rings before a wait are one."""

    __slots__ = ("_loop", "_partition", "_rung", "_tower", "_waiter")

    def __init__(self, tower: "Tower", partition: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._tower = tower
        self._partition = partition
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    async def wait(self, timeout: float | None) -> bool:  # noqa: ASYNC109 (one bell, not a scope)
        """Return True when it rang since the last wait, False after `timeout` seconds."""
        if not self._rung:
            # A future for each wait: one that is shared would be cancelled for all when one waiter is.
            waiter = self._waiter = self._loop.create_future()
            timer = self._loop.call_later(timeout, _finish, waiter) if timeout is not None else None
            try:
                await waiter
            finally:
                self._waiter = None
                if timer:
                    timer.cancel()
        if self._rung:  # to be left alone otherwise: another thread may set it at any moment
            self._rung = False
            return True
        return False

    def ring(self) -> None:
        """Wake the waiter. May be called from any thread."""
        if self._rung:
            return
        self._rung = True
        if asyncio._get_running_loop() is self._loop:
            self._wake()
        else:
            with suppress(RuntimeError):  # the waiter's loop is closed: nobody waits there any more
                self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """End it."""
        self._tower.remove(self._partition, self)

    def _wake(self) -> None:
        # A ring that was heard already may still have a call of this to come.
        if self._rung and self._waiter:
            _finish(self._waiter)


def _finish(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class Tower:
    """All bells of a process, by partition."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._bells: dict[str, tuple[LocalBell, ...]] = {}

    def bell(self, partition: str) -> LocalBell:
        """Return a new bell for the running event loop."""
        bell = LocalBell(self, partition)
        with self._lock:
            self._bells[partition] = (*self._bells.get(partition, ()), bell)
        return bell

    def remove(self, partition: str, bell: LocalBell) -> None:
        """Take a bell away."""
        with self._lock:
            rest = tuple(other for other in self._bells.get(partition, ()) if other is not bell)
            if rest:
                self._bells[partition] = rest
            else:
                self._bells.pop(partition, None)

    def ring(self, partition: str) -> None:
        """Ring every bell of a partition."""
        for bell in self._bells.get(partition, ()):
            bell.ring()
