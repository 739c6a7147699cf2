"""The one error the rules raise: a reason of the contract, a message, and every variable part of it by name."""

from enum import StrEnum
from typing import Any, Literal, get_args

MESSAGE_BYTES = 1024


RETRY_AFTER = 1.0  # seconds; what a client is told that is refused by a shutdown


class Reason(StrEnum):
    """Why a call was refused. The names are the contract's and never change."""

    INVALID_FIELD = "INVALID_FIELD"
    VALUE_TOO_LARGE = "VALUE_TOO_LARGE"
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
    VERSION_MISMATCH = "VERSION_MISMATCH"
    SEQUENCE_MISMATCH = "SEQUENCE_MISMATCH"
    EVENT_EXISTS = "EVENT_EXISTS"
    BRANCH_EXISTS = "BRANCH_EXISTS"
    PARTITION_EXISTS = "PARTITION_EXISTS"
    EVENT_NOT_FOUND = "EVENT_NOT_FOUND"
    THREAD_NOT_FOUND = "THREAD_NOT_FOUND"
    BRANCH_NOT_FOUND = "BRANCH_NOT_FOUND"
    REVISION_GONE = "REVISION_GONE"
    REVISION_AHEAD = "REVISION_AHEAD"
    HISTORY_TOO_LARGE = "HISTORY_TOO_LARGE"
    LIMIT_REACHED = "LIMIT_REACHED"
    STREAM_AGE_REACHED = "STREAM_AGE_REACHED"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    INSTANCE_ATTACHED = "INSTANCE_ATTACHED"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NOT_SUPPORTED = "NOT_SUPPORTED"
    INTERNAL = "INTERNAL"


class StatekeepError(Exception):
    """A refusal.

    `template` is completed from `parts`, so each variable part of the message is in the metadata too. No part
    is ever a value that a client stored or sent. `field` is the path of the request's field that is at fault,
    `retry_after` the seconds after which the same call may succeed (None: a retry makes no sense).
    """

    def __init__(
        self,
        reason: Reason,
        template: str,
        *,
        field: str = "",
        retry_after: float | None = None,
        **parts: object,
    ) -> None:
        self.reason = reason
        self.metadata = {name: str(part) for name, part in parts.items()}
        if field:
            self.metadata["field"] = field
        self.message = _clip(template.format(**self.metadata))
        self.field = field
        self.retry_after = retry_after
        super().__init__(self.message)


def invalid(field: str, template: str, **parts: Any) -> StatekeepError:
    """Return the error for a field that is not as it must be; `template` says what would be right."""
    return StatekeepError(Reason.INVALID_FIELD, "{field}: " + template, field=field, **parts)


Limit = Literal[
    "backups at once",
    "concurrent calls",
    "events of a thread",
    "followers",
    "followers of a connection",
    "items of a batch",
    "key bytes of an instance",
    "keys of a scope",
    "memory bytes",
    "message bytes",
    "scratch bytes",
    "scratch instances",
    "sequence",
    "stream age",
    "version",
    "versions of a scope",
]
LIMITS: tuple[Limit, ...] = get_args(Limit)
"""What `limit` may be in the metadata of a refusal."""


def limit_reached(limit: Limit, most: int, advice: str) -> StatekeepError:
    """Return the refusal of what would go over a limit; `advice` says what would be right, in a few words."""
    return StatekeepError(
        Reason.LIMIT_REACHED, "The limit of {limit} is {max}, and it is reached; " + advice, limit=limit, max=most
    )


def stream_too_old(most: float) -> StatekeepError:
    """Return what ends a stream of a certain age: UNAVAILABLE, at which every client resumes."""
    return StatekeepError(
        Reason.STREAM_AGE_REACHED,
        "The stream is {max} seconds old, which is the limit of {limit}; resume at its last revision",
        limit="stream age",
        max=f"{most:g}",
        retry_after=0.0,
    )


def shutting_down() -> StatekeepError:
    """Return the refusal of a call by a server that stops."""
    return StatekeepError(
        Reason.SHUTTING_DOWN,
        "The server is shutting down; try again soon, a follower at its last revision",
        retry_after=RETRY_AFTER,
    )


def _clip(message: str) -> str:
    raw = message.encode()
    if len(raw) <= MESSAGE_BYTES:
        return message
    return raw[: MESSAGE_BYTES - 3].decode(errors="ignore") + "…"
