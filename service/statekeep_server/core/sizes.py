"""How large a record and an answer may be."""

from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.journal import Limits


def check_record(size: int, limits: Limits, path: str) -> None:
    """Refuse a record that is too large to store; `path` is the field that makes it so."""
    if size > limits.record:
        raise StatekeepError(
            Reason.VALUE_TOO_LARGE,
            "The record would be {size} bytes; at most {max} are allowed",
            field=path,
            size=size,
            max=limits.record,
        )


def check_answer(size: int, limits: Limits) -> None:
    """Refuse what is answered in a message that a client with gRPC's default limit cannot read."""
    if size > limits.message:
        raise StatekeepError(
            Reason.LIMIT_REACHED,
            "The answer would be {size} bytes, and the limit of {limit} is {max}; ask for less at once",
            size=size,
            limit="message bytes",
            max=limits.message,
        )
