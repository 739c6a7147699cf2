"""Values: back byte for byte wherever they are kept, and refused only for what the contract refuses."""

from collections.abc import Callable, Iterator

import pytest
from rpc_support import (
    MIB,
    RECORD_LIMIT,
    Stubs,
    checkpoint_of,
    connected,
    event_of,
    events_in,
    key_of,
    next_of,
    read_records,
    refused,
    scope,
    set_of,
    stream_of,
    watch_of,
)
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value

Keep = Callable[[Stubs, str, Value], Iterator[Value]]


def in_memory(stubs: Stubs, name: str, value: Value) -> Iterator[Value]:
    where = scope(name)
    stubs.memory.Set(memory.MemorySetRequest(scope=where, key="k", value=value))
    yield stubs.memory.Get(key_of(name, "k")).entry.value
    yield stubs.memory.Get(key_of(name, "k", version=1)).entry.value
    yield stubs.memory.BatchGet(memory.MemoryBatchGetRequest(scope=where, keys=["k"])).entries[0].value
    yield stubs.memory.List(memory.MemoryListRequest(scope=where, include_values=True)).entries[0].value
    history = stubs.memory.History(memory.MemoryHistoryRequest(scope=where, key="k", include_values=True))
    yield read_records(history, 1)[0].value
    watch = stubs.memory.Watch(watch_of(name, after_revision=0, include_values=True), timeout=20)
    yield read_records(watch, 1)[0].value
    watch.cancel()


def in_a_batch(stubs: Stubs, name: str, value: Value) -> Iterator[Value]:
    one = memory.MemorySetRequest(scope=scope(name), key="k", value=value)
    stubs.memory.BatchSet(memory.MemoryBatchSetRequest(sets=[one]))
    yield stubs.memory.Get(key_of(name, "k")).entry.value


def in_scratch(stubs: Stubs, name: str, value: Value) -> Iterator[Value]:
    stubs.scratch.Put(scratch.ScratchPutRequest(instance_id=name, key="k", value=value))
    yield stubs.scratch.Get(scratch.ScratchGetRequest(instance_id=name, key="k")).value


def in_an_event(stubs: Stubs, name: str, value: Value) -> Iterator[Value]:
    yield stubs.state.AppendNextEvent(next_of(name, data=value)).event.data
    yield events_in(stubs, name)[0].data
    yield read_records(stubs.state.StreamHistory(stream_of(name)), 1)[0].data


def in_a_checkpoint(stubs: Stubs, name: str, value: Value) -> Iterator[Value]:
    saved = stubs.state.SaveCheckpoint(checkpoint_of(name, "c", state=value, metadata=value)).checkpoint
    yield from (saved.state, saved.metadata)
    latest = stubs.state.LatestCheckpoint(state.LatestCheckpointRequest(thread_id=name)).checkpoint
    yield from (latest.state, latest.metadata)
    listed = stubs.state.ListCheckpoints(state.ListCheckpointsRequest(thread_id=name)).checkpoints[0]
    yield from (listed.state, listed.metadata)


def in_a_fork(stubs: Stubs, name: str, value: Value) -> Iterator[Value]:
    stubs.state.AppendNextEvent(next_of(name, "e"))
    fork = state.ForkRequest(thread_id=name, from_event_id="e", name="b")
    fork.checkpoint.state.CopyFrom(value)
    fork.event.type = "x"
    fork.event.data.CopyFrom(value)
    answer = stubs.state.Fork(fork)
    yield from (answer.checkpoint.state, answer.event.data, events_in(stubs, name, "b")[0].data)


KEPT: list[Keep] = [in_memory, in_a_batch, in_scratch, in_an_event, in_a_checkpoint, in_a_fork]
JSON = {
    "2**64": "18446744073709551616",
    "2**53+1": "9007199254740993",
    "1.0": "1.0",
    "1": "1",
    "-0.0": "-0.0",
    "-0": "-0",
    "1e999": "1e999",
    "-1e999 in a list": "[-1e999,1E+400]",
    "a number of 5000 digits": "9" * 5000,
    "many decimals": "0.1000000000000000055511151231257827021181583404541015625",
    "a tiny number": "1e-999",
    "key order": '{"b":1,"a":2,"10":3,"9":4}',
    "duplicate keys": '{"a":1,"a":2}',
    "blanks": ' \t\r\n{ "a" :\n[ 1 , 2 ] }\n ',
    "an escaped NUL": '"\\u0000"',
    "an escaped NUL and 1e999": '["\\u0000",1e999]',
    "escapes as written": '"\\u00e9\\/\\b\\u000a"',
    "an escaped pair": '"\\ud83d\\ude00"',
    "an escaped pair beside 1e999": '["\\uD83D\\uDE00","\\\\ud800",1e999]',
    "an emoji": '"\U0001f600"',
    "a DEL": '"\x7f"',
    "line separators": '"\u2028\u2029"',
    "a byte order mark inside": '"\ufeff"',
    "null": "null",
    "an empty key": '{"":{}}',
    "a proto": '{"__proto__":null}',
    "512 deep": "[" * 512 + "]" * 512,
    "512 deep with 1e999": "[" * 511 + "[1e999]" + "]" * 511,
    "brackets in a string": '"' + "[{" * 2000 + '"',
    "brackets after an escaped quote": '"\\"' + "[" * 2000 + '\\\\"',
    "wide, not deep": "[" + "[]," * 5000 + "[]]",
}


@pytest.mark.parametrize("text", JSON.values(), ids=JSON.keys())
@pytest.mark.parametrize("keep", KEPT, ids=lambda keep: keep.__name__)
def test_json_comes_back_byte_for_byte(keep: Keep, text: str, stubs: Stubs, name: str) -> None:
    for value in keep(stubs, name, Value(json=text)):
        assert value == Value(json=text)


OTHERS = {
    "empty text": Value(text=""),
    "text with NUL": Value(text="a\x00b"),
    "the letters of an escape": Value(text="\\u0000"),
    "text that is no JSON": Value(text="{NaN"),
    "emoji": Value(text="\U0001f468\u200d\U0001f469\u200d\U0001f467"),
    "text with a type": Value(text="# a", content_type="text/markdown; charset=utf-8"),
    "JSON with a type": Value(json="{}", content_type="application/vnd.x+json"),
    "no bytes": Value(data=b""),
    "every byte": Value(data=bytes(range(256))),
    "bytes with a type": Value(data=b"\x89PNG", content_type="image/png"),
    "a content type beyond ASCII": Value(data=b"", content_type=" é\x00 "),
    "3 MB": Value(data=bytes(range(256)) * (3 * 4096)),
    "3 MB of JSON": Value(json='["' + "é" * (3 * 2**19) + '"]'),
}


@pytest.mark.parametrize("value", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("keep", KEPT, ids=lambda keep: keep.__name__)
def test_any_value_comes_back_as_it_was_sent(keep: Keep, value: Value, stubs: Stubs, name: str) -> None:
    if keep in (in_a_checkpoint, in_a_fork) and len(value.SerializeToString()) > MIB:
        value = Value(data=value.SerializeToString()[:MIB])
    for read in keep(stubs, name, value):
        assert read == value


BAD_JSON = {
    "nothing": "",
    "blanks": "  ",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "minus Infinity in a list": "[-Infinity]",
    "NaN beside 1e999": "[1e999,NaN]",
    "a lone surrogate": '"\\ud800"',
    "a lone low surrogate": '"\\uDC00"',
    "surrogates the wrong way round": '"\\udc00\\ud800"',
    "a lone surrogate beside 1e999": '[1e999,"\\ud800"]',
    "a lone surrogate before a pair": '[1e999,"\\ud800\\ud83d\\ude00"]',
    "a lone surrogate in a key": '{"\\ud800":1}',
    "a raw control": '"\x01"',
    "a raw NUL": '"\x00"',
    "a raw newline": '"\n"',
    "a leading zero": "01",
    "a plus": "+1",
    "a bare point": "1.",
    "a point first": ".5",
    "hex": "0x10",
    "a bare exponent": "1e",
    "a digit beyond ASCII": "٣",
    "single quotes": "'a'",
    "a trailing comma": "[1,]",
    "a comment": "[1]//",
    "two texts": "1 2",
    "a byte order mark": "\ufeff1",
    "an unclosed list": "[1",
    "an unclosed string": '"a',
    "a bad escape": '"\\x41"',
    "a short escape": '"\\u12"',
    "a capital": "True",
    "a no-break space": "\u00a01",
    "a form feed": "\f1",
    "513 deep": "[" * 513 + "]" * 513,
    "513 deep in objects": '{"a":' * 513 + "1" + "}" * 513,
    "513 deep and unclosed": "[" * 513,
    "100,000 deep": "[" * 100_000 + "]" * 100_000,
}


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_what_is_not_rfc_8259_is_refused_everywhere(text: str, stubs: Stubs, name: str) -> None:
    value = Value(json=text)
    one = memory.MemorySetRequest(scope=scope(name), key="k", value=value)
    refused("INVALID_FIELD", stubs.memory.Set, one, at="value.json")
    batch = memory.MemoryBatchSetRequest(sets=[set_of(name, "a"), one])
    refused("INVALID_FIELD", stubs.memory.BatchSet, batch, at="sets[1].value.json")
    put = scratch.ScratchPutRequest(instance_id=name, key="k", value=value)
    refused("INVALID_FIELD", stubs.scratch.Put, put, at="value.json")
    refused("INVALID_FIELD", stubs.state.AppendNextEvent, next_of(name, data=value), at="event.data.json")
    given = state.AppendEventRequest(event=event_of(name, data=value, sequence=1))
    refused("INVALID_FIELD", stubs.state.AppendEvent, given, at="event.data.json")
    events = state.AppendEventsRequest(thread_id=name, events=[event_of(name), event_of(name, data=value)])
    refused("INVALID_FIELD", stubs.state.AppendEvents, events, at="events[1].data.json")
    for part in ("state", "active", "metadata"):
        saved = checkpoint_of(name, **{part: value})
        refused("INVALID_FIELD", stubs.state.SaveCheckpoint, saved, at=f"checkpoint.{part}.json")
    assert not stubs.memory.List(memory.MemoryListRequest(scope=scope(name))).entries
    assert not stubs.scratch.List(scratch.ScratchListRequest(instance_id=name)).keys
    assert not stubs.state.ListThreads(state.ListThreadsRequest(prefix=name)).threads


@pytest.mark.parametrize("value", [Value(), Value(content_type="text/plain")], ids=["empty", "with a type"])
def test_a_value_without_a_kind_is_refused_where_one_is_required(value: Value, stubs: Stubs, name: str) -> None:
    one = memory.MemorySetRequest(scope=scope(name), key="k", value=value)
    refused("INVALID_FIELD", stubs.memory.Set, one, at="value")
    batch = memory.MemoryBatchSetRequest(sets=[one])
    refused("INVALID_FIELD", stubs.memory.BatchSet, batch, at="sets[0].value")
    put = scratch.ScratchPutRequest(instance_id=name, key="k", value=value)
    refused("INVALID_FIELD", stubs.scratch.Put, put, at="value")
    refused("INVALID_FIELD", stubs.state.SaveCheckpoint, checkpoint_of(name, state=value), at="checkpoint.state")


def test_a_missing_value_is_refused_where_one_is_required(stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.memory.Set, memory.MemorySetRequest(scope=scope(name), key="k"), at="value")
    refused("INVALID_FIELD", stubs.scratch.Put, scratch.ScratchPutRequest(instance_id=name, key="k"), at="value")
    bare = state.SaveCheckpointRequest(checkpoint=state.Checkpoint(thread_id=name))
    refused("INVALID_FIELD", stubs.state.SaveCheckpoint, bare, at="checkpoint.state")


def test_an_event_needs_no_data(stubs: Stubs, name: str) -> None:
    assert not stubs.state.AppendNextEvent(next_of(name)).event.HasField("data")


def test_json_null_is_a_value(stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k", "null"))
    entry = stubs.memory.Get(key_of(name, "k")).entry
    assert (entry.value.json, entry.value_type) == ("null", "null")


@pytest.mark.parametrize("bad", [Value(json="{}"), Value(json="null"), Value(text="[]"), Value(data=b"[]"), Value()])
def test_active_is_a_json_list(bad: Value, stubs: Stubs, name: str) -> None:
    refused("INVALID_FIELD", stubs.state.SaveCheckpoint, checkpoint_of(name, active=bad), at="checkpoint.active")


def test_a_json_list_stays_as_sent_in_active(stubs: Stubs, name: str) -> None:
    active = Value(json=' [ "b", "a", 1.0 ]')
    assert stubs.state.SaveCheckpoint(checkpoint_of(name, active=active)).checkpoint.active == active


TYPES = {
    '{"a":1}': "object",
    " [1]": "array",
    '"a"': "string",
    "-1": "number",
    "true": "boolean",
    "\nfalse": "boolean",
    "null": "null",
}


@pytest.mark.parametrize(("text", "expected"), TYPES.items())
def test_the_type_of_a_json_value_is_named(text: str, expected: str, stubs: Stubs, name: str) -> None:
    assert stubs.memory.Set(set_of(name, "k", text)).entry.value_type == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Value(text="a"), "text"),
        (Value(data=b"a"), "application/octet-stream"),
        (Value(data=b"a", content_type="image/png"), "image/png"),
    ],
)
def test_the_type_of_any_other_value_is_named(value: Value, expected: str, stubs: Stubs, name: str) -> None:
    entry = stubs.memory.Set(memory.MemorySetRequest(scope=scope(name), key="k", value=value)).entry
    assert entry.value_type == expected
    assert stubs.memory.Get(key_of(name, "k")).entry.value.content_type == value.content_type


def test_a_value_is_frozen_when_it_is_stored(stubs: Stubs, name: str) -> None:
    request = next_of(name, "e", data=Value(json="[1]"))
    stubs.state.AppendNextEvent(request)
    request.event.data.json = "[2]"
    assert events_in(stubs, name)[0].data.json == "[1]"


# --- the limit


def _set(name: str, size: int) -> memory.MemorySetRequest:
    return memory.MemorySetRequest(scope=scope(name), key="k", value=Value(data=bytes(size)))


def _largest(method: Callable[..., object], request: Callable[[int], object]) -> int:
    """Return how many bytes of data the largest request of this form carries, but for what a time's length varies."""
    varies = 8
    refusal = refused("VALUE_TOO_LARGE", method, request(RECORD_LIMIT), max=RECORD_LIMIT)
    beside = int(refusal.metadata["size"]) - RECORD_LIMIT
    assert 0 < beside < 2048
    over = refused("VALUE_TOO_LARGE", method, request(RECORD_LIMIT - beside + varies), max=RECORD_LIMIT)
    assert RECORD_LIMIT < int(over.metadata["size"]) <= RECORD_LIMIT + 2 * varies
    return RECORD_LIMIT - beside - varies


def test_a_value_over_the_limit_is_refused_and_leaves_nothing(stubs: Stubs, name: str) -> None:
    refused("VALUE_TOO_LARGE", stubs.memory.Set, _set(name, 5 * MIB), at="value", max=RECORD_LIMIT)
    batch = memory.MemoryBatchSetRequest(sets=[set_of(name, "a"), _set(name, 5 * MIB)])
    refused("VALUE_TOO_LARGE", stubs.memory.BatchSet, batch, at="sets[1].value", max=RECORD_LIMIT)
    assert not stubs.memory.List(memory.MemoryListRequest(scope=scope(name))).entries
    assert stubs.memory.Set(set_of(name, "k")).entry.version == 1
    put = scratch.ScratchPutRequest(instance_id=name, key="k", value=Value(data=bytes(5 * MIB)))
    refused("VALUE_TOO_LARGE", stubs.scratch.Put, put, at="value", max=RECORD_LIMIT)
    assert not stubs.scratch.List(scratch.ScratchListRequest(instance_id=name)).keys
    large = Value(data=bytes(5 * MIB))
    refused("VALUE_TOO_LARGE", stubs.state.AppendNextEvent, next_of(name, data=large), max=RECORD_LIMIT)
    refused("VALUE_TOO_LARGE", stubs.state.SaveCheckpoint, checkpoint_of(name, state=large), max=RECORD_LIMIT)
    events = state.AppendEventsRequest(thread_id=name, events=[event_of(name), event_of(name, data=large)])
    refused("VALUE_TOO_LARGE", stubs.state.AppendEvents, events, max=RECORD_LIMIT)
    assert not stubs.state.ListThreads(state.ListThreadsRequest(prefix=name)).threads


def test_the_limit_is_on_the_whole_record(stubs: Stubs, name: str) -> None:
    labelled = set_of(name, "k")
    labelled.labels["l"] = "x" * RECORD_LIMIT
    refused("VALUE_TOO_LARGE", stubs.memory.Set, labelled, max=RECORD_LIMIT)
    event = next_of(name, message="x" * RECORD_LIMIT)
    refused("VALUE_TOO_LARGE", stubs.state.AppendNextEvent, event, max=RECORD_LIMIT)
    half = Value(data=bytes(RECORD_LIMIT // 2))
    saved = checkpoint_of(name, state=half, metadata=half)
    refused("VALUE_TOO_LARGE", stubs.state.SaveCheckpoint, saved, max=RECORD_LIMIT)


def test_the_largest_memory_value_is_read_with_default_limits(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        value = Value(data=bytes(_largest(own.memory.Set, lambda size: _set(name, size))))
        for read in in_memory(own, name, value):
            assert read == value
        more = memory.MemoryListRequest(scope=scope(name), include_values=True, page_size=1)
        own.memory.Set(set_of(name, "k".ljust(512, "k")))
        assert own.memory.List(more).next_page_token


def test_the_largest_event_is_read_with_default_limits(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        size = _largest(own.state.AppendNextEvent, lambda size: next_of(name, data=Value(data=bytes(size))))
        value = Value(data=bytes(size))
        for read in in_an_event(own, name, value):
            assert read == value


def test_the_largest_checkpoint_is_read_with_default_limits(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:
        request = checkpoint_of(name, "c")

        def of(size: int) -> state.SaveCheckpointRequest:
            request.checkpoint.state.data = bytes(size)
            return request

        largest = _largest(own.state.SaveCheckpoint, of)
        own.state.SaveCheckpoint(of(largest))
        own.state.SaveCheckpoint(checkpoint_of(name, "d"))
        latest = own.state.LatestCheckpoint(state.LatestCheckpointRequest(thread_id=name)).checkpoint
        assert latest.id == "d"
        listed = own.state.ListCheckpoints(state.ListCheckpointsRequest(thread_id=name, page_size=1))
        listed = own.state.ListCheckpoints(
            state.ListCheckpointsRequest(thread_id=name, page_size=1, page_token=listed.next_page_token)
        )
        assert len(listed.checkpoints[0].state.data) == largest
        stream = own.state.StreamHistory(stream_of(name, include_checkpoints=True))
        assert [len(one.state.data) for message in stream for one in message.checkpoints] == [largest, 0]


def test_the_largest_scratch_value_is_read_with_default_limits(server: ServerProcess, name: str) -> None:
    with connected(server.address) as own:

        def of(size: int) -> scratch.ScratchPutRequest:
            return scratch.ScratchPutRequest(instance_id=name, key="k" * 512, value=Value(data=bytes(size)))

        own.scratch.Put(of(_largest(own.scratch.Put, of)))
        assert own.scratch.Get(scratch.ScratchGetRequest(instance_id=name, key="k" * 512)).value.data
