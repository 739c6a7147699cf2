"""How records are written: aligned columns for people, JSON lines for programs."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import orjson
from statekeep.records import Branch, Checkpoint, Entry, Event, ScopeInfo, Thread
from statekeep.values import Data, Json, Raw, Text

Kept = Entry | Event | Checkpoint | Branch | Thread | ScopeInfo

_SHOWN = 100  # characters of a value in a table


def json_line(record: Kept) -> str:
    """Return a record as one line of JSON. A value keeps every digit: its JSON text is put in as it is kept."""
    return orjson.dumps(_members(record)).decode()


def value_text(raw: Raw | None) -> str:
    """Return a value as it is kept; bytes in base64."""
    if raw is None:
        return ""
    return base64.b64encode(raw.data).decode() if isinstance(raw, Data) else raw.text


def shortened(raw: Raw | None) -> str:
    """Return the beginning of a value, in one line."""
    text = " ".join(value_text(raw).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def shown(text: str) -> str:
    """Return a text as a terminal may get it: what would move its cursor or colour it is escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def local(time: datetime) -> str:
    """Return a time in the zone of the one who looks."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows in aligned columns under a header; only a line that says so where there are none."""
    cells = [[shown(str(cell)) for cell in row] for row in rows]
    if not cells:
        return "(none)"
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (header, *cells))
    return "\n".join(lines)


def _members(record: Kept) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Json | Text | Data):
            members[field.name.replace("raw_", "").replace("raw", "value")] = _value(value)
        elif value is not None:
            members[field.name] = dict(value) if field.name == "labels" else value
    return members


def _value(raw: Raw) -> dict[str, Any]:
    """Return a value under the name of its kind in the contract."""
    if isinstance(raw, Json):
        # JSON has line breaks only between its tokens, where a blank means the same.
        kept: dict[str, Any] = {"json": orjson.Fragment(raw.text.replace("\n", " ").replace("\r", " "))}
    elif isinstance(raw, Text):
        kept = {"text": raw.text}
    else:
        kept = {"data": value_text(raw)}
    return kept | ({"content_type": raw.content_type} if raw.content_type else {})
