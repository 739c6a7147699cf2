"""Large texts are checked by another parser than small ones: both must say the same of each."""

import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from statekeep.v1.value_pb2 import Value
from statekeep_server.core import large_json, values
from statekeep_server.core.errors import StatekeepError
from statekeep_server.core.journal import Limits

LARGE = 64 * 2**10
PIECES = [
    "[", "]", "{", "}", ",", ":", '"', '"a"', '"a":', "1", "-", "0", "01", "1.", ".5", "1e5", "1e999", "e", "+1", " ",
    "\t", "\n", "\r", "\x0b", "\x00", "\xa0", "\u2028", "\ufeff", "\\", '"\\u0000"', '"\\ud83d\\ude00"', '"\\ud800"',
    '"\\ude00"', '"\\\\ud800"', '"\\x41"', '"\x01"', '"\x7f"', "'a'", "true", "false", "null", "nul", "NaN", "Infinity",
    "-Infinity", "0x10", "//a", "/*a*/", "é", "\U0001f600", '"é"', "9" * 400,
]  # fmt: skip


def refusal(text: str) -> str | None:
    try:
        values.check(Value(json=text), "value", Limits())
    except StatekeepError as error:
        return error.message
    return None


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@example("1],[1")
@example("")
@example("1\x00")
@example("[1]\x00]")
def test_a_text_is_json_for_both_parsers_or_for_none(text: str) -> None:
    padded = text + " " * LARGE  # blanks after it change nothing
    assert (refusal(text) is None) == (refusal(padded) is None)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=20))
def test_what_json_dumps_makes_of_it_is_taken_unless_it_has_what_json_has_not(content: object) -> None:
    text = json.dumps(content, allow_nan=True) + " " * LARGE
    has_constant = any(word in json.dumps(content) for word in ("NaN", "Infinity"))
    assert refusal(text) is None or has_constant or "\\ud" in text


def nested(depth: int, inside: str = "") -> str:
    return "[" * depth + inside + "]" * depth + " " * LARGE


def test_the_depth_is_the_same_for_both() -> None:
    assert refusal(nested(512)) is None
    for depth in (513, 1000, 1001, 30_000):
        assert "nested deeper than 512" in (refusal(nested(depth)) or "")
    wide = "[" + ",".join(["[]"] * 40_000) + "]"
    assert refusal(wide) is None
    assert "nested deeper" in (refusal(f"[{wide},{nested(512)}]") or "")


@pytest.mark.parametrize(
    ("end", "problem", "position"),
    [
        ("1 [2]]", "a syntax error", LARGE + 6),
        ("1,", "a syntax error", LARGE + 6),
        ('"\\ud83dx"]', "a lone surrogate", LARGE + 5),
        ("1]\x00", "a zero byte", LARGE + 6),
    ],
)
def test_what_is_wrong_is_told_with_its_place(end: str, problem: str, position: int) -> None:
    text = '["' + "x" * LARGE + '",' + end
    message = refusal(text)
    assert message == f"value.json: is not JSON as RFC 8259 has it: {problem} at character {position}"


def test_a_large_text_is_not_kept_after_it_was_checked() -> None:
    text = "[" + ",".join(['"abc"'] * 300_000) + "]"
    assert large_json.is_json(text)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(20):
        assert large_json.is_json(text + " " * number)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000


def test_threads_that_ask_for_the_depth_at_once_get_the_same() -> None:
    text = "[" * 512 + "1" + "]" * 512
    for _ in range(5):
        large_json._deepest.cache_clear()
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda _: large_json.deeper_than(512, text), range(4)))
        assert found == [False] * 4
        assert large_json.deeper_than(511, text)
