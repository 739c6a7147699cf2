"""The rules over an engine that many threads use at once: what clients of a server with many loops rely on."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from engines.engine_support import Countdown, Store, at_once
from google.protobuf.message import Message
from statekeep.v1 import memory_pb2, state_store_pb2
from statekeep.v1.value_pb2 import Value
from statekeep_server.core import memory, state_store
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.journal import Call
from statekeep_server.core.memory_streams import ScopeWatch
from statekeep_server.core.streams import Reader
from statekeep_server.core.thread_streams import BranchHistory
from statekeep_server.engines import Engine

pytestmark = pytest.mark.usefixtures("provoked")

SCOPE = memory_pb2.Scope(name="s")
SCOPE_PARTITION = memory.partition(SCOPE)
THREAD_PARTITION = state_store.partition("t")
CALL = Call(now=1_700_000_000_000_000)


class Client:
    """Calls the rules as a server does for one client."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def write(self, partition: str, rule: Callable[..., Any], request: Message) -> bytes:
        return await self._engine.write(partition, lambda view: rule(view, request, CALL))

    async def read(self, partition: str, rule: Callable[..., Any], request: Message) -> bytes:
        return await self._engine.read(partition, lambda view: rule(view, request, CALL))

    async def append(self, event_id: str = "", branch_id: str = "", **fields: Any) -> state_store_pb2.Event:
        event = state_store_pb2.Event(id=event_id, thread_id="t", branch_id=branch_id, type="happened", **fields)
        request = state_store_pb2.AppendNextEventRequest(event=event)
        answer = await self.write(THREAD_PARTITION, state_store.append_next_event, request)
        return state_store_pb2.AppendNextEventResponse.FromString(answer).event

    async def save(self, checkpoint_id: str, sequence: int, content: int) -> None:
        checkpoint = state_store_pb2.Checkpoint(
            id=checkpoint_id, thread_id="t", sequence=sequence, state=Value(json=str(content))
        )
        request = state_store_pb2.SaveCheckpointRequest(checkpoint=checkpoint)
        await self.write(THREAD_PARTITION, state_store.save_checkpoint, request)

    async def set(self, key: str, content: int = 1, **fields: Any) -> memory_pb2.MemoryEntry:
        request = memory_pb2.MemorySetRequest(scope=SCOPE, key=key, value=Value(json=str(content)), **fields)
        answer = await self.write(SCOPE_PARTITION, memory.set_key, request)
        return memory_pb2.MemorySetResponse.FromString(answer).entry

    async def thread(self) -> state_store_pb2.Thread:
        line = await self._engine.read(THREAD_PARTITION, lambda view: state_store.thread(view, THREAD_PARTITION, CALL))
        return state_store_pb2.ListThreadsResponse.FromString(line or b"").threads[0]

    async def follow(self, reader: Reader[Any], answer: type[Any], enough: Callable[[list[Any]], bool]) -> list[Any]:
        """Return a stream's messages until those are enough."""
        bell = self._engine.bell(reader.partition)
        messages: list[Any] = []
        place: Any = None
        while not enough(messages):
            step = await self._engine.read(reader.partition, lambda view, place=place: reader.step(view, CALL, place))
            place = step.place
            messages += map(answer.FromString, step.messages)
            if step.quiet and not enough(messages):
                await bell.wait(None)  # no timer, which would wake who was not rung for
        bell.close()
        return messages


@pytest.fixture
def client(engine: Engine) -> Client:
    return Client(engine)


def test_8_clients_append_500_events_each_and_get_1_to_4000_each_once(client: Client) -> None:
    async def append_500() -> list[int]:
        return [(await client.append()).sequence for _ in range(500)]

    answers = at_once(*[append_500] * 8)
    assert sorted(number for answer in answers for number in answer) == list(range(1, 4001))
    assert all(answer == sorted(answer) for answer in answers)


def test_one_event_sent_by_many_at_once_is_stored_once(client: Client, store: Store) -> None:
    async def send_all() -> list[int]:
        return [(await client.append(f"e{number}")).sequence for number in range(1000)]

    answers = at_once(*[send_all] * 8)
    assert all(answer == answers[0] for answer in answers)
    assert sorted(answers[0]) == list(range(1, 1001))
    assert store.look(THREAD_PARTITION, lambda view: view.count("emain")) == 1000


def test_one_request_id_sent_by_many_at_once_is_written_once(client: Client) -> None:
    async def send_all() -> list[tuple[int, str]]:
        entries = [await client.set("k", number, request_id=f"r{number}") for number in range(600)]
        return [(entry.version, entry.entry_id) for entry in entries]

    answers = at_once(*[send_all] * 8)
    assert all(answer == answers[0] for answer in answers)
    assert sorted(version for version, _ in answers[0]) == list(range(1, 601))


def test_of_many_creators_of_one_key_one_wins(client: Client) -> None:
    async def create_all() -> Counter[str]:
        outcomes: Counter[str] = Counter()
        for number in range(500):
            try:
                await client.set(f"k{number}", expected_version=0)
                outcomes["won"] += 1
            except StatekeepError as error:
                outcomes[error.reason] += 1
        return outcomes

    outcomes = sum(at_once(*[create_all] * 8), Counter())
    assert outcomes == {"won": 500, Reason.VERSION_MISMATCH: 500 * 7}


def test_a_count_that_is_raised_by_compare_and_set_loses_nothing(client: Client) -> None:
    async def raise_300() -> None:
        raised = 0
        while raised < 300:
            answer = await client.read(
                SCOPE_PARTITION, memory.get_key, memory_pb2.MemoryGetRequest(scope=SCOPE, key="count")
            )
            entry = memory_pb2.MemoryGetResponse.FromString(answer).entry
            try:
                await client.set("count", int(entry.value.json or 0) + 1, expected_version=entry.version)
                raised += 1
            except StatekeepError as error:
                assert error.reason == Reason.VERSION_MISMATCH  # noqa: PT017 (a conflict is a normal outcome)

    at_once(*[raise_300] * 4)
    entry = asyncio.run(client.set("count", expected_version=1200))
    assert entry.version == 1201


def test_latest_checkpoint_always_sees_one(client: Client) -> None:
    asyncio.run(client.save("c", 1, 0))
    asyncio.run(client.append("e1"))
    countdown = Countdown(2)

    async def save_many(own: int) -> None:
        for number in range(1, 1500):
            await client.save("c", number % 3, 10_000 * own + number)

    async def read_latest() -> int:
        reads = 0
        for request in (
            state_store_pb2.LatestCheckpointRequest(thread_id="t"),
            state_store_pb2.LatestCheckpointRequest(thread_id="t", at_event_id="e1"),
        ) * 100_000:
            answer = await client.read(THREAD_PARTITION, state_store.latest_checkpoint, request)
            found = state_store_pb2.LatestCheckpointResponse.FromString(answer).checkpoint
            assert found.id == "c" or (request.at_event_id and not answer)
            reads += 1
            if not countdown.running:
                break
        return reads

    async def read_all() -> int:
        reads = 0
        while not reads or countdown.running:
            request = state_store_pb2.GetHistoryRequest(thread_id="t")
            answer = await client.read(THREAD_PARTITION, state_store.get_history, request)
            history = state_store_pb2.GetHistoryResponse.FromString(answer).history
            assert [saved.id for saved in history.checkpoints] == ["c"]
            reads += 1
        return reads

    writers = [lambda own=own: countdown.after(save_many(own)) for own in (1, 2)]
    assert all(at_once(*writers, *[read_latest] * 2, *[read_all] * 2)[2:])


def test_a_threads_line_counts_a_replaced_checkpoint_once(client: Client) -> None:
    asyncio.run(client.save("c", 1, 0))
    countdown = Countdown(1)

    async def save_many() -> None:
        for number in range(1, 2000):
            await client.save("c", number % 3, number)

    async def read_lines() -> set[int]:
        counts: set[int] = set()
        while not counts or countdown.running:
            counts.add((await client.thread()).checkpoint_count)
        return counts

    assert at_once(lambda: countdown.after(save_many()), *[read_lines] * 3)[1:] == [{1}] * 3


@pytest.mark.parametrize("checkpoints", [False, True])
def test_followers_see_every_event_exactly_once_in_order(client: Client, checkpoints: bool) -> None:
    total = 4 * 200

    async def write(own: int) -> None:
        for number in range(200):
            await client.append(f"{own}-{number}", data=Value(text="x" * 20_000))
            await client.append(branch_id="other")
            await client.save("c", number, number)

    async def follow() -> list[Any]:
        request = state_store_pb2.StreamHistoryRequest(thread_id="t", follow=True, include_checkpoints=checkpoints)
        return await client.follow(
            BranchHistory(request),
            state_store_pb2.StreamHistoryResponse,
            lambda messages: sum(len(message.events) for message in messages) >= total,
        )

    answers = at_once(*[follow] * 4, *[lambda own=own: write(own) for own in range(4)])
    for messages in answers[:4]:
        numbers = [event.sequence for message in messages for event in message.events]
        assert numbers == list(range(1, total + 1))
        assert [message.caught_up for message in messages].count(True) == 1
        revisions = [message.revision for message in messages]
        assert revisions == sorted(revisions)


def test_watchers_see_every_version_exactly_once_in_order(client: Client) -> None:
    total = 4 * 500

    async def write(own: int) -> None:
        for number in range(500):
            await client.set(f"k{number % 5}", own)

    async def watch() -> list[Any]:
        reader = ScopeWatch(memory_pb2.MemoryWatchRequest(scope=SCOPE, after_revision=0))
        return await client.follow(
            reader,
            memory_pb2.MemoryWatchResponse,
            lambda messages: sum(len(message.entries) for message in messages) >= total,
        )

    answers = at_once(*[watch] * 4, *[lambda own=own: write(own) for own in range(4)])
    for messages in answers[:4]:
        entries = [entry for message in messages for entry in message.entries]
        assert [entry.revision for entry in entries] == sorted({entry.revision for entry in entries})
        versions = Counter((entry.key, entry.version) for entry in entries)
        assert versions == Counter((f"k{key}", version) for key in range(5) for version in range(1, 401))


def test_a_watch_during_purges_is_whole_or_ends_with_revision_gone(client: Client) -> None:
    countdown = Countdown(3)

    async def write() -> None:
        for number in range(600):
            await client.set(f"k{number % 3}", number)

    async def purge() -> None:
        for number in range(150):
            request = memory_pb2.MemoryPurgeRequest(scope=SCOPE, key=f"k{number % 3}", keep=number % 2)
            await client.write(SCOPE_PARTITION, memory.purge, request)

    async def watch_again_and_again() -> Counter[str]:
        outcomes: Counter[str] = Counter()
        while not outcomes["whole"] or countdown.running:
            reader = ScopeWatch(memory_pb2.MemoryWatchRequest(scope=SCOPE, after_revision=0))
            try:
                messages = await client.follow(
                    reader, memory_pb2.MemoryWatchResponse, lambda messages: any(m.caught_up for m in messages)
                )
            except StatekeepError as error:
                outcomes[error.reason] += 1
                continue
            revisions = [entry.revision for message in messages for entry in message.entries]
            assert revisions == sorted(set(revisions))
            outcomes["whole"] += 1
        return outcomes

    jobs = [*[lambda: countdown.after(write())] * 2, lambda: countdown.after(purge())]
    outcomes = sum(at_once(*jobs, *[watch_again_and_again] * 3)[3:], Counter())
    assert set(outcomes) <= {"whole", Reason.REVISION_GONE}
    assert outcomes["whole"]


def test_a_follower_ends_with_its_thread_and_sees_no_other_life(client: Client) -> None:
    countdown = Countdown(1)
    asyncio.run(client.append())

    async def live_and_die() -> None:
        for _ in range(300):
            for _ in range(5):
                await client.append()
            await client.write(
                THREAD_PARTITION, state_store.delete_thread, state_store_pb2.DeleteThreadRequest(thread_id="t")
            )
        await client.append()

    async def follow_again_and_again() -> Counter[str]:
        outcomes: Counter[str] = Counter()
        while countdown.running:
            request = state_store_pb2.StreamHistoryRequest(thread_id="t", follow=True)
            seen: list[Any] = []

            def enough(messages: list[Any], seen: list[Any] = seen) -> bool:
                seen[:] = messages
                return not countdown.running

            try:
                await client.follow(BranchHistory(request), state_store_pb2.StreamHistoryResponse, enough)
            except StatekeepError as error:
                outcomes[error.reason] += 1
            numbers = [event.sequence for message in seen for event in message.events]
            assert numbers == list(range(1, len(numbers) + 1))
        return outcomes

    async def end() -> None:
        await countdown.after(live_and_die())
        await client.append()  # wakes those who wait at the end

    outcomes = sum(at_once(end, *[follow_again_and_again] * 3)[1:], Counter())
    assert set(outcomes) <= {Reason.REVISION_GONE}
