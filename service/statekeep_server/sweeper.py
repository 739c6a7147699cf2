"""The sweeper: from time to time it removes what has had its time, and gives back the room that it took."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar

from statekeep_server.core import memory, state_store
from statekeep_server.core.errors import StatekeepError
from statekeep_server.core.journal import KEY, Call, Limits
from statekeep_server.core.scratch import Scratch
from statekeep_server.engines import Engine

Item = TypeVar("Item")

SWEEP_EVERY = 15.0  # seconds; what has expired is gone within a minute

LONGEST = 15.0
"""Seconds that one sweep trims versions, or ends threads; the next goes on. What expires must not wait for those."""
AT_ONCE = 64
"""Keys that are trimmed, or threads that are ended, together."""
_STEP = 1_000_000  # microseconds by which the clock may run ahead of the time that passed before it counts as set

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Swept:
    """What was removed."""

    expired: int = 0
    """Records whose ttl was over."""
    versions: int = 0
    """Versions that their key had beyond its limit. Those that go with a write are not counted."""
    threads: int = 0
    """Threads that nobody wrote to for so long."""
    instances: int = 0
    """Scratch instances that nobody used for so long."""
    reclaimed: int = 0
    """Bytes that were given back to the file system."""

    def add(self, other: "Swept") -> None:
        """Count what another counted, too."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))

    def __str__(self) -> str:
        """Say it in words."""
        parts = (
            (self.expired, "expired records"),
            (self.versions, "versions over the limit"),
            (self.threads, "idle threads"),
            (self.instances, "unused scratch instances"),
        )
        said = [f"{what}: {count}" for count, what in parts if count]
        if self.reclaimed:
            said.append(f"room given back: {self.reclaimed / 2**20:.1f} MiB")
        return ", ".join(said)


class Ages:
    """Tells how much of an age the clock made up, when it was set forward.

    What was written before the clock was set forward looks older than it is, by as much. Once `span` has passed since,
    all of that is older than `span` indeed, and it does not matter any more.
    """

    def __init__(self, span: int, now: int, steady: int) -> None:
        self._span = span
        self._ahead = now - steady
        self._steps: deque[tuple[int, int]] = deque()

    def made_up(self, now: int, steady: int) -> int:
        """Return by how many microseconds something may look older than it is.

        `now` is the time, `steady` that of a clock which nobody sets, both in microseconds.
        """
        step = now - steady - self._ahead
        self._ahead = now - steady
        if step > _STEP:
            self._steps.append((steady, step))
        while self._steps and self._steps[0][0] <= steady - self._span:
            self._steps.popleft()
        return sum(step for _, step in self._steps)


class Sweeper:
    """Sweeps an engine and the scratch instances. `thread_ttl` and `every` are in seconds, a ttl of 0 is for ever."""

    def __init__(
        self,
        engine: Engine,
        scratch: Scratch,
        limits: Limits,
        *,
        thread_ttl: float = 0.0,
        every: float = SWEEP_EVERY,
    ) -> None:
        self.total = Swept()
        """What was removed since the server began."""
        self._engine = engine
        self._scratch = scratch
        self._limits = limits
        self._thread_ttl = round(thread_ttl * 1_000_000)
        self._every = every
        self._ages = Ages(self._thread_ttl, _now(), _steady())
        self._trimmed = -1  # how many partitions had been restored when all keys were looked through

    async def run(self) -> None:
        """Sweep until it is cancelled, and say in one line what was removed, where something was."""
        while True:
            await asyncio.sleep(self._every)
            swept = Swept()
            try:
                await self.sweep(_now(), _steady(), swept)
            except Exception:
                log.exception("the sweep failed; it is tried again in %g s", self._every)
            self.total.add(swept)
            if swept:
                log.info("swept %s", swept)

    async def sweep(self, now: int, steady: int, swept: Swept) -> None:
        """Sweep once, and count into `swept`, also where it fails halfway. The times are as for `Ages.made_up`."""
        swept.instances += self._scratch.sweep(now)
        for part in (
            partial(self._expire, now, swept),
            partial(self._trim_versions, now, swept),
            partial(self._drop_threads, now, steady, swept),
            partial(self._reclaim, swept),
        ):
            try:
                await part()
            except StatekeepError as error:  # such as a full disk, where the other parts may make room
                log.warning("a part of the sweep failed, and is tried again in %g s: %s", self._every, error)

    async def _expire(self, now: int, swept: Swept) -> None:
        swept.expired += await self._engine.sweep(now)

    async def _reclaim(self, swept: Swept) -> None:
        swept.reclaimed += await self._engine.reclaim()

    async def _trim_versions(self, now: int, swept: Swept) -> None:
        """Trim keys that have too many versions: only those of before the limit was set, or that were imported."""
        restored = self._engine.restored
        if not self._limits.max_versions or restored == self._trimmed:
            return
        call = Call(now, self._limits)
        clock = asyncio.get_running_loop().time
        ends = clock() + LONGEST

        async def trim(place: tuple[str, str]) -> None:
            partition, key = place
            while gone := await self._engine.write(partition, lambda view: memory.trim_versions(view, key, call)):
                swept.versions += gone
                if clock() >= ends:
                    return
                await asyncio.sleep(0)

        if await _each(trim, self._engine.crowded(KEY, self._limits.max_versions), ends):
            self._trimmed = restored

    async def _drop_threads(self, now: int, steady: int, swept: Swept) -> None:
        if not self._thread_ttl:
            return
        before = now - self._thread_ttl - self._ages.made_up(now, steady)

        async def drop(partition: str) -> None:
            # It is decided in one step with the drop: a thread that was written meanwhile stays.
            gone = await self._engine.write(partition, lambda view: state_store.drop_idle(view, before))
            swept.threads += gone

        ends = asyncio.get_running_loop().time() + LONGEST
        await _each(drop, self._engine.idle(state_store.PARTITIONS, before), ends)


async def _each(
    job: Callable[[Item], Coroutine[Any, Any, None]], pages: AsyncIterator[Sequence[Item]], ends: float
) -> bool:
    """Do a job for each of many items; False where the loop's time came to `ends` first.

    Some are done at once, as an engine may share one sync among them, and others get their turn after each.
    """
    clock = asyncio.get_running_loop().time
    async for page in pages:
        for start in range(0, len(page), AT_ONCE):
            await asyncio.gather(*map(job, page[start : start + AT_ONCE]))
            if clock() >= ends:
                return False
            await asyncio.sleep(0)
    return True


def _now() -> int:
    return time.time_ns() // 1000


def _steady() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000
