"""What all streams have in common: a reader that is asked for the next messages, again and again, and its place."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from google.protobuf.duration_pb2 import Duration

from statekeep_server.core import clock
from statekeep_server.core.errors import Reason, StatekeepError, invalid
from statekeep_server.core.journal import Call, View

P = TypeVar("P")

MIN_HEARTBEAT = 100_000_000  # nanoseconds


class Step(NamedTuple, Generic[P]):
    """One step of a stream.

    `messages` are what is to be sent. `place` is where the next step begins. `done` says that the stream ends with
    this, `quiet` that there is nothing after it until the partition changes. One without messages that is neither is a
    search that goes on.
    """

    messages: Sequence[bytes]
    place: P
    done: bool = False
    quiet: bool = False


class Reader(Protocol[P]):
    """A stream. All that changes in it is its place, and that is small: a slow client costs no memory."""

    partition: str
    follows: bool
    """Whether the stream stays when everything was sent."""
    heartbeat: float
    """Seconds without a message after which one is sent all the same; 0 for never."""

    def step(self, view: View, call: Call, place: P | None) -> Step[P]:
        """Return the next messages; `place` is None at the start.

        More than one only of some MiB together: what was read costs memory while a slow client takes its time.
        """

    def revision(self, place: P) -> int:
        """Return the revision up to which everything was sent."""

    def beat(self, place: P) -> bytes:
        """Return a message that carries nothing but the revision."""


class Cursor(NamedTuple):
    """A place in a partition's journal, valid while nothing is lost before it that its reader must know of."""

    revision: int
    """Everything up to here was sent."""
    target: int
    """The newest revision when the stream began."""
    life: int
    oldest: int
    """The partition's life, and the oldest cursor it took, when the stream began."""
    caught_up: bool = False


def begin(view: View, after: int) -> Cursor:
    """Return the cursor of a stream that begins after a revision, 0 for the start."""
    if after and (not view.exists or after < view.oldest):
        raise _gone(after, view)
    if after > view.revision:
        raise StatekeepError(
            Reason.REVISION_AHEAD,
            "Revision {revision} is ahead of the newest, {newest}; is it of another server?",
            revision=after,
            newest=view.revision,
        )
    return Cursor(after, view.revision, view.life, view.oldest)


def resume(view: View, cursor: Cursor) -> Cursor:
    """Return a cursor for the next step.

    Refused where the partition was ended, or purged of a key's newest version, since the stream began.
    """
    if not cursor.life:
        return cursor._replace(life=view.life, oldest=view.oldest)
    if view.life != cursor.life or view.oldest > cursor.oldest:
        raise _gone(cursor.revision, view)
    return cursor


def after_revision(number: int) -> int:
    """Return the cursor of a request."""
    if number < 0:
        raise invalid("after_revision", "is {number}; give 0 for the start, or a revision that was read", number=number)
    return number


def heartbeat(value: Duration) -> float:
    """Return a heartbeat in seconds."""
    micros = clock.duration(value, "heartbeat")
    if not value.seconds and 0 < value.nanos < MIN_HEARTBEAT:
        raise invalid("heartbeat", "is below 100 ms; give 0 for none, or 0.1 s and more")
    return micros / clock.MICROS


def _gone(revision: int, view: View) -> StatekeepError:
    return StatekeepError(
        Reason.REVISION_GONE,
        "What followed revision {revision} is gone, the oldest to go on from is {oldest}; read again from 0",
        revision=revision,
        oldest=view.oldest,
    )
