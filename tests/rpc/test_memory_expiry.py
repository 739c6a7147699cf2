"""Expiry in Memory: checked at every read, in absolute time. Times are small, and waited for with a bound."""

import time

import pytest
from google.protobuf.duration_pb2 import Duration
from rpc_support import Stubs, items, key_of, refused, scope, set_of, until, until_caught_up, watch_of
from statekeep.v1 import memory_pb2 as memory

SOON = Duration(nanos=150_000_000)
LATER = Duration(seconds=3600)


def gone(stubs: Stubs, name: str, key: str) -> None:
    until(f"{key} has expired", lambda: not stubs.memory.Get(key_of(name, key)).HasField("entry"))


def versions(stubs: Stubs, name: str, key: str) -> list[int]:
    request = memory.MemoryHistoryRequest(scope=scope(name), key=key)
    return [entry.version for message in stubs.memory.History(request) for entry in message.entries]


def test_a_ttl_is_kept_as_an_absolute_time(stubs: Stubs, name: str) -> None:
    before = time.time()
    entry = stubs.memory.Set(set_of(name, "k", ttl=LATER)).entry
    lifetime = entry.expire_time.ToNanoseconds() - entry.create_time.ToNanoseconds()
    assert lifetime == LATER.ToNanoseconds()
    assert before - 1 < entry.create_time.ToSeconds() < time.time() + 1
    assert stubs.memory.Get(key_of(name, "k")).entry.expire_time == entry.expire_time


def test_an_expired_version_is_read_nowhere(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", ttl=SOON))
    stubs.memory.Set(set_of(name, "stays"))
    gone(stubs, name, "k")
    for request in (key_of(name, "k", version=1), key_of(name, "k", include_deleted=True)):
        assert not stubs.memory.Get(request).HasField("entry")
    got = stubs.memory.BatchGet(memory.MemoryBatchGetRequest(scope=scope(name), keys=["k"]))
    assert list(got.missing_keys) == ["k"]
    assert versions(stubs, name, "k") == []
    listed = stubs.memory.List(memory.MemoryListRequest(scope=scope(name), include_deleted=True)).entries
    assert [entry.key for entry in listed] == ["stays"]
    scopes = items(stubs.memory.ListScopes, memory.MemoryListScopesRequest(page_size=1000), "scopes")
    assert [one.entry_count for one in scopes if one.scope.name == name] == [1]
    watch = stubs.memory.Watch(watch_of(name, after_revision=0), timeout=20)
    seen = [entry.key for message in until_caught_up(watch) for entry in message.entries]
    watch.cancel()
    assert seen == ["stays"]


def test_a_scope_whose_only_key_expired_is_not_listed(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", ttl=SOON))
    gone(stubs, name, "k")
    scopes = items(stubs.memory.ListScopes, memory.MemoryListScopesRequest(page_size=1000), "scopes")
    assert name not in [one.scope.name for one in scopes]


def test_an_expired_newest_version_never_uncovers_an_older_one(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", "1"))
    stubs.memory.Set(set_of(name, "k", "2", ttl=SOON))
    gone(stubs, name, "k")
    assert not stubs.memory.List(memory.MemoryListRequest(scope=scope(name))).entries
    got = stubs.memory.BatchGet(memory.MemoryBatchGetRequest(scope=scope(name), keys=["k"]))
    assert list(got.missing_keys) == ["k"]
    assert versions(stubs, name, "k") == [1]
    assert stubs.memory.Get(key_of(name, "k", version=1)).entry.value.json == "1"


def test_setting_again_without_a_ttl_makes_a_key_permanent(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", "1", ttl=SOON))
    stubs.memory.Set(set_of(name, "probe", "1", ttl=SOON))
    assert not stubs.memory.Set(set_of(name, "k", "2")).entry.HasField("expire_time")
    gone(stubs, name, "probe")
    assert stubs.memory.Get(key_of(name, "k")).entry.value.json == "2"
    assert versions(stubs, name, "k") == [2]


def test_an_expired_key_has_no_value_to_expect_and_takes_the_next_version(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", ttl=SOON))
    gone(stubs, name, "k")
    refused("VERSION_MISMATCH", stubs.memory.Set, set_of(name, "k", expected_version=1), expected=1, actual=0)
    assert stubs.memory.Set(set_of(name, "k", expected_version=0)).entry.version == 2


def test_a_delete_of_an_expired_key_writes_nothing(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", ttl=SOON))
    gone(stubs, name, "k")
    request = memory.MemoryDeleteRequest(scope=scope(name), key="k", expected_version=0)
    assert not stubs.memory.Delete(request).HasField("entry")
    assert stubs.memory.Set(set_of(name, "k")).entry.version == 2


def test_a_purge_counts_no_expired_version(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", "1"))
    stubs.memory.Set(set_of(name, "k", "2", ttl=SOON))
    gone(stubs, name, "k")
    answer = stubs.memory.Purge(memory.MemoryPurgeRequest(scope=scope(name), key="k", keep=1))
    assert answer.versions_deleted == 0
    assert versions(stubs, name, "k") == [1]


def test_every_set_of_a_batch_has_a_ttl_of_its_own(stubs: Stubs, name: str) -> None:
    sets = [set_of(name, "a", ttl=SOON), set_of(name, "b", ttl=LATER), set_of(name, "c")]
    stubs.memory.BatchSet(memory.MemoryBatchSetRequest(sets=sets))
    gone(stubs, name, "a")
    listed = stubs.memory.List(memory.MemoryListRequest(scope=scope(name))).entries
    assert [(entry.key, entry.HasField("expire_time")) for entry in listed] == [("b", True), ("c", False)]


@pytest.mark.parametrize(
    "ttl",
    [
        Duration(),
        Duration(seconds=-1),
        Duration(nanos=-1),
        Duration(seconds=1, nanos=-1),
        Duration(nanos=10**9),
        Duration(seconds=2**63 - 1),
        Duration(seconds=-(2**63), nanos=2**31 - 1),
        Duration(seconds=315_576_000_000),
    ],
    ids=lambda ttl: f"{ttl.seconds}s{ttl.nanos}",
)
def test_a_ttl_is_refused_that_is_none(ttl: Duration, stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.memory.Set, set_of(name, "k", ttl=ttl), at="ttl")
    batch = memory.MemoryBatchSetRequest(sets=[set_of(name, "a"), set_of(name, "k", ttl=ttl)])
    refused("INVALID_FIELD", stubs.memory.BatchSet, batch, at="sets[1].ttl")


def test_a_ttl_of_a_thousand_years_is_taken(stubs: Stubs, name: str) -> None:
    entry = stubs.memory.Set(set_of(name, "k", ttl=Duration(seconds=1000 * 365 * 86_400))).entry
    assert entry.expire_time.ToSeconds() > 3 * 10**10
