"""A status becomes the error of its reason, or of its code, and never a grpc.RpcError."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
import statekeep
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from statekeep import errors

CODES = {
    "INVALID_ARGUMENT": ["INVALID_FIELD", "VALUE_TOO_LARGE", "REQUEST_ID_REUSED"],
    "ABORTED": ["VERSION_MISMATCH", "SEQUENCE_MISMATCH"],
    "ALREADY_EXISTS": ["EVENT_EXISTS", "BRANCH_EXISTS", "PARTITION_EXISTS"],
    "NOT_FOUND": ["EVENT_NOT_FOUND", "THREAD_NOT_FOUND", "BRANCH_NOT_FOUND"],
    "OUT_OF_RANGE": ["REVISION_GONE", "REVISION_AHEAD"],
    "RESOURCE_EXHAUSTED": ["HISTORY_TOO_LARGE", "LIMIT_REACHED"],
    "FAILED_PRECONDITION": ["INSTANCE_ATTACHED"],
    "UNAUTHENTICATED": ["UNAUTHENTICATED"],
    "PERMISSION_DENIED": ["PERMISSION_DENIED"],
    "UNIMPLEMENTED": ["NOT_SUPPORTED"],
    "UNAVAILABLE": ["SHUTTING_DOWN", "STREAM_AGE_REACHED", "STORE_UNAVAILABLE"],
}
REASONS = [(reason, grpc.StatusCode[code]) for code, reasons in CODES.items() for reason in reasons]


def fail(code: grpc.StatusCode, *details: Any) -> Callable[..., Any]:
    """A behaviour that fails with a status."""
    packed = []
    for detail in details:
        packed.append(AnyMessage())
        packed[-1].Pack(detail)
    status = Status(code=code.value[0], message="in words", details=packed)

    def behave(request: Any, context: grpc.ServicerContext) -> None:
        context.abort_with_status(rpc_status.to_status(status))

    return behave


def failed(address: str) -> errors.StatekeepError:
    with statekeep.Client(address) as client, pytest.raises(errors.StatekeepError) as caught:
        client.memory.get("k", scope="s")
    return caught.value


@pytest.mark.parametrize(("reason", "code"), REASONS)
def test_each_reason_of_the_contract_has_its_class(play: Any, reason: str, code: grpc.StatusCode) -> None:
    info = ErrorInfo(reason=reason, domain="statekeep", metadata={"expected": "1", "actual": "2"})
    error = failed(play({"Memory.Get": fail(code, info)}))
    assert type(error) is errors.BY_REASON[reason]
    assert type(error).__name__.lower() == f"{reason.replace('_', '').lower()}error"
    assert (error.reason, error.code) == (reason, code)
    assert error.metadata == {"expected": "1", "actual": "2"}
    assert error.message == str(error) == "in words"
    assert isinstance(error, errors.BY_CODE[code])


def test_the_table_has_every_reason_there_is() -> None:
    assert {reason for reason, _ in REASONS} == errors.BY_REASON.keys()


def test_the_fields_at_fault_and_the_retry_delay_are_told(play: Any) -> None:
    fields = BadRequest(field_violations=[BadRequest.FieldViolation(field="scope.name", description="is blank")])
    retry = RetryInfo(retry_delay=Duration(nanos=250_000_000))
    info = ErrorInfo(reason="INVALID_FIELD")
    error = failed(play({"Memory.Get": fail(grpc.StatusCode.INVALID_ARGUMENT, info, fields, retry)}))
    assert error.fields == {"scope.name": "is blank"}
    assert error.retry_delay == 0.25


def test_a_reason_this_client_does_not_know_goes_by_its_code(play: Any) -> None:
    error = failed(play({"Memory.Get": fail(grpc.StatusCode.ABORTED, ErrorInfo(reason="NEWER"))}))
    assert type(error) is errors.ConflictError
    assert error.reason == "NEWER"


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_a_status_without_details_goes_by_its_code(play: Any, code: grpc.StatusCode) -> None:
    error = failed(play({"Memory.Get": fail(code)}))
    assert type(error) is errors.BY_CODE.get(code, errors.StatekeepError)
    assert (error.code, error.reason, error.metadata) == (code, "", {})


def test_details_that_do_not_parse_are_passed_over(play: Any) -> None:
    def behave(request: Any, context: grpc.ServicerContext) -> None:
        context.set_trailing_metadata([("grpc-status-details-bin", b"\xff\xff")])
        context.abort(grpc.StatusCode.NOT_FOUND, "gone")

    assert type(failed(play({"Memory.Get": behave}))) is errors.NotFoundError


def test_no_server_is_unavailable() -> None:
    error = failed("127.0.0.1:1")
    assert type(error) is errors.UnavailableError
    assert "connect" in str(error)


def test_an_unknown_method_is_unimplemented(play: Any) -> None:
    assert type(failed(play({}))) is errors.UnimplementedError


@pytest.mark.parametrize("kind", sorted(set(errors.BY_REASON.values()) | set(errors.BY_CODE.values()), key=str))
def test_an_error_is_the_same_after_pickling(kind: type[errors.StatekeepError]) -> None:
    error = kind("in words", reason="R", metadata={"a": "b"}, fields={"c": "d"}, retry_delay=1.5)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 # its own bytes
    assert type(copy) is kind
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_errors_are_also_what_python_programs_expect() -> None:
    assert issubclass(errors.InvalidFieldError, ValueError)
    assert issubclass(errors.UsageError, ValueError)
    assert issubclass(errors.ContextError, RuntimeError)
    assert issubclass(errors.StateError, RuntimeError)
    assert issubclass(errors.DeadlineExceededError, TimeoutError)


def test_a_stream_fails_with_the_same_errors(play: Any) -> None:
    def behave(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        fail(grpc.StatusCode.OUT_OF_RANGE, ErrorInfo(reason="REVISION_GONE", metadata={"oldest": "7"}))(
            request, context
        )
        yield

    address = play({"StateStore.StreamHistory": behave})
    with statekeep.Client(address) as client, pytest.raises(errors.RevisionGoneError, match="in words") as caught:
        next(client.state.tail("t", after_revision=3))
    assert caught.value.metadata == {"oldest": "7"}
