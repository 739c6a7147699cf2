"""What the SQLite engine knows of its partitions without asking the file: committed, of one moment, bounded in bytes.

Readers take no lock. A state's `epoch` is odd while it is being changed, and a query during which it moved is run
again on the file. Changes come from two sides, one at a time: the writer, once what it wrote is on disk, and readers of
the file, with what they looked up.
"""

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from threading import Lock

from statekeep_server.engines.sqlite_view import LogState, PartitionState


class Cache:
    """States of partitions; those used last stay."""

    def __init__(self, limit: int) -> None:
        self.commits = 0
        """How many groups of writes were published: what a reader of the file notes before it begins."""
        self._limit = limit
        self._lock = Lock()
        self._states: OrderedDict[str, PartitionState] = OrderedDict()
        self._weight = 0

    def get(self, partition: str) -> PartitionState | None:
        """Return a partition's newest committed state, where it is known."""
        state = self._states.get(partition)
        if state is not None:
            with suppress(KeyError):  # it was let go of a moment ago; what it says is still so
                self._states.move_to_end(partition)
        return state

    def publish(self, drafts: Iterable[tuple[str, PartitionState]]) -> None:
        """Take over what a group of writes came to. It must be on disk, and nobody may have been answered yet."""
        with self._lock:
            self.commits += 1
            for partition, draft in drafts:
                state = self._states.get(partition)
                if state is not None and state.id != draft.id:  # a restored one may have the life of one dropped before
                    self._forget(partition)
                    state = None
                if not draft.id:
                    continue
                if state is None:
                    self._add(partition, draft)
                else:
                    self._change(state, draft)
            self._trim()

    def offer(self, partition: str, found: PartitionState, commits: int) -> None:
        """Take over what a reader of the file found, who had noted `commits` before it began."""
        if not found.id:
            return
        with self._lock:
            state = self._states.get(partition)
            if state is None:
                # One who began before the last commit may have seen the state before it.
                if commits == self.commits:
                    self._add(partition, found)
            elif (state.id, state.changes) == (found.id, found.changes):
                for name, log in found.logs.items():
                    if name not in state.logs:
                        self._put(state, name, log)
            self._trim()

    def differs(self, partition: str, found: PartitionState) -> bool:
        """Return whether a partition is known here as it was before or after what a reader of the file found."""
        state = self._states.get(partition)
        return state is not None and (state.id, state.changes) != (found.id, found.changes)

    def _add(self, partition: str, found: PartitionState) -> None:
        state = PartitionState()
        state.take(found)
        state.complete = found.complete
        self._states[partition] = state
        self._weight += state.weight
        for name, log in found.logs.items():
            self._put(state, name, log)

    def _change(self, state: PartitionState, draft: PartitionState) -> None:
        state.epoch += 1
        state.take(draft)
        for name, log in draft.logs.items():
            self._put(state, name, log)
        state.epoch += 1

    def _put(self, state: PartitionState, name: str, log: LogState) -> None:
        before = state.logs.pop(name, None)  # so that those used last stand last
        grown = log.weight - (before.weight if before else 0)
        state.logs[name] = log
        state.weight += grown
        self._weight += grown

    def _forget(self, partition: str) -> None:
        self._weight -= self._states.pop(partition).weight

    def _trim(self) -> None:
        while self._weight > self._limit and len(self._states) > 1:
            self._forget(next(iter(self._states)))
        if self._weight > self._limit:
            self._thin(next(iter(self._states.values())))

    def _thin(self, state: PartitionState) -> None:
        """Forget the logs of the one partition that is left, those used longest ago, down to half of the limit."""
        state.epoch += 1
        state.complete = False
        for name in list(islice(state.logs, len(state.logs))):
            if self._weight <= self._limit // 2:
                break
            gone = state.logs.pop(name).weight
            state.weight -= gone
            self._weight -= gone
        state.epoch += 1
