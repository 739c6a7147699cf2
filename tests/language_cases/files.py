"""The files of cases: what is in them, and what is replaced before a step is run."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Tree: TypeAlias = Any
"""What JSON can say."""

ODDITIES = "oddities.json"
NEEDS = {"no_value", "batch_parts", "purge_selector", "from_now"}
_WITH_ANSWER = {"answer", "error", "save"}
_STEPS = {
    "call": {"args", "eventually", "at_once"} | _WITH_ANSWER,
    "open": {"args", "as"} | _WITH_ANSWER,
    "read": {"count"} | _WITH_ANSWER,
    "close": set(),
}


@dataclass(frozen=True)
class Case:
    """One case; `oddity` is the value that it is about, where it is run once for each."""

    id: str
    steps: list[Tree]
    needs: tuple[str, ...] = ()
    oddity: Tree = None


def oddities(folder: Path) -> list[tuple[str, Tree]]:
    """Return the names and values of what is easily damaged on its way."""
    entries = json.loads((folder / ODDITIES).read_text(encoding="utf-8"))
    return [(entry["name"], replaced(entry["value"], "", {})) for entry in entries]


def cases(folder: Path) -> list[Case]:
    """Return every case of a folder. Raises ValueError where there are none, or one is not as it must be."""
    found = [
        case
        for file in sorted(folder.glob("*.json"))
        if file.name != ODDITIES
        for case in _cases_of(json.loads(file.read_text(encoding="utf-8")), file, folder)
    ]
    if not found:
        raise ValueError(f"there are no cases in {folder}")
    ids = [case.id for case in found]
    if len(set(ids)) < len(ids):
        raise ValueError(f"two cases have the same id: {sorted({one for one in ids if ids.count(one) > 1})}")
    return found


def replaced(tree: Tree, run: str, saved: dict[str, Tree], oddity: Tree = None) -> Tree:
    """Return a tree in which `$run`, `$repeat`, `$saved` and `$oddity` are replaced by what they stand for."""
    if isinstance(tree, str):
        return tree.replace("$run", run)
    if isinstance(tree, list):
        return [replaced(item, run, saved, oddity) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$repeat" in tree:
        return tree["$repeat"] * tree["times"]
    if "$saved" in tree:
        kept = saved[tree["$saved"]]
        return str(int(kept) + tree["plus"]) if "plus" in tree else kept
    if "$oddity" in tree:
        return oddity
    return {name: replaced(item, run, saved, oddity) for name, item in tree.items()}


def _cases_of(content: Tree, file: Path, folder: Path) -> list[Case]:
    if content["name"] != file.stem:
        raise ValueError(f"{file.name} says that its name is {content['name']}")
    found = []
    for case in content["cases"]:
        name = f"{file.stem}/{case['name']}"
        _check(case, name)
        needs = tuple(case.get("needs", ()))
        if "each" in case:
            found += [Case(f"{name}/{odd}", case["steps"], needs, value) for odd, value in oddities(folder)]
        else:
            found.append(Case(name, case["steps"], needs))
    return found


def _check(case: Tree, name: str) -> None:
    """Refuse a member that no runner would look at: a case that says nothing shows nothing."""
    unknown = set(case) - {"name", "rule", "steps", "needs", "each"} | set(case.get("needs", ())) - NEEDS
    if unknown or not case["rule"] or not case["steps"] or case.get("each", "oddity") != "oddity":
        raise ValueError(f"{name} is not as a case must be: {sorted(unknown) or 'see its README'}")
    for number, step in enumerate(case["steps"], 1):
        kind = next((kind for kind in _STEPS if kind in step), None)
        if kind is None or set(step) - _STEPS[kind] - {kind}:
            raise ValueError(f"{name}, step {number} is not as a step must be: {sorted(step)}")
