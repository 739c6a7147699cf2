"""What the tests of the engines share: records to append, a store to append them to, and threads to do it at once."""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from statekeep.v1 import state_store_pb2 as pb
from statekeep_server.core.journal import CHECKPOINTS, EVENTS, KEY, Change, Chunk, Record, View
from statekeep_server.core.wire import body, frame
from statekeep_server.engines import Engine

Answer = TypeVar("Answer")

MAIN = EVENTS + "main"
SAVED = CHECKPOINTS + "main"
CHUNK = 256 * 2**10
NEVER = 2**62
PATIENCE = 40.0  # seconds after which a thread that still runs is taken to hang


@dataclass(frozen=True)
class New:
    """A record to be appended; without a number it takes the next of its log."""

    log: str = MAIN
    number: int | None = None
    id: str = ""
    text: str = "x"
    deleted: bool = False
    expires: int = 0

    def at(self, revision: int, number: int) -> Record:
        message = pb.Event(id=self.id, sequence=number, revision=revision, type=self.text)
        framed = frame(message.SerializeToString())
        return Record(self.log, revision, number, framed, self.id, 0, self.deleted, self.expires)


def records(view: View, news: Sequence[New]) -> list[Record]:
    """Return the records that continue a view's journal."""
    numbers: dict[str, int] = {}
    made = []
    for revision, new in enumerate(news, view.revision + 1):
        number = new.number
        if number is None:
            number = numbers.get(new.log, view.number(new.log)) + 1
        numbers[new.log] = max(number, numbers.get(new.log, view.number(new.log)))
        made.append(new.at(revision, number))
    return made


def appending(*news: New) -> Callable[[View], Change[list[Record]]]:
    """Return a decision to append."""

    def decide(view: View) -> Change[list[Record]]:
        made = records(view, news)
        return Change(made, made)

    return decide


def dropping(view: View) -> Change[int]:
    """Decide to end a partition, and answer how many events it had."""
    return Change(view.count(MAIN), drop=True)


def whole(message: bytes) -> pb.Event:
    """Return the message in a frame."""
    return pb.Event.FromString(body(message))


def events_in(chunk: Chunk) -> list[pb.Event]:
    return list(pb.StreamHistoryResponse.FromString(chunk.message).events)


def chunks(view: View, log: str = MAIN, after: int = 0, until: int = NEVER, count: int | None = None) -> list[Chunk]:
    """Return the chunks that lead from one revision to another."""
    found = []
    while chunk := view.chunk(log, after, until, count):
        found.append(chunk)
        after = chunk.revision
    return found


def key(name: str) -> str:
    return KEY + name


class Store:
    """An engine, called from where there is no event loop."""

    def __init__(self, engine: Engine, runner: asyncio.Runner) -> None:
        self.engine = engine
        self.run = runner.run

    def append(self, partition: str, *news: New) -> list[Record]:
        return self.run(self.engine.write(partition, appending(*news)))

    def write(self, partition: str, decide: Callable[[View], Change[Answer]]) -> Answer:
        return self.run(self.engine.write(partition, decide))

    def trim(self, partition: str, log: str, *revisions: int, oldest: int = 0) -> None:
        def decide(view: View) -> Change[None]:
            trims = [record for record in view.scan(log) if record.revision in revisions]
            return Change(None, records(view, [New("p")]), trims, oldest)

        self.write(partition, decide)

    def drop(self, partition: str) -> int:
        return self.write(partition, dropping)

    def look(self, partition: str, query: Callable[[View], Answer]) -> Answer:
        return self.run(self.engine.read(partition, query))

    def partitions(self, prefix: str = "", after: str = "", limit: int = 10**6) -> list[str]:
        return self.run(self.engine.partitions(prefix, after, limit))

    def sweep(self, now: int) -> int:
        return self.run(self.engine.sweep(now))


Job = Callable[[], Awaitable[Answer]]


def at_once(*jobs: Job[Answer]) -> list[Answer]:
    """Run jobs at once, each on a thread and an event loop of its own, and return what they returned."""
    answers: list[Any] = [None] * len(jobs)
    errors: list[BaseException] = []
    begin = threading.Barrier(len(jobs))

    async def awaited(job: Job[Answer]) -> Answer:
        return await job()

    def work(place: int, job: Job[Answer]) -> None:
        try:
            begin.wait(30)
            answers[place] = asyncio.run(awaited(job))
        except BaseException as error:  # noqa: BLE001 (raised again where the test is)
            errors.append(error)

    threads = [threading.Thread(target=work, args=item, daemon=True) for item in enumerate(jobs)]
    for thread in threads:
        thread.start()
    over = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, over - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]
    return answers


@contextmanager
def races() -> Iterator[None]:
    """Have threads take turns so often that each gap between two steps is met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Countdown:
    """Tells readers when the writers are done."""

    def __init__(self, writers: int) -> None:
        self._left = writers
        self._lock = threading.Lock()

    async def after(self, job: Coroutine[Any, Any, Answer]) -> Answer:
        """Await a writer's job, and count it off however it ends."""
        try:
            return await job
        finally:
            with self._lock:
                self._left -= 1

    @property
    def running(self) -> bool:
        return self._left > 0


def meanwhile(engine: Engine, partition: str, decide: Callable[[View], Change[Any]]) -> None:
    """Make a change from another thread, while the caller is in the midst of a query.

    An engine may keep the writer waiting until the query is over: that leaves the view as it was, too.
    """
    thread = threading.Thread(target=lambda: asyncio.run(_write(engine, partition, decide)), daemon=True)
    thread.start()
    thread.join(2)


async def _write(engine: Engine, partition: str, decide: Callable[[View], Change[Any]]) -> None:
    await engine.write(partition, decide)
