"""The objects of a server that count, for those who tell of them; and whether it is ready."""

from collections.abc import Callable
from dataclasses import dataclass

from statekeep_server.core.errors import StatekeepError
from statekeep_server.core.journal import EVENTS, PartitionState, Record
from statekeep_server.core.scratch import Scratch
from statekeep_server.engines import Engine
from statekeep_server.rpc.handlers import Traffic
from statekeep_server.rpc.streams import Followers
from statekeep_server.sweeper import Swept

_ROOM = 256 * 2**10  # bytes that a store that can be written has room for: a small write may fit where no other does


@dataclass(frozen=True)
class Sources:
    """The objects of a server that count."""

    engine: Engine
    scratch: Scratch
    followers: Followers
    traffic: Traffic
    swept: Swept
    start_time: float
    """When the server began, in seconds since 1970."""
    serving: Callable[[], bool]
    """Whether its health is SERVING."""


async def unready(sources: Sources) -> str:
    """Return why a server is not ready: it stops, or cannot write; "" where it is."""
    if not sources.serving():
        return "the server is stopping"
    try:
        if not (await sources.engine.stats()).writable:
            # Nobody who is sent elsewhere would ever find out that it can be written again.
            await _try_to_write(sources.engine)
    except StatekeepError as error:
        return error.message
    return ""


async def _try_to_write(engine: Engine) -> None:
    """Write something, where nobody sees it, and take it away."""
    restore = await engine.restore("", PartitionState(1, 1, 1, 1, 1))
    try:
        await restore.add(lambda view: ((), [Record(EVENTS, 2, 0, bytes(_ROOM))]))
    finally:
        await restore.close()
