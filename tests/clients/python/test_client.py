"""The client against a real server: all it can ask, and the records it answers with."""

import asyncio
import inspect
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import statekeep
from statekeep import Data, Json, NewCheckpoint, NewEvent, Text, Write, errors
from statekeep.client import AsyncClient, Client
from statekeep.records import Appended, Checkpoint, DeletedThread, Event, Purged, ScopeInfo

EARLIER = datetime(2020, 2, 29, 12, 30, 15, 123456, UTC)


@pytest.mark.parametrize("service", ["memory", "scratch", "state"])
def test_both_clients_have_the_same_methods_with_the_same_arguments(service: str) -> None:
    with Client("127.0.0.1:1") as client:
        blocking = type(getattr(client, service))
        asynchronous = type(getattr(AsyncClient(channel=client.connection.channel), service))
    methods = {name for name in vars(asynchronous) if not name.startswith("_")}
    assert methods == {name for name in vars(blocking) if not name.startswith("_")}
    for name in methods:
        given, written = getattr(blocking, name), getattr(asynchronous, name)
        assert inspect.signature(given).parameters == inspect.signature(written).parameters
        assert given.__doc__ == written.__doc__


class TestMemory:
    def test_a_version_is_written_and_read(self, client: Client, name: str) -> None:
        written = client.memory.set(
            " k ", {"a": 1}, scope=name, scope_type="flow", ttl=timedelta(hours=1), labels={"x": "y"},
            execution_id="e", flow_id="f", flow_name="n",
        )  # fmt: skip
        read = client.memory.get("k", scope=name, scope_type="flow")
        assert read is not None
        assert (written.raw, written.value, read.raw, read.value) == (None, None, Json('{"a":1}'), {"a": 1})
        assert (read.scope, read.scope_type, read.key, read.version) == (name, "flow", "k", 1)
        assert (read.value_type, read.deleted, read.labels) == ("object", False, {"x": "y"})
        assert (read.execution_id, read.flow_id, read.flow_name) == ("e", "f", "n")
        assert read.expire_time is not None
        assert abs(read.expire_time - read.create_time - timedelta(hours=1)) < timedelta(seconds=1)
        assert read.create_time.tzinfo is UTC
        assert (written.entry_id, written.revision) == (read.entry_id, read.revision)

    def test_what_is_not_there_is_none(self, client: Client, name: str) -> None:
        assert client.memory.get("k", scope=name) is None
        assert client.memory.delete("k", scope=name) is None
        assert list(client.memory.history("k", scope=name)) == []

    def test_who_wrote_is_none_where_nobody_said(self, client: Client, name: str) -> None:
        entry = client.memory.set("k", None, scope=name)
        assert (entry.execution_id, entry.flow_id, entry.flow_name, entry.expire_time) == (None, None, None, None)

    def test_a_raw_value_and_its_media_type_come_back(self, client: Client, name: str) -> None:
        for raw in (Json(" [1e999,1.0, 1 ]", "application/x"), Text("# Hi", "text/markdown"), Data(b"\x00", "image/x")):
            client.memory.set("k", raw, scope=name)
            read = client.memory.get("k", scope=name)
            assert read is not None
            assert read.raw == raw

    def test_an_expected_version_that_is_not_there_is_a_conflict(self, client: Client, name: str) -> None:
        assert client.memory.set("k", 1, scope=name, expected_version=0).version == 1
        with pytest.raises(errors.VersionMismatchError) as caught:
            client.memory.set("k", 2, scope=name, expected_version=0)
        assert (caught.value.metadata["expected"], caught.value.metadata["actual"]) == ("0", "1")
        with pytest.raises(errors.ConflictError):
            client.memory.delete("k", scope=name, expected_version=7)

    def test_a_request_id_makes_a_write_once(self, client: Client, name: str) -> None:
        first = client.memory.set("k", 1, scope=name, request_id="r")
        assert client.memory.set("k", 1, scope=name, request_id="r") == first
        with pytest.raises(errors.RequestIdReusedError):
            client.memory.set("k", 2, scope=name, request_id="r")

    def test_several_are_written_all_or_none(self, client: Client, name: str) -> None:
        entries = client.memory.set_many([Write("a", 1), Write("b", "x", labels={"l": "1"})], scope=name)
        assert [(entry.key, entry.version) for entry in entries] == [("a", 1), ("b", 1)]
        with pytest.raises(errors.VersionMismatchError):
            client.memory.set_many([Write("c", 1), Write("a", 2, expected_version=9)], scope=name)
        found = client.memory.get_many(["a", "b", "c"], scope=name)
        assert {key: entry.value for key, entry in found.items()} == {"a": 1, "b": "x"}

    def test_a_deleted_key_leaves_a_tombstone(self, client: Client, name: str) -> None:
        client.memory.set("k", 1, scope=name)
        tombstone = client.memory.delete("k", scope=name)
        assert tombstone is not None
        assert (tombstone.version, tombstone.deleted, tombstone.value) == (2, True, None)
        assert client.memory.get("k", scope=name) is None
        assert client.memory.get("k", scope=name, include_deleted=True) == tombstone

    def test_a_list_goes_over_all_pages(self, client: Client, name: str) -> None:
        client.memory.set_many([Write(f"a{number:02}", number) for number in range(25)], scope=name)
        client.memory.set("b", 1, scope=name)
        client.memory.delete("a03", scope=name)
        listed = list(client.memory.list("a", scope=name, page_size=10, include_values=True))
        assert [entry.value for entry in listed] == [number for number in range(25) if number != 3]
        assert len(list(client.memory.list(scope=name, include_deleted=True))) == 26

    def test_a_history_tells_every_version(self, client: Client, name: str) -> None:
        for number in range(3):
            client.memory.set("k", number, scope=name)
        history = client.memory.history("k", scope=name, include_values=True)
        assert [(entry.version, entry.value) for entry in history] == [(3, 2), (2, 1), (1, 0)]
        oldest = client.memory.history("k", scope=name, oldest_first=True, limit=2)
        assert [entry.version for entry in oldest] == [1, 2]

    def test_a_purge_leaves_a_record(self, client: Client, name: str) -> None:
        for number in range(3):
            client.memory.set("k", number, scope=name)
        assert client.memory.purge("k", scope=name, keep=1) == Purged(2, 1)
        assert client.memory.purge(scope=name, all_keys=True) == Purged(1, 1)
        records = list(client.memory.purges(scope=name))
        assert [(one.keys, one.versions_deleted, one.keep) for one in records] == [(("k",), 1, 0), (("k",), 2, 1)]
        with pytest.raises(errors.InvalidFieldError):
            client.memory.purge(scope=name)

    def test_scopes_are_listed(self, client: Client, name: str) -> None:
        client.memory.set("k", 1, scope=name, scope_type="execution")
        client.memory.set("k", 1, scope=name)
        ours = [info for info in client.memory.scopes(page_size=1) if info.scope == name]
        assert ours == [ScopeInfo(name, "namespace", 1), ScopeInfo(name, "execution", 1)]

    def test_a_watch_sees_what_is_written_once_it_is_entered(self, client: Client, name: str) -> None:
        client.memory.set("a", 0, scope=name)
        with client.memory.watch(scope=name) as watch:
            client.memory.set("a", 1, scope=name)
            client.memory.delete("a", scope=name)
            assert [(entry.value, entry.deleted) for entry in (next(watch), next(watch))] == [(1, False), (None, True)]
            cursor = watch.revision
        client.memory.set("b", 2, scope=name)
        with client.memory.watch(scope=name, after_revision=cursor) as watch:
            assert next(watch).key == "b"

    def test_a_value_that_is_too_large_is_told_with_the_limit(self, client: Client, name: str) -> None:
        with pytest.raises(errors.ValueTooLargeError) as caught:
            client.memory.set("k", bytes(5 << 20), scope=name)
        assert int(caught.value.metadata["size"]) > int(caught.value.metadata["max"])
        client.memory.set("k", bytes(4_000_000), scope=name)
        read = client.memory.get("k", scope=name)
        assert read is not None
        assert read.value == bytes(4_000_000)

    def test_a_malformed_name_tells_its_field(self, client: Client) -> None:
        with pytest.raises(errors.InvalidFieldError) as caught:
            client.memory.get("k", scope="bad:scope")
        assert list(caught.value.fields) == ["scope.name"]
        with pytest.raises(errors.UsageError, match="scope_type"):
            client.memory.get("k", scope="s", scope_type="global")  # type: ignore[arg-type]

    def test_a_record_survives_pickling(self, client: Client, name: str) -> None:
        entry = client.memory.set("k", 1, scope=name, labels={"a": "b"})
        assert pickle.loads(pickle.dumps(entry)) == entry  # noqa: S301 # its own bytes


class TestScratch:
    def test_an_instance_is_opened_used_and_closed(self, client: Client, name: str) -> None:
        assert client.scratch.open(name, idle_ttl=60).id == name
        assert client.scratch.put(name, " a ", [1]) == "a"
        client.scratch.put(name, "b", None)
        found = client.scratch.get(name, "a")
        assert found is not None
        assert (found.key, found.raw, found.value) == ("a", Json("[1]"), [1])
        assert client.scratch.get(name, "none") is None
        assert client.scratch.list(name) == ["a", "b"]
        assert client.scratch.clear(name, "a") == ["a"]
        assert client.scratch.open(name).cleared == ("b",)
        client.scratch.put(name, "c", 1)
        assert client.scratch.close(name) == ["c"]
        assert client.scratch.list(name) == []

    def test_an_instance_without_an_id_gets_one(self, client: Client) -> None:
        assert client.scratch.open().id != client.scratch.open().id

    def test_a_null_is_a_value(self, client: Client, name: str) -> None:
        client.scratch.put(name, "k", None)
        found = client.scratch.get(name, "k")
        assert found is not None
        assert found.value is None

    def test_an_attached_instance_ends_with_its_context(self, client: Client, name: str) -> None:
        client.scratch.put(name, "before", 1)
        with client.scratch.attach(name) as instance:
            assert instance == name
            assert client.scratch.list(name) == []
            client.scratch.put(name, "k", 1)
            with pytest.raises(errors.InstanceAttachedError), client.scratch.attach(name):
                pass
            assert client.scratch.list(name) == ["k"]
        while client.scratch.list(name):  # the server hears of the end when it hears of it
            pass

    def test_attaching_works_on_a_loop(self, address: str, name: str) -> None:
        async def attach() -> None:
            async with AsyncClient(address) as client, client.scratch.attach(name) as instance:
                await client.scratch.put(instance, "k", 1)
                with pytest.raises(errors.InstanceAttachedError):
                    await client.scratch.attach(name).__aenter__()

        asyncio.run(attach())


class TestState:
    def test_an_event_is_stored_as_given(self, client: Client, name: str) -> None:
        given = NewEvent(
            "error", {"a": [1]}, node="n", parent_id="p", error_type="E", message="m", labels={"l": "v"},
            create_time=EARLIER, id="e1",
        )  # fmt: skip
        stored = client.state.append(name, given, sequence=7, branch="b")
        assert stored == Event(
            id="e1", thread_id=name, branch_id="b", sequence=7, type="error", node="n", parent_id="p",
            raw=Json('{"a":[1]}'), error_type="E", message="m", create_time=EARLIER, labels={"l": "v"},
            revision=stored.revision,
        )  # fmt: skip
        assert stored.data == {"a": [1]}
        assert list(client.state.history(name, "b")) == [stored]

    def test_no_data_is_not_null(self, client: Client, name: str) -> None:
        assert client.state.append_next(name, NewEvent("x")).raw is None
        assert client.state.append_next(name, NewEvent("x", Json("null"))).raw == Json("null")

    def test_a_time_without_a_zone_is_refused(self, client: Client, name: str) -> None:
        with pytest.raises(errors.UsageError, match="time zone"):
            client.state.append_next(name, NewEvent("x", create_time=EARLIER.replace(tzinfo=None)))

    def test_an_event_sent_again_is_stored_once(self, client: Client, name: str) -> None:
        event = NewEvent("x", 1)
        assert client.state.append_next(name, event) == client.state.append_next(name, event)
        with pytest.raises(errors.EventExistsError):
            client.state.append_next(name, NewEvent("x", 2, id=event.id))

    def test_a_batch_gets_the_next_numbers(self, client: Client, name: str) -> None:
        client.state.append_next(name, NewEvent("x"))
        batch = [NewEvent("x", number) for number in range(3)]
        appended = client.state.append_many(name, batch, expected_last_sequence=1)
        assert appended == Appended(2, 4, tuple(event.id for event in batch), appended.revision)
        with pytest.raises(errors.SequenceMismatchError) as caught:
            client.state.append_next(name, NewEvent("x"), expected_last_sequence=1)
        assert (caught.value.metadata["expected"], caught.value.metadata["actual"]) == ("1", "4")

    def test_a_history_can_begin_anywhere_and_end_early(self, client: Client, name: str) -> None:
        client.state.append_many(name, [NewEvent("x") for _ in range(10)])
        events = list(client.state.history(name))
        after = events[3].revision
        assert [event.sequence for event in client.state.history(name, after_revision=after, limit=2)] == [5, 6]
        assert [event.sequence for event in client.state.history(name, last=3)] == [8, 9, 10]

    def test_a_history_resumes_with_the_cursor_of_another(self, client: Client, name: str) -> None:
        client.state.append_many(name, [NewEvent("x") for _ in range(10)])
        first = client.state.history(name)
        taken = [next(first).sequence for _ in range(4)]
        rest = client.state.history(name, after_revision=first.revision)
        assert taken + [event.sequence for event in rest] == list(range(1, 11))

    def test_checkpoints_are_saved_found_and_listed(self, client: Client, name: str) -> None:
        event = client.state.append_next(name, NewEvent("x"))
        given = NewCheckpoint(
            event.id, 1, {"s": 1}, active=["n"], status="completed", parent_id="p", metadata={"m": 1},
            labels={"l": "v"}, create_time=EARLIER, id="c1",
        )  # fmt: skip
        saved = client.state.save_checkpoint(name, given)
        assert (saved.id, saved.thread_id, saved.branch_id, saved.event_id) == ("c1", name, "main", event.id)
        assert (saved.state, saved.active, saved.metadata) == ({"s": 1}, ["n"], {"m": 1})
        assert (saved.status, saved.parent_id, saved.create_time, saved.labels) == (
            "completed", "p", EARLIER, {"l": "v"},
        )  # fmt: skip
        plain = client.state.save_checkpoint(name, NewCheckpoint(event.id, 2, None))
        assert (plain.state, plain.active, plain.metadata, plain.status) == (None, [], None, "running")
        assert client.state.latest_checkpoint(name) == plain
        assert client.state.latest_checkpoint(name, at=event.id) == saved
        assert list(client.state.checkpoints(name, page_size=1)) == [plain, saved]
        assert list(client.state.checkpoints(name, labels={"l": "v"})) == [saved]
        assert client.state.latest_checkpoint(f"{name}-not") is None

    def test_records_are_events_and_checkpoints_as_stored(self, client: Client, name: str) -> None:
        for number in range(3):
            event = client.state.append_next(name, NewEvent("x"))
            client.state.save_checkpoint(name, NewCheckpoint(event.id, number, {}))
        assert [type(record) for record in client.state.records(name)] == [Event, Checkpoint] * 3

    def test_a_fork_brings_its_first_checkpoint_and_event(self, client: Client, name: str) -> None:
        event = client.state.append_next(name, NewEvent("x"))
        forked = client.state.fork(
            name, event.id, name="draft", checkpoint=NewCheckpoint(event.id, 0, {}), event=NewEvent("forked")
        )
        assert (forked.branch.id, forked.branch.parent_branch_id) == ("draft", "main")
        assert forked.branch.from_event_id == event.id
        assert forked.checkpoint is not None
        assert forked.event is not None
        assert list(client.state.records(name, "draft")) == [forked.checkpoint, forked.event]
        line = client.state.history(name, "draft", include_ancestors=True)
        assert [one.id for one in line] == [event.id, forked.event.id]
        bare = client.state.fork(name, event.id)
        assert (bare.checkpoint, bare.event) == (None, None)
        assert list(client.state.branches(name, page_size=1)) == [forked.branch, bare.branch]
        everything = [branch.id for branch in client.state.branches(name, include_unforked=True)]
        assert sorted(everything) == sorted(["main", "draft", bare.branch.id])

    def test_only_a_fork_has_a_time(self, client: Client, name: str) -> None:
        event = client.state.append_next(name, NewEvent("x"))
        client.state.append_next(name, NewEvent("x"), branch="written")
        forked = client.state.fork(name, event.id, name="forked").branch
        assert isinstance(forked.create_time, datetime)
        times = {branch.id: branch.create_time for branch in client.state.branches(name, include_unforked=True)}
        assert times == {"main": None, "written": None, "forked": forked.create_time}

    def test_a_fork_is_made_once_per_request(self, client: Client, name: str) -> None:
        event = client.state.append_next(name, NewEvent("x"))
        first = client.state.fork(name, event.id, name="draft", request_id="r")
        assert client.state.fork(name, event.id, name="draft", request_id="r") == first
        with pytest.raises(errors.BranchExistsError):
            client.state.fork(name, event.id, name="draft")
        with pytest.raises(errors.EventNotFoundError):
            client.state.fork(name, "bogus")
        with pytest.raises(errors.ThreadNotFoundError):
            client.state.fork(f"{name}-not", event.id)
        with pytest.raises(errors.BranchNotFoundError):
            client.state.fork(name, event.id, branch="none")

    def test_threads_are_listed_and_deleted(self, client: Client, name: str) -> None:
        for number in range(5):
            client.state.append_next(f"{name}/{number}", NewEvent("x"))
        threads = list(client.state.threads(f"{name}/", page_size=2))
        assert [thread.id for thread in threads] == [f"{name}/{number}" for number in range(5)]
        assert (threads[0].event_count, threads[0].checkpoint_count) == (1, 0)
        assert threads[0].create_time <= threads[0].update_time
        assert client.state.delete_thread(f"{name}/0") == DeletedThread(1, 0)
        assert client.state.delete_thread(f"{name}/0") == DeletedThread(0, 0)
        assert len(list(client.state.threads(f"{name}/"))) == 4

    def test_a_cursor_of_a_deleted_thread_is_gone(self, client: Client, name: str) -> None:
        event = client.state.append_next(name, NewEvent("x"))
        with client.state.tail(name) as tail:
            assert next(tail) == event
            client.state.delete_thread(name)
            with pytest.raises(errors.RevisionGoneError):
                next(tail)
        client.state.append_next(name, NewEvent("x"))
        with pytest.raises(errors.RevisionGoneError):
            next(client.state.history(name, after_revision=event.revision))
        with pytest.raises(errors.RevisionAheadError):
            next(client.state.history(name, after_revision=2**53 - 1))

    def test_a_tail_begins_before_its_thread(self, client: Client, name: str) -> None:
        with client.state.tail(name) as tail:
            assert (tail.caught_up, tail.revision) == (True, 0)
            event = client.state.append_next(name, NewEvent("x"))
            assert (next(tail), tail.revision) == (event, event.revision)

    def test_a_tail_begins_with_the_last_n(self, client: Client, name: str) -> None:
        client.state.append_many(name, [NewEvent("x") for _ in range(5)])
        with client.state.tail(name, last=2, heartbeat=0.1) as tail:
            assert [next(tail).sequence for _ in range(2)] == [4, 5]
            assert tail.caught_up
            client.state.append_next(name, NewEvent("x"))
            assert next(tail).sequence == 6


class TestACutConnection:
    def test_loses_and_repeats_no_event_of_a_tail(self, wire: Any, client: Client, name: str) -> None:
        def write() -> None:
            for _ in range(300):
                client.state.append_next(name, NewEvent("x", "y" * 1000))

        writing = threading.Thread(target=write)
        with Client(wire.address) as other, other.state.tail(name) as tail:
            writing.start()
            seen = []
            for number, event in enumerate(tail, 1):
                seen.append(event.sequence)
                if number % 50 == 0:
                    wire.cut()
                if number == 300:
                    break
        writing.join()
        assert seen == list(range(1, 301))

    def test_loses_and_repeats_nothing_for_readers_on_a_loop(self, wire: Any, client: Client, name: str) -> None:
        for _ in range(20):
            client.state.append_many(name, [NewEvent("x", "y" * 10_000) for _ in range(100)])

        async def read(other: AsyncClient) -> list[int]:
            seen = []
            async for event in other.state.history(name):
                seen.append(event.sequence)
                if event.sequence % 500 == 0:
                    wire.cut()
            return seen

        async def main() -> list[list[int]]:
            async with AsyncClient(wire.address) as other:
                return await asyncio.gather(*(read(other) for _ in range(3)))

        assert asyncio.run(main()) == [list(range(1, 2001))] * 3

    def test_writes_nothing_twice_and_leaves_nothing_out(self, wire: Any, name: str) -> None:
        done = threading.Event()

        def cut() -> None:
            for _ in range(20):
                done.wait(0.01)
                wire.cut()
            done.set()

        def append(client: Client, number: int) -> Event:
            while True:  # cut four times in a row it fails; to send the same event again is safe
                with suppress(errors.UnavailableError):
                    return client.state.append_next(name, NewEvent("x", number, id=f"e{number}"))

        with Client(wire.address) as client, ThreadPoolExecutor(1) as thread:
            cutting = thread.submit(cut)
            written = 0
            while not done.is_set():
                written += 1
                assert append(client, written).sequence == written
            cutting.result()
            assert [event.data for event in client.state.history(name)] == list(range(1, written + 1))


def test_the_package_tells_what_it_has() -> None:
    assert "Client" in dir(statekeep)
    assert statekeep.Client is Client
