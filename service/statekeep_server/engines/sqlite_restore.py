"""A partition that is put together in the file under a name that no partition can have, until it is whole."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from statekeep_server.core.errors import StatekeepError
from statekeep_server.core.journal import LogState, PartitionState, Record
from statekeep_server.engines.sqlite_transaction import Transaction
from statekeep_server.engines.sqlite_view import SqliteView

log = logging.getLogger(__name__)


class OnWriter(Protocol):
    """Runs a step within a transaction of the thread that writes; it is on disk when this returns."""

    def __call__(self, run: Callable[[Transaction], Any]) -> Awaitable[Any]:
        """Return what the step returned."""


class SqliteRestore:
    """A partition on its way in."""

    def __init__(
        self, name: str, stage: str, state: PartitionState, run: OnWriter, finished: Callable[[], None]
    ) -> None:
        self._name = name
        self._stage = stage
        self._state = state
        self._run = run
        self._finished = finished
        self._begun = False  # there may be something in the file

    async def add(self, decide: Callable[[SqliteView], tuple[Sequence[LogState], Sequence[Record]]]) -> None:
        """Add what is decided; it is on disk when this returns."""
        self._begun = True
        await self._run(lambda transaction: transaction.add_to_stage(self._stage, self._state, decide))

    async def finish(self) -> bool:
        """Give it its name; False where that is taken."""
        self._begun = True
        done = await self._run(self._finish)
        self._begun = not done
        return bool(done)

    def _finish(self, transaction: Transaction) -> bool:
        done = transaction.finish_stage(self._stage, self._name, self._state)
        if done:
            self._finished()  # here, for who waits for it may be gone by the time it is committed
        return done

    async def close(self) -> None:
        """Drop it where it is not whole. Where that cannot be written, it goes when the file is opened again."""
        if not self._begun:
            return
        try:
            # A caller who is cancelled now does not ask again: it is dropped all the same.
            await asyncio.shield(self._run(lambda transaction: transaction.drop_stage(self._stage)))
            self._begun = False
        except StatekeepError as error:
            log.warning("an unfinished import is removed when the store is opened the next time: %s", error)
