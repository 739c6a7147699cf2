"""Memory.Purge and ListPurges."""

import pytest
from rpc_support import Stubs, items, key_of, refused, scope, set_of
from statekeep.v1 import memory_pb2 as memory


def purge_of(name: str, **fields: object) -> memory.MemoryPurgeRequest:
    return memory.MemoryPurgeRequest(scope=scope(name), **fields)  # type: ignore[arg-type]


def set_times(stubs: Stubs, name: str, key: str, times: int) -> None:
    for number in range(1, times + 1):
        stubs.memory.Set(set_of(name, key, str(number)))


def delete(stubs: Stubs, name: str, key: str) -> None:
    stubs.memory.Delete(memory.MemoryDeleteRequest(scope=scope(name), key=key))


def versions(stubs: Stubs, name: str, key: str) -> list[int]:
    request = memory.MemoryHistoryRequest(scope=scope(name), key=key)
    return [entry.version for message in stubs.memory.History(request) for entry in message.entries]


def purged(stubs: Stubs, request: memory.MemoryPurgeRequest) -> tuple[int, int]:
    answer = stubs.memory.Purge(request)
    return answer.versions_deleted, answer.keys_affected


def records(stubs: Stubs, name: str) -> list[memory.MemoryPurgeRecord]:
    return items(stubs.memory.ListPurges, memory.MemoryListPurgesRequest(scope=scope(name)), "purges")


@pytest.mark.parametrize("keep", [0, 1, 3, 5, 6, 2**31 - 1])
def test_a_purge_keeps_exactly_the_newest_and_again_removes_none(keep: int, stubs: Stubs, name: str) -> None:
    set_times(stubs, name, "k", 5)
    removed = max(0, 5 - keep)
    assert purged(stubs, purge_of(name, key="k", keep=keep)) == (removed, int(removed > 0))
    assert versions(stubs, name, "k") == [5, 4, 3, 2, 1][:keep]
    assert purged(stubs, purge_of(name, key="k", keep=keep)) == (0, 0)


def test_a_purged_version_reads_as_unset(stubs: Stubs, name: str) -> None:
    set_times(stubs, name, "k", 3)
    stubs.memory.Purge(purge_of(name, key="k", keep=1))
    for version, there in ((1, False), (2, False), (3, True)):
        assert stubs.memory.Get(key_of(name, "k", version=version)).HasField("entry") is there
    assert stubs.memory.Get(key_of(name, "k")).entry.version == 3


def test_a_key_that_was_purged_whole_is_gone(stubs: Stubs, name: str) -> None:
    set_times(stubs, name, "k", 2)
    stubs.memory.Purge(purge_of(name, key="k"))
    assert not stubs.memory.Get(key_of(name, "k", include_deleted=True)).HasField("entry")
    assert not stubs.memory.List(memory.MemoryListRequest(scope=scope(name), include_deleted=True)).entries
    delete_again = memory.MemoryDeleteRequest(scope=scope(name), key="k")
    assert not stubs.memory.Delete(delete_again).HasField("entry")
    assert stubs.memory.Set(set_of(name, "k")).entry.version == 3


def test_a_tombstone_counts_as_a_version(stubs: Stubs, name: str) -> None:
    set_times(stubs, name, "k", 2)
    delete(stubs, name, "k")
    assert purged(stubs, purge_of(name, key="k", keep=1)) == (2, 1)
    assert versions(stubs, name, "k") == [3]
    assert stubs.memory.Get(key_of(name, "k", include_deleted=True)).entry.deleted
    assert stubs.memory.Set(set_of(name, "k")).entry.version == 4


def test_a_purge_of_one_key_leaves_the_others(stubs: Stubs, name: str) -> None:
    for key in ("k", "kk"):
        set_times(stubs, name, key, 2)
    stubs.memory.Purge(purge_of(name, key=" k "))
    assert (versions(stubs, name, "k"), versions(stubs, name, "kk")) == ([], [2, 1])


def test_a_purge_of_all_keys_passes_over_deleted_ones(stubs: Stubs, name: str) -> None:
    for key in "abc":
        set_times(stubs, name, key, 3)
    delete(stubs, name, "b")
    assert purged(stubs, purge_of(name, all_keys=True, keep=1)) == (4, 2)
    assert [versions(stubs, name, key) for key in "abc"] == [[3], [4, 3, 2, 1], [3]]


def test_a_purge_of_all_keys_removes_deleted_ones_whole_where_it_says_so(stubs: Stubs, name: str) -> None:
    for key in "ab":
        set_times(stubs, name, key, 3)
    delete(stubs, name, "b")
    assert purged(stubs, purge_of(name, all_keys=True, keep=5, include_deleted=True)) == (4, 1)
    assert [versions(stubs, name, key) for key in "ab"] == [[3, 2, 1], []]
    assert stubs.memory.Set(set_of(name, "b")).entry.version == 5


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({}, "key"),
        ({"keep": 3}, "key"),
        ({"key": "k", "all_keys": True}, "key"),
        ({"key": ""}, "key"),
        ({"key": " "}, "key"),
        ({"key": "k", "keep": -1}, "keep"),
        ({"all_keys": True, "keep": -(2**31)}, "keep"),
        ({"include_deleted": True}, "key"),
    ],
)
def test_a_purge_is_refused_that_does_not_say_what(fields: dict[str, object], at: str, stubs: Stubs, name: str) -> None:
    set_times(stubs, name, "k", 1)
    refused("INVALID_FIELD", stubs.memory.Purge, purge_of(name, **fields), at=at)
    assert versions(stubs, name, "k") == [1]
    assert records(stubs, name) == []


def test_a_purge_that_removed_something_leaves_one_record(stubs: Stubs, name: str) -> None:
    for key in "ba":
        set_times(stubs, name, key, 3)
    stubs.memory.Purge(purge_of(name, all_keys=True, keep=1))
    stubs.memory.Purge(purge_of(name, all_keys=True, keep=1))
    stubs.memory.Purge(purge_of(name, key="a"))
    stubs.memory.Purge(purge_of(f"{name}x", all_keys=True))
    newest, oldest = records(stubs, name)
    assert (list(newest.keys), newest.versions_deleted, newest.keys_affected, newest.keep) == (["a"], 1, 1, 0)
    assert (list(oldest.keys), oldest.versions_deleted, oldest.keys_affected, oldest.keep) == (["a", "b"], 4, 2, 1)
    assert newest.scope == oldest.scope == scope(name)
    assert newest.HasField("create_time")


def test_purge_records_are_no_keys(stubs: Stubs, name: str) -> None:
    set_times(stubs, name, "k", 2)
    stubs.memory.Purge(purge_of(name, key="k"))
    assert not stubs.memory.List(memory.MemoryListRequest(scope=scope(name), include_deleted=True)).entries
    scopes = items(stubs.memory.ListScopes, memory.MemoryListScopesRequest(page_size=1000), "scopes")
    assert name not in [one.scope.name for one in scopes]


def test_the_keys_of_a_record_are_as_many_as_it_holds_and_all_are_counted(stubs: Stubs, name: str) -> None:
    keys = [f"{number:06}".ljust(500, "x") for number in range(10_000)]
    for start in range(0, len(keys), 2_500):
        sets = [set_of(name, key) for key in keys[start : start + 2_500]]
        stubs.memory.BatchSet(memory.MemoryBatchSetRequest(sets=sets))
    stubs.memory.Purge(purge_of(name, all_keys=True))
    (record,) = records(stubs, name)
    assert record.keys_affected == record.versions_deleted == 10_000
    assert list(record.keys) == keys[: len(record.keys)]
    assert len(record.keys) > 100
