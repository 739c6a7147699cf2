"""The one table from a refusal's reason to a gRPC status, and how a refusal travels in `google.rpc.Status`."""

import math

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from statekeep_server.core.errors import Reason, StatekeepError

DOMAIN = "statekeep"

CODES = {
    Reason.INVALID_FIELD: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.VALUE_TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.REQUEST_ID_REUSED: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.VERSION_MISMATCH: grpc.StatusCode.ABORTED,
    Reason.SEQUENCE_MISMATCH: grpc.StatusCode.ABORTED,
    Reason.EVENT_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Reason.BRANCH_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Reason.PARTITION_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Reason.EVENT_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.THREAD_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.BRANCH_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.REVISION_GONE: grpc.StatusCode.OUT_OF_RANGE,
    Reason.REVISION_AHEAD: grpc.StatusCode.OUT_OF_RANGE,
    Reason.HISTORY_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.LIMIT_REACHED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.STREAM_AGE_REACHED: grpc.StatusCode.UNAVAILABLE,
    Reason.SHUTTING_DOWN: grpc.StatusCode.UNAVAILABLE,
    Reason.STORE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Reason.INSTANCE_ATTACHED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.PERMISSION_DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.NOT_SUPPORTED: grpc.StatusCode.UNIMPLEMENTED,
    Reason.INTERNAL: grpc.StatusCode.INTERNAL,
}


def status(error: StatekeepError) -> grpc.Status:
    """Return a refusal as what `ServicerContext.abort_with_status` takes."""
    code: int = CODES[error.reason].value[0]
    return rpc_status.to_status(Status(code=code, message=error.message, details=_details(error)))


def _details(error: StatekeepError) -> list[Any]:
    info = ErrorInfo(reason=error.reason.value, domain=DOMAIN, metadata=error.metadata)
    details: list[ErrorInfo | BadRequest | RetryInfo] = [info]
    if error.field:
        violation = BadRequest.FieldViolation(field=error.field, description=error.message, reason=error.reason.value)
        details.append(BadRequest(field_violations=[violation]))
    if error.retry_after is not None:
        retry = RetryInfo()
        fraction, seconds = math.modf(error.retry_after)
        retry.retry_delay.seconds, retry.retry_delay.nanos = int(seconds), round(fraction * 1e9)
        details.append(retry)
    packed = []
    for detail in details:
        anything = Any()
        anything.Pack(detail)
        packed.append(anything)
    return packed
