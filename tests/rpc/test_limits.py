"""Each limit, reached: the error that names it, nothing half done, and a server as well as before."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from rpc_support import (
    Refusal,
    Stubs,
    call_many,
    check_refusal,
    checkpoint_of,
    connected,
    end_of,
    event_of,
    events_in,
    items,
    key_of,
    next_of,
    refusal_of,
    refused,
    scope,
    sent,
    set_of,
    stream_of,
    until,
    until_caught_up,
    watch_of,
)
from scraping import METRICS, Scrape
from server_process import ServerProcess
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value
from stores import STORES, check_left, url_of

FLAGS = {
    "--max-record": 20_000,
    "--max-batch": 11,
    "--max-scope-keys": 5,
    "--max-scope-versions": 12,
    "--max-thread-events": 10,
    "--max-scratch-instances": 3,
    "--max-scratch-bytes": 1000,
    "--max-followers": 6,
    "--max-connection-followers": 4,
    "--max-calls": 8,
}


def flags(**limits: object) -> list[str]:
    return [part for flag, most in limits.items() for part in (f"--{flag.replace('_', '-')}", str(most))]


@pytest.fixture(scope="module", params=STORES)
def limited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Give a server on each store in turn, with small limits."""
    directory = tmp_path_factory.mktemp("store")
    process = ServerProcess(
        "--store", url_of(request.param, directory), *(str(part) for item in FLAGS.items() for part in item)
    )
    yield process
    assert process.stderr == ""
    process.stop()
    check_left(directory)


@pytest.fixture
def own(limited: ServerProcess) -> Iterator[Stubs]:
    with connected(limited.address) as stubs:
        yield stubs


def limit(name: str, most: float, method: Callable[..., Any], request: object) -> Refusal:
    """Make a call that a limit refuses, and check that it says which, how many, and what to do."""
    refusal = refused("LIMIT_REACHED", method, request, limit=name, max=most)
    assert name in refusal.message
    assert "--max-" in refusal.message
    return refusal


# --- what is stored


def test_a_record_over_the_limit_that_was_set_is_refused(own: Stubs, name: str) -> None:
    own.memory.Set(set_of(name, "k", f'"{"x" * 19_000}"'))
    refused("VALUE_TOO_LARGE", own.memory.Set, set_of(name, "k", f'"{"x" * 20_000}"'), max=20_000)
    assert own.memory.Get(key_of(name, "k")).entry.version == 1


def test_a_scope_takes_so_many_keys_and_a_deleted_one_makes_room(own: Stubs, name: str) -> None:
    for number in range(5):
        own.memory.Set(set_of(name, f"k{number}"))
    limit("keys of a scope", 5, own.memory.Set, set_of(name, "k5"))
    assert own.memory.Set(set_of(name, "k4", "2")).entry.version == 2  # a key that is there is no new one
    own.memory.Delete(memory.MemoryDeleteRequest(scope=scope(name), key="k0"))
    own.memory.Set(set_of(name, "k5"))
    limit("keys of a scope", 5, own.memory.Set, set_of(name, "k0"))
    assert [entry.key for entry in own.memory.List(memory.MemoryListRequest(scope=scope(name))).entries] == [
        f"k{number}" for number in range(1, 6)
    ]
    own.memory.Set(set_of(name + "-other", "k0"))


def test_a_batch_over_a_limit_is_refused_whole(own: Stubs, name: str) -> None:
    own.memory.Set(set_of(name, "k0"))
    batch = memory.MemoryBatchSetRequest(sets=[set_of(name, f"k{number}") for number in range(6)])
    limit("keys of a scope", 5, own.memory.BatchSet, batch)
    assert [entry.key for entry in own.memory.List(memory.MemoryListRequest(scope=scope(name))).entries] == ["k0"]
    events = [event_of(name, f"e{number}") for number in range(11)]
    limit("events of a thread", 10, own.state.AppendEvents, state.AppendEventsRequest(thread_id=name, events=events))
    assert events_in(own, name) == []
    assert own.state.AppendEvents(state.AppendEventsRequest(thread_id=name, events=events[:10])).last_sequence == 10


def test_a_scope_keeps_so_many_versions_and_a_purge_makes_room(own: Stubs, name: str) -> None:
    for number in range(12):
        own.memory.Set(set_of(name, f"k{number % 2}"))
    limit("versions of a scope", 12, own.memory.Set, set_of(name, "k0"))
    deleted = own.memory.Delete(memory.MemoryDeleteRequest(scope=scope(name), key="k0"))
    assert deleted.entry.deleted  # a delete is never refused, though a tombstone is a version
    assert own.memory.Get(key_of(name, "k1")).entry.version == 6
    limit("versions of a scope", 12, own.memory.Set, set_of(name, "k0"))
    own.memory.Purge(memory.MemoryPurgeRequest(scope=scope(name), all_keys=True, keep=1))
    for number in range(4):
        assert own.memory.Set(set_of(name, "k1")).entry.version == 7 + number
    limit("versions of a scope", 12, own.memory.Set, set_of(name, "k1"))


def test_a_retry_of_what_was_stored_is_answered_at_the_limit(own: Stubs, name: str) -> None:
    sets = [set_of(name, f"k{number}", request_id=f"r{number}") for number in range(5)]
    first = [own.memory.Set(request) for request in sets]
    limit("keys of a scope", 5, own.memory.Set, set_of(name, "k5", request_id="r5"))
    assert [own.memory.Set(request) for request in sets] == first
    events = [next_of(name, f"e{number}") for number in range(10)]
    stored = [own.state.AppendNextEvent(request) for request in events]
    limit("events of a thread", 10, own.state.AppendNextEvent, next_of(name, "e10"))
    assert [own.state.AppendNextEvent(request) for request in events] == stored


def test_a_thread_takes_so_many_events_on_all_its_branches_however_they_come(own: Stubs, name: str) -> None:
    for number in range(9):
        own.state.AppendNextEvent(next_of(name, f"e{number}", branch="" if number % 2 else "other"))
    fork = state.ForkRequest(thread_id=name, from_event_id="e1", name="draft", event=event_of("", "f"))
    own.state.Fork(fork)
    limit("events of a thread", 10, own.state.AppendNextEvent, next_of(name, "e10"))
    given = state.AppendEventRequest(event=event_of(name, "e10", sequence=99))
    limit("events of a thread", 10, own.state.AppendEvent, given)
    again = state.ForkRequest(thread_id=name, from_event_id="e1", name="again", event=event_of("", "g"))
    limit("events of a thread", 10, own.state.Fork, again)
    again.ClearField("event")
    own.state.Fork(again)
    own.state.SaveCheckpoint(checkpoint_of(name, "c"))  # checkpoints are no events
    assert own.state.DeleteThread(state.DeleteThreadRequest(thread_id=name)).events_deleted == 10
    assert own.state.AppendNextEvent(next_of(name, "e10")).event.sequence == 1


def test_what_is_imported_counts_too_and_comes_in_whole_or_not_at_all(own: Stubs, start_server: Any, name: str) -> None:
    source = start_server()
    with connected(source.address) as other:
        for number in range(12):
            other.state.AppendNextEvent(next_of(f"{name}-{number % 2}-large", f"e{number}"))
        for number in range(11):
            other.state.AppendNextEvent(next_of(name, f"e{number}"))
        for number in range(6):
            other.memory.Set(set_of(name, f"k{number}"))
            other.memory.Set(set_of(f"{name}-few", "k"))
        for _ in range(13):
            other.memory.Set(set_of(f"{name}-versions", "k"))

        def parts(**selection: Any) -> Iterator[admin.AdminImportRequest]:
            for message in other.admin.Export(admin.AdminExportRequest(**selection)):
                yield admin.AdminImportRequest(parts=message.parts)

        def moved(**selection: Any) -> list[admin.ImportedPartition]:
            return [done for message in own.admin.Import(parts(**selection)) for done in message.partitions]

        def refuse(limit: str, most: int, **selection: Any) -> None:
            with pytest.raises(grpc.RpcError) as refusal:
                moved(**selection)
            check_refusal(refusal.value, "LIMIT_REACHED", limit=limit, max=most)

        refuse("events of a thread", 10, thread_id=name)
        refuse("keys of a scope", 5, scope=scope(name))
        refuse("versions of a scope", 12, scope=scope(f"{name}-versions"))
        assert [done.outcome for done in moved(thread_id=f"{name}-0-large")] == [admin.IMPORT_OUTCOME_RESTORED]
        assert [done.outcome for done in moved(scope=scope(f"{name}-few"))] == [admin.IMPORT_OUTCOME_RESTORED]
        assert events_in(own, name) == []
        listed = items(own.memory.ListScopes, memory.MemoryListScopesRequest(), "scopes")
        assert [info.scope.name for info in listed if info.scope.name.startswith(name)] == [f"{name}-few"]
        for _ in range(4):
            own.state.AppendNextEvent(next_of(f"{name}-0-large"))
        limit("events of a thread", 10, own.state.AppendNextEvent, next_of(f"{name}-0-large"))


def test_a_request_has_so_many_parts(own: Stubs, name: str) -> None:
    sets = [set_of(name, f"k{number}") for number in range(12)]
    limit("items of a batch", 11, own.memory.BatchSet, memory.MemoryBatchSetRequest(sets=sets))
    keys = [f"k{number}" for number in range(12)]
    limit("items of a batch", 11, own.memory.BatchGet, memory.MemoryBatchGetRequest(scope=scope(name), keys=keys))
    events = [event_of("", f"e{number}") for number in range(12)]
    limit("items of a batch", 11, own.state.AppendEvents, state.AppendEventsRequest(thread_id=name, events=events))
    assert (
        own.memory.BatchGet(memory.MemoryBatchGetRequest(scope=scope(name), keys=keys[:11])).missing_keys == keys[:11]
    )


# --- scratch


def test_so_many_scratch_instances_begin_and_one_that_closes_makes_room(own: Stubs, name: str) -> None:
    ids = [f"{name}-{number}" for number in range(3)]
    for one in ids:
        own.scratch.Put(scratch.ScratchPutRequest(instance_id=one, key="k", value=Value(json="1")))
    another = scratch.ScratchPutRequest(instance_id=f"{name}-3", key="k", value=Value(json="1"))
    limit("scratch instances", 3, own.scratch.Put, another)
    limit("scratch instances", 3, own.scratch.Open, scratch.ScratchOpenRequest())
    limit("scratch instances", 3, own.scratch.Attach, scratch.ScratchAttachRequest())
    own.scratch.Open(scratch.ScratchOpenRequest(instance_id=ids[0]))
    assert own.scratch.Get(scratch.ScratchGetRequest(instance_id=ids[1], key="k")).value.json == "1"
    own.scratch.Close(scratch.ScratchCloseRequest(instance_id=ids[0]))
    own.scratch.Put(another)
    for one in (*ids, f"{name}-3"):
        own.scratch.Close(scratch.ScratchCloseRequest(instance_id=one))


def test_scratch_takes_so_many_bytes_and_what_is_cleared_makes_room(own: Stubs, name: str) -> None:
    def put(key: str, size: int) -> scratch.ScratchPutRequest:
        return scratch.ScratchPutRequest(instance_id=name, key=key, value=Value(data=bytes(size)))

    own.scratch.Put(put("a", 400))
    own.scratch.Put(put("b", 400))
    limit("scratch bytes", 1000, own.scratch.Put, put("c", 400))
    limit("scratch bytes", 1000, own.scratch.Put, put("a", 700))
    own.scratch.Put(put("a", 100))  # what gets smaller is taken
    own.scratch.Put(put("c", 300))
    assert list(own.scratch.List(scratch.ScratchListRequest(instance_id=name)).keys) == ["a", "b", "c"]
    own.scratch.Clear(scratch.ScratchClearRequest(instance_id=name, key="b"))
    own.scratch.Put(put("d", 400))
    own.scratch.Close(scratch.ScratchCloseRequest(instance_id=name))
    own.scratch.Put(put("e", 900))
    own.scratch.Close(scratch.ScratchCloseRequest(instance_id=name))


# --- calls and streams


@contextlib.contextmanager
def following(stubs: Stubs, name: str, count: int) -> Iterator[list[Any]]:
    """Give streams that are open and follow."""
    kinds: list[Callable[[], Any]] = [
        lambda: stubs.state.StreamHistory(stream_of(name, follow=True), timeout=60),
        lambda: stubs.memory.Watch(watch_of(name), timeout=60),
    ]
    streams = [kinds[number % 2]() for number in range(count)]
    try:
        for stream in streams:
            next(stream)
        yield streams
    finally:
        for stream in streams:
            stream.cancel()


def test_so_many_followers_are_there_and_one_that_ends_makes_room(limited: ServerProcess, name: str) -> None:
    with connected(limited.address) as one, connected(limited.address) as other:
        with following(one, name, 4), following(other, name, 2) as few:
            limit("followers", 6, other.state.StreamHistory, stream_of(name, follow=True))
            limit("followers", 6, other.memory.Watch, watch_of(name))
            limit("followers", 6, other.scratch.Attach, scratch.ScratchAttachRequest(instance_id=name))
            other.state.AppendNextEvent(next_of(name, "e"))
            assert sent(other.state.StreamHistory(stream_of(name))) == ["e"]  # what does not stay is no follower
            assert sent([next(few[0])]) == ["e"]
            few[0].cancel()

            def free() -> bool:
                stream = other.scratch.Attach(scratch.ScratchAttachRequest(instance_id=name), timeout=60)
                try:
                    next(stream)
                except grpc.RpcError:
                    return False
                stream.cancel()
                return True

            until("another can follow", free)
        until("all are gone", lambda: can_follow(other, name, 4))


def can_follow(stubs: Stubs, name: str, count: int) -> bool:
    try:
        with following(stubs, name, count):
            return True
    except grpc.RpcError:
        return False


def test_one_connection_has_so_many_followers(limited: ServerProcess, name: str) -> None:
    with connected(limited.address) as one, connected(limited.address) as other:
        until("those of the test before are gone", lambda: can_follow(one, name, 4))
        with following(one, name, 4):
            limit("followers of a connection", 4, one.memory.Watch, watch_of(name))
            assert can_follow(other, name, 2)
        until("its own are gone", lambda: can_follow(one, name, 4))


def test_so_many_calls_are_under_way_and_those_beyond_are_refused(own: Stubs, name: str) -> None:
    def attempt() -> bool:
        calls = [own.memory.Set.future(set_of(name, "k"), timeout=20) for _ in range(200)]  # type: ignore[attr-defined]
        refusals = [refusal_of(call.exception()) for call in calls if call.exception()]
        for refusal in refusals:
            assert refusal.reason == "LIMIT_REACHED"
            assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert (refusal.metadata["limit"], refusal.metadata["max"]) in (
                ("concurrent calls", "8"),
                ("versions of a scope", "12"),
            )
        return any(refusal.metadata["limit"] == "concurrent calls" for refusal in refusals)

    until("calls come so fast that some are too many", attempt, within=30.0)
    assert len(call_many(own.memory.Get, [key_of(name, "k")] * 50, at_once=4)) == 50


def test_a_request_over_the_size_that_was_set_is_refused_by_grpc_itself(start_server: Any, name: str) -> None:
    process = start_server(*flags(max_request="5MiB"))
    with connected(process.address) as own:
        with pytest.raises(grpc.RpcError) as refusal:
            own.memory.Set(memory.MemorySetRequest(scope=scope(name), key="k", value=Value(data=bytes(6 * 2**20))))
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        over = memory.MemorySetRequest(scope=scope(name), key="k", value=Value(data=bytes(9 * 2**19)))
        refused("VALUE_TOO_LARGE", own.memory.Set, over)
        own.memory.Set(set_of(name, "k"))


# --- how old a stream gets


def test_a_stream_is_ended_at_its_age_with_unavailable_and_can_be_resumed(start_server: Any, name: str) -> None:
    process = start_server(*flags(max_stream_age="300ms"))
    with connected(process.address) as own:
        own.state.AppendNextEvent(next_of(name, "e1"))
        stream = own.state.StreamHistory(stream_of(name, follow=True), timeout=60)
        messages = until_caught_up(stream)
        refusal = end_of(stream)
        assert (refusal.reason, refusal.code) == ("STREAM_AGE_REACHED", grpc.StatusCode.UNAVAILABLE)
        assert (refusal.metadata["limit"], refusal.metadata["max"]) == ("stream age", "0.3")
        assert refusal.retry_after == 0
        own.state.AppendNextEvent(next_of(name, "e2"))
        resumed = own.state.StreamHistory(stream_of(name, after_revision=messages[-1].revision))
        assert sent(resumed) == ["e2"]
        watch = own.memory.Watch(watch_of(name, heartbeat={"nanos": 100_000_000}), timeout=60)
        assert end_of(watch).reason == "STREAM_AGE_REACHED"
        attached = own.scratch.Attach(scratch.ScratchAttachRequest(instance_id=name), timeout=1)
        next(attached)
        assert end_of(attached).code is grpc.StatusCode.DEADLINE_EXCEEDED  # an instance is its stream, and has no age


def test_the_python_client_goes_on_over_streams_that_end_of_age(start_server: Any, name: str) -> None:
    import statekeep

    process = start_server(*flags(max_stream_age="200ms"))
    with statekeep.Client(process.address) as client:
        found: list[int] = []

        def follow() -> None:
            for event in client.state.tail(name):
                found.append(event.sequence)
                if event.sequence == 40:
                    return

        reading = threading.Thread(target=follow, daemon=True)
        reading.start()
        for number in range(40):
            client.state.append_next(name, statekeep.NewEvent("note", number))
            reading.join(0.04)
        reading.join(30)
        assert found == list(range(1, 41))


# --- memory


def fill(put: Callable[[int], object], most: int = 2_000) -> grpc.RpcError:
    """Store until it is refused, and return the refusal."""
    for number in range(most):
        try:
            put(number)
        except grpc.RpcError as error:
            return error
    raise AssertionError("it was never refused")


def test_at_the_limit_of_memory_writes_are_refused_and_reads_and_deletes_go_on(start_server: Any, name: str) -> None:
    most = 3 * 2**20
    process = start_server(*flags(max_memory="3MiB"))
    with connected(process.address) as own:
        value = f'"{"x" * 10_000}"'
        error = fill(lambda number: own.memory.Set(set_of(name, f"k{number}", value)))
        check_refusal(error, "LIMIT_REACHED", limit="memory bytes", max=most)
        stored = len(items(own.memory.List, memory.MemoryListRequest(scope=scope(name)), "entries"))
        assert 2 * 2**20 < stored * 10_000 < most
        limit("memory bytes", most, own.state.AppendNextEvent, next_of(name, data=Value(json=value)))
        limit("memory bytes", most, own.state.SaveCheckpoint, checkpoint_of(name, state=Value(json=value)))
        put = scratch.ScratchPutRequest(instance_id=name, key="k", value=Value(json=value))
        limit("memory bytes", most, own.scratch.Put, put)
        batch = memory.MemoryBatchSetRequest(sets=[set_of(name, f"b{number}", value) for number in range(5)])
        limit("memory bytes", most, own.memory.BatchSet, batch)
        assert own.memory.Get(key_of(name, "k0")).entry.value.json == value
        assert own.memory.Delete(memory.MemoryDeleteRequest(scope=scope(name), key="k0")).entry.deleted
        purge = memory.MemoryPurgeRequest(scope=scope(name), all_keys=True, keep=0, include_deleted=True)
        assert own.memory.Purge(purge).versions_deleted == stored + 1
        own.scratch.Put(put)
        own.scratch.Close(scratch.ScratchCloseRequest(instance_id=name))
        error = fill(lambda number: own.state.AppendNextEvent(next_of(name, f"e{number}", data=Value(json=value))))
        check_refusal(error, "LIMIT_REACHED", limit="memory bytes", max=most)
        assert own.state.DeleteThread(state.DeleteThreadRequest(thread_id=name)).events_deleted > 150
        own.state.AppendNextEvent(next_of(name, "e", data=Value(json=value)))
    assert process.stderr == ""


def test_scratch_counts_to_the_limit_of_memory_on_a_store_on_disk_and_records_do_not(
    start_server: Any, tmp_path: Path, name: str
) -> None:
    process = start_server("--store", url_of("sqlite", tmp_path), *flags(max_memory="1MiB"))
    with connected(process.address) as own:
        data = Value(data=bytes(100_000))
        for _ in range(20):
            own.state.AppendNextEvent(next_of(name, data=data))

        def put(number: int) -> scratch.ScratchPutRequest:
            return scratch.ScratchPutRequest(instance_id=name, key=f"k{number}", value=data)

        error = fill(lambda number: own.scratch.Put(put(number)))
        check_refusal(error, "LIMIT_REACHED", limit="memory bytes", max=2**20)
        own.state.AppendNextEvent(next_of(name, data=Value(data=bytes(1_000_000))))  # however little memory is left
        own.scratch.Clear(scratch.ScratchClearRequest(instance_id=name, key="k0"))
        own.scratch.Put(put(0))
        assert own.scratch.Close(scratch.ScratchCloseRequest(instance_id=name)).cleared


def test_what_an_import_brings_counts_to_the_limit_of_memory_while_it_comes(start_server: Any, name: str) -> None:
    source, target = start_server(), start_server(*flags(max_memory="2MiB"))
    with connected(source.address) as there, connected(target.address) as here:
        for _ in range(30):
            there.state.AppendNextEvent(next_of(name, data=Value(data=bytes(100_000))))
        messages = list(there.admin.Export(admin.AdminExportRequest(thread_id=name)))
        with pytest.raises(grpc.RpcError) as refusal:
            list(here.admin.Import(admin.AdminImportRequest(parts=message.parts) for message in messages))
        check_refusal(refusal.value, "LIMIT_REACHED", limit="memory bytes", max=2 * 2**20)
        assert not here.state.ListThreads(state.ListThreadsRequest()).threads
        for _ in range(18):  # what came is counted no more
            here.state.AppendNextEvent(next_of(name, data=Value(data=bytes(100_000))))


# --- what is told of it


def test_what_each_limit_refused_is_counted_by_its_name(start_server: Any, name: str) -> None:
    process = start_server(*METRICS, *flags(max_scope_keys=1, max_followers=1))
    with connected(process.address) as own:
        own.memory.Set(set_of(name, "k0"))
        for _ in range(3):
            limit("keys of a scope", 1, own.memory.Set, set_of(name, "k1"))
        with following(own, name, 1):
            limit("followers", 1, own.memory.Watch, watch_of(name))
        scrape = Scrape(process)
        reached = {names: count for names, count in scrape.all("statekeep_limits_reached_total").items() if count}
        assert reached == {("keys of a scope",): 3, ("followers",): 1}
        assert scrape("statekeep_held_bytes") > 500
        assert own.admin.GetInfo(admin.AdminGetInfoRequest()).limits


def test_versions_that_go_with_a_write_make_room_for_it(start_server: Any, name: str) -> None:
    process = start_server(*flags(max_versions=2, max_scope_versions=4))
    with connected(process.address) as own:
        for number in range(10):
            own.memory.Set(set_of(name, f"k{number % 2}"))
        limit("versions of a scope", 4, own.memory.Set, set_of(name, "k2"))
