"""How large a record and an answer may be."""

from statekeep_server.core.errors import Reason, StatekeepError, limit_reached
from statekeep_server.core.journal import Limits


def check_record(size: int, limits: Limits, path: str) -> None:
    """Refuse a record that is too large to store; `path` is the field that makes it so."""
    if size > limits.record:
        raise StatekeepError(
            Reason.VALUE_TOO_LARGE,
            "The record would be {size} bytes, and --max-record allows {max}; keep it in parts, or its address here",
            field=path,
            size=size,
            max=limits.record,
        )


def check_batch(count: int, limits: Limits) -> None:
    """Refuse a request of so many parts that nobody else would be answered for long."""
    if 0 < limits.batch < count:
        raise limit_reached(
            "items of a batch", limits.batch, "send several, or have the server started with a higher --max-batch"
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
