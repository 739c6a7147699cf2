"""Whether a large text is JSON, as SQLite's parser says.

A parser that makes an object of each value takes 40 to 700 ms for 4 MiB, and no other thread runs; SQLite's makes
none, takes 4 to 40 ms, and lets others run. It has to be asked in the right way: it goes by RFC 8259 when told
to, stops at a zero byte, and does not pair surrogates.
"""

import re
import threading
from functools import cache

import apsw

# Text in which each \uD800-\uDBFF is followed by a \uDC00-\uDFFF, and none of the latter stands alone.
_PAIRED = re.compile(
    r"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F])*+", re.DOTALL
)
_RFC_8259 = 1  # what json_valid is to go by


class _Local(threading.local):
    """A connection for each thread, on nothing."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")

    def number(self, sql: str, *bindings: str | int) -> int:
        """Return the one number that a statement answers with."""
        rows = self.connection.execute(sql, bindings).fetchall()  # to its end, which lets go of the text
        return int(rows[0][0] or 0)


_local = _Local()


def is_json(text: str) -> bool:
    """Whether a text is JSON as RFC 8259 has it, nested up to 1,000 deep."""
    return "\0" not in text and _valid(text)


def problem_of(text: str) -> tuple[str, int]:
    """Return what is wrong with a text that is not JSON, and at which character, from 0."""
    zero = text.find("\0")
    if zero >= 0:
        return "a zero byte", zero
    position = _local.number("SELECT json_error_position(?)", text)
    return ("a syntax error", position - 1) if position else ("syntax of JSON5, after or", 0)


def lone_surrogate(text: str) -> int:
    """Return where the escape of a surrogate stands alone in a JSON text, from 0; -1 where none does."""
    if "\\ud" not in text and "\\uD" not in text:
        return -1
    found = _PAIRED.match(text)  # it matches nothing at least
    end = found.end() if found else 0
    return end if end < len(text) else -1


def deeper_than(depth: int, text: str) -> bool:
    """Whether a JSON text is nested deeper. It is put so deep into brackets that SQLite itself would refuse it then."""
    brackets = _deepest() - depth
    return not _valid("[" * brackets + text + "]" * brackets)


def _valid(text: str) -> bool:
    return bool(_local.number("SELECT json_valid(?, ?)", text, _RFC_8259))


@cache
def _deepest() -> int:
    """Return how deep SQLite itself goes: a constant of how it was built. Threads that ask at once each find it out."""
    depth = 0
    while _valid("[" * (depth + 1) + "]" * (depth + 1)):
        depth += 1
    return depth
