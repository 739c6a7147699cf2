"""The contract's Errors: reasons, messages, metadata, and the status they become."""

import string
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from statekeep.v1.value_pb2 import Value
from statekeep_server.core.errors import MESSAGE_BYTES, Reason, StatekeepError, invalid
from statekeep_server.core.journal import Limits
from statekeep_server.rpc.errors import CODES, status
from unit.rules_support import MemoryRules, ScratchRules, ThreadRules, World, a_set, in_batch, refused

CONTRACT = {
    "INVALID_FIELD": grpc.StatusCode.INVALID_ARGUMENT,
    "VALUE_TOO_LARGE": grpc.StatusCode.INVALID_ARGUMENT,
    "REQUEST_ID_REUSED": grpc.StatusCode.INVALID_ARGUMENT,
    "VERSION_MISMATCH": grpc.StatusCode.ABORTED,
    "SEQUENCE_MISMATCH": grpc.StatusCode.ABORTED,
    "EVENT_EXISTS": grpc.StatusCode.ALREADY_EXISTS,
    "BRANCH_EXISTS": grpc.StatusCode.ALREADY_EXISTS,
    "PARTITION_EXISTS": grpc.StatusCode.ALREADY_EXISTS,
    "EVENT_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "THREAD_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "BRANCH_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "REVISION_GONE": grpc.StatusCode.OUT_OF_RANGE,
    "REVISION_AHEAD": grpc.StatusCode.OUT_OF_RANGE,
    "HISTORY_TOO_LARGE": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "LIMIT_REACHED": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "STREAM_AGE_REACHED": grpc.StatusCode.UNAVAILABLE,
    "SHUTTING_DOWN": grpc.StatusCode.UNAVAILABLE,
    "STORE_UNAVAILABLE": grpc.StatusCode.UNAVAILABLE,
    "INSTANCE_ATTACHED": grpc.StatusCode.FAILED_PRECONDITION,
    "UNAUTHENTICATED": grpc.StatusCode.UNAUTHENTICATED,
    "PERMISSION_DENIED": grpc.StatusCode.PERMISSION_DENIED,
    "NOT_SUPPORTED": grpc.StatusCode.UNIMPLEMENTED,
}
LONGEST_ID = "\U0001f4be" * 64
BRACES = "{x} {0} {} {{y}} {thread} %s {branch!r:>9}"


def sent(error: StatekeepError) -> Status:
    """Return a refusal as a client gets it."""
    metadata = dict(status(error).trailing_metadata)
    return Status.FromString(metadata["grpc-status-details-bin"])


def detail(error: StatekeepError, kind: type[Message]) -> Any:
    for packed in sent(error).details:
        found = kind()
        if packed.Unpack(found):
            return found
    return None


@pytest.mark.parametrize(("reason", "code"), CONTRACT.items())
def test_a_reason_has_the_contracts_code(reason: str, code: grpc.StatusCode) -> None:
    assert CODES[Reason(reason)] is code
    assert status(StatekeepError(Reason(reason), "No")).code is code


def test_there_is_no_other_reason_but_internal() -> None:
    assert {reason.value for reason in Reason} == {*CONTRACT, "INTERNAL"}
    assert CODES.keys() == set(Reason)


def test_no_reason_becomes_unknown() -> None:
    assert grpc.StatusCode.UNKNOWN not in CODES.values()


def test_an_error_carries_its_reason_domain_and_parts() -> None:
    error = StatekeepError(Reason.EVENT_NOT_FOUND, "No '{event}' on '{thread}'", event="e", thread="t")
    assert detail(error, ErrorInfo) == ErrorInfo(
        reason="EVENT_NOT_FOUND", domain="statekeep", metadata={"event": "e", "thread": "t"}
    )
    assert sent(error).message == error.message == "No 'e' on 't'"
    assert sent(error).code == grpc.StatusCode.NOT_FOUND.value[0]


def test_an_error_at_a_field_carries_a_bad_request_with_its_path() -> None:
    violations = detail(invalid("sets[0].key", "is empty"), BadRequest).field_violations
    assert [violation.field for violation in violations] == ["sets[0].key"]


def test_an_error_at_no_field_carries_no_bad_request() -> None:
    assert detail(StatekeepError(Reason.SHUTTING_DOWN, "No"), BadRequest) is None


@pytest.mark.parametrize(
    ("seconds", "delay"), [(0.0, (0, 0)), (1.0, (1, 0)), (0.25, (0, 250_000_000)), (90.5, (90, 5 * 10**8))]
)
def test_an_error_that_may_pass_carries_when_to_try_again(seconds: float, delay: tuple[int, int]) -> None:
    retry = detail(StatekeepError(Reason.SHUTTING_DOWN, "No", retry_after=seconds), RetryInfo).retry_delay
    assert (retry.seconds, retry.nanos) == delay


def test_an_error_that_will_not_pass_carries_no_retry() -> None:
    assert detail(StatekeepError(Reason.INVALID_FIELD, "No"), RetryInfo) is None


@pytest.mark.parametrize("length", [1023, 1024, 1025, 5000])
@pytest.mark.parametrize("letter", ["a", "é", "\U0001f4be"])
def test_a_message_is_at_most_1_kib_of_whole_characters(length: int, letter: str) -> None:
    text = letter * length
    message = StatekeepError(Reason.INTERNAL, "{text}", text=text).message
    assert len(message.encode()) <= MESSAGE_BYTES == 1024
    assert message == text or (message.endswith("…") and text.startswith(message[:-1]))
    assert len(message.encode()) > 1024 - 8


def test_a_part_with_braces_is_told_as_it_is() -> None:
    error = StatekeepError(Reason.EVENT_NOT_FOUND, "No '{event}'", event=BRACES)
    assert error.message == f"No '{BRACES}'"
    assert invalid("labels[{x}]", "is {number}", number=1).message == "labels[{x}]: is 1"


def refusals(memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules, name: str) -> list[StatekeepError]:
    """Return one refusal of each kind that names things, all of them called `name`."""
    other = f"{name[:-1]}2"
    here = {"thread_id": name, "branch_id": name}
    threads.append_next(name, **here)
    threads.append_next("e1", thread_id=name)
    threads.append(2**53 - 1, "last", thread_id=name, branch_id="full")
    memory.set("k", request_id=name)
    threads.world.limits = Limits(message=1, record=100_000)
    scratch.attach(name)
    attempts = [
        (Reason.REQUEST_ID_REUSED, lambda: memory.set("k", 2, request_id=name)),
        (Reason.VERSION_MISMATCH, lambda: memory.set("k", expected_version=7)),
        (Reason.SEQUENCE_MISMATCH, lambda: threads.append_next("new", 7, **here)),
        (Reason.EVENT_EXISTS, lambda: threads.append_next(name, type="other", **here)),
        (Reason.EVENT_EXISTS, lambda: threads.append_batch(in_batch("new"), in_batch(name), **here)),
        (Reason.BRANCH_EXISTS, lambda: threads.fork("e1", name, thread_id=name)),
        (Reason.EVENT_NOT_FOUND, lambda: threads.fork(other, "new", **here)),
        (Reason.EVENT_NOT_FOUND, lambda: threads.latest(at_event_id=other, **here)),
        (Reason.THREAD_NOT_FOUND, lambda: threads.fork("e1", "new", thread_id=other)),
        (Reason.BRANCH_NOT_FOUND, lambda: threads.fork("e1", "new", thread_id=name, branch_id=other)),
        (Reason.HISTORY_TOO_LARGE, lambda: threads.history(**here)),
        (Reason.LIMIT_REACHED, lambda: threads.append_next("new", thread_id=name, branch_id="full")),
        (Reason.LIMIT_REACHED, lambda: memory.get_many("k")),
        (Reason.REVISION_GONE, lambda: threads.stream(after_revision=1, **here).step()),
        (Reason.REVISION_GONE, lambda: threads.stream(after_revision=1, thread_id=other).step()),
        (Reason.REVISION_AHEAD, lambda: threads.stream(after_revision=2**62, **here).step()),
        (Reason.INSTANCE_ATTACHED, lambda: scratch.attach(name)),
        (Reason.VALUE_TOO_LARGE, lambda: memory.set("k", "x" * 100_001)),
    ]
    found = []
    for reason, attempt in attempts:
        with refused(reason) as refusal:
            attempt()
        found.append(refusal.value)
    return found


@pytest.mark.parametrize("name", ["plain", LONGEST_ID, BRACES, "'quoted' \"twice\" \\"])
def test_a_refusal_names_what_it_is_about_within_1_kib(
    memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules, name: str
) -> None:
    for error in refusals(memory, threads, scratch, name):
        assert len(error.message.encode()) <= 1024
        assert not error.message.endswith("…")
        for part in error.metadata.values():
            assert part in error.message or error.field == part


def test_every_number_in_a_message_is_in_the_metadata(
    memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules
) -> None:
    for error in refusals(memory, threads, scratch, "name"):
        parts = {word for part in error.metadata.values() for word in part.split()}
        words = {word.strip(string.punctuation) for word in error.message.split()}
        numbers = {word for word in words if word.isdecimal()} - {"0"}  # "0: no value" is not variable
        assert numbers <= parts, error.message


def test_a_version_mismatch_says_what_was_expected_and_what_is(memory: MemoryRules) -> None:
    memory.set("k")
    with refused(Reason.VERSION_MISMATCH) as refusal:
        memory.set("k", expected_version=7)
    assert refusal.value.metadata == {"key": "k", "expected": "7", "actual": "1"}


def test_a_sequence_mismatch_says_what_was_expected_and_what_is(threads: ThreadRules) -> None:
    threads.append(5, "e")
    with refused(Reason.SEQUENCE_MISMATCH) as refusal:
        threads.append_next("f", 7)
    assert refusal.value.metadata == {"branch": "main", "expected": "7", "actual": "5"}


SECRET = "hunter2"  # noqa: S105 (a value that no message may hold)


@pytest.mark.parametrize(
    "value",
    [
        Value(json=SECRET),
        Value(json=f'"{SECRET}'),
        Value(json=f'"{SECRET}\\ud800"'),
        Value(json=f'["{SECRET}",]'),
        Value(json=f"\\{SECRET}"),
        Value(json=f'"\\{SECRET}"'),
        Value(json="[" * 513 + f'"{SECRET}"' + "]" * 513),
        Value(json=f'[1e999,"{SECRET}\\ud800"]'),
        Value(json=f'[1e999,{{"{SECRET}"}}]'),
        Value(content_type=SECRET),
        Value(text=SECRET * 1000),
        Value(data=SECRET.encode() * 1000),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_refusal_never_echoes_a_value(
    world: World, memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules, value: Value
) -> None:
    world.limits = Limits(record=1000)
    attempts = [
        lambda: memory.set("k", value),
        lambda: memory.set_many(a_set("k", value)),
        lambda: scratch.put("k", value),
        lambda: threads.append_next("e", data=value),
        lambda: threads.append_batch(in_batch("e", data=value)),
        lambda: threads.save("c", state=value),
        lambda: threads.save("c", metadata=value),
        lambda: threads.save("c", active=value),
    ]
    for attempt in attempts:
        with pytest.raises(StatekeepError) as refusal:
            attempt()
        told = refusal.value.message + str(refusal.value.metadata)
        assert SECRET not in told


@pytest.mark.parametrize("name", [f"{SECRET}\x00", f" {SECRET}", f"{SECRET}\ud7ff" * 100], ids=["NUL", "blank", "long"])
def test_a_refused_name_is_not_echoed_either(
    memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules, name: str
) -> None:
    for attempt in (
        lambda: memory.set(f"{name} x"),
        lambda: threads.append_next(name),
        lambda: scratch.put(f"\x00{name}"),
    ):
        with refused(Reason.INVALID_FIELD) as refusal:
            attempt()
        assert SECRET not in refusal.value.message + str(refusal.value.metadata)
