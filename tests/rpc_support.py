"""What tests over gRPC say often: requests, refusals, streams, and waiting with a bound."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from grpc_status import rpc_status
from statekeep.v1 import admin_pb2_grpc, memory_pb2_grpc, scratch_pb2_grpc, state_store_pb2_grpc
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value

Message = TypeVar("Message")

PATIENCE = 20.0  # seconds a stream may take for what a test waits for
MIB = 2**20
RECORD_LIMIT = 4 * MIB - 64 * 2**10
MAX_NUMBER = 2**53 - 1

_Code = grpc.StatusCode
CODES = {
    "INVALID_FIELD": _Code.INVALID_ARGUMENT,
    "VALUE_TOO_LARGE": _Code.INVALID_ARGUMENT,
    "REQUEST_ID_REUSED": _Code.INVALID_ARGUMENT,
    "VERSION_MISMATCH": _Code.ABORTED,
    "SEQUENCE_MISMATCH": _Code.ABORTED,
    "EVENT_EXISTS": _Code.ALREADY_EXISTS,
    "BRANCH_EXISTS": _Code.ALREADY_EXISTS,
    "PARTITION_EXISTS": _Code.ALREADY_EXISTS,
    "EVENT_NOT_FOUND": _Code.NOT_FOUND,
    "THREAD_NOT_FOUND": _Code.NOT_FOUND,
    "BRANCH_NOT_FOUND": _Code.NOT_FOUND,
    "REVISION_GONE": _Code.OUT_OF_RANGE,
    "REVISION_AHEAD": _Code.OUT_OF_RANGE,
    "HISTORY_TOO_LARGE": _Code.RESOURCE_EXHAUSTED,
    "LIMIT_REACHED": _Code.RESOURCE_EXHAUSTED,
    "STREAM_AGE_REACHED": _Code.UNAVAILABLE,
    "SHUTTING_DOWN": _Code.UNAVAILABLE,
    "STORE_UNAVAILABLE": _Code.UNAVAILABLE,
    "INSTANCE_ATTACHED": _Code.FAILED_PRECONDITION,
    "NOT_SUPPORTED": _Code.UNIMPLEMENTED,
    "UNAUTHENTICATED": _Code.UNAUTHENTICATED,
    "PERMISSION_DENIED": _Code.PERMISSION_DENIED,
}

# Unicode's White_Space, from PropList.txt
WHITE_SPACE = [*"\t\n\v\f\r \x85\xa0\u1680", *map(chr, range(0x2000, 0x200B)), *"\u2028\u2029\u202f\u205f\u3000"]


class Stubs:
    """The services on one channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.memory = memory_pb2_grpc.MemoryStub(channel)
        self.scratch = scratch_pb2_grpc.ScratchStub(channel)
        self.state = state_store_pb2_grpc.StateStoreStub(channel)
        self.admin = admin_pb2_grpc.AdminStub(channel)


@contextmanager
def connected(address: str, **options: int) -> Iterator[Stubs]:
    """Give the services on a connection of their own; `options` are gRPC's, with _ for . after `grpc`."""
    arguments = [("grpc.use_local_subchannel_pool", 1), *options.items()]
    with grpc.insecure_channel(address, options=arguments) as channel:
        yield Stubs(channel)


# --- refusals


@dataclass(frozen=True)
class Refusal:
    """An error as a client sees it."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    domain: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    retry_after: float | None = None


def refusal_of(error: grpc.RpcError) -> Refusal:
    """Return what an error says, from its `google.rpc.Status` details where it has some."""
    status = rpc_status.from_call(error)
    info, bad, retry = ErrorInfo(), BadRequest(), RetryInfo()
    delay: float | None = None
    for detail in status.details if status else ():
        detail.Unpack(info)
        detail.Unpack(bad)
        if detail.Unpack(retry):
            delay = retry.retry_delay.ToTimedelta().total_seconds()
    paths = tuple(violation.field for violation in bad.field_violations)
    return Refusal(error.code(), error.details() or "", info.reason, info.domain, dict(info.metadata), paths, delay)


def refused(
    reason: str, method: Callable[..., Any], request: object, *, at: str | None = None, **metadata: object
) -> Refusal:
    """Make a call that must be refused, check what every refusal must be, and return it.

    `at` is the path of the field at fault, `metadata` what the ErrorInfo must say at least.
    """
    try:
        answer = method(request, timeout=PATIENCE)
        if isinstance(answer, grpc.Call):
            answer = list(answer)
    except grpc.RpcError as error:
        return check_refusal(error, reason, at=at, **metadata)
    raise AssertionError(f"not refused with {reason}, but answered {str(answer)[:200]!r}")


def check_refusal(error: grpc.RpcError, reason: str, *, at: str | None = None, **metadata: object) -> Refusal:
    """Check what every refusal must be, and return it."""
    refusal = refusal_of(error)
    assert refusal.reason == reason, refusal
    assert refusal.code == CODES[reason], refusal
    assert refusal.domain == "statekeep", refusal
    assert 0 < len(refusal.message.encode()) <= 1024, refusal
    if at is not None:
        assert refusal.fields == (at,), refusal
    said = {key: str(value) for key, value in metadata.items()}
    assert said.items() <= refusal.metadata.items(), refusal
    for quoted in re.findall(r"(?<!\w)'([^']*)'(?!\w)", refusal.message):
        assert any(quoted in part for part in refusal.metadata.values()), (
            f"a variable part is not in the metadata: {refusal}"
        )
    return refusal


# --- requests


def scope(name: str, kind: memory.ScopeType.ValueType = memory.SCOPE_TYPE_NAMESPACE) -> memory.Scope:
    return memory.Scope(name=name, type=kind)


def set_of(scope_name: str, key: str, json: str = "1", **fields: Any) -> memory.MemorySetRequest:
    return memory.MemorySetRequest(scope=scope(scope_name), key=key, value=Value(json=json), **fields)


def key_of(scope_name: str, key: str, **fields: Any) -> memory.MemoryGetRequest:
    return memory.MemoryGetRequest(scope=scope(scope_name), key=key, **fields)


def event_of(thread: str, event_id: str = "", branch: str = "", **fields: Any) -> state.Event:
    return state.Event(id=event_id, thread_id=thread, branch_id=branch, **{"type": "note", **fields})


def next_of(thread: str, event_id: str = "", branch: str = "", **fields: Any) -> state.AppendNextEventRequest:
    return state.AppendNextEventRequest(event=event_of(thread, event_id, branch, **fields))


def given_of(thread: str, sequence: int, event_id: str = "", **fields: Any) -> state.AppendEventRequest:
    return state.AppendEventRequest(event=event_of(thread, event_id, sequence=sequence, **fields))


def checkpoint_of(thread: str, checkpoint_id: str = "", **fields: Any) -> state.SaveCheckpointRequest:
    filled = {"state": Value(json="{}"), **fields}
    return state.SaveCheckpointRequest(checkpoint=state.Checkpoint(id=checkpoint_id, thread_id=thread, **filled))


def stream_of(thread: str, **fields: Any) -> state.StreamHistoryRequest:
    return state.StreamHistoryRequest(thread_id=thread, **fields)


def watch_of(scope_name: str, **fields: Any) -> memory.MemoryWatchRequest:
    return memory.MemoryWatchRequest(scope=scope(scope_name), **fields)


def call_many(method: Any, requests: Iterable[Any], at_once: int = 100) -> list[Any]:
    """Make many calls, so many of them in flight at once, and return their answers in order."""
    remaining = list(requests)
    answers: list[Any] = []
    while remaining:
        calls = [method.future(request, timeout=PATIENCE) for request in remaining[:at_once]]
        answers += [call.result() for call in calls]
        remaining = remaining[at_once:]
    return answers


# --- reading


def events_in(stubs: Stubs, thread: str, branch: str = "") -> list[state.Event]:
    answer = stubs.state.GetHistory(state.GetHistoryRequest(thread_id=thread, branch_id=branch))
    return list(answer.history.events)


def ids(records: Iterable[Any]) -> list[str]:
    return [record.id for record in records]


def sent(messages: Iterable[Any]) -> list[str]:
    """Return the ids of the events in messages of StreamHistory."""
    return [event.id for message in messages for event in message.events]


def until_caught_up(stream: Iterable[Any]) -> list[Any]:
    """Read a stream's messages up to the one that says caught_up."""
    messages = []
    for message in stream:
        messages.append(message)
        if message.caught_up:
            return messages
    raise AssertionError("the stream ended, and was never caught up")


def read_records(stream: Iterable[Any], count: int) -> list[Any]:
    """Read messages of a stream until they hold so many events or entries, and return those."""
    records: list[Any] = []
    if count == 0:
        return records
    for message in stream:
        records += message.entries if hasattr(message, "entries") else message.events
        if len(records) >= count:
            return records
    raise AssertionError(f"the stream ended after {len(records)} of {count} records")


def end_of(stream: Iterable[Any]) -> Refusal:
    """Read a stream to the error that ends it."""
    try:
        for _ in stream:
            pass
    except grpc.RpcError as error:
        return refusal_of(error)
    raise AssertionError("the stream ended well")


def until(what: str, condition: Callable[[], object], within: float = 10.0) -> None:
    """Look again and again until a condition holds; an error after `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.01)


def pages(method: Callable[[Any], Any], request: Any, most: int = 5000) -> Iterator[Any]:
    """Yield the pages of a listing, one call each."""
    following = type(request)()
    following.CopyFrom(request)
    for _ in range(most):
        page = method(following)
        yield page
        if not page.next_page_token:
            return
        following.page_token = page.next_page_token
    raise AssertionError("the pages do not end")


def items(method: Callable[[Any], Any], request: Any, name: str) -> list[Any]:
    """Return all items of a listing, `name` being their field."""
    return [item for page in pages(method, request) for item in getattr(page, name)]


def values_of(entries: Sequence[memory.MemoryEntry]) -> list[str]:
    return [entry.value.json for entry in entries]
