"""kill -9 at any moment: what was answered is there, once, and what was taken away stays away."""

import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import grpc
import pytest
from rpc_support import Stubs, connected, key_of, next_of, set_of, stream_of
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value

StartServer = Callable[..., ServerProcess]
Placed = tuple[int, int]  # a sequence or version, and the revision

WRITERS = 8
PATIENCE = 30.0


class Answered:
    """What a server answered, over all its lives, by the one client that each name belongs to."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Placed]] = {}
        self.versions: dict[str, dict[int, int]] = {}
        self.purges_sent: dict[str, int] = {}
        self.purged: dict[str, int] = {}
        self.deleted: set[str] = set()
        self.checkpoints: dict[str, list[int]] = {}
        self._count = 0
        self._awaited = 0
        self._reached = threading.Event()
        self._lock = threading.Lock()

    def one_more(self) -> None:
        with self._lock:
            self._count += 1
            if self._count >= self._awaited:
                self._reached.set()

    def wait_for(self, more: int) -> bool:
        """Wait until so many more calls were answered."""
        with self._lock:
            self._awaited = self._count + more
            self._reached.clear()
        return self._reached.wait(PATIENCE)


class Writer:
    """A client that writes all kinds of things until its server is gone."""

    def __init__(self, stubs: Stubs, place: int, life: int, answered: Answered) -> None:
        self._stubs = stubs
        self._answered = answered
        self._name = f"w{place}"
        self._ids = (f"e{life}-{number}" for number in itertools.count())
        self._chance = random.Random(place * 1000 + life)
        self._kinds = [self._append, self._append, self._append_batch, self._set, self._save, self._purge, self._end]

    def run(self) -> int:
        """Write until the connection is cut; return how many calls were answered."""
        for count in range(100_000):
            try:
                self._chance.choice(self._kinds)()
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.UNAVAILABLE:
                    return count
                raise
            self._answered.one_more()
        raise AssertionError("the server was not killed")

    def _append(self) -> None:
        name = self._chance.choice([self._name, "shared"])
        event_id = f"{self._name}-{next(self._ids)}"
        event = self._stubs.state.AppendNextEvent(next_of(name, event_id), timeout=PATIENCE).event
        self._answered.events.setdefault(name, {})[event_id] = (event.sequence, event.revision)

    def _append_batch(self) -> None:
        ids = [f"{self._name}-{next(self._ids)}" for _ in range(20)]
        events = [state.Event(id=event_id, type="x", data=Value(json='"' + "d" * 900 + '"')) for event_id in ids]
        request = state.AppendEventsRequest(thread_id=self._name, events=events)
        answer = self._stubs.state.AppendEvents(request, timeout=PATIENCE)
        first = answer.revision - len(ids) + 1
        known = self._answered.events.setdefault(self._name, {})
        known.update({event_id: (answer.first_sequence + at, first + at) for at, event_id in enumerate(ids)})

    def _set(self) -> None:
        entry = self._stubs.memory.Set(set_of(self._name, "k"), timeout=PATIENCE).entry
        self._answered.versions.setdefault(self._name, {})[entry.version] = entry.revision

    def _purge(self) -> None:
        highest = max(self._answered.versions.get(self._name, {0: 0}))
        self._answered.purges_sent[self._name] = highest
        request = memory.MemoryPurgeRequest(scope=set_of(self._name, "k").scope, key="k", keep=1)
        self._stubs.memory.Purge(request, timeout=PATIENCE)
        self._answered.purged[self._name] = highest

    def _save(self) -> None:
        checkpoint = state.Checkpoint(
            id="c", thread_id=self._name, sequence=self._chance.randrange(100), state=Value(json="1")
        )
        request = state.SaveCheckpointRequest(checkpoint=checkpoint)
        saved = self._stubs.state.SaveCheckpoint(request, timeout=PATIENCE).checkpoint
        self._answered.checkpoints.setdefault(self._name, []).append(saved.revision)

    def _end(self) -> None:
        name = f"{self._name}-{next(self._ids)}"
        self._stubs.state.AppendNextEvent(next_of(name), timeout=PATIENCE)
        self._stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=name), timeout=PATIENCE)
        self._answered.deleted.add(name)


def write_until_killed(process: ServerProcess, life: int, answered: Answered, more: int) -> int:
    """Kill a server in the midst of its clients' writes, after `more` answers; return how many there were."""
    with connected(process.address) as own, ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(Writer(own, place, life, answered).run) for place in range(WRITERS)]
        reached = answered.wait_for(more)
        process.process.kill()
        process.wait(10)
        counts = [future.result(PATIENCE) for future in writing]
        assert reached
        return sum(counts)


def check(own: Stubs, answered: Answered) -> None:
    """Hold a server to all that was answered before."""
    for name, known in answered.events.items():
        events = [event for answer in own.state.StreamHistory(stream_of(name)) for event in answer.events]
        placed = {event.id: (event.sequence, event.revision) for event in events}
        assert len(placed) == len(events), "an event is there twice"
        assert known.items() <= placed.items()
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert [event.revision for event in events] == sorted({event.revision for event in events})
    for name, known_versions in answered.versions.items():
        request = memory.MemoryHistoryRequest(scope=set_of(name, "k").scope, key="k", oldest_first=True)
        entries = [entry for answer in own.memory.History(request) for entry in answer.entries]
        versions = {entry.version: entry.revision for entry in entries}
        assert len(versions) == len(entries), "a version is there twice"
        # A purge that was not answered may have been made, too.
        kept = {at: revision for at, revision in known_versions.items() if at > answered.purges_sent.get(name, 0)}
        assert kept.items() <= versions.items()
        assert max(known_versions) <= max(versions)
        assert min(versions) >= answered.purged.get(name, 0), "what was purged came back"
        assert own.memory.Get(key_of(name, "k")).entry.version == max(versions)
    for name, revisions in answered.checkpoints.items():
        saved = own.state.ListCheckpoints(state.ListCheckpointsRequest(thread_id=name)).checkpoints
        assert len(saved) == 1, "a replaced checkpoint is neither gone nor there twice"
        assert saved[0].revision >= max(revisions)
    threads = {thread.id for thread in all_threads(own)}
    assert not threads & answered.deleted


def all_threads(own: Stubs) -> list[state.Thread]:
    threads: list[state.Thread] = []
    token = ""
    while True:
        page = own.state.ListThreads(state.ListThreadsRequest(page_size=1000, page_token=token))
        threads += page.threads
        token = page.next_page_token
        if not token:
            return threads


def integrity(path: Path) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(5, id="5 times"),
        pytest.param(50, id="50 times", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
def test_what_was_answered_outlives_kills_at_any_moment(start_server: StartServer, tmp_path: Path, rounds: int) -> None:
    path = tmp_path / "state.db"
    chance = random.Random()
    answered = Answered()
    for life in range(rounds):
        process = start_server("--store", f"sqlite:{path}")
        with connected(process.address) as own:
            check(own, answered)
        assert write_until_killed(process, life, answered, chance.randrange(1, 600)) > 0
    process = start_server("--store", f"sqlite:{path}")
    with connected(process.address) as own:
        check(own, answered)
    assert integrity(path) == [("ok",)]
    process.stop()
    assert answered.events
    assert answered.versions
