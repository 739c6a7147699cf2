"""The client's records as trees that can be compared, and arguments of cases as what the client takes."""

import base64
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import statekeep
from statekeep import records
from statekeep.values import Data, Json, Raw, Text

from language_cases.files import Tree


def value_of(tree: Tree) -> Raw:
    """Return the value that a case names."""
    content_type = tree.get("content_type", "")
    if "json" in tree:
        return Json(tree["json"], content_type)
    if "text" in tree:
        return Text(tree["text"], content_type)
    return Data(base64.b64decode(tree["data"], validate=True), content_type)


def scope_of(args: Tree) -> dict[str, Any]:
    """Return a scope as the client's methods take it."""
    scope = args["scope"]
    return {"scope": scope["name"]} | ({"scope_type": scope["type"]} if "type" in scope else {})


def python_of(args: Tree) -> dict[str, Any]:
    """Return arguments as Python has them: numbers, durations, times and values by their fields' names."""
    return {name: _CONVERTED.get(name, _unchanged)(argument) for name, argument in args.items()}


def new_event(tree: Tree) -> statekeep.NewEvent:
    """Return an event to append. What is left of the tree must be its fields."""
    return statekeep.NewEvent(**python_of(tree))


def new_checkpoint(tree: Tree) -> statekeep.NewCheckpoint:
    """Return a checkpoint to save."""
    return statekeep.NewCheckpoint(**python_of({"event_id": "", "sequence": 0} | tree))


def _unchanged(argument: Any) -> Any:
    return argument


def _seconds(text: str) -> float:
    return float(text.removesuffix("s"))


_CONVERTED = {
    **dict.fromkeys(("value", "data", "state", "active", "metadata"), value_of),
    **dict.fromkeys(("ttl", "idle_ttl", "heartbeat"), _seconds),
    **dict.fromkeys(
        ("version", "expected_version", "sequence", "expected_last_sequence", "keep", "limit", "last",
         "after_revision", "page_size"),
        int,
    ),
    "create_time": datetime.fromisoformat,
}  # fmt: skip


def time_tree(time: datetime | None) -> Tree:
    """Return a time as cases write it."""
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def value_tree(raw: Raw | None) -> Tree:
    """Return a value as cases write it."""
    match raw:
        case Json(text, content_type):
            return {"json": text, "content_type": content_type}
        case Text(text, content_type):
            return {"text": text, "content_type": content_type}
        case Data(data, content_type):
            return {"data": base64.b64encode(data).decode(), "content_type": content_type}
    return None


def record_tree(record: Any) -> Tree:
    """Return a record by the contract's names."""
    match record:
        case None:
            return None
        case records.Entry() | records.ScopeInfo() | records.PurgeRecord():
            tree = _fields(record, without={"scope", "scope_type"})
            return tree | {"scope": {"type": record.scope_type, "name": record.scope}}
        case records.Instance():
            return {"instance_id": record.id} | _fields(record, without={"id"})
    return _fields(record)


def record_trees(many: Iterable[Any]) -> list[Tree]:
    """Return records by the contract's names."""
    return [record_tree(one) for one in many]


def _fields(record: Any, without: Iterable[str] = ()) -> dict[str, Tree]:
    names = [field.name for field in fields(record) if field.name not in without]
    return {_name(record, name): _plain(getattr(record, name)) for name in names}


def _name(record: Any, name: str) -> str:
    if name == "raw":
        return "data" if isinstance(record, records.Event) else "value"
    return name.removeprefix("raw_")


def _plain(field: Any) -> Tree:
    if isinstance(field, Raw):
        return value_tree(field)
    if isinstance(field, datetime):
        return time_tree(field)
    if isinstance(field, tuple):
        return list(field)
    return record_tree(field) if is_dataclass(field) else field
