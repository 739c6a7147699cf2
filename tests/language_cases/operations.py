"""The table from an operation to the client's method."""

from collections.abc import Callable
from typing import Any

import statekeep
from statekeep.records import Event

from language_cases.faces import Face
from language_cases.files import Tree
from language_cases.trees import (
    new_checkpoint,
    new_event,
    python_of,
    record_tree,
    record_trees,
    scope_of,
    value_of,
    value_tree,
)

Operation = Callable[[Face, dict[str, Tree]], Tree]


def _rest(args: Tree, *taken: str) -> dict[str, Any]:
    """Return the arguments that go by their own names: one that a method does not take is a TypeError there."""
    return python_of({name: argument for name, argument in args.items() if name not in taken})


def _scoped(args: Tree, *taken: str) -> dict[str, Any]:
    return scope_of(args) | _rest(args, "scope", *taken)


def _set(face: Face, args: Tree) -> Tree:
    call = face.client.memory.set(args["key"], value_of(args["value"]), **_scoped(args, "key", "value"))
    return {"entry": record_tree(face.answer(call))}


def _batch_set(face: Face, args: Tree) -> Tree:
    writes = [statekeep.Write(**_rest(one, "scope")) for one in args["sets"]]
    # A batch is of one scope here; a case with another in it has a need that this client does not meet.
    scope = scope_of(args["sets"][0]) if writes else {"scope": "none"}
    return {"entries": record_trees(face.answer(face.client.memory.set_many(writes, **scope, **_rest(args, "sets"))))}


def _memory_get(face: Face, args: Tree) -> Tree:
    return {"entry": record_tree(face.answer(face.client.memory.get(args["key"], **_scoped(args, "key"))))}


def _batch_get(face: Face, args: Tree) -> Tree:
    found = face.answer(face.client.memory.get_many(args["keys"], **_scoped(args, "keys")))
    missing = [key for key in args["keys"] if key.strip() not in found]
    return {"entries": record_trees(found.values()), "missing_keys": missing}


def _memory_list(face: Face, args: Tree) -> Tree:
    return {"entries": record_trees(face.all_of(face.client.memory.list(**_scoped(args))))}


def _memory_history(face: Face, args: Tree) -> Tree:
    return {"entries": record_trees(face.all_of(face.client.memory.history(**_scoped(args))))}


def _delete(face: Face, args: Tree) -> Tree:
    return {"entry": record_tree(face.answer(face.client.memory.delete(**_scoped(args))))}


def _purge(face: Face, args: Tree) -> Tree:
    return record_tree(face.answer(face.client.memory.purge(**_scoped(args))))


def _list_purges(face: Face, args: Tree) -> Tree:
    return {"purges": record_trees(face.all_of(face.client.memory.purges(**_scoped(args))))}


def _list_scopes(face: Face, args: Tree) -> Tree:
    return {"scopes": record_trees(face.all_of(face.client.memory.scopes(**_rest(args))))}


def _open(face: Face, args: Tree) -> Tree:
    return record_tree(face.answer(face.client.scratch.open(**_rest(args))))


def _put(face: Face, args: Tree) -> Tree:
    return {"key": face.answer(face.client.scratch.put(**_rest(args)))}


def _scratch_get(face: Face, args: Tree) -> Tree:
    item = face.answer(face.client.scratch.get(**_rest(args)))
    return {"value": None} if item is None else {"key": item.key, "value": value_tree(item.raw)}


def _scratch_list(face: Face, args: Tree) -> Tree:
    return {"keys": face.answer(face.client.scratch.list(**_rest(args)))}


def _clear(face: Face, args: Tree) -> Tree:
    return {"cleared": face.answer(face.client.scratch.clear(**_rest(args)))}


def _close(face: Face, args: Tree) -> Tree:
    return {"cleared": face.answer(face.client.scratch.close(**_rest(args)))}


def _branch(args: Tree) -> dict[str, str]:
    return {"branch": args["branch_id"]} if "branch_id" in args else {}


def _on_branch(args: Tree, *taken: str) -> dict[str, Any]:
    return _branch(args) | _rest(args, "branch_id", *taken)


def _append_event(face: Face, args: Tree) -> Tree:
    given = args["event"]
    event = new_event({name: field for name, field in given.items() if name not in _PLACE | {"sequence"}})
    call = face.client.state.append(given["thread_id"], event, sequence=int(given["sequence"]), **_branch(given))
    return {"event": record_tree(face.answer(call))}


def _append_next_event(face: Face, args: Tree) -> Tree:
    given = args["event"]
    event = new_event({name: field for name, field in given.items() if name not in _PLACE})
    call = face.client.state.append_next(given["thread_id"], event, **_branch(given), **_rest(args, "event"))
    return {"event": record_tree(face.answer(call))}


def _append_events(face: Face, args: Tree) -> Tree:
    events = [new_event(event) for event in args["events"]]
    return record_tree(face.answer(face.client.state.append_many(events=events, **_on_branch(args, "events"))))


def _save_checkpoint(face: Face, args: Tree) -> Tree:
    given = args["checkpoint"]
    checkpoint = new_checkpoint({name: field for name, field in given.items() if name not in _PLACE})
    call = face.client.state.save_checkpoint(given["thread_id"], checkpoint, **_branch(given))
    return {"checkpoint": record_tree(face.answer(call))}


def _latest_checkpoint(face: Face, args: Tree) -> Tree:
    at = {"at": args["at_event_id"]} if "at_event_id" in args else {}
    call = face.client.state.latest_checkpoint(**_on_branch(args, "at_event_id"), **at)
    return {"checkpoint": record_tree(face.answer(call))}


def _fork(face: Face, args: Tree) -> Tree:
    first: dict[str, Any] = {}
    if "checkpoint" in args:
        first["checkpoint"] = new_checkpoint(args["checkpoint"])
    if "event" in args:
        first["event"] = new_event(args["event"])
    return record_tree(face.answer(face.client.state.fork(**first, **_on_branch(args, *first))))


def _delete_thread(face: Face, args: Tree) -> Tree:
    return record_tree(face.answer(face.client.state.delete_thread(**_rest(args))))


def _list_checkpoints(face: Face, args: Tree) -> Tree:
    return {"checkpoints": record_trees(face.all_of(face.client.state.checkpoints(**_on_branch(args))))}


def _list_branches(face: Face, args: Tree) -> Tree:
    return {"branches": record_trees(face.all_of(face.client.state.branches(**_rest(args))))}


def _list_threads(face: Face, args: Tree) -> Tree:
    return {"threads": record_trees(face.all_of(face.client.state.threads(**_rest(args))))}


def _stream_history(face: Face, args: Tree) -> Tree:
    method = face.client.state.records if args.get("include_checkpoints") else face.client.state.history
    reading = method(**_on_branch(args, "include_checkpoints"))
    stored = face.all_of(reading)
    events = [record for record in stored if isinstance(record, Event)]
    checkpoints = [record for record in stored if not isinstance(record, Event)]
    return {
        "events": record_trees(events),
        "checkpoints": record_trees(checkpoints),
        "caught_up": reading.caught_up,
        "revision": reading.revision,
    }


_PLACE = {"thread_id", "branch_id"}

CALLS: dict[str, Operation] = {
    "memory.set": _set,
    "memory.batch_set": _batch_set,
    "memory.get": _memory_get,
    "memory.batch_get": _batch_get,
    "memory.list": _memory_list,
    "memory.history": _memory_history,
    "memory.delete": _delete,
    "memory.purge": _purge,
    "memory.list_purges": _list_purges,
    "memory.list_scopes": _list_scopes,
    "scratch.open": _open,
    "scratch.put": _put,
    "scratch.get": _scratch_get,
    "scratch.list": _scratch_list,
    "scratch.clear": _clear,
    "scratch.close": _close,
    "state.append_event": _append_event,
    "state.append_next_event": _append_next_event,
    "state.append_events": _append_events,
    "state.save_checkpoint": _save_checkpoint,
    "state.latest_checkpoint": _latest_checkpoint,
    "state.list_checkpoints": _list_checkpoints,
    "state.fork": _fork,
    "state.list_branches": _list_branches,
    "state.list_threads": _list_threads,
    "state.delete_thread": _delete_thread,
    "state.stream_history": _stream_history,
}


def opened(face: Face, operation: str, args: Tree) -> Any:
    """Return what stays open, not entered yet."""
    match operation:
        case "memory.watch":
            return face.client.memory.watch(**_scoped(args))
        case "state.stream_history":
            return face.client.state.tail(**_on_branch(args, "follow"))
        case "scratch.attach":
            return face.client.scratch.attach(**_rest(args))
    raise ValueError(f"nothing stays open of {operation}")


OPENED = {"memory.watch": "entries", "state.stream_history": "events", "scratch.attach": ""}
"""What can be opened, and the field that its records are in."""

UNMET = {
    "no_value": "None is kept as JSON null",
    "batch_parts": "a batch has one scope and one request id",
    "state.get_history": "the client streams a history instead",
}
"""What this client cannot express, and why."""
