"""What an engine offers: partitions to read and to change, and a bell for those who wait. It knows no rules.

Every call is awaited and may fail: an engine may sit on a disk or behind a network. What cannot be done now raises
`StatekeepError` with STORE_UNAVAILABLE; where the fate of a write is unknown, that too, and the caller sends it
again (a request id or an event's id makes that safe).
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from statekeep_server.core.journal import Change, LogState, PartitionState, Record, View
from statekeep_server.counting import Distribution

Answer = TypeVar("Answer")


class Bell(Protocol):
    """Rings for one waiter when something was appended to its partition, or the partition ended."""

    async def wait(self, timeout: float | None) -> bool:  # noqa: ASYNC109 (one bell, not a scope)
        """Return True when it rang since the last wait, False after `timeout` seconds. Rings are not counted."""

    def ring(self) -> None:
        """Wake the waiter. May be called from any thread."""

    def close(self) -> None:
        """End it. To be called by the one who asked for it."""


class Snapshot(Protocol):
    """A partition as it was at one moment, whatever is written, trimmed or dropped meanwhile.

    Its logs and its records are each read once, in pages.
    """

    state: PartitionState

    async def logs(self, count: int) -> Sequence[LogState]:
        """Return the next `count` logs whose state their records do not tell, sorted by name; none at the end."""

    async def records(self, size: int) -> Sequence[Record]:
        """Return the next records of all logs by revision: about `size` bytes, at least one; none at the end."""

    async def close(self) -> None:
        """Let go of it. To be called by the one who asked for it."""


class Restore(Protocol):
    """A partition that is put together apart, where nobody sees it, and comes in whole or not at all.

    One that was not finished when the process ended is gone.
    """

    async def add(self, decide: Callable[[View], tuple[Sequence[LogState], Sequence[Record]]]) -> None:
        """Add what is decided on a view of what was added so far, all of it or nothing.

        The records' revisions grow, with gaps. A log's state comes before its records.
        """

    async def finish(self) -> bool:
        """Put the partition in its place; False, and nothing is changed, where there is one of its name already.

        True means that it is kept, as safely as the engine keeps anything.
        """

    async def close(self) -> None:
        """Forget it where it was not finished. To be called by the one who asked for it."""


class Backup(Protocol):
    """All that an engine keeps, as it was at one moment, on its way into a file that an engine of its kind opens."""

    size: int
    """Bytes that it has; known once `copy` has returned."""
    copied: int
    """How many of them are copied."""

    async def copy(self) -> bool:
        """Copy some more; True once the copy is whole, sound, and ready to be read."""

    async def read(self, size: int) -> bytes:
        """Return the next bytes of the copy, at most `size`; none at its end."""

    async def close(self) -> None:
        """Let go of it, finished or not. To be called by the one who asked for it."""


@dataclass(frozen=True, slots=True)
class Commits:
    """The transactions of an engine that writes several changes in one."""

    sizes: Distribution
    """How many writes each had, those that changed nothing among them."""
    times: Distribution
    """How long each took, the disk included, in nanoseconds."""
    failed: int
    """How many were not committed."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What an engine tells of itself.

    What has to be counted first (`partitions`, `records`, `bytes`) may be a while old, where counting takes long.
    """

    partitions: Mapping[str, int]
    """How many there are, by the first character of their names."""
    records: int
    bytes: int
    """What the records take: their frames, or the file with its log."""
    expired: int
    """How many expired records were removed since the engine was opened."""
    writable: bool
    """False where the last write failed for the engine's sake, or where it is closed."""
    commits: Commits | None = None
    """None where every write is kept by itself."""


class Engine(Protocol):
    """Keeps partitions. Safe to use from many threads and event loops at once."""

    name: str
    """As in the store's URL."""
    durable: bool
    """Whether what is kept outlives the process."""
    restored: int
    """How many partitions came in through `restore` since the engine was opened."""

    @property
    def held(self) -> int:
        """Bytes that records take in memory for as long as they are stored, about; 0 where they are on a disk."""

    async def read(self, partition: str, query: Callable[[View], Answer]) -> Answer:
        """Return what a query finds. The view is of one moment; that of an unknown partition is empty.

        The query may be run again, and on another thread, so it has no effects but on what it returns.
        """

    async def write(self, partition: str, decide: Callable[[View], Change[Answer]]) -> Answer:
        """Make the change that is decided on the newest view, whole or not at all, and return its answer.

        The answer means that the change is kept, as safely as the engine keeps anything. `decide` is run again
        where another write came in between.
        """

    async def partitions(self, prefix: str, after: str, limit: int) -> list[str]:
        """Return the names of partitions that start so and are greater than `after`, sorted, at most `limit`."""

    def bell(self, partition: str) -> Bell:
        """Return a bell for the running event loop. It creates nothing, and hears of a partition's beginning too."""

    async def sweep(self, now: int) -> int:
        """Remove what has expired at `now` (microseconds since 1970), and return how many records that were."""

    def idle(self, prefix: str, before: int) -> AsyncIterator[Sequence[str]]:
        """Yield, in pages, the partitions that start so and were changed last before a time.

        Pages may be empty. Whoever acts on one decides again on its newest view.
        """

    def crowded(self, kind: str, count: int) -> AsyncIterator[Sequence[tuple[str, str]]]:
        """Yield, in pages, the logs of a kind that hold more than `count` records, each with its partition.

        Pages may be empty. Not of events.
        """

    async def reclaim(self) -> int:
        """Give back the room that what was removed took, where that is worth it, and return how many bytes."""

    async def snapshot(self, partition: str) -> Snapshot | None:
        """Return a partition as it is now, to be read in pages; None where it is not there."""

    async def restore(self, partition: str, state: PartitionState) -> Restore:
        """Begin to put a partition together that is to have this name and state. Several of one name may be at it."""

    async def backup(self) -> Backup:
        """Begin a backup; NOT_SUPPORTED where nothing is kept in a file, LIMIT_REACHED where one is under way."""

    async def stats(self) -> Stats:
        """Return what there is to tell. It is cheap: what must be counted is counted rarely where that takes long."""

    async def close(self) -> None:
        """Let go of everything that the engine holds."""


class StoreError(Exception):
    """A store that cannot be opened, and why, in one line."""
