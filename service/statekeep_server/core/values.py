"""Values: what is accepted, and what is said of them. They are never changed, only refused."""

import json
import re
from collections.abc import Callable
from itertools import accumulate

import orjson
from statekeep.v1.value_pb2 import Value

from statekeep_server.core import large_json
from statekeep_server.core.errors import StatekeepError, invalid
from statekeep_server.core.journal import Limits
from statekeep_server.core.sizes import check_record

MAX_DEPTH = 512
_LARGE = 64 * 2**10  # characters

_TYPES = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
_BLANKS = " \t\n\r"  # RFC 8259's, fewer than Unicode's
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # or one that never ends
_DEPTH_STEPS = [0] * 256
_DEPTH_STEPS[ord("[")] = _DEPTH_STEPS[ord("{")] = 1
_DEPTH_STEPS[ord("]")] = _DEPTH_STEPS[ord("}")] = -1


def check(value: Value, field: str, limits: Limits) -> str:
    """Refuse a value without a kind, too large, or whose JSON is not RFC 8259 or nested too deep; return its kind."""
    kind = value.WhichOneof("kind")
    if kind is None:
        raise invalid(field, "has no kind; set json, text or data (JSON null is a value)")
    if kind == "json":
        text = value.json
        if len(text) >= _LARGE:
            check_record(value.ByteSize(), limits, field)  # the whole record's size is looked at when that is made
        _check_json(text, field)
    return kind


def check_list(value: Value, field: str, limits: Limits) -> None:
    """Refuse what is not a JSON list."""
    if check(value, field, limits) != "json" or json_type(value.json) != "array":
        raise invalid(field, "is not a JSON list; send one in json, [] where there is nothing")


def value_type(value: Value, kind: str) -> str:
    """Return what a checked value is: its JSON type, "text", or its media type."""
    if kind == "json":
        return json_type(value.json)
    if kind == "text":
        return "text"
    return value.content_type or "application/octet-stream"


def json_type(text: str) -> str:
    """Return the type of a JSON text that was checked, by its first character; "number" for any other."""
    first = text[:1]
    if first in _BLANKS:
        first = text.lstrip(_BLANKS)[:1]
    return _TYPES.get(first, "number")


def _check_json(text: str, field: str) -> None:
    if len(text) >= _LARGE:
        _check_large_json(text, field)
        return
    if len(text) > MAX_DEPTH and _brackets(text) > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise _too_deep(field)
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        # orjson also refuses numbers that no double holds, which RFC 8259 allows: look again, without machine numbers.
        problem = _json_problem(text)
        if problem:
            raise _not_json(field, problem, error.pos) from None


def _check_large_json(text: str, field: str) -> None:
    if not large_json.is_json(text):
        problem, position = large_json.problem_of(text)
        if text[position : position + 1] in ("[", "{") and _open(text[:position]) >= MAX_DEPTH:
            raise _too_deep(field)
        raise _not_json(field, problem, position)
    alone = large_json.lone_surrogate(text)
    if alone >= 0:
        raise _not_json(field, "a lone surrogate", alone)
    if _brackets(text) > MAX_DEPTH and large_json.deeper_than(MAX_DEPTH, text):
        raise _too_deep(field)


def _brackets(text: str) -> int:
    return text.count("[") + text.count("{")


def _too_deep(field: str) -> StatekeepError:
    return invalid(f"{field}.json", "is nested deeper than {max}; flatten it, or send it as text", max=MAX_DEPTH)


def _not_json(field: str, problem: str, position: int) -> StatekeepError:
    return invalid(
        f"{field}.json",
        "is not JSON as RFC 8259 has it: {problem} at character {position}",
        problem=problem,
        position=position,
    )


def _json_problem(text: str) -> str | None:
    try:
        _SYNTAX.decode(text)
    except json.JSONDecodeError as error:
        return error.msg
    except ValueError as error:
        return str(error)
    return None if large_json.lone_surrogate(text) < 0 else "a lone surrogate"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


_keep: Callable[[str], str] = str
_SYNTAX = json.JSONDecoder(parse_float=_keep, parse_int=_keep, parse_constant=_refuse_constant)


def _open(text: str) -> int:
    """Return how many brackets outside of strings are open at the end of a text."""
    bare = _STRING.sub("", text)
    return _brackets(bare) - bare.count("]") - bare.count("}")


def _depth(text: str) -> int:
    """Return how deep brackets nest outside of strings."""
    bare = _STRING.sub("", text).encode()
    return max(accumulate(map(_DEPTH_STEPS.__getitem__, bare)), default=0)
