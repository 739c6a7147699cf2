"""What this client writes for the others, and what it reads of theirs."""

import sys
from pathlib import Path
from typing import Any

import statekeep

from language_cases.comparing import difference
from language_cases.files import Tree, oddities
from language_cases.trees import value_of, value_tree

WITHIN = 60.0


def write(address: str, folder: Path, run: str, languages: list[str]) -> dict[str, Any]:
    """Write every oddity to its four places, in the name of a language."""
    (language,) = languages
    scope, thread = _names(run, language)
    odd = oddities(folder)
    with statekeep.Client(address, timeout=WITHIN) as client:
        for number, (name, tree) in enumerate(odd, 1):
            value = value_of(tree)
            client.memory.set(name, value, scope=scope)
            client.scratch.put(thread, name, value)
            client.state.append_next(thread, statekeep.NewEvent("oddity", value, id=name))
            client.state.save_checkpoint(thread, statekeep.NewCheckpoint(name, number, value, id=name))
    return {"passed": len(odd), "failed": 0, "skipped": []}


def read(address: str, folder: Path, run: str, languages: list[str]) -> dict[str, Any]:
    """Look whether what each language wrote is there as it should be."""
    odd = oddities(folder)
    told: dict[str, dict[str, int]] = {}
    with statekeep.Client(address, timeout=WITHIN) as client:
        for language in languages:
            wrong = _wrong(client, run, language, odd)
            for problem in wrong.values():
                print(f"FAILED crossing from {language}: {problem}"[:2000], file=sys.stderr)
            told[language] = {"passed": len(odd) - len(wrong), "failed": len(wrong)}
    return {
        "passed": sum(one["passed"] for one in told.values()),
        "failed": sum(one["failed"] for one in told.values()),
        "skipped": [],
        "read": told,
    }


def _wrong(client: statekeep.Client, run: str, language: str, odd: list[tuple[str, Tree]]) -> dict[str, str]:
    """Return what is wrong with each oddity that is not as it was written, by name."""
    scope, thread = _names(run, language)
    events = list(client.state.history(thread, timeout=WITHIN))
    checkpoints = {checkpoint.id: checkpoint for checkpoint in client.state.checkpoints(thread)}
    names = [name for name, _ in odd]
    wrong = {}
    if [event.id for event in events] != names or sorted(checkpoints) != sorted(names):
        wrong = dict.fromkeys(names, "the thread does not hold what was written")
    for (name, value), event in zip(odd, events, strict=False):
        entry, item = client.memory.get(name, scope=scope), client.scratch.get(thread, name)
        places = {
            "memory": entry and entry.raw,
            "scratch": item and item.raw,
            "event": event.raw,
            "checkpoint": checkpoints[name].raw_state if name in checkpoints else None,
        }
        right = {"content_type": "", **value}
        for place, raw in places.items():
            if problem := difference(right, value_tree(raw), f"{name} in {place}"):
                wrong[name] = problem
    return wrong


def _names(run: str, language: str) -> tuple[str, str]:
    return f"cross/{run}/{language}", f"cross-{run}-{language}"
