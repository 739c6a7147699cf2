"""Turns what gRPC raises into the errors of this package."""

from typing import TypeVar, cast

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from statekeep.errors import BY_CODE, BY_REASON, StatekeepError

_M = TypeVar("_M", bound=Message)

_DETAILS = "grpc-status-details-bin"


def error_of(failure: grpc.RpcError) -> StatekeepError:
    """The typed error for a failed call: by the server's reason, or else by the status code."""
    # Every RpcError that a call raises is that call too, which the base class does not say.
    call = cast("grpc.Call", failure)
    status = _status(call)
    info, retry = _detail(status, ErrorInfo), _detail(status, RetryInfo)
    kind = BY_REASON.get(info.reason) or BY_CODE.get(call.code(), StatekeepError)
    return kind(
        call.details() or call.code().name,
        reason=info.reason,
        code=call.code(),
        metadata=info.metadata,
        fields={field.field: field.description for field in _detail(status, BadRequest).field_violations},
        retry_delay=retry.retry_delay.ToTimedelta().total_seconds() if retry.HasField("retry_delay") else None,
    )


def _status(call: grpc.Call) -> Status:
    """The google.rpc.Status sent with the call's end; empty where there is none that can be read."""
    trailers = {key: value for key, value in call.trailing_metadata() or () if key == _DETAILS}
    try:
        return Status.FromString(bytes(trailers.get(_DETAILS, b"")))  # type: ignore[arg-type] # -bin is bytes
    except DecodeError:
        return Status()


def _detail(status: Status, kind: type[_M]) -> _M:
    """The status's detail of that kind; an empty one where it has none."""
    message = kind()
    for detail in status.details:
        if detail.Is(kind.DESCRIPTOR):
            detail.Unpack(message)
            break
    return message
