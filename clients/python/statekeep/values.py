"""Values as Python objects, and as they are kept.

What goes in comes out equal: ``str`` is kept as text, ``bytes`` (``bytearray``, ``memoryview``) as data, and
None, bool, int, float, list and dict as JSON. A tuple is kept as a JSON list and read back as a list.
:class:`Json`, :class:`Text` and :class:`Data` say outright how a value is kept, and carry its media type.
"""

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from statekeep.v1 import value_pb2

MAX_DEPTH = 512


@dataclass(frozen=True, slots=True)
class Json:
    """One JSON text (RFC 8259), kept byte for byte."""

    text: str
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes."""

    data: bytes
    content_type: str = ""


Raw: TypeAlias = Json | Text | Data


def raw_of(value: object) -> Raw:
    """How a Python object is kept.

    Raises:
        TypeError: It is, or holds, an object that no value can be made of, or a dict with a key that is no
            string (JSON would silently turn 1 into "1").
        ValueError: It holds NaN or Infinity, or lists and dicts nested deeper than 512.
    """
    if isinstance(value, Raw):
        return value
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return Data(bytes(value))
    _check_json(value, 0)
    return Json(_encode(value))


def object_of(raw: Raw) -> Any:
    """The Python object of a kept value: a new one each time.

    Raises:
        ValueError: The JSON holds a number that Python does not read, such as an integer of more than 4300
            digits (see ``sys.set_int_max_str_digits``). The raw value has it all the same.
    """
    if isinstance(raw, Json):
        return _parse(raw.text)
    return raw.text if isinstance(raw, Text) else raw.data


def message_of(value: object) -> value_pb2.Value:
    """The message for a Python object. Raises as :func:`raw_of`, and ValueError for a lone surrogate."""
    raw = raw_of(value)
    try:
        if isinstance(raw, Json):
            return value_pb2.Value(json=raw.text, content_type=raw.content_type)
        if isinstance(raw, Text):
            return value_pb2.Value(text=raw.text, content_type=raw.content_type)
    except UnicodeEncodeError as error:
        raise ValueError(f"a text cannot be kept as UTF-8: lone surrogate at {error.start}") from None
    return value_pb2.Value(data=raw.data, content_type=raw.content_type)


def raw_of_message(message: value_pb2.Value) -> Raw | None:
    """The kept value in a message; None where it has none."""
    match message.WhichOneof("kind"):
        case "json":
            return Json(message.json, message.content_type)
        case "text":
            return Text(message.text, message.content_type)
        case "data":
            return Data(message.data, message.content_type)
    return None


def object_of_message(message: value_pb2.Value) -> Any:
    """The Python object of the value in a message, as :func:`object_of`; None where it has none."""
    if text := message.json:  # as nearly always; no JSON text is empty
        return _parse(text)
    kind = message.WhichOneof("kind")
    if kind is None:
        return None
    content = getattr(message, kind)
    return _parse(content) if kind == "json" else content


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def _check_json(value: object, depth: int) -> None:
    """Refuses what JSON would refuse late, or would silently turn into something else."""
    if isinstance(value, dict | list | tuple):
        if depth == MAX_DEPTH:
            raise ValueError(f"a value may not be nested deeper than {MAX_DEPTH}")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"a dict in a value has string keys, not {type(key).__name__}")
        for item in value.values() if isinstance(value, dict) else value:
            _check_json(item, depth + 1)
    elif value is not None and not isinstance(value, str | int | float):
        raise TypeError(
            "a value is str, bytes, None, bool, int, float, list, dict (tuples become lists), "
            f"Json, Text or Data, and not {type(value).__name__}"
        )


def _number(text: str) -> float | Decimal:
    """A float, or where none comes near (1e999 would read inf, 1e-999 0.0) the exact decimal."""
    number = float(text)
    if number in (float("inf"), float("-inf"), 0.0):
        try:
            exact = Decimal(text)
        except InvalidOperation:
            raise ValueError(f"a number is out of every range: {text[:40]}") from None
        return exact if exact or number else number
    return number


_decoder = json.JSONDecoder(parse_float=_number)


def _parse(text: str) -> Any:
    """The Python object of a JSON text; without looking for blanks around it where there are none, as nearly always."""
    try:
        parsed, end = _decoder.raw_decode(text)
    except json.JSONDecodeError:  # a blank at its beginning
        return _decoder.decode(text)
    return parsed if end == len(text) else _decoder.decode(text)
