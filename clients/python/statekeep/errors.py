"""What can go wrong: one class for each reason a server gives, and the client's own."""

from collections.abc import Mapping

from grpc import StatusCode


class StatekeepError(Exception):
    """The base of every error this package raises for a call.

    Attributes:
        message: What happened, in words. Also what ``str()`` gives.
        reason: The server's stable name for it, such as ``VERSION_MISMATCH``; empty where gRPC itself or
            this client raised the error.
        code: The gRPC status code.
        metadata: The variable parts of the message, by name.
        fields: What is wrong with each field at fault, by the field's path.
        retry_delay: Seconds after which the server suggests to try again, or None.
    """

    default_code = StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        code: StatusCode | None = None,
        metadata: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        retry_delay: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.code = code or self.default_code
        self.metadata = dict(metadata or {})
        self.fields = dict(fields or {})
        self.retry_delay = retry_delay


class InvalidArgumentError(StatekeepError, ValueError):
    """The request itself is wrong; sending it again does not help."""

    default_code = StatusCode.INVALID_ARGUMENT


class InvalidFieldError(InvalidArgumentError):
    """A field is malformed or missing: see ``fields``."""


class ValueTooLargeError(InvalidArgumentError):
    """The record is over the server's limit: ``size`` and ``max`` in the metadata, in bytes."""


class RequestIdReusedError(InvalidArgumentError):
    """The request id was used before, for another request."""


class ConflictError(StatekeepError):
    """Someone else was faster. Read again, and decide again."""

    default_code = StatusCode.ABORTED


class VersionMismatchError(ConflictError):
    """The key's version is not the expected one: ``expected`` and ``actual`` in the metadata."""


class SequenceMismatchError(ConflictError):
    """The branch's last sequence is not the expected one: ``expected`` and ``actual`` in the metadata."""


class AlreadyExistsError(StatekeepError):
    """The name or id is taken."""

    default_code = StatusCode.ALREADY_EXISTS


class EventExistsError(AlreadyExistsError):
    """The branch holds an event of this id that says something else."""


class BranchExistsError(AlreadyExistsError):
    """The thread has a branch of this name."""


class PartitionExistsError(AlreadyExistsError):
    """The scope or thread to be imported is there already, and holds something else."""


class NotFoundError(StatekeepError):
    """Something the request names is not there."""

    default_code = StatusCode.NOT_FOUND


class EventNotFoundError(NotFoundError):
    """The branch holds no such event."""


class ThreadNotFoundError(NotFoundError):
    """There is no such thread."""


class BranchNotFoundError(NotFoundError):
    """The thread has no such branch."""


class CursorError(StatekeepError):
    """A read cannot resume at the revision given."""

    default_code = StatusCode.OUT_OF_RANGE


class RevisionGoneError(CursorError):
    """What followed the revision was removed: ``oldest`` in the metadata is where a read can begin."""


class RevisionAheadError(CursorError):
    """The revision was never reached: ``newest`` in the metadata is the last there is."""


class ResourceExhaustedError(StatekeepError):
    """A limit was reached. Never retried."""

    default_code = StatusCode.RESOURCE_EXHAUSTED


class HistoryTooLargeError(ResourceExhaustedError):
    """The branch does not fit one message: read it with ``history()``."""


class LimitReachedError(ResourceExhaustedError):
    """The server's limit named in the metadata (``limit``, ``max``) was reached."""


class UnavailableError(StatekeepError):
    """The server could not be reached, or cannot answer now. The only error that is retried."""

    default_code = StatusCode.UNAVAILABLE


class StreamAgeReachedError(UnavailableError):
    """The server lets no stream follow for longer. A read is resumed by itself."""


class ShuttingDownError(UnavailableError):
    """The server is going away."""


class StoreUnavailableError(UnavailableError):
    """The server's store does not answer."""


class FailedPreconditionError(StatekeepError):
    """The state of things does not allow the request."""

    default_code = StatusCode.FAILED_PRECONDITION


class InstanceAttachedError(FailedPreconditionError):
    """The scratch instance is attached by someone else."""


class UnauthenticatedError(StatekeepError):
    """The token is missing or wrong."""

    default_code = StatusCode.UNAUTHENTICATED


class PermissionDeniedError(StatekeepError):
    """The token does not allow the request."""

    default_code = StatusCode.PERMISSION_DENIED


class DeadlineExceededError(StatekeepError, TimeoutError):
    """No answer came within the timeout. A write may have happened all the same."""

    default_code = StatusCode.DEADLINE_EXCEEDED


class CallCancelledError(StatekeepError):
    """The call was cancelled before it was answered."""

    default_code = StatusCode.CANCELLED


class UnimplementedError(StatekeepError):
    """The server does not know the method: it is older than this client, or no Statekeep."""

    default_code = StatusCode.UNIMPLEMENTED


class NotSupportedError(UnimplementedError):
    """The server, as it was started, has not what the request needs, such as a file to back up."""


class InternalError(StatekeepError):
    """The server, or gRPC, is at fault."""

    default_code = StatusCode.INTERNAL


class UsageError(StatekeepError, ValueError):
    """An argument was refused before anything was sent."""

    default_code = StatusCode.INVALID_ARGUMENT


class ExportFileError(StatekeepError, ValueError):
    """A file is no export that can be imported: ``line`` in the metadata says where it is wrong."""

    default_code = StatusCode.INVALID_ARGUMENT


class ContextError(StatekeepError, RuntimeError):
    """The call is not allowed where it was made, such as inside a checkpoint."""

    default_code = StatusCode.FAILED_PRECONDITION


class StateError(StatekeepError, RuntimeError):
    """Something has to be done first, such as configuring a scope."""

    default_code = StatusCode.FAILED_PRECONDITION


class ClosedError(StateError):
    """The client was closed."""


# The Errors table of the contract, turned around.
BY_REASON: Mapping[str, type[StatekeepError]] = {
    "INVALID_FIELD": InvalidFieldError,
    "VALUE_TOO_LARGE": ValueTooLargeError,
    "REQUEST_ID_REUSED": RequestIdReusedError,
    "VERSION_MISMATCH": VersionMismatchError,
    "SEQUENCE_MISMATCH": SequenceMismatchError,
    "EVENT_EXISTS": EventExistsError,
    "BRANCH_EXISTS": BranchExistsError,
    "PARTITION_EXISTS": PartitionExistsError,
    "EVENT_NOT_FOUND": EventNotFoundError,
    "THREAD_NOT_FOUND": ThreadNotFoundError,
    "BRANCH_NOT_FOUND": BranchNotFoundError,
    "REVISION_GONE": RevisionGoneError,
    "REVISION_AHEAD": RevisionAheadError,
    "HISTORY_TOO_LARGE": HistoryTooLargeError,
    "LIMIT_REACHED": LimitReachedError,
    "STREAM_AGE_REACHED": StreamAgeReachedError,
    "SHUTTING_DOWN": ShuttingDownError,
    "STORE_UNAVAILABLE": StoreUnavailableError,
    "INSTANCE_ATTACHED": InstanceAttachedError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "NOT_SUPPORTED": NotSupportedError,
}

# For a reason this client does not know yet, and for what gRPC itself answers.
BY_CODE: Mapping[StatusCode, type[StatekeepError]] = {
    kind.default_code: kind
    for kind in (
        InvalidArgumentError,
        ConflictError,
        AlreadyExistsError,
        NotFoundError,
        CursorError,
        ResourceExhaustedError,
        UnavailableError,
        FailedPreconditionError,
        UnauthenticatedError,
        PermissionDeniedError,
        DeadlineExceededError,
        CallCancelledError,
        UnimplementedError,
        InternalError,
    )
}
