"""A server that keeps no more than it was told to: versions of a key, threads in use, room on disk."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from rpc_support import (
    MIB,
    PATIENCE,
    Stubs,
    call_many,
    connected,
    end_of,
    events_in,
    ids,
    items,
    next_of,
    read_records,
    refused,
    scope,
    set_of,
    stream_of,
    until,
    until_caught_up,
    watch_of,
)
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value
from stores import STORES, serving

KEPT = 3


@pytest.fixture(scope="module", params=STORES)
def keeping(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """Give the services of a server that keeps the three newest versions of a key, on each store."""
    flags = ("--max-versions", str(KEPT), "--sweep-every", "50ms")
    with serving(request.param, tmp_path_factory.mktemp("store"), *flags) as server, connected(server.address) as stubs:
        yield stubs


@pytest.fixture(params=STORES)
def forgetting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stubs]:
    """Give the services of a server that keeps a thread for four seconds, on each store."""
    flags = ("--thread-ttl", "4s", "--sweep-every", "50ms")
    with serving(request.param, tmp_path, *flags) as server, connected(server.address) as stubs:
        yield stubs


def versions(stubs: Stubs, name: str, key: str = "k", **fields: bool) -> list[int]:
    request = memory.MemoryHistoryRequest(scope=scope(name), key=key, **fields)
    return [entry.version for message in stubs.memory.History(request) for entry in message.entries]


def threads(stubs: Stubs) -> list[str]:
    return ids(items(stubs.state.ListThreads, state.ListThreadsRequest(), "threads"))


# --- versions


def test_a_key_keeps_its_newest_versions(keeping: Stubs, name: str) -> None:
    made = [keeping.memory.Set(set_of(name, "k", str(number))).entry.version for number in range(6)]
    assert made == [1, 2, 3, 4, 5, 6]
    assert versions(keeping, name) == [6, 5, 4]
    assert versions(keeping, name, oldest_first=True) == [4, 5, 6]
    assert keeping.memory.Delete(memory.MemoryDeleteRequest(scope=scope(name), key="k")).entry.version == 7
    assert versions(keeping, name) == [7, 6, 5]
    purges = keeping.memory.ListPurges(memory.MemoryListPurgesRequest(scope=scope(name)))
    assert not purges.purges


def test_eight_writers_of_one_key_make_each_version_once_and_no_reader_sees_more_than_are_kept(
    keeping: Stubs, name: str
) -> None:
    writers, each = 8, 40
    last = writers * each
    watch = keeping.memory.Watch(watch_of(name, after_revision=0), timeout=PATIENCE * 3)
    made: list[int] = []
    seen: list[list[int]] = []

    def write() -> None:
        for _ in range(each):
            made.append(keeping.memory.Set(set_of(name, "k"), timeout=PATIENCE).entry.version)  # noqa: PERF401 (as they come)

    at_work = [threading.Thread(target=write) for _ in range(writers)]
    for writer in at_work:
        writer.start()
    while any(writer.is_alive() for writer in at_work):
        seen.append(versions(keeping, name))
        seen.append(versions(keeping, name, oldest_first=True)[::-1])
    assert sorted(made) == list(range(1, last + 1))
    for history in [*seen, versions(keeping, name)]:
        assert history == list(range(history[0] if history else 0, 0, -1))[:KEPT]
    watched: list[int] = []
    for message in watch:
        watched += [entry.version for entry in message.entries]
        if watched and watched[-1] == last:
            break
    watch.cancel()
    assert watched == sorted(set(watched))


def test_a_cursor_from_before_versions_went_is_still_good(keeping: Stubs, name: str) -> None:
    first = keeping.memory.Set(set_of(name, "k")).entry
    for _ in range(5):
        keeping.memory.Set(set_of(name, "k"))
    stream = keeping.memory.Watch(watch_of(name, after_revision=first.revision), timeout=PATIENCE)
    messages = until_caught_up(stream)
    stream.cancel()
    assert [entry.version for message in messages for entry in message.entries] == [4, 5, 6]


def test_what_was_imported_with_more_versions_is_trimmed_by_a_sweep(keeping: Stubs, stubs: Stubs, name: str) -> None:
    for number in range(6):
        stubs.memory.Set(set_of(name, "k", str(number)))
    exported = list(stubs.admin.Export(admin.AdminExportRequest(scope=scope(name)), timeout=PATIENCE))
    requests = [admin.AdminImportRequest(parts=message.parts) for message in exported]
    list(keeping.admin.Import(iter(requests), timeout=PATIENCE))
    until("three versions are left", lambda: versions(keeping, name) == [6, 5, 4], PATIENCE)


def test_a_server_that_is_started_with_the_limit_trims_what_was_written_without(tmp_path: Path, name: str) -> None:
    with serving("sqlite", tmp_path) as server, connected(server.address) as stubs:
        call_many(stubs.memory.Set, [set_of(name, "k") for _ in range(9)])
        call_many(stubs.memory.Set, [set_of(name, "other") for _ in range(2)])
        assert len(versions(stubs, name)) == 9
    flags = ("--max-versions", "2", "--sweep-every", "50ms")
    with serving("sqlite", tmp_path, *flags) as server, connected(server.address) as stubs:
        until("two versions are left", lambda: versions(stubs, name) == [9, 8], PATIENCE)
        assert versions(stubs, name, "other") == [2, 1]
        until("the log says so", lambda: "swept versions over the limit: 7" in server.stderr, PATIENCE)
        assert stubs.memory.Set(set_of(name, "k")).entry.version == 10
        assert versions(stubs, name) == [10, 9]


# --- threads


def test_a_thread_that_nobody_writes_to_goes_and_one_that_is_written_to_stays(forgetting: Stubs) -> None:
    forgetting.memory.Set(set_of("scopes-have-no-such-end", "k"))
    forgetting.state.AppendNextEvent(next_of("idle", "e"))
    follower = forgetting.state.StreamHistory(stream_of("idle", after_revision=0, follow=True), timeout=PATIENCE * 2)
    assert ids(read_records(follower, 1)) == ["e"]
    cursor = events_in(forgetting, "idle")[0].revision
    stop = threading.Event()

    def keep_awake() -> None:
        while not stop.wait(0.1):
            forgetting.state.AppendNextEvent(next_of("awake"), timeout=PATIENCE)

    forgetting.state.AppendNextEvent(next_of("awake", "first"))
    writer = threading.Thread(target=keep_awake)
    writer.start()
    try:
        until("the idle thread is gone", lambda: threads(forgetting) == ["awake"], PATIENCE * 2)
    finally:
        stop.set()
        writer.join(PATIENCE)
    assert events_in(forgetting, "awake")[0].id == "first"
    assert versions(forgetting, "scopes-have-no-such-end") == [1]
    assert end_of(follower).reason == "REVISION_GONE"
    refused("REVISION_GONE", forgetting.state.StreamHistory, stream_of("idle", after_revision=cursor))
    new = forgetting.state.AppendNextEvent(next_of("idle", "e")).event
    assert (new.sequence, len(events_in(forgetting, "idle"))) == (1, 1)
    assert new.revision > cursor


# --- room


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Stubs]:
    with serving("sqlite", tmp_path, "--sweep-every", "50ms") as server, connected(server.address) as stubs:
        yield stubs


@pytest.mark.parametrize("how", ["a thread is deleted", "a scope is purged", "values expire"])
def test_a_file_gets_short_again(on_disk: Stubs, tmp_path: Path, how: str) -> None:
    def size(end: str = "") -> int:
        return (tmp_path / f"state.db{end}").stat().st_size

    on_disk.state.AppendNextEvent(next_of("kept"))
    large = Value(text="x" * 100_000)
    base = size()
    if how == "a thread is deleted":
        call_many(on_disk.state.AppendNextEvent, [next_of("large", data=large) for _ in range(200)])
        on_disk.state.DeleteThread(state.DeleteThreadRequest(thread_id="large"))
    elif how == "a scope is purged":
        call_many(on_disk.memory.Set, [memory.MemorySetRequest(scope=scope("s"), key="k", value=large)] * 200)
        on_disk.memory.Purge(memory.MemoryPurgeRequest(scope=scope("s"), all_keys=True))
    else:
        expiring = memory.MemorySetRequest(scope=scope("s"), key="k", value=large, ttl=Duration(seconds=1))
        call_many(on_disk.memory.Set, [expiring] * 200)
    until("the file is short", lambda: size() < base + MIB and size("-wal") < MIB, PATIENCE * 2)
    assert len(events_in(on_disk, "kept")) == 1
