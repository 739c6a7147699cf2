"""The contract's Memory: versions, expected versions, reads and listings."""

import pytest
from statekeep.v1 import memory_pb2
from statekeep.v1.value_pb2 import Value
from statekeep_server.core.errors import Reason
from statekeep_server.core.journal import KEY, MAX_NUMBER, Change, Record, View
from unit.rules_support import SCOPE, START, MemoryRules, World, a_set, finish, invalid, micros, refused, span

OTHER = memory_pb2.Scope(name="other")


def test_the_first_version_is_1(memory: MemoryRules) -> None:
    assert memory.set("k").version == 1


def test_each_set_takes_the_next_version(memory: MemoryRules) -> None:
    assert [memory.set("k").version for _ in range(3)] == [1, 2, 3]


def test_versions_count_per_key(memory: MemoryRules) -> None:
    memory.set("a")
    memory.set("a")
    assert memory.set("b").version == 1


def test_versions_count_per_scope(memory: MemoryRules) -> None:
    memory.set("k")
    assert memory.set("k", scope=OTHER).version == 1


def test_revisions_grow_with_every_write_of_the_scope(memory: MemoryRules) -> None:
    revisions = [memory.set("a").revision, memory.set("b").revision, memory.delete("a").revision]
    assert revisions == sorted(set(revisions))


def test_an_entry_id_names_one_version_among_all(memory: MemoryRules) -> None:
    entries = [memory.set(key, scope=scope) for key in "aab" for scope in (SCOPE, OTHER)]
    entries.append(memory.delete("a"))
    assert len({entry.entry_id for entry in entries}) == 7
    assert "" not in {entry.entry_id for entry in entries}


def test_set_answers_the_entry_without_its_value(memory: MemoryRules) -> None:
    entry = memory.set("k", 1, labels={"a": "b"}, execution_id="e", flow_id="", flow_name="n", ttl=span(5))
    assert not entry.HasField("value")
    assert (entry.key, entry.version, entry.value_type, entry.deleted) == ("k", 1, "number", False)
    assert (entry.execution_id, entry.flow_id, entry.flow_name, dict(entry.labels)) == ("e", "", "n", {"a": "b"})
    assert entry.HasField("flow_id")
    assert (micros(entry.create_time), micros(entry.expire_time)) == (START, START + 5_000_000)


def test_get_answers_the_entry_that_set_answered_with_its_value(memory: MemoryRules) -> None:
    entry = memory.set("k", {"x": 1}, labels={"a": "b"}, execution_id="e")
    entry.value.json = '{"x": 1}'
    assert memory.get("k") == entry


def test_who_wrote_it_is_unset_where_the_writer_did_not_say(memory: MemoryRules) -> None:
    entry = memory.set("k")
    assert not any(entry.HasField(name) for name in ("execution_id", "flow_id", "flow_name", "expire_time"))


# --- delete


def test_set_after_delete_takes_the_next_version(memory: MemoryRules) -> None:
    memory.set("k", 1)
    memory.delete("k")
    assert memory.set("k", 2).version == 3


def test_set_after_delete_brings_the_key_back(memory: MemoryRules) -> None:
    memory.set("k", 1)
    memory.delete("k")
    memory.set("k", 2)
    assert memory.get("k").value.json == "2"
    assert memory.keys() == ["k"]


def test_delete_writes_a_tombstone_with_the_next_version(memory: MemoryRules) -> None:
    memory.set("k")
    tombstone = memory.delete("k")
    assert (tombstone.version, tombstone.deleted, tombstone.value_type) == (2, True, "")
    assert not tombstone.HasField("value")


def test_a_tombstone_says_who_wrote_it(memory: MemoryRules) -> None:
    memory.set("k", execution_id="setter")
    assert not memory.delete("k").HasField("execution_id")
    memory.set("k", execution_id="setter")
    tombstone = memory.delete("k", execution_id="e", flow_id="", flow_name="n")
    assert (tombstone.execution_id, tombstone.flow_name) == ("e", "n")
    assert tombstone.HasField("flow_id")
    assert memory.get("k", include_deleted=True) == tombstone


def test_delete_of_a_deleted_key_answers_the_tombstone_that_stands_there(world: World, memory: MemoryRules) -> None:
    memory.set("k")
    tombstone = memory.delete("k")
    revision = memory.revision()
    world.pass_time(5)
    assert memory.delete("k") == tombstone
    assert memory.revision() == revision
    assert memory.versions() == [2, 1]


def test_delete_of_a_key_that_never_was_answers_nothing_and_writes_nothing(memory: MemoryRules) -> None:
    memory.set("other")
    revision = memory.revision()
    assert memory.delete("k") is None
    assert memory.revision() == revision


def test_delete_of_an_expired_key_answers_nothing_and_writes_nothing(world: World, memory: MemoryRules) -> None:
    memory.set("k", ttl=span(1))
    revision = memory.revision()
    world.pass_time(1)
    assert memory.delete("k") is None
    assert memory.revision() == revision


def test_delete_of_a_key_that_was_purged_whole_answers_nothing_and_writes_nothing(memory: MemoryRules) -> None:
    memory.set("k")
    memory.purge(key="k")
    revision = memory.revision()
    assert memory.delete("k") is None
    assert memory.revision() == revision


def test_older_versions_stay_readable_after_delete(memory: MemoryRules) -> None:
    memory.set("k", 1)
    memory.delete("k")
    assert memory.get("k") is None
    assert memory.get("k", version=1).value.json == "1"


# --- expected_version


def test_the_current_version_may_be_expected(memory: MemoryRules) -> None:
    memory.set("k")
    assert memory.set("k", expected_version=1).version == 2
    assert memory.delete("k", expected_version=2).version == 3


@pytest.mark.parametrize("expected", [0, 1, 3, 2**53, 2**63 - 1])
def test_any_other_version_is_a_mismatch(memory: MemoryRules, expected: int) -> None:
    memory.set("k")
    memory.set("k")
    with refused(Reason.VERSION_MISMATCH):
        memory.set("k", expected_version=expected)
    with refused(Reason.VERSION_MISMATCH):
        memory.delete("k", expected_version=expected)
    with refused(Reason.VERSION_MISMATCH):
        memory.set_many(a_set("a"), a_set("k", expected_version=expected))
    assert memory.versions() == [2, 1]
    assert memory.keys() == ["k"]


@pytest.mark.parametrize("expected", [-1, -(2**63)])
def test_a_negative_expected_version_is_refused(memory: MemoryRules, expected: int) -> None:
    with invalid("expected_version"):
        memory.set("k", expected_version=expected)
    with invalid("expected_version"):
        memory.delete("k", expected_version=expected)
    with invalid("sets[0].expected_version"):
        memory.set_many(a_set("k", expected_version=expected))


def without_a_value(world: World, memory: MemoryRules, how: str) -> int:
    """Make key "k" one that has no value, and return its highest version."""
    if how == "never":
        return 0
    memory.set("k", ttl=span(1) if how in ("expired", "swept") else None)
    if how == "deleted":
        return memory.delete("k").version
    if how == "purged":
        memory.purge(key="k")
    world.pass_time(2)
    if how == "swept":
        assert world.sweep() == 1
    return 1


HOW = ["never", "deleted", "expired", "swept", "purged"]


@pytest.mark.parametrize("how", HOW)
def test_expected_version_0_succeeds_on_a_key_without_a_value(world: World, memory: MemoryRules, how: str) -> None:
    highest = without_a_value(world, memory, how)
    assert memory.set("k", expected_version=0).version == highest + 1


@pytest.mark.parametrize("how", HOW)
def test_delete_may_expect_version_0_of_a_key_without_a_value(world: World, memory: MemoryRules, how: str) -> None:
    without_a_value(world, memory, how)
    answer = memory.delete("k", expected_version=0)
    assert (answer.deleted if answer else None) == (True if how == "deleted" else None)


@pytest.mark.parametrize("how", HOW)
def test_no_other_version_of_a_key_without_a_value_is_current(world: World, memory: MemoryRules, how: str) -> None:
    highest = without_a_value(world, memory, how)
    for expected in {1, highest or 1, highest + 1}:
        with refused(Reason.VERSION_MISMATCH) as refusal:
            memory.set("k", expected_version=expected)
        assert refusal.value.metadata["actual"] == "0"
        with refused(Reason.VERSION_MISMATCH):
            memory.delete("k", expected_version=expected)


def test_a_key_that_reached_the_highest_version_takes_no_more(world: World, memory: MemoryRules) -> None:
    memory.set("k")

    def jump(view: View) -> Change[bytes]:
        entry = memory_pb2.MemoryEntry(key="k", version=MAX_NUMBER)
        frame = memory_pb2.MemoryGetResponse(entry=entry).SerializeToString()
        return Change(b"", [Record(KEY + "k", view.revision + 1, MAX_NUMBER, frame)])

    finish(world.engine.write("ms\x001", jump))
    assert memory.get("k").version == MAX_NUMBER
    with refused(Reason.LIMIT_REACHED):
        memory.set("k")
    with refused(Reason.LIMIT_REACHED):
        memory.delete("k")


# --- batches


def test_a_batch_sets_all_its_keys(memory: MemoryRules) -> None:
    memory.set("b")
    entries = memory.set_many(a_set("b", 2), a_set("a", 1), a_set("c", 3))
    assert [(entry.key, entry.version) for entry in entries] == [("b", 2), ("a", 1), ("c", 1)]
    assert [entry.revision for entry in entries] == sorted(entry.revision for entry in entries)
    assert [memory.get(key).value.json for key in "abc"] == ["1", "2", "3"]


def test_a_batch_with_one_failed_check_sets_nothing(memory: MemoryRules) -> None:
    memory.set("b")
    revision = memory.revision()
    with refused(Reason.VERSION_MISMATCH) as refusal:
        memory.set_many(a_set("a"), a_set("b", expected_version=0), a_set("c"))
    assert refusal.value.metadata["key"] == "b"
    assert memory.keys() == ["b"]
    assert memory.revision() == revision


def test_every_check_in_a_batch_is_honoured(memory: MemoryRules) -> None:
    memory.set("b")
    assert len(memory.set_many(a_set("a", expected_version=0), a_set("b", expected_version=1))) == 2


@pytest.mark.parametrize("again", ["a", " a", "a\u3000"])
def test_a_key_named_twice_in_one_batch_is_refused(memory: MemoryRules, again: str) -> None:
    with invalid("sets[2].key") as refusal:
        memory.set_many(a_set("a"), a_set("b"), a_set(again))
    assert refusal.value.metadata["first"] == "0"
    assert memory.keys() == []


@pytest.mark.parametrize(
    "scope", [OTHER, memory_pb2.Scope(name="s", type=2), memory_pb2.Scope(name="s", type=3)], ids=str
)
def test_a_batch_is_of_one_scope(memory: MemoryRules, scope: memory_pb2.Scope) -> None:
    with invalid("sets[1].scope"):
        memory.set_many(a_set("a"), a_set("b", scope=scope))
    assert memory.keys() == []


def test_a_batch_may_write_its_scope_in_several_ways(memory: MemoryRules) -> None:
    memory.set_many(a_set("a"), a_set("b", scope=memory_pb2.Scope(name=" s\t", type=1)))
    assert memory.keys() == ["a", "b"]


def test_a_set_of_a_batch_without_a_scope_is_refused(memory: MemoryRules) -> None:
    with invalid("sets[1].scope.name"):
        memory.set_many(a_set("a"), a_set("b", scope=None))


def test_an_empty_batch_is_refused(memory: MemoryRules) -> None:
    with invalid("sets"):
        memory.set_many()


# --- get


def test_get_without_a_version_reads_the_newest(memory: MemoryRules) -> None:
    memory.set("k", 1)
    memory.set("k", 2)
    assert memory.get("k").value.json == "2"


def test_get_with_a_version_reads_that_one(memory: MemoryRules) -> None:
    for content in (1, 2, 3):
        memory.set("k", content)
    assert [memory.get("k", version=version).value.json for version in (1, 2, 3)] == ["1", "2", "3"]


@pytest.mark.parametrize("version", [4, 2**53, 2**63 - 1])
def test_get_of_a_version_that_never_was_is_unset(memory: MemoryRules, version: int) -> None:
    for _ in range(3):
        memory.set("k")
    assert memory.get("k", version=version) is None


def test_get_of_a_version_that_was_purged_is_unset(memory: MemoryRules) -> None:
    for _ in range(3):
        memory.set("k")
    memory.purge(key="k", keep=1)
    assert memory.get("k", version=1) is None
    assert memory.get("k", version=2) is None
    assert memory.get("k", version=3).version == 3


@pytest.mark.parametrize("version", [0, -1, -(2**63)])
def test_get_of_a_version_below_1_is_refused(memory: MemoryRules, version: int) -> None:
    with invalid("version"):
        memory.get("k", version=version)


def test_get_shows_a_tombstone_only_where_it_is_asked_for(memory: MemoryRules) -> None:
    memory.set("k")
    tombstone = memory.delete("k")
    assert memory.get("k") is None
    assert memory.get("k", version=2) is None
    assert memory.get("k", include_deleted=True) == tombstone
    assert memory.get("k", version=2, include_deleted=True) == tombstone


# --- batch get


def test_batch_get_answers_each_key_once_and_tells_the_missing(world: World, memory: MemoryRules) -> None:
    memory.set("a", 1)
    memory.set("b", 2)
    memory.set("deleted")
    memory.delete("deleted")
    memory.set("expired", ttl=span(1))
    world.pass_time(1)
    answer = memory.get_many("b", "none", "a", " b", "deleted", "expired", "none")
    assert [(entry.key, entry.value.json) for entry in answer.entries] == [("b", "2"), ("a", "1")]
    assert list(answer.missing_keys) == ["none", "deleted", "expired"]


def test_batch_get_checks_every_key(memory: MemoryRules) -> None:
    with invalid("keys[1]"):
        memory.get_many("a", "b:c")


def test_batch_get_of_no_keys_is_empty(memory: MemoryRules) -> None:
    assert memory.get_many() == memory_pb2.MemoryBatchGetResponse()


# --- list


def test_list_sorts_by_key_bytewise(memory: MemoryRules) -> None:
    keys = ["b", "a", "B", "_", "-", ".", "/", "0", "10", "2", "a/b", "a-b", "aa"]
    for key in keys:
        memory.set(key)
    assert memory.keys() == sorted(keys, key=str.encode)


def test_list_hides_deleted_and_expired_keys(world: World, memory: MemoryRules) -> None:
    memory.set("live")
    memory.set("deleted")
    memory.delete("deleted")
    memory.set("expired", ttl=span(1))
    world.pass_time(1)
    assert memory.keys() == ["live"]


def test_list_shows_deleted_keys_where_they_are_asked_for(world: World, memory: MemoryRules) -> None:
    memory.set("deleted")
    memory.delete("deleted")
    memory.set("expired", ttl=span(1))
    world.pass_time(1)
    assert [(entry.key, entry.deleted) for entry in memory.page(include_deleted=True).entries] == [("deleted", True)]


def test_list_carries_no_values_unless_asked_to(memory: MemoryRules) -> None:
    memory.set("k", Value(text="v"))
    assert not memory.page().entries[0].HasField("value")
    assert memory.page(include_values=True).entries[0].value.text == "v"


def test_list_shows_the_newest_version_of_each_key_of_its_scope(memory: MemoryRules) -> None:
    memory.set("k")
    memory.set("k")
    memory.set("k", scope=OTHER)
    assert [(entry.key, entry.version) for entry in memory.page().entries] == [("k", 2)]


def test_list_with_a_prefix_shows_what_starts_so(memory: MemoryRules) -> None:
    for key in ("foo", "foobar", "fo", "fop", "g"):
        memory.set(key)
    assert memory.keys(prefix="foo") == ["foo", "foobar"]
    assert memory.keys(prefix="zz") == []
    assert memory.keys(prefix="\x00") == []


# --- history


def test_history_is_newest_first_tombstones_included(memory: MemoryRules) -> None:
    memory.set("k", 1)
    memory.delete("k")
    memory.set("k", 2)
    assert [(entry.version, entry.deleted) for entry in memory.history()] == [(3, False), (2, True), (1, False)]


def test_history_may_be_oldest_first(memory: MemoryRules) -> None:
    for _ in range(3):
        memory.set("k")
    assert memory.versions(oldest_first=True) == [1, 2, 3]


@pytest.mark.parametrize(("oldest_first", "expected"), [(False, [5, 4, 3]), (True, [1, 2, 3])])
def test_history_may_be_limited(memory: MemoryRules, oldest_first: bool, expected: list[int]) -> None:
    for _ in range(5):
        memory.set("k")
    assert memory.versions(limit=3, oldest_first=oldest_first) == expected
    assert len(memory.versions(limit=6, oldest_first=oldest_first)) == 5
    assert len(memory.versions(limit=2**63 - 1, oldest_first=oldest_first)) == 5


def test_a_history_limit_of_0_is_all(memory: MemoryRules) -> None:
    for _ in range(5):
        memory.set("k")
    assert len(memory.versions(limit=0)) == 5


@pytest.mark.parametrize("limit", [-1, -(2**63)])
def test_a_negative_history_limit_is_refused(memory: MemoryRules, limit: int) -> None:
    with invalid("limit"):
        memory.history(limit=limit)


def test_history_carries_no_values_unless_asked_to(memory: MemoryRules) -> None:
    memory.set("k", Value(text="v"))
    assert not memory.history()[0].HasField("value")
    assert memory.history(include_values=True)[0].value.text == "v"


def test_history_is_of_one_key(memory: MemoryRules) -> None:
    memory.set("k")
    memory.set("k2")
    memory.set("k/2")
    assert [entry.key for entry in memory.history("k")] == ["k"]


@pytest.mark.parametrize("oldest_first", [False, True])
def test_history_messages_are_cut_by_bytes(memory: MemoryRules, oldest_first: bool) -> None:
    for size in (100_000, 100_000, 100_000, 1_000_000, 10, 10):
        memory.set("k", Value(text="x" * size))
    messages = memory.history_stream(include_values=True, oldest_first=oldest_first).rest()
    parts = [[entry.version for entry in message.entries] for message in messages]
    assert parts == ([[1, 2], [3], [4], [5, 6]] if oldest_first else [[6, 5], [4], [3, 2], [1]])
    whole = memory.history_stream(oldest_first=oldest_first).rest()
    assert [len(message.entries) for message in whole] == [6]


def test_a_history_limit_holds_across_messages(memory: MemoryRules) -> None:
    for _ in range(10):
        memory.set("k", Value(text="x" * 100_000))
    assert memory.versions(include_values=True, limit=7) == [10, 9, 8, 7, 6, 5, 4]


def test_a_history_under_way_shows_what_there_was_when_it_began(memory: MemoryRules) -> None:
    for _ in range(6):
        memory.set("k", Value(text="x" * 100_000))
    for oldest_first in (False, True):
        stream = memory.history_stream(include_values=True, oldest_first=oldest_first)
        expected = list(range(1, memory.get("k").version + 1))
        seen = [entry.version for entry in stream.step().entries]
        memory.set("k", Value(text="x" * 100_000))
        seen += [entry.version for message in stream.rest() for entry in message.entries]
        assert seen == (expected if oldest_first else expected[::-1])


# --- scopes


def test_list_scopes_shows_only_scopes_with_a_live_key(world: World, memory: MemoryRules) -> None:
    memory.set("k", scope=memory_pb2.Scope(name="live"))
    memory.set("k2", scope=memory_pb2.Scope(name="live"))
    memory.set("k", scope=memory_pb2.Scope(name="deleted"))
    memory.delete("k", scope=memory_pb2.Scope(name="deleted"))
    memory.set("k", scope=memory_pb2.Scope(name="purged"))
    memory.purge(key="k", scope=memory_pb2.Scope(name="purged"))
    memory.set("k", scope=memory_pb2.Scope(name="expired"), ttl=span(1))
    world.pass_time(1)
    assert [(info.scope.name, info.entry_count) for info in memory.scopes()] == [("live", 2)]


def test_list_scopes_sorts_by_name_then_namespace_flow_execution(memory: MemoryRules) -> None:
    places = [("b", 3), ("a", 3), ("a", 1), ("a", 2), ("a-b", 1), ("a/b", 2), ("B", 1), ("a.b", 3), ("a0", 1)]
    for name, kind in places:
        memory.set("k", scope=memory_pb2.Scope(name=name, type=kind))
    expected = sorted(places, key=lambda place: (place[0].encode(), place[1]))
    assert [(info.scope.name, info.scope.type) for info in memory.scopes()] == expected


def test_the_entry_count_is_of_keys_that_have_a_value(world: World, memory: MemoryRules) -> None:
    for key in "abcdef":
        memory.set(key)
        memory.set(key)
    memory.delete("a")
    memory.purge(key="b")
    memory.set("c", ttl=span(1))
    memory.set("d", ttl=span(1))
    memory.set("d")
    memory.purge(key="e", keep=1)
    assert memory.scopes()[0].entry_count == 4
    world.pass_time(1)
    assert memory.scopes()[0].entry_count == 3
    world.sweep()
    assert memory.scopes()[0].entry_count == 3
    memory.set("c")
    assert memory.scopes()[0].entry_count == 4
