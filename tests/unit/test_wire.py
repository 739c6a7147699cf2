"""wire.py, held to protobuf's own encoding, and every field number that code writes by hand, held to the .proto."""

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from statekeep.v1 import admin_pb2, memory_pb2, state_store_pb2, value_pb2
from statekeep_server.core import memory, memory_streams, parts, thread_streams, wire
from statekeep_server.core.journal import BRANCHES, CHECKPOINTS, EVENTS, KEY
from statekeep_server.engines import memory_logs
from unit.rules_support import START, MemoryRules, ThreadRules

VARINT, LENGTH_DELIMITED = 0, 2
SIZES = [0, 1, 126, 127, 128, 129, 2**14 - 1, 2**14, 2**14 + 1, 2**21 - 1, 2**21, 2**21 + 1]


def tag(message: type[Message], name: str) -> bytes:
    """Return the first byte of a field on the wire, as the .proto numbers it."""
    descriptor = message.DESCRIPTOR.fields_by_name[name]
    by_length = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
    assert descriptor.number < 16
    return bytes([descriptor.number << 3 | (LENGTH_DELIMITED if descriptor.type in by_length else VARINT)])


@pytest.mark.parametrize("number", [0, 1, 127, 128, 2**14 - 1, 2**14, 2**32, 2**53 - 1, 2**63 - 1])
def test_a_varint_is_protobufs(number: int) -> None:
    assert state_store_pb2.StreamHistoryResponse.FromString(b"\x20" + wire.varint(number)).revision == number


@given(st.integers(1, 2**63 - 1))
def test_any_varint_is_protobufs(number: int) -> None:
    message = state_store_pb2.StreamHistoryResponse(revision=number)
    assert b"\x20" + wire.varint(number) == message.SerializeToString()


def test_the_largest_varint_has_ten_bytes() -> None:
    assert wire.varint(2**64 - 1) == b"\xff" * 9 + b"\x01"


@pytest.mark.parametrize("size", SIZES)
def test_a_field_is_protobufs_at_every_length_of_its_header(size: int) -> None:
    content = b"x" * size
    assert wire.field(b"\x1a", content) == value_pb2.Value(data=content).SerializeToString()


@given(st.binary(max_size=40_000))
def test_any_field_is_protobufs(content: bytes) -> None:
    assert wire.field(b"\x1a", content) == value_pb2.Value(data=content).SerializeToString()


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_gives_its_body_back(size: int) -> None:
    assert wire.body(wire.frame(b"x" * size)) == b"x" * size


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_frame_is_the_answer_that_carries_the_message(event_id: str, kind: str) -> None:
    event = state_store_pb2.Event(id=event_id, type=kind)
    answer = state_store_pb2.AppendEventResponse(event=event)
    framed = wire.frame(event.SerializeToString())
    assert framed == answer.SerializeToString()
    assert state_store_pb2.Event.FromString(wire.body(framed)) == event


@given(st.lists(st.binary(max_size=200)))
def test_frames_one_after_the_other_are_a_list(contents: list[bytes]) -> None:
    values = [value_pb2.Value(data=content) for content in contents]
    frames = b"".join(wire.frame(memory_pb2.MemoryEntry(value=value).SerializeToString()) for value in values)
    assert [entry.value for entry in memory_pb2.MemoryListResponse.FromString(frames).entries] == values


@pytest.mark.parametrize("size", SIZES)
def test_a_retagged_frame_is_another_field_with_the_same_message(size: int) -> None:
    checkpoint = state_store_pb2.Checkpoint(status="x" * size)
    framed = wire.retag(b"\x12", wire.frame(checkpoint.SerializeToString()))
    assert framed == state_store_pb2.StreamHistoryResponse(checkpoints=[checkpoint]).SerializeToString()


@pytest.mark.parametrize("head", [0, 1, 120, 127, 128, 2**14 - 1, 2**14])
@pytest.mark.parametrize("tail", [0, 1, 7, 8, 127, 128, 2**14])
def test_a_frame_without_its_tail_is_the_frame_of_the_rest(head: int, tail: int) -> None:
    assert wire.without_tail(wire.frame(b"h" * head + b"t" * tail), tail) == wire.frame(b"h" * head)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_frame_without_its_tail_is_the_frame_of_the_rest(head: bytes, tail: bytes) -> None:
    assert wire.without_tail(wire.frame(head + tail), len(tail)) == wire.frame(head)


@pytest.mark.parametrize(
    ("constant", "message", "field", "follows"),
    [
        (wire.RECORD_TAG, state_store_pb2.StreamHistoryResponse, "events", b""),
        (wire.RECORD_TAG, state_store_pb2.Event, "id", b""),
        (memory_logs._REVISION, state_store_pb2.StreamHistoryResponse, "revision", b""),
        (thread_streams._CHECKPOINTS, state_store_pb2.StreamHistoryResponse, "checkpoints", b""),
        (thread_streams._CAUGHT_UP, state_store_pb2.StreamHistoryResponse, "caught_up", b"\x01"),
        (thread_streams._REVISION, state_store_pb2.StreamHistoryResponse, "revision", b""),
        (memory_streams._CAUGHT_UP, memory_pb2.MemoryWatchResponse, "caught_up", b"\x01"),
        (memory_streams._REVISION, memory_pb2.MemoryWatchResponse, "revision", b""),
        (memory._SCOPE_TAG, memory_pb2.MemoryEntry, "scope", b""),
        (memory._VALUE_TAG, memory_pb2.MemoryEntry, "value", b""),
        (wire.RECORD_TAG, admin_pb2.AdminExportResponse, "parts", b""),
        (parts._AS_STORED[KEY], admin_pb2.ExportedPart, "entry", b""),
        (parts._AS_STORED[EVENTS], admin_pb2.ExportedPart, "event", b""),
        (parts._AS_STORED[CHECKPOINTS], admin_pb2.ExportedPart, "checkpoint", b""),
        (parts._AS_STORED[BRANCHES], admin_pb2.ExportedPart, "branch", b""),
        (parts._PURGE, admin_pb2.ExportedPart, "purge", b""),
        (parts._REVISION, admin_pb2.ExportedPurge, "revision", b""),
        (parts._PURGE_RECORD, admin_pb2.ExportedPurge, "purge", b""),
    ],
)
def test_a_field_number_in_the_code_is_the_protos(
    constant: bytes, message: type[Message], field: str, follows: bytes
) -> None:
    assert constant == tag(message, field) + follows


def test_every_tag_that_is_written_in_the_code_is_one_that_is_held_to_the_proto_here() -> None:
    """A new constant fails this test, to be added here with the behaviour that proves it."""
    source = Path(wire.__file__).parents[1]
    found = {
        (path.name, tag)
        for path in [*source.glob("core/*.py"), *source.glob("engines/memory*.py")]
        for tag in re.findall(r'b"((?:\\x[0-9a-f]{2})+)"', path.read_text())
    }
    assert found == {
        ("wire.py", r"\x0a"),
        ("memory_logs.py", r"\x20"),
        ("memory.py", r"\x0a"),
        ("memory.py", r"\x22"),
        ("memory.py", r"\x12"),
        ("memory_streams.py", r"\x10\x01"),
        ("memory_streams.py", r"\x18"),
        ("thread_streams.py", r"\x12"),
        ("thread_streams.py", r"\x18\x01"),
        ("thread_streams.py", r"\x20"),
        ("state_store.py", r"\x12"),
        ("state_store.py", r"\x1a"),
        ("state_store.py", r"\x22"),
        ("pages.py", r"\x12"),
        ("parts.py", r"\x1a"),
        ("parts.py", r"\x32"),
        ("parts.py", r"\x3a"),
        ("parts.py", r"\x42"),
        ("parts.py", r"\x22"),
        ("parts.py", r"\x08"),
        ("parts.py", r"\x12"),
    }


@pytest.mark.parametrize(
    ("message", "field", "number"),
    [
        (state_store_pb2.History, "events", 3),
        (state_store_pb2.History, "checkpoints", 4),
        (state_store_pb2.GetHistoryResponse, "history", 1),
        (state_store_pb2.ForkResponse, "branch", 1),
        (state_store_pb2.ForkResponse, "checkpoint", 2),
        (state_store_pb2.ForkResponse, "event", 3),
        (memory_pb2.MemoryBatchGetResponse, "missing_keys", 2),
        *[
            (message, "next_page_token", 2)
            for message in (
                memory_pb2.MemoryListResponse,
                memory_pb2.MemoryListPurgesResponse,
                memory_pb2.MemoryListScopesResponse,
                state_store_pb2.ListCheckpointsResponse,
                state_store_pb2.ListBranchesResponse,
                state_store_pb2.ListThreadsResponse,
            )
        ],
    ],
)
def test_the_field_that_a_rule_writes_by_number_is_the_protos(message: type[Message], field: str, number: int) -> None:
    assert message.DESCRIPTOR.fields_by_name[field].number == number


def services() -> list[ServiceDescriptor]:
    return [*memory_pb2.DESCRIPTOR.services_by_name.values(), *state_store_pb2.DESCRIPTOR.services_by_name.values()]


def test_every_answer_that_carries_a_record_carries_it_in_field_1() -> None:
    records = {"MemoryEntry", "MemoryPurgeRecord", "MemoryScopeInfo", "Event", "Branch", "Thread"}
    carried = {
        (field.number, method.output_type.name)
        for service in services()
        for method in service.methods
        for field in method.output_type.fields
        if field.message_type and field.message_type.name in records
    }
    assert {number for number, name in carried if name != "ForkResponse"} == {1}
    assert len(carried) >= 12


def test_an_events_id_is_the_first_field_of_its_bytes(threads: ThreadRules) -> None:
    stored = threads.append_next("e1", node="n", labels={"a": "b"})
    assert stored.SerializeToString().startswith(b"\x0a\x02e1")


def test_an_entrys_value_is_the_last_field_of_its_bytes_and_is_left_out_whole(memory: MemoryRules) -> None:
    memory.set("k", "v", labels={"a": "b"}, execution_id="e", flow_id="f", flow_name="n")
    with_value = memory.page(include_values=True).entries[0]
    without = memory.page().entries[0]
    assert with_value.value.json == '"v"'
    assert not without.HasField("value")
    with_value.ClearField("value")
    assert with_value == without
    assert without.create_time.seconds == START // 1_000_000
