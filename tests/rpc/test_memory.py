"""Memory: versions, tombstones, expected versions, request ids, batches, lists."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rpc_support import (
    MIB,
    Stubs,
    call_many,
    connected,
    items,
    key_of,
    refusal_of,
    refused,
    scope,
    set_of,
)
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1.value_pb2 import Value


def delete_of(name: str, key: str, **fields: object) -> memory.MemoryDeleteRequest:
    return memory.MemoryDeleteRequest(scope=scope(name), key=key, **fields)  # type: ignore[arg-type]


def batch_of(*sets: memory.MemorySetRequest, request_id: str = "") -> memory.MemoryBatchSetRequest:
    return memory.MemoryBatchSetRequest(sets=sets, request_id=request_id)


def history(stubs: Stubs, name: str, key: str, **fields: object) -> list[memory.MemoryEntry]:
    request = memory.MemoryHistoryRequest(scope=scope(name), key=key, **fields)  # type: ignore[arg-type]
    return [entry for message in stubs.memory.History(request) for entry in message.entries]


def current(stubs: Stubs, name: str, key: str) -> int:
    return stubs.memory.Get(key_of(name, key)).entry.version


def keys_in(stubs: Stubs, name: str, **fields: object) -> list[str]:
    request = memory.MemoryListRequest(scope=scope(name), **fields)  # type: ignore[arg-type]
    return [entry.key for entry in items(stubs.memory.List, request, "entries")]


def test_set_answers_the_entry_without_its_value(stubs: Stubs, name: str) -> None:
    request = set_of(name, "k", "{}", execution_id="x", flow_id="f", flow_name="n")
    request.labels["a"] = "b"
    entry = stubs.memory.Set(request).entry
    assert not entry.HasField("value")
    assert (entry.key, entry.version, entry.value_type, entry.deleted) == ("k", 1, "object", False)
    assert (entry.execution_id, entry.flow_id, entry.flow_name, dict(entry.labels)) == ("x", "f", "n", {"a": "b"})
    assert entry.create_time != Timestamp()
    assert not entry.HasField("expire_time")
    got = stubs.memory.Get(key_of(name, "k")).entry
    assert got.value.json == "{}"
    got.ClearField("value")
    assert got == entry


def test_who_wrote_is_unset_where_nobody_said(stubs: Stubs, name: str) -> None:
    entry = stubs.memory.Set(set_of(name, "k")).entry
    assert not any(entry.HasField(field) for field in ("execution_id", "flow_id", "flow_name"))
    said_empty = stubs.memory.Set(set_of(name, "k", execution_id="")).entry
    assert said_empty.HasField("execution_id")


def test_every_version_has_an_id_of_its_own(stubs: Stubs, name: str) -> None:
    entries = [stubs.memory.Set(set_of(where, key)).entry for where in (name, f"{name}b") for key in "aab"]
    assert len({entry.entry_id for entry in entries}) == len(entries)


def test_revisions_grow_with_every_write_of_the_scope(stubs: Stubs, name: str) -> None:
    revisions = [stubs.memory.Set(set_of(name, key)).entry.revision for key in "aba"]
    revisions.append(stubs.memory.Delete(delete_of(name, "a")).entry.revision)
    revisions += [
        entry.revision for entry in stubs.memory.BatchSet(batch_of(set_of(name, "a"), set_of(name, "c"))).entries
    ]
    assert revisions == sorted(set(revisions))


def test_a_key_that_is_not_there_reads_as_unset(stubs: Stubs, name: str) -> None:
    assert stubs.memory.Get(key_of(name, "k")) == memory.MemoryGetResponse()
    assert stubs.memory.Get(key_of(name, "k", version=1)) == memory.MemoryGetResponse()
    assert history(stubs, name, "k") == []
    assert keys_in(stubs, name) == []
    got = stubs.memory.BatchGet(memory.MemoryBatchGetRequest(scope=scope(name), keys=["b", "a"]))
    assert (list(got.entries), list(got.missing_keys)) == ([], ["b", "a"])
    assert stubs.memory.Delete(delete_of(name, "k")) == memory.MemoryDeleteResponse()


@pytest.mark.parametrize("version", [0, -1, -(2**63)])
def test_a_version_below_1_is_refused(version: int, stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.memory.Get, key_of(name, "k", version=version), at="version", number=version)


def test_a_version_that_never_was_reads_as_unset(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k"))
    for version in (2, 2**63 - 1):
        assert not stubs.memory.Get(key_of(name, "k", version=version)).HasField("entry")


def test_an_older_version_of_a_deleted_key_can_still_be_read(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", "7"))
    stubs.memory.Delete(delete_of(name, "k"))
    assert stubs.memory.Get(key_of(name, "k", version=1)).entry.value.json == "7"


def test_a_tombstone_is_read_only_where_it_is_asked_for(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k"))
    tombstone = stubs.memory.Delete(delete_of(name, "k")).entry
    assert (tombstone.version, tombstone.deleted, tombstone.HasField("value")) == (2, True, False)
    for version in ({}, {"version": 2}):
        assert not stubs.memory.Get(key_of(name, "k", **version)).HasField("entry")
        assert stubs.memory.Get(key_of(name, "k", include_deleted=True, **version)).entry == tombstone


def test_a_deleted_key_is_missing_from_a_batch_get(stubs: Stubs, name: str) -> None:
    stubs.memory.BatchSet(batch_of(set_of(name, "a"), set_of(name, "b")))
    stubs.memory.Delete(delete_of(name, "a"))
    got = stubs.memory.BatchGet(memory.MemoryBatchGetRequest(scope=scope(name), keys=["c", "b", "a"]))
    assert [entry.key for entry in got.entries] == ["b"]
    assert got.entries[0].value.json == "1"
    assert list(got.missing_keys) == ["c", "a"]


def test_a_batch_get_of_nothing_is_empty(stubs: Stubs, name: str) -> None:
    assert stubs.memory.BatchGet(memory.MemoryBatchGetRequest(scope=scope(name))) == memory.MemoryBatchGetResponse()


def test_a_batch_get_that_does_not_fit_a_message_says_so(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        large = Value(data=bytes(3 * MIB))
        for key in ("a", "b"):
            own.memory.Set(memory.MemorySetRequest(scope=scope(name), key=key, value=large))
        request = memory.MemoryBatchGetRequest(scope=scope(name), keys=["a", "b"])
        refusal = refused("LIMIT_REACHED", own.memory.BatchGet, request)
        assert refusal.metadata["limit"]
        assert int(refusal.metadata["max"]) == 4 * MIB
        assert len(own.memory.BatchGet(memory.MemoryBatchGetRequest(scope=scope(name), keys=["a"])).entries) == 1


# --- expected versions


@pytest.mark.parametrize("before", ["never set", "deleted", "purged"])
def test_expected_version_0_succeeds_where_there_is_no_value(before: str, stubs: Stubs, name: str) -> None:
    if before != "never set":
        stubs.memory.Set(set_of(name, "k"))
    if before == "deleted":
        stubs.memory.Delete(delete_of(name, "k"))
    if before == "purged":
        stubs.memory.Purge(memory.MemoryPurgeRequest(scope=scope(name), key="k"))
    version = {"never set": 1, "deleted": 3, "purged": 2}[before]
    assert stubs.memory.Set(set_of(name, "k", expected_version=0)).entry.version == version
    refused("VERSION_MISMATCH", stubs.memory.Set, set_of(name, "k", expected_version=0), expected=0, actual=version)


def test_the_current_version_is_the_one_to_expect(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k"))
    assert stubs.memory.Set(set_of(name, "k", expected_version=1)).entry.version == 2
    refused("VERSION_MISMATCH", stubs.memory.Set, set_of(name, "k", expected_version=1), expected=1, actual=2, key="k")
    assert current(stubs, name, "k") == 2


def test_the_version_of_a_tombstone_is_not_current(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k"))
    stubs.memory.Delete(delete_of(name, "k"))
    refused("VERSION_MISMATCH", stubs.memory.Set, set_of(name, "k", expected_version=2), expected=2, actual=0)
    wrong = delete_of(name, "k", expected_version=2)
    refused("VERSION_MISMATCH", stubs.memory.Delete, wrong, expected=2, actual=0)
    assert stubs.memory.Delete(delete_of(name, "k", expected_version=0)).entry.version == 2


def test_a_delete_honours_the_expected_version(stubs: Stubs, name: str) -> None:
    assert not stubs.memory.Delete(delete_of(name, "k", expected_version=0)).HasField("entry")
    refused("VERSION_MISMATCH", stubs.memory.Delete, delete_of(name, "k", expected_version=1), expected=1, actual=0)
    stubs.memory.Set(set_of(name, "k"))
    refused("VERSION_MISMATCH", stubs.memory.Delete, delete_of(name, "k", expected_version=0), expected=0, actual=1)
    assert stubs.memory.Delete(delete_of(name, "k", expected_version=1)).entry.version == 2


def test_a_wrong_version_in_a_batch_refuses_all_of_it(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "b"))
    batch = batch_of(set_of(name, "a"), set_of(name, "b", expected_version=0), set_of(name, "c"))
    refused("VERSION_MISMATCH", stubs.memory.BatchSet, batch, expected=0, actual=1, key="b")
    assert keys_in(stubs, name) == ["b"]
    assert current(stubs, name, "b") == 1


@pytest.mark.parametrize("bad", [-1, -(2**63)])
def test_a_negative_expected_version_is_refused(bad: int, stubs: Stubs, name: str) -> None:
    request = set_of(name, "k", expected_version=bad)
    refused("INVALID_FIELD", stubs.memory.Set, request, at="expected_version", number=bad)
    refused("INVALID_FIELD", stubs.memory.Delete, delete_of(name, "k", expected_version=bad), at="expected_version")
    refused("INVALID_FIELD", stubs.memory.BatchSet, batch_of(request), at="sets[0].expected_version")


def test_of_many_creators_at_once_one_wins(server: ServerProcess, name: str) -> None:
    def create(number: int) -> str:
        with connected(server.address) as own:
            try:
                own.memory.Set(set_of(name, "k", str(number), expected_version=0))
            except grpc.RpcError as error:
                return refusal_of(error).reason
            return "won"

    with ThreadPoolExecutor(16) as creators:
        outcomes = list(creators.map(create, range(16)))
    assert sorted(outcomes) == ["VERSION_MISMATCH"] * 15 + ["won"]


def test_read_modify_write_loses_no_update(server: ServerProcess, name: str) -> None:
    def add(_: int) -> None:
        with connected(server.address) as own:
            done = 0
            while done < 25:
                entry = own.memory.Get(key_of(name, "k")).entry
                added = str(int(entry.value.json or "0") + 1)
                call = own.memory.Set.future(set_of(name, "k", added, expected_version=entry.version))
                lost = call.exception()
                done += lost is None
                assert lost is None or refusal_of(lost).reason == "VERSION_MISMATCH"

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(add, range(4)))
    with connected(server.address) as own:
        entry = own.memory.Get(key_of(name, "k")).entry
        assert (entry.value.json, entry.version) == ("100", 100)


# --- request ids


def test_a_retry_gets_the_first_answer_and_writes_nothing(stubs: Stubs, name: str) -> None:
    request = set_of(name, "k", expected_version=0, request_id="r")
    first = stubs.memory.Set(request)
    stubs.memory.Set(set_of(name, "k"))
    assert stubs.memory.Set(request) == first
    assert current(stubs, name, "k") == 2


def test_a_retry_of_a_delete_gets_the_first_answer(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k"))
    request = delete_of(name, "k", expected_version=1, request_id="r")
    first = stubs.memory.Delete(request)
    stubs.memory.Set(set_of(name, "k"))
    assert stubs.memory.Delete(request) == first
    assert current(stubs, name, "k") == 3


def test_a_retry_of_a_delete_that_found_nothing_finds_nothing_again(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "other"))
    request = delete_of(name, "k", request_id="r")
    assert not stubs.memory.Delete(request).HasField("entry")
    stubs.memory.Set(set_of(name, "k"))
    assert not stubs.memory.Delete(request).HasField("entry")
    assert current(stubs, name, "k") == 1


def test_a_retry_of_a_batch_gets_the_first_answer(stubs: Stubs, name: str) -> None:
    request = batch_of(set_of(name, "a", expected_version=0), set_of(name, "b"), request_id="r")
    first = stubs.memory.BatchSet(request)
    assert stubs.memory.BatchSet(request) == first
    assert (current(stubs, name, "a"), current(stubs, name, "b")) == (1, 1)


def test_a_request_id_is_not_taken_twice_for_different_requests(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", "1", request_id="r"))
    others = [
        (stubs.memory.Set, set_of(name, "k", "2", request_id="r")),
        (stubs.memory.Set, set_of(name, "k", "1", expected_version=1, request_id="r")),
        (stubs.memory.Set, set_of(name, "k2", "1", request_id="r")),
        (stubs.memory.Delete, delete_of(name, "k", request_id="r")),
        (stubs.memory.BatchSet, batch_of(set_of(name, "k", "1"), request_id="r")),
    ]
    for method, request in others:
        refused("REQUEST_ID_REUSED", method, request, at="request_id", request_id="r")
    assert current(stubs, name, "k") == 1


def test_a_request_id_is_looked_at_before_any_other_check(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", "1", request_id="r"))
    bad = [set_of(name, "k", "NaN", request_id="r"), set_of(name, "a b", request_id="r")]
    bad.append(set_of(name, "k", expected_version=7, request_id="r"))
    for request in bad:
        refused("REQUEST_ID_REUSED", stubs.memory.Set, request)


def test_a_request_that_was_refused_may_be_sent_again_with_its_id(stubs: Stubs, name: str) -> None:
    request = set_of(name, "k", expected_version=1, request_id="r")
    refused("VERSION_MISMATCH", stubs.memory.Set, request)
    stubs.memory.Set(set_of(name, "k"))
    assert stubs.memory.Set(request).entry.version == 2


def test_a_request_id_is_known_per_scope(stubs: Stubs, name: str) -> None:
    for where in (name, f"{name}b"):
        assert stubs.memory.Set(set_of(where, "k", request_id="r")).entry.version == 1


def test_the_last_10000_request_ids_are_known(stubs: Stubs, name: str) -> None:
    first = set_of(name, "k", request_id="first")
    answer = stubs.memory.Set(first)
    call_many(stubs.memory.Set, (set_of(name, "other", request_id=f"r{number}") for number in range(9_999)))
    assert stubs.memory.Set(first) == answer


def test_inside_a_batch_only_the_batch_carries_a_request_id(stubs: Stubs, name: str) -> None:
    batch = batch_of(set_of(name, "a"), set_of(name, "b", request_id="r"))
    refused("INVALID_FIELD", stubs.memory.BatchSet, batch, at="sets[1].request_id")


# --- batches


def test_a_batch_answers_its_entries_in_order(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "b"))
    entries = stubs.memory.BatchSet(batch_of(set_of(name, "b"), set_of(name, "a"))).entries
    assert [(entry.key, entry.version) for entry in entries] == [("b", 2), ("a", 1)]


def test_an_empty_batch_is_refused(stubs: Stubs) -> None:
    refused("INVALID_FIELD", stubs.memory.BatchSet, batch_of(), at="sets")


@pytest.mark.parametrize("again", ["a", " a "])
def test_a_key_named_twice_in_a_batch_is_refused(again: str, stubs: Stubs, name: str) -> None:
    batch = batch_of(set_of(name, "a"), set_of(name, "b"), set_of(name, again))
    refused("INVALID_FIELD", stubs.memory.BatchSet, batch, at="sets[2].key")
    assert keys_in(stubs, name) == []


def test_a_batch_is_of_one_scope(stubs: Stubs, name: str) -> None:
    other = memory.MemorySetRequest(scope=scope(name, memory.SCOPE_TYPE_FLOW), key="b", value=Value(json="1"))
    for second in (set_of(f"{name}b", "b"), other):
        refused("INVALID_FIELD", stubs.memory.BatchSet, batch_of(set_of(name, "a"), second), at="sets[1].scope")
    unspecified = memory.MemorySetRequest(scope=memory.Scope(name=f" {name} "), key="b", value=Value(json="1"))
    assert len(stubs.memory.BatchSet(batch_of(set_of(name, "a"), unspecified)).entries) == 2


def test_readers_see_a_batch_whole_or_not_at_all(server: ServerProcess, name: str) -> None:
    with connected(server.address) as writer, connected(server.address) as reader:
        keys = ["a", "b", "c"]
        calls = [
            writer.memory.BatchSet.future(batch_of(*(set_of(name, key, str(n)) for key in keys))) for n in range(200)
        ]
        seen = set()
        while not all(call.done() for call in calls):
            got = reader.memory.BatchGet(memory.MemoryBatchGetRequest(scope=scope(name), keys=keys))
            seen.add(tuple(entry.value.json for entry in got.entries))
        assert all(len(set(values)) <= 1 and len(values) in (0, 3) for values in seen)


def test_a_batch_whose_answer_no_default_client_could_read_is_refused_whole(server: ServerProcess, name: str) -> None:
    """Each entry is in the answer with its labels: two of 3 MiB do not fit a message of 4 MiB."""
    sets = [set_of(name, key) for key in "ab"]
    for one in sets:
        one.labels["l"] = "x" * (3 * MIB)
    with connected(server.address) as own:
        refused("LIMIT_REACHED", own.memory.BatchSet, batch_of(*sets))
        assert keys_in(own, name) == []


# --- lists


def test_a_list_is_sorted_by_key_bytewise_and_carries_no_values(stubs: Stubs, name: str) -> None:
    keys = ["b", "B", "a/b", "a", "a-b", "a.b", "a_b", "10", "9", "-"]
    stubs.memory.BatchSet(batch_of(*(set_of(name, key) for key in keys)))
    listed = stubs.memory.List(memory.MemoryListRequest(scope=scope(name))).entries
    assert [entry.key for entry in listed] == sorted(keys)
    assert not any(entry.HasField("value") for entry in listed)
    with_values = stubs.memory.List(memory.MemoryListRequest(scope=scope(name), include_values=True)).entries
    assert all(entry.value.json == "1" for entry in with_values)


def test_a_list_hides_deleted_keys_unless_they_are_asked_for(stubs: Stubs, name: str) -> None:
    stubs.memory.BatchSet(batch_of(*(set_of(name, key) for key in "abc")))
    stubs.memory.Delete(delete_of(name, "b"))
    assert keys_in(stubs, name) == ["a", "c"]
    listed = stubs.memory.List(memory.MemoryListRequest(scope=scope(name), include_deleted=True)).entries
    assert [(entry.key, entry.deleted) for entry in listed] == [("a", False), ("b", True), ("c", False)]


def scopes_like(stubs: Stubs, name: str) -> list[tuple[str, int, int]]:
    found = items(stubs.memory.ListScopes, memory.MemoryListScopesRequest(page_size=1000), "scopes")
    return [(one.scope.name, one.scope.type, one.entry_count) for one in found if one.scope.name.startswith(name)]


def test_scopes_are_listed_by_name_then_type_with_their_live_keys(stubs: Stubs, name: str) -> None:
    for end, kind in (("b", 3), ("b", 1), ("a", 2), ("b", 2), ("b/c", 1), ("b-c", 1)):
        where = scope(f"{name}{end}", memory.ScopeType.ValueType(kind))
        for key in "xy":
            stubs.memory.Set(memory.MemorySetRequest(scope=where, key=key, value=Value(json="1")))
    expected = [("a", 2), ("b", 1), ("b", 2), ("b", 3), ("b-c", 1), ("b/c", 1)]
    assert scopes_like(stubs, name) == [(name + end, kind, 2) for end, kind in expected]


def test_a_scope_without_a_live_key_is_not_listed(stubs: Stubs, name: str) -> None:
    stubs.memory.BatchSet(batch_of(set_of(name, "a"), set_of(name, "b")))
    stubs.memory.Delete(delete_of(name, "a"))
    assert scopes_like(stubs, name) == [(name, 1, 1)]
    stubs.memory.Purge(memory.MemoryPurgeRequest(scope=scope(name), key="b"))
    assert scopes_like(stubs, name) == []
    stubs.memory.Set(set_of(name, "a"))
    assert scopes_like(stubs, name) == [(name, 1, 1)]


def test_reads_create_no_scope(stubs: Stubs, name: str) -> None:
    stubs.memory.Get(key_of(name, "k"))
    stubs.memory.Delete(delete_of(name, "k", request_id="r"))
    stubs.memory.Purge(memory.MemoryPurgeRequest(scope=scope(name), all_keys=True))
    assert scopes_like(stubs, name) == []
    assert keys_in(stubs, name, include_deleted=True) == []


# --- history


def test_history_goes_both_ways(stubs: Stubs, name: str) -> None:
    for number in range(3):
        stubs.memory.Set(set_of(name, "k", str(number)))
    stubs.memory.Delete(delete_of(name, "k"))
    newest_first = history(stubs, name, "k")
    assert [(entry.version, entry.deleted) for entry in newest_first] == [(4, True), (3, False), (2, False), (1, False)]
    assert history(stubs, name, "k", oldest_first=True) == newest_first[::-1]


def test_history_carries_values_where_they_are_asked_for(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", "1"))
    stubs.memory.Delete(delete_of(name, "k"))
    assert not any(entry.HasField("value") for entry in history(stubs, name, "k"))
    with_values = history(stubs, name, "k", include_values=True)
    assert [entry.value.json for entry in with_values] == ["", "1"]


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 2**63 - 1])
def test_history_stops_at_its_limit(limit: int, oldest_first: bool, stubs: Stubs, name: str) -> None:
    for _ in range(3):
        stubs.memory.Set(set_of(name, "k"))
    versions = [1, 2, 3] if oldest_first else [3, 2, 1]
    listed = history(stubs, name, "k", oldest_first=oldest_first, limit=limit)
    assert [entry.version for entry in listed] == versions[:limit]


@pytest.mark.parametrize("limit", [-1, -(2**63)])
def test_a_negative_limit_of_a_history_is_refused(limit: int, stubs: Stubs, name: str) -> None:
    request = memory.MemoryHistoryRequest(scope=scope(name), key="k", limit=limit)
    refused("INVALID_FIELD", stubs.memory.History, request, at="limit", limit=limit)


@pytest.mark.parametrize("oldest_first", [False, True])
def test_a_history_of_large_versions_is_cut_by_bytes(oldest_first: bool, server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        large = Value(data=bytes(100_000))
        for _ in range(48):
            own.memory.Set(memory.MemorySetRequest(scope=scope(name), key="k", value=large))
        huge = Value(data=bytes(4 * MIB - 100_000))
        own.memory.Set(memory.MemorySetRequest(scope=scope(name), key="k", value=huge))
        request = memory.MemoryHistoryRequest(
            scope=scope(name), key="k", include_values=True, oldest_first=oldest_first
        )
        messages = list(own.memory.History(request))
    versions = [entry.version for message in messages for entry in message.entries]
    assert versions == (list(range(1, 50)) if oldest_first else list(range(49, 0, -1)))
    assert all(message.ByteSize() <= 320 * 1024 or len(message.entries) == 1 for message in messages)


@pytest.mark.parametrize("oldest_first", [False, True])
def test_a_history_is_of_the_moment_it_began(oldest_first: bool, server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        large = memory.MemorySetRequest(scope=scope(name), key="k", value=Value(data=bytes(200_000)))
        for _ in range(30):
            own.memory.Set(large)
        request = memory.MemoryHistoryRequest(
            scope=scope(name), key="k", include_values=True, oldest_first=oldest_first
        )
        stream = own.memory.History(request)
        versions = [entry.version for entry in next(stream).entries]
        for _ in range(3):
            own.memory.Set(large)
        versions += [entry.version for message in stream for entry in message.entries]
    assert sorted(versions) == list(range(1, 31))
