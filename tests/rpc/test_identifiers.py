"""Identifiers: what is trimmed, what is refused, and that identity is by parts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from rpc_support import (
    MAX_NUMBER,
    WHITE_SPACE,
    Stubs,
    checkpoint_of,
    event_of,
    events_in,
    given_of,
    ids,
    items,
    key_of,
    next_of,
    refused,
    scope,
    set_of,
    stream_of,
)
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value


class Place(NamedTuple):
    """A field that holds an id: the call, and the request with the id in it."""

    field: str
    method: Callable[[Stubs], Any]
    request: Callable[[str, str], Any]


def _batch(name: str, **fields: Any) -> state.AppendEventsRequest:
    return state.AppendEventsRequest(thread_id=name, events=[state.Event(type="x", **fields)])


def _fork(thread: str, **fields: Any) -> state.ForkRequest:
    return state.ForkRequest(**{"thread_id": thread, "from_event_id": "e", **fields})


INSTANCES = [
    Place("instance_id", lambda s: s.scratch.Open, lambda _, i: scratch.ScratchOpenRequest(instance_id=i)),
    Place(
        "instance_id",
        lambda s: s.scratch.Put,
        lambda _, i: scratch.ScratchPutRequest(instance_id=i, key="k", value=Value(json="1")),
    ),
    Place("instance_id", lambda s: s.scratch.Get, lambda _, i: scratch.ScratchGetRequest(instance_id=i, key="k")),
    Place("instance_id", lambda s: s.scratch.List, lambda _, i: scratch.ScratchListRequest(instance_id=i)),
    Place("instance_id", lambda s: s.scratch.Clear, lambda _, i: scratch.ScratchClearRequest(instance_id=i)),
    Place("instance_id", lambda s: s.scratch.Close, lambda _, i: scratch.ScratchCloseRequest(instance_id=i)),
    Place("instance_id", lambda s: s.scratch.Attach, lambda _, i: scratch.ScratchAttachRequest(instance_id=i)),
]
THREADS = [
    Place("event.thread_id", lambda s: s.state.AppendEvent, lambda _, i: given_of(i, 1)),
    Place("event.thread_id", lambda s: s.state.AppendNextEvent, lambda _, i: next_of(i)),
    Place("thread_id", lambda s: s.state.AppendEvents, lambda _, i: _batch(i)),
    Place("checkpoint.thread_id", lambda s: s.state.SaveCheckpoint, lambda _, i: checkpoint_of(i)),
    Place("thread_id", lambda s: s.state.GetHistory, lambda _, i: state.GetHistoryRequest(thread_id=i)),
    Place("thread_id", lambda s: s.state.StreamHistory, lambda _, i: stream_of(i)),
    Place("thread_id", lambda s: s.state.LatestCheckpoint, lambda _, i: state.LatestCheckpointRequest(thread_id=i)),
    Place("thread_id", lambda s: s.state.ListCheckpoints, lambda _, i: state.ListCheckpointsRequest(thread_id=i)),
    Place("thread_id", lambda s: s.state.Fork, lambda _, i: _fork(i)),
    Place("thread_id", lambda s: s.state.ListBranches, lambda _, i: state.ListBranchesRequest(thread_id=i)),
    Place("thread_id", lambda s: s.state.DeleteThread, lambda _, i: state.DeleteThreadRequest(thread_id=i)),
]
BRANCHES = [
    Place("event.branch_id", lambda s: s.state.AppendEvent, lambda n, i: given_of(n, 1, branch=i)),
    Place("event.branch_id", lambda s: s.state.AppendNextEvent, lambda n, i: next_of(n, branch=i)),
    Place(
        "branch_id",
        lambda s: s.state.AppendEvents,
        lambda n, i: state.AppendEventsRequest(thread_id=n, branch_id=i, events=[state.Event(type="x")]),
    ),
    Place("checkpoint.branch_id", lambda s: s.state.SaveCheckpoint, lambda n, i: checkpoint_of(n, branch_id=i)),
    Place("branch_id", lambda s: s.state.GetHistory, lambda n, i: state.GetHistoryRequest(thread_id=n, branch_id=i)),
    Place("branch_id", lambda s: s.state.StreamHistory, lambda n, i: stream_of(n, branch_id=i)),
    Place(
        "branch_id",
        lambda s: s.state.LatestCheckpoint,
        lambda n, i: state.LatestCheckpointRequest(thread_id=n, branch_id=i),
    ),
    Place(
        "branch_id",
        lambda s: s.state.ListCheckpoints,
        lambda n, i: state.ListCheckpointsRequest(thread_id=n, branch_id=i),
    ),
    Place("branch_id", lambda s: s.state.Fork, lambda n, i: _fork(n, branch_id=i)),
    Place("name", lambda s: s.state.Fork, lambda n, i: _fork(n, name=i)),
]
EVENTS = [
    Place("event.id", lambda s: s.state.AppendEvent, lambda n, i: given_of(n, 1, i)),
    Place("event.id", lambda s: s.state.AppendNextEvent, next_of),
    Place("events[0].id", lambda s: s.state.AppendEvents, lambda n, i: _batch(n, id=i)),
    Place("event.id", lambda s: s.state.Fork, lambda n, i: _fork(n, event=state.Event(id=i, type="x"))),
    Place("from_event_id", lambda s: s.state.Fork, lambda n, i: _fork(n, from_event_id=i)),
    Place("checkpoint.event_id", lambda s: s.state.SaveCheckpoint, lambda n, i: checkpoint_of(n, event_id=i)),
    Place(
        "at_event_id",
        lambda s: s.state.LatestCheckpoint,
        lambda n, i: state.LatestCheckpointRequest(thread_id=n, at_event_id=i),
    ),
]
CHECKPOINTS = [
    Place("checkpoint.id", lambda s: s.state.SaveCheckpoint, checkpoint_of),
    Place(
        "checkpoint.id",
        lambda s: s.state.Fork,
        lambda n, i: _fork(n, checkpoint=state.Checkpoint(id=i, state=Value(json="1"))),
    ),
]
ID_PLACES = [*INSTANCES, *THREADS, *BRANCHES, *EVENTS, *CHECKPOINTS]
BAD_IDS = {
    "a blank before it": " s1",
    "a blank after it": "s1 ",
    "a newline after it": "s1\n",
    "a no-break space before it": "\u00a0s1",
    "a NUL": "s\x001",
    "a control": "s\x1f1",
    "a DEL": "s\x7f1",
    "a C1 control": "s\x851",
    "257 bytes": "s" * 257,
    "258 bytes in 129 characters": "é" * 129,
    "nothing but a blank": " ",
}


@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS.keys())
@pytest.mark.parametrize("place", ID_PLACES, ids=lambda place: place.field)
def test_an_id_is_refused_where_it_has(place: Place, bad: str, stubs: Stubs, name: str) -> None:
    stubs.state.AppendNextEvent(next_of(name, "e"))
    refused("INVALID_FIELD", place.method(stubs), place.request(name, bad), at=place.field)


@pytest.mark.parametrize("place", THREADS, ids=lambda place: place.field)
def test_a_thread_id_is_required(place: Place, stubs: Stubs) -> None:
    refused("INVALID_FIELD", place.method(stubs), place.request("", ""), at=place.field)


@pytest.mark.parametrize("place", INSTANCES[1:-1], ids=lambda place: place.field)
def test_an_instance_id_is_required_where_none_is_made_up(place: Place, stubs: Stubs) -> None:
    refused("INVALID_FIELD", place.method(stubs), place.request("", ""), at=place.field)


GOOD_IDS = {
    "256 bytes": "s" * 256,
    "256 bytes of emoji": "\U0001f600" * 64,
    "a colon": "s:1",
    "an inner blank": "s 1",
    "a slash": "a/b/../c",
    "wildcards": "%_*?[\\",
    "a zero width space at its end": "s1\u200b",
    "quotes and braces": "'\"{0}{name}%s",
    "a combining character": "e\u0301",
}


@pytest.mark.parametrize("good", GOOD_IDS.values(), ids=GOOD_IDS.keys())
def test_an_id_is_kept_as_it_is_with(good: str, stubs: Stubs, name: str) -> None:
    event = stubs.state.AppendNextEvent(next_of(name, good, good)).event
    assert (event.id, event.branch_id) == (good, good)
    assert ids(events_in(stubs, name, good)) == [good]
    assert stubs.state.AppendNextEvent(next_of(good, name)).event.thread_id == good
    stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=good))
    assert stubs.state.SaveCheckpoint(checkpoint_of(name, good)).checkpoint.id == good
    assert stubs.scratch.Open(scratch.ScratchOpenRequest(instance_id=good)).instance_id == good
    stubs.scratch.Close(scratch.ScratchCloseRequest(instance_id=good))


def test_ids_that_look_alike_are_not_one(stubs: Stubs, name: str) -> None:
    for event_id in ("é", "e\u0301", "E", "e"):
        stubs.state.AppendNextEvent(next_of(name, event_id))
    assert ids(events_in(stubs, name)) == ["é", "e\u0301", "E", "e"]


# --- memory

KEY_CALLS: dict[str, Callable[[Stubs, str, str], tuple[Any, Any, str]]] = {
    "Set": lambda s, n, k: (s.memory.Set, set_of(n, k), ""),
    "BatchSet": lambda s, n, k: (s.memory.BatchSet, memory.MemoryBatchSetRequest(sets=[set_of(n, k)]), "sets[0]."),
    "Get": lambda s, n, k: (s.memory.Get, key_of(n, k), ""),
    "History": lambda s, n, k: (s.memory.History, memory.MemoryHistoryRequest(scope=scope(n), key=k), ""),
    "Delete": lambda s, n, k: (s.memory.Delete, memory.MemoryDeleteRequest(scope=scope(n), key=k), ""),
    "Purge": lambda s, n, k: (s.memory.Purge, memory.MemoryPurgeRequest(scope=scope(n), key=k), ""),
}
SCOPE_CALLS = {
    **KEY_CALLS,
    "BatchGet": lambda s, n, k: (s.memory.BatchGet, memory.MemoryBatchGetRequest(scope=scope(n), keys=[k]), ""),
    "List": lambda s, n, _: (s.memory.List, memory.MemoryListRequest(scope=scope(n)), ""),
    "ListPurges": lambda s, n, _: (s.memory.ListPurges, memory.MemoryListPurgesRequest(scope=scope(n)), ""),
    "Watch": lambda s, n, _: (s.memory.Watch, memory.MemoryWatchRequest(scope=scope(n)), ""),
}
BAD_NAMES = {
    "a colon": "a:b",
    "an inner blank": "a b",
    "a letter beyond ASCII": "é",
    "a digit beyond ASCII": "٣",
    "a NUL": "a\x00",
    "an emoji": "\U0001f600",
    "a wildcard": "a*",
    "nothing": "",
    "blanks only": " \t\u3000",
    "a zero width space": "a\u200b",
    "a byte order mark": "\ufeffa",
    "an information separator": "a\x1c",
    "a newline inside": "a\nb",
}


@pytest.mark.parametrize("bad", BAD_NAMES.values(), ids=BAD_NAMES.keys())
@pytest.mark.parametrize("call", SCOPE_CALLS.values(), ids=SCOPE_CALLS.keys())
def test_a_scope_is_refused_that_holds(call: Any, bad: str, stubs: Stubs) -> None:
    method, request, path = call(stubs, bad, "k")
    refused("INVALID_FIELD", method, request, at=f"{path}scope.name")


@pytest.mark.parametrize("bad", BAD_NAMES.values(), ids=BAD_NAMES.keys())
@pytest.mark.parametrize("call", KEY_CALLS.values(), ids=KEY_CALLS.keys())
def test_a_memory_key_is_refused_that_holds(call: Any, bad: str, stubs: Stubs, name: str) -> None:
    method, request, path = call(stubs, name, bad)
    refused("INVALID_FIELD", method, request, at=f"{path}key")


@pytest.mark.parametrize("call", SCOPE_CALLS.values(), ids=SCOPE_CALLS.keys())
def test_a_scope_of_257_characters_is_refused_however_it_is_padded(call: Any, stubs: Stubs) -> None:
    method, request, path = call(stubs, " " + "s" * 257 + " ", "k")
    refused("INVALID_FIELD", method, request, at=f"{path}scope.name", length=257, max=256)


@pytest.mark.parametrize("call", KEY_CALLS.values(), ids=KEY_CALLS.keys())
def test_a_memory_key_of_513_characters_is_refused(call: Any, stubs: Stubs, name: str) -> None:
    method, request, path = call(stubs, name, "k" * 513)
    refused("INVALID_FIELD", method, request, at=f"{path}key", length=513, max=512)


@pytest.mark.parametrize("call", SCOPE_CALLS.values(), ids=SCOPE_CALLS.keys())
def test_an_unknown_type_of_scope_is_refused(call: Any, stubs: Stubs, name: str) -> None:
    method, request, path = call(stubs, name, "k")
    (request.sets[0] if path else request).scope.type = 4
    refused("INVALID_FIELD", method, request, at=f"{path}scope.type")


@pytest.mark.parametrize("call", SCOPE_CALLS.values(), ids=SCOPE_CALLS.keys())
def test_a_scope_is_required(call: Any, stubs: Stubs, name: str) -> None:
    method, request, path = call(stubs, name, "k")
    (request.sets[0] if path else request).ClearField("scope")
    refused("INVALID_FIELD", method, request, at=f"{path}scope.name")


def test_the_bad_key_of_a_batch_get_is_named(stubs: Stubs, name: str) -> None:
    request = memory.MemoryBatchGetRequest(scope=scope(name), keys=["a", "b c"])
    refused("INVALID_FIELD", stubs.memory.BatchGet, request, at="keys[1]")


@pytest.mark.parametrize("blank", WHITE_SPACE, ids=lambda blank: f"U+{ord(blank):04X}")
def test_every_blank_of_unicode_is_trimmed_off_scopes_and_memory_keys(blank: str, stubs: Stubs, name: str) -> None:
    entry = stubs.memory.Set(set_of(f"{blank}{name}{blank}", f"{blank}k{blank}")).entry
    assert (entry.scope.name, entry.key) == (name, "k")
    assert stubs.memory.Get(key_of(name + blank, blank + "k")).entry.version == 1


@pytest.mark.parametrize("blank", WHITE_SPACE, ids=lambda blank: f"U+{ord(blank):04X}")
def test_every_blank_of_unicode_is_trimmed_off_scratch_keys(blank: str, stubs: Stubs, name: str) -> None:
    put = scratch.ScratchPutRequest(instance_id=name, key=f"{blank}k{blank}", value=Value(json="1"))
    assert stubs.scratch.Put(put).key == "k"
    got = stubs.scratch.Get(scratch.ScratchGetRequest(instance_id=name, key=blank + "k"))
    assert (got.key, got.value.json) == ("k", "1")
    assert stubs.scratch.Clear(scratch.ScratchClearRequest(instance_id=name, key="k" + blank)).cleared == ["k"]


@pytest.mark.parametrize("blank", WHITE_SPACE, ids=lambda blank: f"U+{ord(blank):04X}")
def test_no_blank_of_unicode_is_taken_at_either_end_of_an_id(blank: str, stubs: Stubs, name: str) -> None:
    for bad in (blank + name, name + blank):
        refused("INVALID_FIELD", stubs.state.AppendNextEvent, next_of(bad), at="event.thread_id")


def test_a_scope_and_a_key_may_be_as_long_as_said(stubs: Stubs, name: str) -> None:
    long_scope, long_key = name.ljust(256, "s"), "k" * 512
    entry = stubs.memory.Set(set_of(f"  {long_scope} ", f" {long_key}\t")).entry
    assert (entry.scope.name, entry.key) == (long_scope, long_key)


@pytest.mark.parametrize("key", ["_compaction/x", " _compaction/x ", "_compaction/", "\u3000_compaction/a/b"])
def test_reserved_keys_are_refused_on_writes(key: str, stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.memory.Set, set_of(name, key), at="key")
    batch = memory.MemoryBatchSetRequest(sets=[set_of(name, "a"), set_of(name, key)])
    refused("INVALID_FIELD", stubs.memory.BatchSet, batch, at="sets[1].key")
    delete = memory.MemoryDeleteRequest(scope=scope(name), key=key)
    refused("INVALID_FIELD", stubs.memory.Delete, delete, at="key")
    assert not stubs.memory.List(memory.MemoryListRequest(scope=scope(name))).entries


def test_a_reserved_key_may_be_read_and_is_not_there(stubs: Stubs, name: str) -> None:
    assert not stubs.memory.Get(key_of(name, "_compaction/x")).HasField("entry")
    assert stubs.memory.Set(set_of(name, "_compaction")).entry.version == 1


def test_an_unspecified_type_of_scope_is_a_namespace(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k"))
    unspecified = memory.MemoryGetRequest(scope=memory.Scope(name=name), key="k")
    assert stubs.memory.Get(unspecified).entry.scope == scope(name)


def test_one_name_under_three_types_is_three_scopes(stubs: Stubs, name: str) -> None:
    for kind in (memory.SCOPE_TYPE_NAMESPACE, memory.SCOPE_TYPE_FLOW, memory.SCOPE_TYPE_EXECUTION):
        own = memory.MemorySetRequest(scope=scope(name, kind), key="k", value=Value(json=str(kind)))
        assert stubs.memory.Set(own).entry.version == 1
        got = stubs.memory.Get(memory.MemoryGetRequest(scope=scope(name, kind), key="k")).entry
        assert (got.scope.type, got.value.json) == (kind, str(kind))


def test_a_scope_and_a_key_are_never_joined(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(f"{name}/b", "c"))
    assert not stubs.memory.Get(key_of(name, "b/c")).HasField("entry")
    assert stubs.memory.Set(set_of(name, "b/c")).entry.version == 1


def test_a_thread_and_a_branch_are_never_joined(stubs: Stubs, name: str) -> None:
    stubs.state.AppendNextEvent(next_of(f"{name}:x", "e", "y"))
    assert events_in(stubs, name, "x:y") == []
    assert stubs.state.AppendNextEvent(next_of(name, "e", "x:y")).event.sequence == 1
    assert ids(events_in(stubs, f"{name}:x", "y")) == ["e"]


def test_scratch_instances_share_no_keys(stubs: Stubs, name: str) -> None:
    for instance, key in ((name, "x/k"), (f"{name}/x", "k")):
        put = scratch.ScratchPutRequest(instance_id=instance, key=key, value=Value(json="1"))
        stubs.scratch.Put(put)
    assert stubs.scratch.List(scratch.ScratchListRequest(instance_id=name)).keys == ["x/k"]


# --- scratch keys


@pytest.mark.parametrize(
    "bad",
    ["", "  ", "\u3000", "k\x00", "k\x1fk", "k\x7fk", "k\nk", "k" * 513, "é" * 257, "\x1c", "k\x85k"],
    ids=lambda bad: ascii(bad)[:12],
)
def test_a_scratch_key_is_refused(bad: str, stubs: Stubs, name: str) -> None:
    put = scratch.ScratchPutRequest(instance_id=name, key=bad, value=Value(json="1"))
    refused("INVALID_FIELD", stubs.scratch.Put, put, at="key")
    refused("INVALID_FIELD", stubs.scratch.Get, scratch.ScratchGetRequest(instance_id=name, key=bad), at="key")


@pytest.mark.parametrize("good", ["k" * 512, "é" * 256, "a b", "a:b", "_compaction/x", "\u200bk"], ids=ascii)
def test_a_scratch_key_may_be_any_text_of_512_bytes(good: str, stubs: Stubs, name: str) -> None:
    put = scratch.ScratchPutRequest(instance_id=name, key=f" {good} ", value=Value(json="1"))
    assert stubs.scratch.Put(put).key == good
    assert stubs.scratch.List(scratch.ScratchListRequest(instance_id=name)).keys == [good]


# --- prefixes

LITERAL = ["john_doe", "john-doe", "johnXdoe", "foo", "foobar", "foo/bar", "Foo"]


@pytest.mark.parametrize(
    "prefix", ["", "john_", "john-", "foo", "foo/", "FOO", "%", "j%", "john?doe", "[jf]", "*", "\\"]
)
def test_a_prefix_of_keys_is_literal(prefix: str, stubs: Stubs, name: str) -> None:
    stubs.memory.BatchSet(memory.MemoryBatchSetRequest(sets=[set_of(name, key) for key in LITERAL]))
    listed = stubs.memory.List(memory.MemoryListRequest(scope=scope(name), prefix=prefix)).entries
    assert [entry.key for entry in listed] == sorted(key for key in LITERAL if key.startswith(prefix))


@pytest.mark.parametrize("prefix", ["", "_", "%", "*", "?", "[a]", "\\", "a_", "a%"])
def test_a_prefix_of_threads_is_literal(prefix: str, stubs: Stubs, name: str) -> None:
    threads = [f"{name}.{end}" for end in ("_", "%", "*", "?", "[a]", "\\", "a_b", "a%b", "axb", "é", "\U0001f600")]
    for thread in threads:
        stubs.state.AppendNextEvent(next_of(thread))
    listed = items(stubs.state.ListThreads, state.ListThreadsRequest(prefix=f"{name}.{prefix}", page_size=3), "threads")
    assert ids(listed) == sorted(thread for thread in threads if thread.startswith(f"{name}.{prefix}"))


def test_the_keys_of_one_scope_are_not_in_the_lists_of_another_that_its_name_begins(stubs: Stubs, name: str) -> None:
    for own in (name, f"{name}bar", f"{name}/bar", f"{name}-x", f"{name}_x"):
        stubs.memory.Set(set_of(own, "k"))
    listed = stubs.memory.List(memory.MemoryListRequest(scope=scope(name))).entries
    assert [entry.scope.name for entry in listed] == [name]


# --- sequence numbers


@pytest.mark.parametrize("bad", [-1, -(2**63), MAX_NUMBER + 1, 2**63 - 1])
def test_a_sequence_is_refused_that_some_language_could_not_hold(bad: int, stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.state.AppendEvent, given_of(name, bad), at="event.sequence", max=MAX_NUMBER)
    saved = checkpoint_of(name, sequence=bad)
    refused("INVALID_FIELD", stubs.state.SaveCheckpoint, saved, at="checkpoint.sequence", max=MAX_NUMBER)


def test_a_sequence_may_be_0_and_the_highest_that_every_language_holds(stubs: Stubs, name: str) -> None:
    for sequence in (0, MAX_NUMBER):
        assert stubs.state.AppendEvent(given_of(name, sequence)).event.sequence == sequence
        saved = stubs.state.SaveCheckpoint(checkpoint_of(name, sequence=sequence))
        assert saved.checkpoint.sequence == sequence


def test_no_event_follows_the_highest_sequence(stubs: Stubs, name: str) -> None:
    stubs.state.AppendEvent(given_of(name, MAX_NUMBER - 1))
    batch = state.AppendEventsRequest(thread_id=name, events=[event_of(name), event_of(name)])
    refused("LIMIT_REACHED", stubs.state.AppendEvents, batch, limit="sequence", max=MAX_NUMBER)
    assert stubs.state.AppendNextEvent(next_of(name)).event.sequence == MAX_NUMBER
    refused("LIMIT_REACHED", stubs.state.AppendNextEvent, next_of(name), limit="sequence", max=MAX_NUMBER)
    assert len(events_in(stubs, name)) == 2


@pytest.mark.parametrize("request_id", [" r", "r\x00", "r" * 257])
def test_a_request_id_is_an_id_like_others(request_id: str, stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.memory.Set, set_of(name, "k", request_id=request_id), at="request_id")
