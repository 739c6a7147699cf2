"""The runner itself: a case that is not fulfilled fails, and says where."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from language_cases.comparing import difference
from language_cases.faces import Blocking
from language_cases.files import Case, cases, oddities, replaced
from language_cases.running import CaseError, run_case

TESTS = Path(__file__).parents[2]
FOLDER = TESTS / "clients" / "cases"
REASONS = {
    "INVALID_FIELD", "VALUE_TOO_LARGE", "REQUEST_ID_REUSED", "VERSION_MISMATCH", "SEQUENCE_MISMATCH", "EVENT_EXISTS",
    "BRANCH_EXISTS", "EVENT_NOT_FOUND", "THREAD_NOT_FOUND", "BRANCH_NOT_FOUND", "REVISION_GONE", "REVISION_AHEAD",
    "HISTORY_TOO_LARGE", "LIMIT_REACHED", "INSTANCE_ATTACHED",
}  # fmt: skip
SET = {"call": "memory.set", "args": {"scope": {"name": "$run"}, "key": "k", "value": {"json": "1"}}}


@pytest.mark.parametrize(
    ("right", "got"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": None}, {}),
        ({"a": None}, {"a": None}),
        ({"a": "9007199254740993"}, {"a": 9007199254740993}),
        ([{"a": 1}], [{"a": 1, "b": 2}]),
        ({"a": {"$any": True}}, {"a": ""}),
        ({"a": {"$count": 2}}, {"a": [1, 2]}),
        ({"$has": [1, 3]}, [0, 1, 2, 3]),
        (True, True),
    ],
)
def test_an_answer_that_has_what_is_right_matches(right: Any, got: Any) -> None:
    assert difference(right, got) is None


@pytest.mark.parametrize(
    ("right", "got"),
    [
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 2}),
        ({"a": 0}, {"a": None}),
        ({"a": None}, {"a": ""}),
        ({"a": None}, {"a": False}),
        ({"a": "9007199254740993"}, {"a": 9007199254740992}),
        ([1], [1, 2]),
        ([1, 2], [2, 1]),
        ([], None),
        ({"a": {"$any": True}}, {}),
        ({"a": {"$count": 2}}, {"a": [1]}),
        ({"$has": [3, 1]}, [0, 1, 2, 3]),
        ({"$has": [1, 1]}, [1]),
        (True, False),
        (True, 1),
        (1, True),
        (False, 0),
        ("1.0", "1"),
    ],
)
def test_an_answer_that_differs_is_told(right: Any, got: Any) -> None:
    assert difference(right, got)


def test_what_is_replaced() -> None:
    tree = {
        "a": "x-$run",
        "b": [{"$repeat": "ab", "times": 2}],
        "c": {"$saved": "n", "plus": 1},
        "d": {"$oddity": True},
    }
    assert replaced(tree, "r", {"n": 7}, {"json": "1"}) == {"a": "x-r", "b": ["abab"], "c": "8", "d": {"json": "1"}}


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (SET | {"answer": {"entry": {"version": 2}}}, "entry.version: right is 2, came 1"),
        (SET | {"error": {"reason": "INVALID_FIELD"}}, "no error, but"),
        (SET | {"args": SET["args"] | {"key": ""}}, "INVALID_FIELD"),
        (SET | {"args": SET["args"] | {"key": ""}, "error": {"field": "value"}}, "right is 'value', came 'key'"),
    ],
)
def test_a_step_that_goes_wrong_is_told(step: Any, told: str, address: str) -> None:
    face = Blocking(address)
    with pytest.raises(CaseError, match=r"file/case, step 1 \(call memory.set\): ") as failure:
        run_case(Case("file/case", [step]), os.urandom(6).hex(), face, lambda: face)
    face.close()
    assert told in str(failure.value)


def test_a_member_that_nobody_would_look_at_is_refused(tmp_path: Path) -> None:
    case = {"name": "c", "rule": "r", "steps": [SET | {"anser": {}}]}
    (tmp_path / "f.json").write_text(json.dumps({"name": "f", "about": "a", "cases": [case]}))
    with pytest.raises(ValueError, match="f/c, step 1 is not as a step must be"):
        cases(tmp_path)


def test_a_folder_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are no cases"):
        cases(tmp_path)


def test_the_cases_show_every_reason_that_a_server_gives_on_demand() -> None:
    shown = {step["error"].get("reason") for case in cases(FOLDER) for step in case.steps if "error" in step}
    assert shown == REASONS


def test_what_this_client_writes_it_reads_back(address: str) -> None:
    number = len(oddities(FOLDER))
    assert _program(address, "write:python")["passed"] == number
    assert _program(address, "read:python")["read"] == {"python": {"passed": number, "failed": 0}}


def test_what_nobody_wrote_is_missed(address: str) -> None:
    answer = _program(address, "read:nobody", exits=1)
    assert answer["read"] == {"nobody": {"passed": 0, "failed": len(oddities(FOLDER))}}


def _program(address: str, crossing: str, exits: int = 0) -> Any:
    variables = {"STATEKEEP_ADDRESS": address, "STATEKEEP_CASES": str(FOLDER), "STATEKEEP_CROSS": crossing}
    run = subprocess.run(
        [sys.executable, "-m", "language_cases"],
        cwd=TESTS,
        env=os.environ | variables | {"STATEKEEP_RUN": "one"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert run.returncode == exits, run.stderr
    return json.loads(run.stdout.splitlines()[-1])
