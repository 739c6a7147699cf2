"""What goes in comes out equal, or is refused."""

import json
import math
from decimal import Decimal
from enum import IntEnum, StrEnum

import pytest
from statekeep import Data, Json, Text
from statekeep.values import message_of, object_of, raw_of, raw_of_message


class Colour(StrEnum):
    RED = "red"


class Rank(IntEnum):
    FIRST = 1


def through(value: object) -> object:
    """The value after it was kept: through the bytes of its message."""
    message = message_of(value)
    raw = raw_of_message(type(message).FromString(message.SerializeToString()))
    assert raw is not None
    return object_of(raw)


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, 1, 1.0, 2**64, 2**53 + 1, -(10**300), 0.1, 5e-324, 1.7976931348623157e308, "", "a\x00b",
        "\\u0000", "日本 \U0001f600", b"", b"\x00\xff", [], {}, {"": None}, {"a": [1, {"b": "c"}]}, [[], [[]]],
        {"b": 1, "a": 2}, Colour.RED, Rank.FIRST, {"colour": Colour.RED, "rank": Rank.FIRST},
    ],
)  # fmt: skip
def test_a_value_comes_back_equal_and_of_its_kind(value: object) -> None:
    read = through(value)
    assert read == value
    assert isinstance(value, type(read))


def test_minus_zero_keeps_its_sign() -> None:
    assert math.copysign(1, through(-0.0)) == -1  # type: ignore[arg-type]


def test_one_and_one_point_zero_are_told_apart() -> None:
    assert raw_of(1) == Json("1")
    assert raw_of(1.0) == Json("1.0")


@pytest.mark.parametrize("value", [bytearray(b"ab"), memoryview(b"ab")])
def test_bytes_of_every_kind_are_kept_as_data(value: object) -> None:
    assert raw_of(value) == Data(b"ab")


def test_a_string_is_text_and_not_json() -> None:
    assert raw_of("[1]") == Text("[1]")


def test_a_tuple_becomes_a_list() -> None:
    assert through((1, (2, 3))) == [1, [2, 3]]


def test_the_text_of_json_is_kept_byte_for_byte() -> None:
    text = ' {"b":1.0, "a" : 1E400,"a":\t"\\u0000"} '
    raw = raw_of_message(message_of(Json(text)))
    assert raw == Json(text)


def test_a_media_type_is_kept() -> None:
    assert raw_of_message(message_of(Text("# Hi", "text/markdown"))) == Text("# Hi", "text/markdown")


@pytest.mark.parametrize("text", ["1e999", "-1e999", "1e-999"])
def test_a_number_no_float_comes_near_is_read_as_a_decimal(text: str) -> None:
    read = object_of(Json(f'{{"n": {text}}}'))
    assert read == {"n": Decimal(text)}
    assert isinstance(read["n"], Decimal)


def test_a_zero_is_a_float_however_it_is_written() -> None:
    assert object_of(Json("[0e5, -0.0]")) == [0.0, 0.0]
    assert all(isinstance(zero, float) for zero in object_of(Json("[0e5, -0.0]")))


def test_an_integer_over_pythons_limit_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="4300 digits"):
        object_of(Json("9" * 5000))
    with pytest.raises(ValueError, match="4300 digits"):
        raw_of(10**5000)


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf], {"a": math.nan}])
def test_what_json_has_no_number_for_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        raw_of(value)


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j, [b"bytes"], {"a": {1}}, Decimal(1)])
def test_what_no_value_is_made_of_is_refused_with_what_is(value: object) -> None:
    with pytest.raises(TypeError, match="a value is str, bytes, None, bool, int, float, list, dict"):
        raw_of(value)


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("a",)])
def test_a_key_that_json_would_turn_into_a_string_is_refused(key: object) -> None:
    with pytest.raises(TypeError, match="string keys"):
        raw_of({"outer": [{key: 1}]})


@pytest.mark.parametrize("value", ["\ud800", ["\udfff"], {"\ud800": 1}])
def test_a_lone_surrogate_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="lone surrogate"):
        message_of(value)


def test_512_levels_are_kept_and_513_refused() -> None:
    deep: object = []
    for _ in range(511):
        deep = [deep]
    assert raw_of(deep) == Json("[" * 512 + "]" * 512)
    with pytest.raises(ValueError, match="deeper than 512"):
        raw_of([deep])


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(ValueError, match="deeper than 512"):
        raw_of(value)


def test_what_a_reader_does_to_an_object_changes_no_record() -> None:
    raw = raw_of({"a": [1]})
    object_of(raw)["a"].append(2)
    assert object_of(raw) == {"a": [1]}
    assert json.loads(raw.text) == {"a": [1]}  # type: ignore[union-attr]
