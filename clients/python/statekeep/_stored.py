"""Records that stand over the message that brought them, and read each field from it when they are asked for it.

Few readers of a long history look at every field of every event, and making all of them costs ten times what the rest
of the way to the reader does.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from statekeep.values import Raw, object_of, object_of_message, raw_of_message

R = TypeVar("R", bound="Stored")


class Stored:
    """What `stored` makes a record of a message of. It has one slot: the message, or the values it was made of."""

    __slots__ = ("_message",)
    _message: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]


# Gets past the lock of a frozen dataclass.
_set_message = Stored.__dict__["_message"].__set__


class _Values(SimpleNamespace):
    """What a record was made of that no message brought."""


def stored(**reads: Callable[[Any], Any]) -> Callable[[type[R]], type[R]]:
    """Lets a frozen dataclass read its fields from a message: these as told, all others by their names."""

    def decorate(record: type[R]) -> type[R]:
        for field in fields(record):  # type: ignore[arg-type]
            setattr(record, field.name, property(_getter(field.name, reads.get(field.name)), _setter(field.name)))
        return record

    return decorate


def reader(record: type[R]) -> Callable[[Any], R]:
    """Makes the function that makes records of messages."""
    new = object.__new__

    def record_of(message: Any) -> R:
        made = new(record)
        _set_message(made, message)
        return made

    return record_of


def object_in(record: Stored, name: str, raw: str) -> Any:
    """Reads a value as a Python object, which a record made of values makes of its field ``raw``."""
    message = record._message
    if not isinstance(message, _Values):
        return object_of_message(getattr(message, name))
    kept = getattr(message, raw)
    return None if kept is None else object_of(kept)


def _getter(name: str, read: Callable[[Any], Any] | None) -> Callable[[Stored], Any]:
    if read is None:
        return attrgetter(f"_message.{name}")  # in C all the way

    def get(record: Stored) -> Any:
        message = record._message
        return getattr(message, name) if isinstance(message, _Values) else read(message)

    return get


def _setter(name: str) -> Callable[[Stored, Any], None]:
    """For the dataclass's own ``__init__``: all others meet its lock first."""

    def put(record: Stored, value: Any) -> None:
        if not hasattr(record, "_message"):
            _set_message(record, _Values())
        setattr(record._message, name, value)

    return put


def optional(name: str) -> Callable[[Any], Any]:
    """Reads a field that may be unset: None."""
    return lambda message: getattr(message, name) if message.HasField(name) else None


def value(name: str) -> Callable[[Any], Raw | None]:
    """Reads a value as it is kept."""
    return lambda message: raw_of_message(getattr(message, name))


def time(name: str) -> Callable[[Any], datetime]:
    """Reads a time."""
    return lambda message: time_of(getattr(message, name))


def optional_time(name: str) -> Callable[[Any], datetime | None]:
    """Reads a time that may be unset: None."""
    return lambda message: time_of(getattr(message, name)) if message.HasField(name) else None


def labels(message: Any) -> Mapping[str, str]:
    """Reads the labels."""
    return dict(message.labels)


def time_of(message: Timestamp) -> datetime:
    """The aware datetime of a timestamp, in UTC; what is finer than a microsecond is cut off."""
    return message.ToDatetime(tzinfo=UTC)
