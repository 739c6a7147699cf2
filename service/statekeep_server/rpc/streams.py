"""How a stream runs: some messages are read and sent, and then the next are read; at the end it waits, or ends."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, TypeVar

from statekeep_server.core.errors import limit_reached, shutting_down, stream_too_old
from statekeep_server.core.journal import Call, Limits, View
from statekeep_server.core.streams import Reader, Step
from statekeep_server.engines import Engine
from statekeep_server.engines.interface import Bell
from statekeep_server.rpc.handlers import Send, peer
from statekeep_server.rpc.turns import LARGE, Turns

P = TypeVar("P")
Now = Callable[[], Call]

_AT_ONCE = 200  # partitions that are looked at for `behind`, before others get their turn


class Followers:
    """The streams that stay until their client ends them, or the server does: `len` of it are there."""

    def __init__(self, engine: Engine, limits: Limits | None = None) -> None:
        self._engine = engine
        self._limits = limits or Limits()
        self._bells: set[Bell] = set()
        self._connections: Counter[str] = Counter()
        self._count = 0
        self._readers: dict[Bell, Reader[Any]] = {}
        self._places: dict[Bell, Any] = {}
        self.attached = 0
        """How many streams stay that follow nothing."""
        self._ended = asyncio.Event()
        self._turns = Turns()

    async def run(self, reader: Reader[P], send: Send, now: Now) -> None:
        """Send what a reader reads, until it is done."""
        if not reader.follows:
            await self._send_all(reader, send, now)
            return
        with self.place():
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

    @contextmanager
    def place(self) -> Iterator[None]:
        """Count a stream that stays; LIMIT_REACHED where there are too many, or too many on its connection."""
        limits, connection = self._limits, peer.get()
        if 0 < limits.followers <= self._count:
            raise limit_reached(
                "followers", limits.followers, "end one first, or have the server started with a higher --max-followers"
            )
        if 0 < limits.connection_followers <= self._connections[connection]:
            raise limit_reached(
                "followers of a connection",
                limits.connection_followers,
                "end one first, or have the server started with a higher --max-connection-followers",
            )
        self._count += 1
        self._connections[connection] += 1
        try:
            yield
        finally:
            self._count -= 1
            self._connections[connection] -= 1
            if not self._connections[connection]:
                del self._connections[connection]

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
        return self._count

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
        age = self._limits.stream_age
        ends = quiet_since + age if age else inf
        place: P | None = None
        while True:
            self._refuse_when_ended()
            if clock() >= ends:
                raise stream_too_old(age)
            step = await self._read(reader, now, place)
            for message in step.messages:
                if len(message) >= LARGE:
                    await self._turns.take(len(message))
                await send(message)
                quiet_since = clock()
            place = self._places[bell] = step.place
            if step.done:
                return
            if step.quiet:
                beat = quiet_since + reader.heartbeat if reader.heartbeat else inf
                wake = min(beat, ends)
                if not await bell.wait(None if wake == inf else max(0.0, wake - clock())) and beat <= ends:
                    await send(reader.beat(place))
                    quiet_since = clock()
            elif not step.messages:
                await asyncio.sleep(0)  # a long search lets others go first

    async def _send_all(self, reader: Reader[P], send: Send, now: Now) -> None:
        place: P | None = None
        while True:
            step = await self._read(reader, now, place)
            for message in step.messages:
                await send(message)
            place = step.place
            if step.done:
                return

    def _read(self, reader: Reader[P], now: Now, place: P | None) -> Awaitable[Step[P]]:
        return self._engine.read(reader.partition, lambda view: reader.step(view, now(), place))

    def _refuse_when_ended(self) -> None:
        if self._ended.is_set():
            raise shutting_down()
