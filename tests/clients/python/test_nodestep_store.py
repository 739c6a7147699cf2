"""`statekeep.state.StateStore` behaves as nodestep's store."""

import asyncio
import dataclasses
import math
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
import statekeep
from statekeep.errors import EventNotFoundError, StatekeepError
from statekeep.state import (
    BranchRecord,
    CheckpointRecord,
    History,
    HistoryEvent,
    StateStore,
    StateStoreError,
    StateUpdateError,
)

RECORDS: list[Any] = [
    HistoryEvent(thread_id="t", sequence=1, type="x"),
    CheckpointRecord(thread_id="t", event_id="e", sequence=1, state_json="{}"),
    BranchRecord(thread_id="t", from_event_id="e"),
    History(thread_id="t", branch_id="main"),
]


@pytest.fixture
def store(address: str) -> Iterator[StateStore]:
    with StateStore(address) as store:
        yield store


def event(thread: str, sequence: int = 0, **fields: Any) -> HistoryEvent:
    return HistoryEvent(**{"thread_id": thread, "sequence": sequence, "type": "x", **fields})


def checkpoint(thread: str, sequence: int = 1, **fields: Any) -> CheckpointRecord:
    return CheckpointRecord(
        **{"thread_id": thread, "event_id": "e", "sequence": sequence, "state_json": "{}", **fields}
    )


class TestRecords:
    def test_have_the_originals_fields_in_order(self) -> None:
        assert [[field.name for field in dataclasses.fields(record)] for record in RECORDS] == [
            ["id", "thread_id", "branch_id", "sequence", "type", "node", "parent_id", "data_json", "error_type",
             "message", "created_at"],
            ["id", "thread_id", "branch_id", "event_id", "sequence", "state_json", "active_json", "status",
             "created_at"],
            ["id", "thread_id", "parent_branch_id", "from_event_id", "created_at"],
            ["thread_id", "branch_id", "events", "checkpoints"],
        ]  # fmt: skip

    def test_have_the_originals_defaults(self) -> None:
        made, saved, forked, history = RECORDS
        assert (made.branch_id, made.node, made.parent_id, made.data_json) == ("main", None, None, None)
        assert (made.error_type, made.message) == (None, None)
        assert (saved.branch_id, saved.active_json, saved.status) == ("main", "[]", "running")
        assert forked.parent_branch_id == "main"
        assert (history.events, history.checkpoints) == ([], [])
        assert all(UUID(record.id).version == 4 for record in (made, saved, forked))
        assert abs(time.time() - made.created_at) < 600

    @pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
    def test_are_mutable_unhashable_and_equal_by_value(self, record: Any) -> None:
        copy = pickle.loads(pickle.dumps(record))  # noqa: S301 # its own bytes
        assert copy == record
        copy.thread_id = "other"
        assert copy != record
        with pytest.raises(TypeError, match="unhashable"):
            hash(record)

    @pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
    def test_take_keywords_they_know(self, record: Any) -> None:
        known = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        with pytest.raises(TypeError, match="unexpected keyword argument 'more'"):
            type(record)(**known, more=1)
        with pytest.raises(TypeError, match="positional"):
            type(record)("t")

    def test_need_what_has_no_default(self) -> None:
        with pytest.raises(TypeError, match="'sequence' and 'type'"):
            HistoryEvent(thread_id="t")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="branch_id"):
            History(thread_id="t")  # type: ignore[call-arg]


class TestEvents:
    def test_appended_are_the_same_object_and_come_back_equal(self, store: StateStore, name: str) -> None:
        full = event(
            name, 7, node="n", parent_id="p", data_json='{"a": 1.0}', error_type="E", message="", branch_id="b"
        )  # fmt: skip
        assert asyncio.run(store.append_event(full)) is full
        assert asyncio.run(store.get_history(name, "b")).events == [full]

    def test_are_kept_in_the_order_appended(self, store: StateStore, name: str) -> None:
        for sequence in (5, 3, 3):
            asyncio.run(store.append_event(event(name, sequence)))
        assert [e.sequence for e in asyncio.run(store.get_history(name)).events] == [5, 3, 3]

    def test_get_the_next_number_in_a_copy(self, store: StateStore, name: str) -> None:
        first = event(name, 99, created_at=1.5)
        stored = asyncio.run(store.append_next_event(first))
        assert (stored.sequence, first.sequence) == (1, 99)
        assert stored == dataclasses.replace(first, sequence=1)
        assert asyncio.run(store.append_next_event(event(name))).sequence == 2
        assert asyncio.run(store.get_history(name)).events[0] == stored

    def test_count_on_from_the_highest_number(self, store: StateStore, name: str) -> None:
        asyncio.run(store.append_event(event(name, 10)))
        asyncio.run(store.append_event(event(name, 4)))
        assert asyncio.run(store.append_next_event(event(name))).sequence == 11

    def test_count_per_branch(self, store: StateStore, name: str) -> None:
        asyncio.run(store.append_next_event(event(name)))
        assert asyncio.run(store.append_next_event(event(name, branch_id="other"))).sequence == 1

    def test_appended_again_are_stored_once(self, store: StateStore, name: str) -> None:
        again = event(name, 1)
        asyncio.run(store.append_event(again))
        asyncio.run(store.append_event(again))
        assert asyncio.run(store.get_history(name)).events == [again]

    def test_of_one_id_that_say_something_else_are_refused(self, store: StateStore, name: str) -> None:
        asyncio.run(store.append_event(event(name, 1, id="same")))
        with pytest.raises(StateStoreError, match=f"Branch 'main' of thread '{name}'.*'same'"):
            asyncio.run(store.append_event(event(name, 2, id="same")))

    def test_appended_by_fifty_at_once_are_all_there(self, store: StateStore, name: str) -> None:
        async def append() -> None:
            await asyncio.gather(*(store.append_event(event(name, number)) for number in range(50)))

        asyncio.run(append())
        events = asyncio.run(store.get_history(name)).events
        assert sorted(e.sequence for e in events) == list(range(50))

    @pytest.mark.parametrize(
        "created_at",
        [0.0, 0.1, 1e-20, 5e-324, -1e-20, -1.5, 1700000000.1234567, 1e300, -1e300, 2.0**53 + 2, 253402300799.0,
         253402300800.0, 62135596800.5, -62135596800.0, -62135596801.0, math.inf, -math.inf, 1796099669.8612566, 1 / 3],
    )  # fmt: skip
    def test_keep_every_time_exactly(self, store: StateStore, name: str, created_at: float) -> None:
        given = event(name, 1, created_at=created_at)
        asyncio.run(store.append_event(given))
        (read,) = asyncio.run(store.get_history(name)).events
        assert (read, read.created_at) == (given, created_at)

    @pytest.mark.parametrize(
        "data_json",
        [None, "null", "{}", ' {"b": 1, "a": 1e999, "b": "\\u0000"}', "12345678901234567890123", "", "no json", "NaN",
         '"\\ud800"', "[" * 600 + "]" * 600, '{"a": Infinity}', "日本", "[1,]", "9" * 5000],
    )  # fmt: skip
    def test_keep_every_text_exactly(self, store: StateStore, name: str, data_json: str | None) -> None:
        given = event(name, 1, data_json=data_json)
        asyncio.run(store.append_event(given))
        assert asyncio.run(store.get_history(name)).events == [given]

    def test_json_is_json_to_other_programs(self, store: StateStore, client: statekeep.Client, name: str) -> None:
        asyncio.run(store.append_event(event(name, 1, data_json='{"a": 1}')))
        asyncio.run(store.append_event(event(name, 2, data_json="no json")))
        assert [e.data for e in client.state.history(name)] == [{"a": 1}, "no json"]

    def test_of_other_programs_are_read_as_text(self, store: StateStore, client: statekeep.Client, name: str) -> None:
        for data in (None, {"a": 1}, "text", b"bytes"):
            client.state.append_next(name, statekeep.NewEvent("x", data))
        texts = [e.data_json for e in asyncio.run(store.get_history(name)).events]
        assert texts == [None, '{"a":1}', "text", '"Ynl0ZXM="']


class TestHistory:
    def test_of_an_unknown_thread_is_empty(self, store: StateStore, name: str) -> None:
        assert asyncio.run(store.get_history(name)) == History(thread_id=name, branch_id="main")

    def test_has_events_and_checkpoints_in_the_order_stored(self, store: StateStore, name: str) -> None:
        first, second = checkpoint(name, 3), checkpoint(name, 1, status="completed", active_json='["n"]')
        asyncio.run(store.save_checkpoint(first))
        stored = asyncio.run(store.append_next_event(event(name)))
        asyncio.run(store.save_checkpoint(second))
        expected = History(thread_id=name, branch_id="main", events=[stored], checkpoints=[first, second])
        assert asyncio.run(store.get_history(name)) == expected

    def test_that_does_not_fit_one_message_is_read_all_the_same(self, store: StateStore, name: str) -> None:
        events = [event(name, number, data_json=f'"{"x" * 1_000_000}"') for number in range(1, 11)]
        for one in events:
            asyncio.run(store.append_event(one))
        asyncio.run(store.save_checkpoint(checkpoint(name, 10, state_json=f'"{"y" * 3_000_000}"')))
        history = asyncio.run(store.get_history(name))
        assert history.events == events
        assert len(history.checkpoints[0].state_json) == 3_000_002


class TestCheckpoints:
    def test_saved_are_the_same_object_and_come_back_equal(self, store: StateStore, name: str) -> None:
        given = checkpoint(name, 2, created_at=1e-9 / 3, state_json='{"x": 1.0}', active_json="[1]", status="s")
        assert asyncio.run(store.save_checkpoint(given)) is given
        assert asyncio.run(store.latest_checkpoint(name)) == given

    @pytest.mark.parametrize("text", ["", "no json", "{}", "NaN", ' [1e999, {"a" : 1.0} ] ', "null", '"\\ud800"'])
    def test_keep_every_text_exactly(self, store: StateStore, name: str, text: str) -> None:
        given = checkpoint(name, state_json=text, active_json=text)
        asyncio.run(store.save_checkpoint(given))
        assert asyncio.run(store.latest_checkpoint(name)) == given

    def test_latest_has_the_highest_sequence(self, store: StateStore, name: str) -> None:
        assert asyncio.run(store.latest_checkpoint(name)) is None
        for sequence in (1, 3, 2):
            asyncio.run(store.save_checkpoint(checkpoint(name, sequence)))
        latest = asyncio.run(store.latest_checkpoint(name))
        assert latest is not None
        assert latest.sequence == 3

    def test_latest_at_an_event_is_at_or_before_it(self, store: StateStore, name: str) -> None:
        for number in (1, 2, 3):
            asyncio.run(store.append_event(event(name, number, id=f"e{number}")))
        for sequence in (1, 3):
            asyncio.run(store.save_checkpoint(checkpoint(name, sequence)))
        found = [asyncio.run(store.latest_checkpoint(name, at=f"e{number}")) for number in (1, 2, 3)]
        assert [one and one.sequence for one in found] == [1, 1, 3]

    def test_latest_at_an_event_that_is_not_there_names_it(self, store: StateStore, name: str) -> None:
        with pytest.raises(StateUpdateError, match=f"^Event id 'bogus' not found in thread '{name}'.*'main'") as caught:
            asyncio.run(store.latest_checkpoint(name, at="bogus"))
        assert isinstance(caught.value, StatekeepError)
        assert isinstance(caught.value.__cause__, EventNotFoundError)


class TestFork:
    @pytest.fixture
    def forked_at(self, store: StateStore, name: str) -> str:
        return asyncio.run(store.append_next_event(event(name))).id

    def test_records_a_branch_and_nothing_else(self, store: StateStore, name: str, forked_at: str) -> None:
        before = asyncio.run(store.get_history(name))
        branch = asyncio.run(store.fork(name, from_=forked_at, name="draft"))
        assert branch == BranchRecord(
            id="draft", thread_id=name, parent_branch_id="main", from_event_id=forked_at, created_at=branch.created_at
        )
        assert asyncio.run(store.get_history(name)) == before
        assert asyncio.run(store.get_history(name, "draft")) == History(thread_id=name, branch_id="draft")
        assert asyncio.run(store.list_branches(name)) == [branch]

    def test_makes_a_name_up(self, store: StateStore, name: str, forked_at: str) -> None:
        ids = {asyncio.run(store.fork(name, from_=forked_at)).id for _ in range(2)}
        assert len(ids) == 2

    def test_of_a_fork_has_it_as_parent(self, store: StateStore, name: str, forked_at: str) -> None:
        asyncio.run(store.fork(name, from_=forked_at, name="draft"))
        inside = asyncio.run(store.append_next_event(event(name, branch_id="draft")))
        assert inside.sequence == 1
        asyncio.run(store.fork(name, from_=inside.id, branch_id="draft", name="second"))
        branches = asyncio.run(store.list_branches(name))
        assert [(branch.id, branch.parent_branch_id) for branch in branches] == [
            ("draft", "main"), ("second", "draft"),
        ]  # fmt: skip

    @pytest.mark.parametrize("taken", ["draft", "main", "written"])
    def test_under_a_taken_name_is_refused(self, store: StateStore, name: str, forked_at: str, taken: str) -> None:
        asyncio.run(store.fork(name, from_=forked_at, name="draft"))
        asyncio.run(store.append_next_event(event(name, branch_id="written")))
        with pytest.raises(StateStoreError, match=f"^Branch '{taken}' of thread '{name}' already exists$"):
            asyncio.run(store.fork(name, from_=forked_at, name=taken))
        assert [branch.id for branch in asyncio.run(store.list_branches(name))] == ["draft"]

    def test_as_main_is_refused_also_in_an_empty_store(self, store: StateStore, name: str) -> None:
        with pytest.raises(StateStoreError, match=f"Branch 'main' of thread '{name}'"):
            asyncio.run(store.fork(name, from_="e", name="main"))
        assert asyncio.run(store.list_branches(name)) == []

    def test_at_an_event_that_is_not_there_names_it(self, store: StateStore, name: str, forked_at: str) -> None:
        with pytest.raises(StateUpdateError, match=f"'bogus' not found in thread '{name}'"):
            asyncio.run(store.fork(name, from_="bogus", name="draft"))
        assert asyncio.run(store.list_branches(name)) == []

    def test_of_what_is_not_there_says_so(self, store: StateStore, name: str, forked_at: str) -> None:
        with pytest.raises(StateStoreError, match=f"Branch 'main' of thread '{name}-not' does not exist"):
            asyncio.run(store.fork(f"{name}-not", from_=forked_at))
        with pytest.raises(StateStoreError, match=f"Branch 'b' of thread '{name}' does not exist"):
            asyncio.run(store.fork(name, from_=forked_at, branch_id="b"))

    def test_that_are_many_are_listed_oldest_first(self, store: StateStore, name: str, forked_at: str) -> None:
        async def fork() -> None:
            for number in range(120):
                await store.fork(name, from_=forked_at, name=f"b{number}")

        asyncio.run(fork())
        listed = [branch.id for branch in asyncio.run(store.list_branches(name))]
        assert listed == [f"b{number}" for number in range(120)]


class TestEverything:
    def test_is_what_all_threads_hold(self, store: StateStore, name: str) -> None:
        stored = [
            asyncio.run(store.append_next_event(event(thread, branch_id=branch)))
            for thread, branch in ((f"{name}/z", "main"), (f"{name}/z", "b"), (f"{name}/a", "main"))
        ]
        saved = asyncio.run(store.save_checkpoint(checkpoint(name)))
        assert [one for one in store.events if one.thread_id.startswith(name)] == stored
        assert [one for one in store.checkpoints if one.thread_id == name] == [saved]
        assert store.events is not store.events

    def test_can_be_read_inside_a_running_loop(self, store: StateStore, name: str) -> None:
        async def read() -> bool:
            stored = await store.append_next_event(event(name))
            return stored in store.events

        assert asyncio.run(read())


class TestSharing:
    def test_one_store_serves_threads_and_loops_at_once(self, store: StateStore, name: str) -> None:
        together = threading.Barrier(8, timeout=30)

        async def append() -> list[int]:
            stored = await asyncio.gather(*(store.append_next_event(event(name)) for _ in range(10)))
            return [one.sequence for one in stored]

        def run() -> list[int]:
            together.wait()
            return [number for _ in range(3) for number in asyncio.run(append())]

        with ThreadPoolExecutor(8) as threads:
            numbers = [number for run in [threads.submit(run) for _ in range(8)] for number in run.result()]
        assert sorted(numbers) == list(range(1, 241))

    def test_a_blocking_caller_inside_a_running_loop_is_served(self, store: StateStore, name: str) -> None:
        def block() -> int:
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(asyncio.run, store.append_next_event(event(name))).result(30).sequence

        async def outer() -> list[int]:
            first = await store.append_next_event(event(name))
            return [first.sequence, block(), (await store.append_next_event(event(name))).sequence]

        assert asyncio.run(outer()) == [1, 2, 3]

    def test_four_processes_append_without_a_gap(self, address: str, store: StateStore, name: str) -> None:
        program = f"""
import asyncio
from statekeep.state import HistoryEvent, StateStore
async def append():
    store = StateStore({address!r})
    for _ in range(100):
        await store.append_next_event(HistoryEvent(thread_id={name!r}, sequence=0, type="x"))
asyncio.run(append())
"""
        processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
        assert [process.wait(60) for process in processes] == [0] * 4
        sequences = [one.sequence for one in asyncio.run(store.get_history(name)).events]
        assert sequences == list(range(1, 401))

    def test_a_subclass_may_add_to_a_method(self, address: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        class Counting(StateStore):
            reads = 0

            async def get_history(self, thread_id: str, branch_id: str = "main") -> History:
                self.reads += 1
                return await super().get_history(thread_id, branch_id)

        monkeypatch.setenv("STATEKEEP_ADDRESS", address)

        async def read() -> int:
            async with Counting() as store:
                await store.get_history(name)
                return store.reads

        assert asyncio.run(read()) == 1

    def test_a_store_leaves_the_client_open_that_it_was_given(self, client: statekeep.Client, name: str) -> None:
        with StateStore(client) as store:
            asyncio.run(store.append_next_event(event(name)))
        assert [e.sequence for e in client.state.history(name)] == [1]

    def test_a_store_works_over_an_asynchronous_client(self, address: str, name: str) -> None:
        async def append() -> int:
            async with statekeep.AsyncClient(address) as client:
                return (await StateStore(client).append_next_event(event(name))).sequence

        assert asyncio.run(append()) == 1
