"""A record that a server sent and one made of values are the same, whatever is done with them."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from statekeep._messages import checkpoint_of, entry_of, event_of
from statekeep.records import Checkpoint, Entry, Event
from statekeep.v1 import memory_pb2, state_store_pb2
from statekeep.values import Data, Json, Text

STAMP = Timestamp(seconds=1_700_000_000, nanos=5_999)
TIME = datetime(2023, 11, 14, 22, 13, 20, 5, tzinfo=UTC)

EVENT_MESSAGE = state_store_pb2.Event(
    id="e", thread_id="t", branch_id="main", sequence=3, type="step", node="n", data={"json": '{"a": [1]}'},
    error_type="E", create_time=STAMP, labels={"k": "v"}, revision=9,
)  # fmt: skip
EVENT = Event(
    id="e", thread_id="t", branch_id="main", sequence=3, type="step", node="n", parent_id=None,
    raw=Json('{"a": [1]}'), error_type="E", message=None, create_time=TIME, labels={"k": "v"}, revision=9,
)  # fmt: skip
CHECKPOINT_MESSAGE = state_store_pb2.Checkpoint(
    id="c", thread_id="t", branch_id="b", event_id="e", sequence=4, state={"json": "{}"}, active={"json": "[1, 2]"},
    status="running", create_time=STAMP, parent_id="p", metadata={"text": "m"}, revision=10,
)  # fmt: skip
CHECKPOINT = Checkpoint(
    id="c", thread_id="t", branch_id="b", event_id="e", sequence=4, raw_state=Json("{}"), raw_active=Json("[1, 2]"),
    status="running", create_time=TIME, parent_id="p", raw_metadata=Text("m"), labels={}, revision=10,
)  # fmt: skip
ENTRY_MESSAGE = memory_pb2.MemoryEntry(
    scope={"type": memory_pb2.SCOPE_TYPE_FLOW, "name": "s"}, key="k", version=2, value={"data": b"\x00"},
    value_type="bytes", create_time=STAMP, expire_time=STAMP, entry_id="i", flow_id="f", revision=11,
)  # fmt: skip
ENTRY = Entry(
    scope="s", scope_type="flow", key="k", version=2, raw=Data(b"\x00"), value_type="bytes", deleted=False,
    create_time=TIME, expire_time=TIME, entry_id="i", execution_id=None, flow_id="f", flow_name=None, labels={},
    revision=11,
)  # fmt: skip

PAIRS = {
    "event": (event_of, EVENT_MESSAGE, EVENT),
    "checkpoint": (checkpoint_of, CHECKPOINT_MESSAGE, CHECKPOINT),
    "entry": (entry_of, ENTRY_MESSAGE, ENTRY),
}


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A record over its message, and the same made of values."""
    record_of, message, made = PAIRS[request.param]
    return record_of(message), made  # type: ignore[operator]


def test_they_are_equal_and_read_alike(pair: tuple[Any, Any]) -> None:
    sent, made = pair
    assert sent == made
    assert repr(sent) == repr(made)
    assert dataclasses.asdict(sent) == dataclasses.asdict(made)


def test_what_differs_in_a_field_is_not_equal(pair: tuple[Any, Any]) -> None:
    for record in pair:
        other = dataclasses.replace(record, revision=999)
        assert other.revision == 999
        assert other != record
        assert dataclasses.replace(other, revision=record.revision) == record


def _pickled(record: Any) -> Any:
    return pickle.loads(pickle.dumps(record))  # noqa: S301 (our own)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
def test_a_copy_is_equal_and_of_its_class(pair: tuple[Any, Any], copied: Callable[[Any], Any]) -> None:
    for record in pair:
        assert copied(record) == record
        assert type(copied(record)) is type(record)


def test_a_copy_keeps_nothing_of_the_message() -> None:
    message = state_store_pb2.Event()
    message.CopyFrom(EVENT_MESSAGE)
    sent = event_of(message)
    kept = copy.copy(sent)
    message.id = "changed"
    assert (sent.id, kept.id) == ("changed", "e")


def test_no_field_can_be_set_or_deleted_and_none_added(pair: tuple[Any, Any]) -> None:
    for record in pair:
        for name in ("revision", "labels", "unheard_of"):
            with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
                setattr(record, name, 5)
        with pytest.raises(dataclasses.FrozenInstanceError):
            del record.revision
        with pytest.raises(AttributeError):
            _ = record.unheard_of


def test_neither_can_be_hashed_for_its_labels(pair: tuple[Any, Any]) -> None:
    for record in pair:
        with pytest.raises(TypeError, match="unhashable"):
            hash(record)


def test_what_a_reader_does_to_an_object_changes_no_record() -> None:
    for event in (event_of(EVENT_MESSAGE), EVENT):
        event.data["a"].append(2)
        assert event.data == {"a": [1]}


def test_values_are_read_from_either() -> None:
    for checkpoint in (checkpoint_of(CHECKPOINT_MESSAGE), CHECKPOINT):
        assert (checkpoint.state, checkpoint.active, checkpoint.metadata) == ({}, [1, 2], "m")
    for entry in (entry_of(ENTRY_MESSAGE), ENTRY):
        assert entry.value == b"\x00"
    bare = event_of(state_store_pb2.Event())
    assert (bare.data, bare.raw, bare.node) == (None, None, None)
    assert dataclasses.replace(EVENT, raw=None).data is None


@pytest.mark.parametrize("text", [' {"a": 1}', '{"a": 1}\n', "\t1 ", "1"])
def test_json_may_have_blanks_around_it(text: str) -> None:
    event = event_of(state_store_pb2.Event(data={"json": text}))
    assert event.data in (1, {"a": 1})


@pytest.mark.parametrize("text", ["", "{} x", "[1", "nothing"])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="char"):
        _ = event_of(state_store_pb2.Event(data={"json": text})).data
