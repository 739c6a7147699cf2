"""What a partition is made of, as the rules see it: records in logs, read through a view, changed by one append.

A *partition* is one memory scope or one thread. It is a journal: records in order, each with a *revision*, its
place. A record belongs to a *log* of its partition (a key, a branch's events, …) and carries a *number* there
(a version, a sequence). Records never change; a *trim* takes some away and moves none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

Answer = TypeVar("Answer")

MAX_NUMBER = 2**53 - 1  # the largest integer that every client language holds exactly
MAIN = "main"


class Record(NamedTuple):
    """One record, as it is stored.

    `frame` is the public message in field 1 of the answer that will carry it (see wire.py). Its last `value_size`
    bytes are the value, which a read may leave out. `id` is "" where the record is not looked up by an id.
    `expires` is in microseconds since 1970, 0 for never.
    """

    log: str
    revision: int
    number: int
    frame: bytes
    id: str = ""
    value_size: int = 0
    deleted: bool = False
    expires: int = 0


class Chunk(NamedTuple):
    """Consecutive records of a log, ready to send.

    `message` holds their frames, and in field 4 `revision`, the last record's: what StreamHistoryResponse looks
    like on the wire. `complete` says that the log held no more up to the revision that was asked for.
    """

    message: bytes
    records: int
    revision: int
    complete: bool


class Change(NamedTuple, Generic[Answer]):
    """What a rule decided: the answer, and what is appended and taken away, all of it or nothing.

    The records' revisions go on from the view's, one by one. `oldest`, where it is not 0, is the revision below
    which no cursor is valid any more. `drop` ends the partition: everything in it goes.
    """

    answer: Answer
    records: Sequence[Record] = ()
    trims: Sequence[Record] = ()
    oldest: int = 0
    drop: bool = False


class PartitionState(NamedTuple):
    """What a partition is besides its records, as a view tells it. Times are in microseconds since 1970."""

    life: int
    revision: int
    oldest: int
    create_time: int
    update_time: int


class LogState(NamedTuple):
    """What the records of a log do not tell, once some were trimmed.

    `trimmed` is the highest number of a trimmed record, `born` the revision of the log's first record ever.
    """

    log: str
    trimmed: int
    born: int


class View(Protocol):
    """A partition as it was after its newest revision: what a rule may look at.

    Nothing that is read through one view changes while a rule runs. A view may read from a disk or a network, so
    a rule runs wherever the engine wants, and more than once if it must: it has no effects.
    """

    @property
    def exists(self) -> bool:
        """Whether the partition holds, or ever held in this life, a record."""

    @property
    def life(self) -> int:
        """What tells this life of the partition from every other life of any partition; 0 where it has none."""

    @property
    def revision(self) -> int:
        """The newest record's revision. Where there is none: the revision that the first will follow, or, in a
        read, 0.
        """

    @property
    def oldest(self) -> int:
        """The lowest revision that a cursor may have."""

    @property
    def create_time(self) -> int:
        """When the first record came, in microseconds since 1970."""

    @property
    def update_time(self) -> int:
        """When it was changed last, in microseconds since 1970."""

    @property
    def alive(self) -> int:
        """How many keys have a value, those among them that have expired and are not swept yet. Costs nothing."""

    @property
    def kept(self) -> int:
        """How many records of the `COUNTED` kinds it holds: a scope's versions, a thread's events. Costs nothing."""

    def head(self, log: str) -> Record | None:
        """Return the newest record of a log that counts upwards; None where that was trimmed, or never was."""

    def upto(self, log: str, number: int) -> Record | None:
        """Return the record with the highest number that is not above `number`; of equals the newest."""

    def find(self, log: str, id: str) -> Record | None:  # noqa: A002 (the field's name in the contract)
        """Return the record with this id."""

    def named(self, log: str) -> bool:
        """Whether any record of a log may be found by an id."""

    def number(self, log: str) -> int:
        """Return the highest number that the log ever had, trimmed ones too; 0 where it had none."""

    def count(self, log: str) -> int:
        """Return how many records the log holds."""

    def expired(self, log: str, now: int) -> int:
        """Return how many records of a log have expired, and are not swept yet. Not of events."""

    def born(self, log: str) -> int:
        """Return the revision of the log's first record ever; 0 where it had none."""

    def live(self, kind: str, now: int) -> int:
        """Return how many logs of a kind have a head that is neither deleted nor expired."""

    def scan(
        self, log: str, *, after: int = 0, before: int | None = None, newest_first: bool = False
    ) -> Iterator[Record]:
        """Yield the records with after < revision < before, in order of revision."""

    def chunk(self, log: str, after: int, until: int, count: int | None = None) -> Chunk | None:
        """Return the first records with after < revision <= until.

        At most `count` of them, and about 256 KiB: more only where the first alone is larger. None where there
        is none. Only of a log of events (see `events_log`).
        """

    def back(self, log: str, count: int, until: int) -> tuple[int, int]:
        """Count back `count` records from revision `until`: how many there were, and the revision before them."""

    def logs(self, prefix: str, after: str = "") -> Iterator[str]:
        """Yield the names of the logs that ever held a record, sorted, that start so and are greater than `after`."""

    def journal(self, kind: str, after: int) -> Iterator[Record]:
        """Yield the records of all logs of a kind with a greater revision, in order. Not of events."""


# A log's name begins with its kind, one character, so that no two logs of different kinds share a name.
KEY = "k"  # a memory key's versions
PURGES = "p"
REQUESTS = "r"  # answers to be given again, see requests.py
EVENTS = "e"
CHECKPOINTS = "c"
BRANCHES = "b"

COUNTED = frozenset({KEY, EVENTS})
"""Kinds whose records a partition counts; it holds one of the two at most."""

APPEND_ONLY = frozenset({EVENTS})
"""Kinds whose records are never trimmed, are read in chunks, and whose ids are field 1 of their message."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large things may be, and how many. Sizes are in bytes; 0 is no limit, but for the first five."""

    record: int = 4 * 2**20 - 64 * 2**10
    """A record as it is stored: what a client with gRPC's default limit of 4 MiB can read, framing included."""
    message: int = 4 * 2**20
    """An answer: gRPC's default limit at the receiver."""
    chunk: int = 256 * 2**10
    """A message of a stream, about."""
    page: int = 100
    """The page size where the request names none."""
    max_page: int = 1000
    max_versions: int = 0
    """How many versions a key keeps; 0 for all."""
    request: int = 64 * 2**20
    """A request as it is received. Larger than a record, or nobody could be told that one is too large."""
    batch: int = 20_000
    """Sets, keys or events of one request."""
    scope_keys: int = 0
    """Keys of a scope that have a value."""
    scope_versions: int = 0
    """Versions that a scope keeps, of all its keys, tombstones included."""
    thread_events: int = 0
    """Events of a thread, on all its branches."""
    scratch_instances: int = 0
    """Scratch instances."""
    scratch_bytes: int = 0
    """Keys and values of all scratch instances."""
    memory: int = 0
    """What is kept in memory, overhead included: records, where the engine keeps them there, and scratch values."""
    followers: int = 10_000
    """Streams that stay: StreamHistory and Watch that follow, and Attach."""
    connection_followers: int = 0
    """Of those, on one connection."""
    calls: int = 20_000
    """Calls under way at once, streams included."""
    stream_age: float = 0.0
    """Seconds after which a stream that follows is ended, to be resumed."""


class Call(NamedTuple):
    """What a rule may know besides the view and the request."""

    now: int
    """The time, in microseconds since 1970."""
    limits: Limits = Limits()
    room: int | None = None
    """Bytes that may still be kept in memory; None without a limit. It may be below 0."""
