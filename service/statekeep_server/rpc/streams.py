"""How a stream runs: some messages are read and sent, and then the next are read; at the end it waits, or ends."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from statekeep_server.core.errors import shutting_down
from statekeep_server.core.journal import Call, View
from statekeep_server.core.streams import Reader, Step
from statekeep_server.engines import Engine
from statekeep_server.engines.interface import Bell
from statekeep_server.rpc.handlers import Send

P = TypeVar("P")
Now = Callable[[], Call]

_AT_ONCE = 200  # partitions that are looked at for `behind`, before others get their turn


class Followers:
    """The streams that stay until their client ends them, or the server does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._bells: set[Bell] = set()
        self._readers: dict[Bell, Reader[Any]] = {}
        self._places: dict[Bell, Any] = {}
        self.attached = 0
        """How many streams stay that follow nothing."""
        self._ended = asyncio.Event()

    async def run(self, reader: Reader[P], send: Send, now: Now) -> None:
        """Send what a reader reads, until it is done."""
        if not reader.follows:
            await self._send_all(reader, send, now)
            return
        bell = self._engine.bell(reader.partition)  # before the first read, so that no append is missed
        self._bells.add(bell)
        self._readers[bell] = reader
        try:
            await self._follow(reader, send, now, bell)
        finally:
            self._bells.discard(bell)
            del self._readers[bell]
            self._places.pop(bell, None)
            bell.close()

    async def stay(self) -> None:
        """Wait until the server ends the streams."""
        self.attached += 1
        try:
            await self._ended.wait()
        finally:
            self.attached -= 1
        self._refuse_when_ended()

    def end(self) -> None:
        """End all streams that stay, with UNAVAILABLE: their clients can resume elsewhere, or here later."""
        self._ended.set()
        for bell in list(self._bells):
            bell.ring()

    def __len__(self) -> int:
        return len(self._bells)

    def by_kind(self) -> Counter[str]:
        """Return how many follow, by the first character of their partitions' names."""
        return Counter(reader.partition[0] for reader in self._readers.values())

    async def behind(self) -> int:
        """Return how many revisions the slowest follower has not been sent yet."""
        slowest: dict[str, int] = {}
        for bell, place in self._places.items():
            reader = self._readers[bell]
            revision = reader.revision(place)
            slowest[reader.partition] = min(revision, slowest.get(reader.partition, revision))
        most = 0
        for looked_at, (partition, revision) in enumerate(slowest.items(), 1):

            def query(view: View, revision: int = revision) -> int:
                return view.revision - max(revision, view.life)  # a life begins at the clock, with no record there

            most = max(most, await self._engine.read(partition, query))
            if looked_at % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return most

    async def _follow(self, reader: Reader[P], send: Send, now: Now, bell: Bell) -> None:
        clock = asyncio.get_running_loop().time
        quiet_since = clock()
        place: P | None = None
        while True:
            self._refuse_when_ended()
            for step in await self._read(reader, now, place):
                if step.message:
                    await send(step.message)
                    quiet_since = clock()
            place = self._places[bell] = step.place
            if step.done:
                return
            if step.message is None:
                wait = max(0.0, quiet_since + reader.heartbeat - clock()) if reader.heartbeat else None
                if not await bell.wait(wait):
                    await send(reader.beat(place))
                    quiet_since = clock()
            elif not step.message:
                await asyncio.sleep(0)  # a long search lets others go first

    async def _send_all(self, reader: Reader[P], send: Send, now: Now) -> None:
        place: P | None = None
        while True:
            for step in await self._read(reader, now, place):
                if step.message:
                    await send(step.message)
            place = step.place
            if step.done:
                return

    def _read(self, reader: Reader[P], now: Now, place: P | None) -> Awaitable[list[Step[P]]]:
        """Return the next steps, at least one: to go to and fro for each message costs more than the message."""

        def query(view: View) -> list[Step[P]]:
            call = now()
            steps = [reader.step(view, call, place)]
            while len(steps) < reader.ahead and steps[-1].message and not steps[-1].done:
                steps.append(reader.step(view, call, steps[-1].place))
            return steps

        return self._engine.read(reader.partition, query)

    def _refuse_when_ended(self) -> None:
        if self._ended.is_set():
            raise shutting_down()
