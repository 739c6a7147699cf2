"""The one place where messages are made of what a caller gives."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from statekeep.errors import UsageError

P = ParamSpec("P")
M = TypeVar("M", bound=Message)

_NUMBERS = {
    FieldDescriptor.TYPE_INT32: "a whole number from -2**31 to 2**31 - 1",
    FieldDescriptor.TYPE_INT64: "a whole number from -2**63 to 2**63 - 1",
    FieldDescriptor.TYPE_UINT32: "a whole number from 0 to 2**32 - 1",
    FieldDescriptor.TYPE_UINT64: "a whole number from 0 to 2**64 - 1",
    FieldDescriptor.TYPE_BOOL: "True or False",
}
_TEXT = "a str without lone surrogates"


def build(kind: Callable[P, M], /, *args: P.args, **fields: P.kwargs) -> M:
    """A message of that kind with those fields.

    Raises:
        UsageError: A field cannot be what was given for it.
    """
    try:
        return kind(*args, **fields)
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(kind, fields, error) from None


def _refusal(kind: Callable[..., Message], fields: dict[str, Any], error: Exception) -> UsageError:
    """The error that names the field at fault, for protobuf itself does not say which it is."""
    descriptor = kind().DESCRIPTOR
    for name, given in fields.items():
        try:
            kind(**{name: given})
        except (TypeError, ValueError, OverflowError):
            allowed = _allowed(descriptor.fields_by_name[name])
            return UsageError(f"{name} is {allowed}, not {_shown(given)}", fields={name: f"is not {allowed}"})
    return UsageError(f"{descriptor.name} cannot be made: {error}")


def _allowed(field: Any) -> str:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return f"a mapping from str to str, each {_TEXT}"
    one = _TEXT if field.type == FieldDescriptor.TYPE_STRING else _NUMBERS.get(field.type, "a message")
    return f"an iterable, each item {one}" if field.is_repeated else one


def _shown(given: object) -> str:
    """What was given, escaped, and short: it may be anything."""
    shown = ascii(given)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
