"""Runs one case, step by step."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from statekeep import StatekeepError

from language_cases.comparing import difference
from language_cases.faces import Face
from language_cases.files import Case, Tree, replaced
from language_cases.operations import CALLS, OPENED, UNMET, opened
from language_cases.trees import record_trees

PAUSE = 0.02
EVENTUALLY = 10.0


class CaseError(AssertionError):
    """A step went wrong."""


def why_skipped(case: Case) -> str | None:
    """Return why the client cannot run a case; None where it can."""
    asked = [*case.needs, *(step[kind] for step in case.steps for kind in ("call", "open") if kind in step)]
    return next((f"{asking}: {UNMET[asking]}" for asking in asked if asking in UNMET), None)


def run_case(case: Case, run: str, face: Face, another: Callable[[], Face]) -> None:
    """Run a case under a name of its own. Raises CaseError where a step goes wrong.

    `another` makes a client of the same kind, for a step that takes several.
    """
    with ExitStack() as open_ones:
        steps = _Steps(case, run, face, another, open_ones)
        for number, step in enumerate(case.steps, 1):
            kind = next(kind for kind in ("call", "open", "read", "close") if kind in step)
            problem = steps.take(kind, step)
            if problem:
                raise CaseError(f"{case.id}, step {number} ({kind} {step[kind]}): {problem}")


class _Steps:
    """A case under way: what was saved, and what stays open."""

    def __init__(self, case: Case, run: str, face: Face, another: Callable[[], Face], open_ones: ExitStack) -> None:
        self._case = case
        self._run = run
        self._face = face
        self._another = another
        self._open_ones = open_ones
        self._saved: dict[str, Tree] = {}
        self._opened: dict[str, tuple[Any, str]] = {}

    def take(self, kind: str, step: Tree) -> str | None:
        """Take a step, and return what went wrong."""
        if kind == "close":
            self._close(step["close"])
            return None
        args = replaced(step.get("args", {}), self._run, self._saved, self._case.oddity)
        if "at_once" in step:
            return self._at_once(step, args)
        attempt = {"call": self._call, "open": self._open, "read": self._read}[kind]
        problem = self._try(attempt, step, args)
        give_up = time.monotonic() + EVENTUALLY
        while problem and "eventually" in step and time.monotonic() < give_up:
            time.sleep(PAUSE)
            problem = self._try(attempt, step, args)
        return problem

    def _try(self, attempt: Callable[[Tree, Tree], Tree], step: Tree, args: Tree) -> str | None:
        try:
            answer = attempt(step, args)
        except StatekeepError as error:
            return self._compared(step.get("error"), _error_tree(error, step), "error")
        if "error" in step:
            return f"no error, but {_shown(answer)}"
        problem = self._compared(step.get("answer", {}), answer, "")
        if not problem:
            for name, path in step.get("save", {}).items():
                self._saved[name] = _at(answer, path)
        return problem

    def _compared(self, right: Tree, got: Tree, path: str) -> str | None:
        oddity = self._case.oddity
        if oddity is not None:
            oddity = {"content_type": "", **oddity}
        return difference(replaced(right, self._run, self._saved, oddity), got, path)

    def _call(self, step: Tree, args: Tree) -> Tree:
        return CALLS[step["call"]](self._face, args)

    def _open(self, step: Tree, args: Tree) -> Tree:
        entered = opened(self._face, step["open"], args)
        given = self._face.enter(entered)
        self._opened[step["as"]] = (entered, OPENED[step["open"]])
        self._open_ones.callback(self._close, step["as"])
        return {"instance_id": given} if step["open"] == "scratch.attach" else {}

    def _read(self, step: Tree, _: Tree) -> Tree:
        reading, field = self._opened[step["read"]]
        records = []
        while len(records) < step.get("count", 1):
            records.append(self._face.next_of(reading))
        return {field: record_trees(records)}

    def _close(self, name: str) -> None:
        if name in self._opened:
            self._face.leave(self._opened.pop(name)[0])

    def _at_once(self, step: Tree, args: Tree) -> str | None:
        wanted = step["at_once"]

        def caller(_: int) -> list[int]:
            face = self._another()
            try:
                answers = [CALLS[step["call"]](face, args) for _ in range(wanted["calls"])]
            finally:
                face.close()
            return [int(_at(answer, wanted["numbers"])) for answer in answers]

        with ThreadPoolExecutor(wanted["callers"]) as callers:
            numbers = sorted(number for some in callers.map(caller, range(wanted["callers"])) for number in some)
        right = list(range(wanted["from"], wanted["to"] + 1))
        return None if numbers == right else f"the numbers of all answers are {_shown(numbers)}"


def _error_tree(error: StatekeepError, step: Tree) -> Tree:
    right = step.get("error", {}).get("field")
    field = right if right in error.fields else next(iter(error.fields), "")
    told = {"code": error.code.name, "reason": error.reason, "metadata": error.metadata, "field": field}
    return told | {"message": error.message}


def _at(tree: Tree, path: str) -> Tree:
    for part in path.split("."):
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    return tree


def _shown(tree: Tree) -> str:
    return ascii(tree)[:400]
