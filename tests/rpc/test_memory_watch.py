"""Memory.Watch: the writes of a scope, from any revision on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from rpc_support import (
    PATIENCE,
    Stubs,
    connected,
    end_of,
    read_records,
    refused,
    scope,
    set_of,
    until_caught_up,
    watch_of,
)
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1.value_pb2 import Value


@contextmanager
def watched(stubs: Stubs, name: str, **fields: Any) -> Iterator[Any]:
    """Give a watch, and cancel it."""
    stream = stubs.memory.Watch(watch_of(name, **fields), timeout=PATIENCE)
    yield stream
    stream.cancel()


def write(stubs: Stubs, name: str, *keys: str) -> list[int]:
    return [stubs.memory.Set(set_of(name, key)).entry.revision for key in keys]


def delete(stubs: Stubs, name: str, key: str) -> memory.MemoryEntry:
    return stubs.memory.Delete(memory.MemoryDeleteRequest(scope=scope(name), key=key)).entry


def purge(stubs: Stubs, name: str, key: str, keep: int = 0) -> None:
    stubs.memory.Purge(memory.MemoryPurgeRequest(scope=scope(name), key=key, keep=keep))


def seen(messages: list[memory.MemoryWatchResponse]) -> list[tuple[str, int]]:
    return [(entry.key, entry.version) for message in messages for entry in message.entries]


def read(stubs: Stubs, name: str, **fields: Any) -> list[tuple[str, int]]:
    with watched(stubs, name, **{"after_revision": 0, **fields}) as stream:
        return seen(until_caught_up(stream))


def test_a_watch_without_a_revision_sends_only_what_is_written_from_then_on(stubs: Stubs, name: str) -> None:
    newest = write(stubs, name, "a", "b")[-1]
    with watched(stubs, name) as stream:
        assert next(stream) == memory.MemoryWatchResponse(caught_up=True, revision=newest)
        (revision,) = write(stubs, name, "c")
        message = next(stream)
        assert (seen([message]), message.caught_up, message.revision) == ([("c", 1)], False, revision)


def test_a_watch_from_the_start_sends_all_there_is_first(stubs: Stubs, name: str) -> None:
    newest = write(stubs, name, "a", "b", "a")[-1]
    with watched(stubs, name, after_revision=0) as stream:
        messages = until_caught_up(stream)
        assert seen(messages) == [("a", 1), ("b", 1), ("a", 2)]
        assert messages[-1].revision == newest
        write(stubs, name, "c")
        assert seen([next(stream)]) == [("c", 1)]


@pytest.mark.parametrize("fields", [{}, {"after_revision": 0}], ids=str)
def test_a_watch_of_a_scope_that_is_not_there_sees_its_first_write(
    fields: dict[str, int], stubs: Stubs, name: str
) -> None:
    with watched(stubs, name, **fields) as stream:
        assert next(stream) == memory.MemoryWatchResponse(caught_up=True)
        write(stubs, name, "a", "b")
        assert [entry.key for entry in read_records(stream, 2)] == ["a", "b"]


def test_a_watch_sends_tombstones(stubs: Stubs, name: str) -> None:
    write(stubs, name, "a")
    with watched(stubs, name, include_values=True) as stream:
        next(stream)
        tombstone = delete(stubs, name, "a")
        assert list(next(stream).entries) == [tombstone]
    assert read(stubs, name) == [("a", 1), ("a", 2)]


def test_a_watch_carries_values_where_they_are_asked_for(stubs: Stubs, name: str) -> None:
    with watched(stubs, name) as bare, watched(stubs, name, include_values=True) as full:
        for stream in (bare, full):
            next(stream)
        stubs.memory.Set(set_of(name, "a", "[1]"))
        assert not next(bare).entries[0].HasField("value")
        assert next(full).entries[0].value.json == "[1]"


@pytest.mark.parametrize("prefix", ["a", "a_", "a%", "b/", "zz"])
def test_a_watch_of_a_prefix_is_literal(prefix: str, stubs: Stubs, name: str) -> None:
    keys = ["a", "a_b", "a-b", "ab", "b/c", "b"]
    write(stubs, name, *keys)
    assert [key for key, _ in read(stubs, name, prefix=prefix)] == [key for key in keys if key.startswith(prefix)]
    with watched(stubs, name, prefix=prefix) as stream:
        next(stream)
        write(stubs, name, *keys, f"{prefix.replace('%', '-')}x")
        expected = [key for key in (*keys, f"{prefix.replace('%', '-')}x") if key.startswith(prefix)]
        assert [entry.key for entry in read_records(stream, len(expected))] == expected


def test_a_watch_sees_no_other_scope(stubs: Stubs, name: str) -> None:
    with watched(stubs, name) as stream:
        next(stream)
        write(stubs, f"{name}x", "a")
        other = memory.MemorySetRequest(scope=scope(name, memory.SCOPE_TYPE_FLOW), key="b", value=Value(json="1"))
        stubs.memory.Set(other)
        write(stubs, name, "c")
        assert seen([next(stream)]) == [("c", 1)]


def test_a_batch_is_seen_in_order(stubs: Stubs, name: str) -> None:
    with watched(stubs, name) as stream:
        next(stream)
        stubs.memory.BatchSet(memory.MemoryBatchSetRequest(sets=[set_of(name, key) for key in "cab"]))
        assert [entry.key for entry in read_records(stream, 3)] == ["c", "a", "b"]


def test_a_watch_resumed_at_any_revision_sends_exactly_the_rest(stubs: Stubs, name: str) -> None:
    write(stubs, name, "a", "b", "a")
    stubs.memory.Set(set_of(name, "c", request_id="r"))
    delete(stubs, name, "b")
    write(stubs, name, "b", "a")
    purge(stubs, name, "a", keep=1)
    write(stubs, name, "d")
    with watched(stubs, name, after_revision=0) as stream:
        entries = [entry for message in until_caught_up(stream) for entry in message.entries]
    newest = entries[-1].revision
    for revision in range(newest - 10, newest + 1):
        if revision < entries[0].revision:
            continue
        expected = [(entry.key, entry.version) for entry in entries if entry.revision > revision]
        assert read(stubs, name, after_revision=revision) == expected


def test_large_entries_come_in_messages_of_about_256_kib(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        sizes = [100_000] * 48 + [3_900_000, 100, 3_900_000]
        for number, size in enumerate(sizes):
            own.memory.Set(memory.MemorySetRequest(scope=scope(name), key=f"k{number}", value=Value(data=bytes(size))))
        with watched(own, name, after_revision=0, include_values=True) as stream:
            messages = until_caught_up(stream)
        assert [key for key, _ in seen(messages)] == [f"k{number}" for number in range(51)]
        assert all(len(message.entries) == 1 or message.ByteSize() <= 320 * 1024 for message in messages)
        assert [message.caught_up for message in messages].count(True) == 1
        for message in messages:
            rest = read(own, name, after_revision=message.revision)
            assert len(rest) == 50 - int(message.entries[-1].key[1:])


def test_heartbeats_carry_the_revision(stubs: Stubs, name: str) -> None:
    (revision,) = write(stubs, name, "a")
    with watched(stubs, name, heartbeat=Duration(nanos=100_000_000), prefix="b") as stream:
        next(stream)
        assert next(stream) == memory.MemoryWatchResponse(revision=revision)
        (newer,) = write(stubs, name, "c")
        beats = (message.revision for message in stream)
        assert any(beat == newer for _, beat in zip(range(5), beats, strict=False))


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"after_revision": -1}, "after_revision"),
        ({"heartbeat": Duration(nanos=99_000_000)}, "heartbeat"),
        ({"heartbeat": Duration(seconds=-1)}, "heartbeat"),
    ],
    ids=str,
)
def test_a_watch_is_refused_that_asks_for_what_there_is_not(
    fields: dict[str, Any], at: str, stubs: Stubs, name: str
) -> None:
    refused("INVALID_FIELD", stubs.memory.Watch, watch_of(name, **fields), at=at)


def test_a_cursor_ahead_or_of_a_scope_that_is_not_there_is_refused(stubs: Stubs, name: str) -> None:
    refused("REVISION_GONE", stubs.memory.Watch, watch_of(name, after_revision=1))
    (newest,) = write(stubs, name, "a")
    for ahead in (newest + 1, 2**63 - 1):
        refused("REVISION_AHEAD", stubs.memory.Watch, watch_of(name, after_revision=ahead), newest=newest)


# --- purges


def test_a_cursor_from_before_a_purge_of_a_newest_version_is_refused(stubs: Stubs, name: str) -> None:
    revisions = write(stubs, name, "a", "b", "c")
    purge(stubs, name, "b")
    for revision in revisions:
        refusal = refused("REVISION_GONE", stubs.memory.Watch, watch_of(name, after_revision=revision))
    assert int(refusal.metadata["oldest"]) > revisions[-1]
    assert read(stubs, name, after_revision=int(refusal.metadata["oldest"])) == []
    write(stubs, name, "b")
    assert read(stubs, name, after_revision=int(refusal.metadata["oldest"])) == [("b", 2)]


def test_a_cursor_from_before_a_purge_that_kept_the_newest_stays_valid(stubs: Stubs, name: str) -> None:
    revisions = write(stubs, name, "a", "b", "a")
    purge(stubs, name, "a", keep=1)
    assert read(stubs, name, after_revision=revisions[0]) == [("b", 1), ("a", 2)]


def test_a_watch_under_way_ends_with_a_purge_of_a_newest_version(stubs: Stubs, name: str) -> None:
    write(stubs, name, "a", "b")
    with watched(stubs, name, after_revision=0) as stream:
        until_caught_up(stream)
        purge(stubs, name, "a")
        assert end_of(stream).reason == "REVISION_GONE"


def test_a_watch_under_way_goes_on_where_a_purge_kept_the_newest(stubs: Stubs, name: str) -> None:
    write(stubs, name, "a", "a")
    with watched(stubs, name, after_revision=0) as stream:
        until_caught_up(stream)
        purge(stubs, name, "a", keep=1)
        purge(stubs, name, "nobody")
        write(stubs, name, "b")
        assert [entry.key for entry in read_records(stream, 1)] == ["b"]


def test_a_watch_from_the_start_after_a_purge_goes_on(stubs: Stubs, name: str) -> None:
    write(stubs, name, "a", "b")
    purge(stubs, name, "a")
    with watched(stubs, name, after_revision=0) as stream, watched(stubs, name) as fresh:
        assert seen(until_caught_up(stream)) == [("b", 1)]
        until_caught_up(fresh)
        write(stubs, name, "a")
        for watch in (stream, fresh):
            assert [(entry.key, entry.version) for entry in read_records(watch, 1)] == [("a", 2)]


def test_the_next_watch_after_a_refused_cursor_goes_on_from_its_own_revision(stubs: Stubs, name: str) -> None:
    write(stubs, name, "a", "b")
    purge(stubs, name, "a")
    with watched(stubs, name, after_revision=0) as stream:
        revision = until_caught_up(stream)[-1].revision
    write(stubs, name, "c")
    assert read(stubs, name, after_revision=revision) == [("c", 1)]


def test_an_expired_version_is_missing_and_makes_no_cursor_invalid(stubs: Stubs, name: str) -> None:
    (before,) = write(stubs, name, "a")
    with watched(stubs, name) as stream:
        next(stream)
        stubs.memory.Set(set_of(name, "b", ttl=Duration(nanos=150_000_000)))
        assert [entry.key for entry in read_records(stream, 1)] == ["b"]
        for _ in range(3_000):
            if read(stubs, name, after_revision=before) == []:
                break
        write(stubs, name, "c")
        assert [entry.key for entry in read_records(stream, 1)] == ["c"]
    assert read(stubs, name, after_revision=before) == [("c", 1)]


def test_a_watch_reads_past_many_keys_of_other_prefixes(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        for start in range(0, 12_000, 3_000):
            sets = [set_of(name, f"a{start + number}") for number in range(3_000)]
            own.memory.BatchSet(memory.MemoryBatchSetRequest(sets=sets))
        write(own, name, "b")
        assert read(own, name, prefix="b") == [("b", 1)]
        assert len(read(own, name, prefix="a")) == 12_000
