"""The file of an export: exact for every message, readable, and told from any other file and from a part of itself."""

import base64
import io
import json
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from statekeep import _export_file as export_file
from statekeep._export_file import Writer, fill, json_of, read
from statekeep.errors import ExportFileError
from statekeep.v1 import admin_pb2 as pb
from statekeep.v1 import memory_pb2, state_store_pb2
from statekeep.v1.value_pb2 import Value

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: TEXT | st.sampled_from(["\0", "\u2028", '"', "\\u0000", '{"a":1,"a":2}', "-0.0"]),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=20),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 2**53 - 1, 2**53, -(2**53)]),
    FieldDescriptor.TYPE_ENUM: st.integers(0, 9),
}
TIMES = st.builds(Timestamp, seconds=st.integers(-62_135_596_800, 253_402_300_799), nanos=st.integers(0, 999_999_999))
UNKNOWN = st.sampled_from([b"", b"", b"\xf8\x07\x05", b"\xfa\x07\x03abc"])


def messages(kind: type[Message]) -> st.SearchStrategy[Any]:
    """Return messages of a type with any of their fields set, and perhaps one that this client does not know."""
    if kind is Timestamp:
        return TIMES
    fields = {field.name: values(field) for field in kind.DESCRIPTOR.fields}
    made = st.fixed_dictionaries({}, optional=fields).map(lambda given_fields: kind(**given_fields))
    return st.tuples(made, UNKNOWN).map(lambda pair: kind.FromString(pair[0].SerializeToString() + pair[1]))


def values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return st.dictionaries(TEXT, TEXT, max_size=3)
    if field.message_type:
        return messages(field.message_type._concrete_class)
    one = SCALARS[field.type]
    return st.lists(one, max_size=3) if field.is_repeated else one


RECORDS = st.one_of(
    st.builds(pb.ExportedPart, entry=messages(memory_pb2.MemoryEntry)),
    st.builds(pb.ExportedPart, purge=messages(pb.ExportedPurge)),
    st.builds(pb.ExportedPart, answer=messages(pb.ExportedAnswer)),
    st.builds(pb.ExportedPart, event=messages(state_store_pb2.Event)),
    st.builds(pb.ExportedPart, checkpoint=messages(state_store_pb2.Checkpoint)),
    st.builds(pb.ExportedPart, branch=messages(state_store_pb2.Branch)),
)
PARTS = RECORDS | st.builds(pb.ExportedPart, partition=messages(pb.ExportedPartition), log=st.none())


def file_of(*parts: pb.ExportedPart) -> bytes:
    file = io.BytesIO()
    writer = Writer(file)
    for part in parts:
        writer.write(part)
    writer.finish()
    assert writer.size == len(file.getvalue())
    return file.getvalue()


def read_all(data: bytes) -> list[pb.ExportedPart]:
    return [line.part for line in read(io.BytesIO(data))]


def whole(*records: pb.ExportedPart, thread: str = "t") -> list[pb.ExportedPart]:
    """Return a partition's parts."""
    count = sum(not part.answer.partial for part in records)
    header = pb.ExportedPart(partition=pb.ExportedPartition(thread_id=thread, life=1, revision=9))
    return [header, *records, pb.ExportedPart(end=pb.ExportedEnd(records=count))]


def event(**fields: Any) -> pb.ExportedPart:
    return pb.ExportedPart(event=state_store_pb2.Event(**{"id": "e", "type": "note", "revision": 5, **fields}))


@settings(max_examples=300, deadline=None)
@given(st.lists(PARTS, max_size=4))
def test_any_parts_come_back_exactly(parts: list[pb.ExportedPart]) -> None:
    data = file_of(*whole(*(part for part in parts if not part.HasField("partition"))))
    again = read_all(data)
    assert again == whole(*(part for part in parts if not part.HasField("partition")))
    assert file_of(*again) == data
    for line in data.splitlines():
        assert isinstance(json.loads(line), dict)


@settings(max_examples=200, deadline=None)
@given(messages(memory_pb2.MemoryEntry), messages(memory_pb2.MemoryEntry))
def test_the_order_of_a_maps_entries_makes_no_difference_to_the_file(one: Any, other: Any) -> None:
    turned = memory_pb2.MemoryEntry()
    turned.CopyFrom(one)
    turned.labels.clear()
    for key in reversed(list(one.labels)):
        turned.labels[key] = one.labels[key]
    assert file_of(pb.ExportedPart(entry=turned)) == file_of(pb.ExportedPart(entry=one))


def test_a_person_can_read_it() -> None:
    data = Value(json='{"big": 18446744073709551616, "a": -0.0, "a": 1}')
    stored = state_store_pb2.Event(
        id="e", thread_id="t", sequence=1, type="note", data=data, labels={"b": "2", "a": "1"}, revision=2**53
    )
    stored.create_time.FromJsonString("2026-01-02T03:04:05.678901Z")
    line = file_of(pb.ExportedPart(event=stored)).splitlines()[1].decode()
    assert line == (
        '{"event":{"id":"e","thread_id":"t","sequence":1,"type":"note",'
        '"data":{"json":"{\\"big\\": 18446744073709551616, \\"a\\": -0.0, \\"a\\": 1}"},'
        '"create_time":"2026-01-02T03:04:05.678901Z","labels":{"a":"1","b":"2"},"revision":"9007199254740992"}}'
    )


def test_what_json_would_not_show_stands_beside_it() -> None:
    unknown = state_store_pb2.Event.FromString(b"\x0a\x01e\xf8\x07\x05")
    line = json.loads(file_of(pb.ExportedPart(event=unknown)).splitlines()[1])
    assert line["event"] == {"id": "e"}
    assert base64.b64decode(line["message"]) == b"\x0a\x01e\xf8\x07\x05"


def test_a_set_but_empty_field_stays_set() -> None:
    entry = memory_pb2.MemoryEntry(value=Value(json=""), flow_id="")
    copy = memory_pb2.MemoryEntry()
    fill(copy, json_of(entry))
    assert copy.HasField("flow_id")
    assert copy.value.WhichOneof("kind") == "json"
    assert copy == entry


def refused(data: bytes) -> tuple[int, str]:
    """Return the line at which a file is refused, and why."""
    with pytest.raises(ExportFileError) as caught:
        read_all(data)
    line = caught.value.metadata["line"]
    assert str(caught.value).startswith(f"line {line}: ")
    return int(line), str(caught.value)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\x7fELF\x00\n", b"{}\n", b"[]\n", b'{"format": "other", "version": 1}\n', b"x" * 100]
)
def test_a_file_of_something_else_is_refused(data: bytes) -> None:
    line, why = refused(data)
    assert line == 1
    assert "no Statekeep export" in why


def test_a_file_that_is_one_endless_line_is_refused_without_reading_all_of_it() -> None:
    class Endless(io.RawIOBase):
        def readline(self, size: int | None = -1) -> bytes:
            assert size is not None
            assert 0 < size <= 64 * 2**20
            return b"x" * size

    with pytest.raises(ExportFileError, match="no Statekeep export"):
        next(read(Endless()))  # type: ignore[arg-type]


def test_a_newer_format_is_refused_by_its_version() -> None:
    data = file_of(*whole()).replace(b'"version":1', b'"version":2')
    assert refused(data) == (1, "line 1: the file has format version 2; this client reads up to 1")


@pytest.mark.parametrize("version", [b'"1"', b"null", b"0", b"1.5", b"true1"])
def test_a_version_that_is_none_is_refused(version: bytes) -> None:
    assert refused(file_of(*whole()).replace(b'"version":1', b'"version":' + version))[0] == 1


def test_a_file_that_is_cut_short_anywhere_is_refused() -> None:
    data = file_of(*whole(event(), event(id="f")), *whole(event(), thread="u"))
    for end in range(len(data)):
        refused(data[:end])
    line, why = refused(b"".join(data.splitlines(keepends=True)[:-1]))
    assert line == len(data.splitlines())
    assert "cut short" in why


def test_a_line_that_is_lost_doubled_moved_or_changed_is_refused() -> None:
    lines = file_of(*whole(event(), event(id="f")), *whole(event(), thread="u")).splitlines(keepends=True)
    for place in range(1, len(lines) - 1):
        refused(b"".join([*lines[:place], *lines[place + 1 :]]))
        refused(b"".join([*lines[:place], lines[place], *lines[place:]]))
        refused(b"".join([*lines[: place - 1], lines[place], lines[place - 1], *lines[place + 1 :]]))
        refused(b"".join([*lines[:place], lines[place].replace(b"e", b"f", 1), *lines[place + 1 :]]))


def test_no_end_of_a_partition_is_given_out_before_its_lines_are_checked() -> None:
    data = file_of(*whole(event(type="before"))).replace(b"before", b"behind")
    lines = read(io.BytesIO(data))
    given_out = [next(lines).part.WhichOneof("part") for _ in range(2)]
    with pytest.raises(ExportFileError, match="line 4: the checksum"):
        next(lines)
    assert given_out == ["partition", "event"]


def test_what_follows_the_end_is_refused() -> None:
    data = file_of(*whole())
    assert refused(data + b"{}\n")[0] == 5
    assert refused(data + data)[0] == 5


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "damaged"),
        (b"nonsense", "damaged"),
        (b'{"event":{"id":"\\ud800"}}', "damaged"),
        (b'{"event":{"id":"\xff"}}', "damaged"),
        (b"[]", "no JSON object"),
        (b"{}", "no JSON object"),
        (b'{"nobody":{}}', "'nobody', which is no part"),
        (b'{"event":{"nobody":1}}', "'nobody' is no field"),
        (b'{"event":[]}', "cannot be read"),
        (b'{"event":null}', "cannot be read"),
        (b'{"event":{"id":1}}', "cannot be read"),
        (b'{"event":{"sequence":"many"}}', "cannot be read"),
        (b'{"event":{"sequence":1.5}}', "cannot be read"),
        (b'{"event":{"sequence":"9223372036854775808"}}', "cannot be read"),
        (b'{"event":{"create_time":"yesterday"}}', "cannot be read"),
        (b'{"event":{"create_time":5}}', "cannot be read"),
        (b'{"event":{"labels":{"a":1}}}', "cannot be read"),
        (b'{"event":{"data":{"data":"!"}}}', "cannot be read"),
        (b'{"entry":{"scope":{"type":"SCOPE_TYPE_OTHER"}}}', "cannot be read"),
        (b'{"event":{},"message":"!"}', "cannot be read"),
        (b'{"event":{},"message":"/w=="}', "cannot be read"),
        (b'{"event":{},"message":5}', "cannot be read"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused_with_the_reason(line: bytes, why: str) -> None:
    lines = file_of(*whole(event())).splitlines(keepends=True)
    number, said = refused(b"".join([*lines[:2], line + b"\n", *lines[3:]]))
    assert number == 3
    assert why in said


def test_wrong_counts_are_refused() -> None:
    data = file_of(*whole(event()))
    last = data.splitlines()[-1]
    wrong = last.replace(b'"records":1', b'"records":2')
    assert wrong != last
    assert refused(data.replace(last, wrong))[0] == 5


def test_a_part_that_is_unknown_here_is_not_left_out_of_a_file() -> None:
    with pytest.raises(ExportFileError, match="newer client"):
        Writer(io.BytesIO()).write(pb.ExportedPart())


def test_the_largest_line_is_read() -> None:
    largest = event(message="\x01" * (4 * 2**20 - 65 * 2**10))
    data = file_of(*whole(largest))
    assert 20 * 2**20 < len(data) < export_file._LONGEST_LINE
    assert read_all(data)[1] == largest
