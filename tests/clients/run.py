"""Runs the clients of all languages against one server: the cases, and then what each reads of what all wrote.

`make test-clients` runs it. What each runner is told and answers stands in tests/clients/cases/README.md.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server_process import ServerProcess, environment

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "clients" / "cases"
TOOLS = {
    "python": "python3",
    "go": "go",
    "java": "mvn",
    "typescript": "npm",
    "rust": "cargo",
    "cpp": "cmake",
}
"""Each language, which is its folder in clients/, and the tool that must be there to build and run its client."""
BUILD_WITHIN = 1800.0
RUN_WITHIN = 600.0


@dataclass
class Language:
    """A language, and how it did."""

    name: str
    missing: str = ""
    failure: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    read: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """Whether there is anything to run."""
        return not (self.missing or self.failure)

    @property
    def failed(self) -> bool:
        """Whether anything of it failed."""
        wrong = self.result.get("failed", 0) or any(one["failed"] for one in self.read.values())
        return bool(self.failure or wrong)


class RunError(Exception):
    """A target of a client's Makefile did not do what it should."""


def main() -> int:
    """Run all there is, print the table, and return the exit code."""
    languages = [Language(name, _missing(name, tool)) for name, tool in TOOLS.items()]
    for language in languages:
        _attempt(language, _build)
    server = ServerProcess()
    try:
        settings = {"STATEKEEP_ADDRESS": server.address, "STATEKEEP_CASES": str(CASES)}
        for language in languages:
            _attempt(language, lambda one: _run_cases(one, settings))
        _cross(languages, settings | {"STATEKEEP_RUN": secrets.token_hex(4)})
    finally:
        server.stop()
    print(_skipped(languages), _table(languages), sep="\n", end="")
    missing = os.environ.get("STATEKEEP_REQUIRE_ALL") == "1" and any(language.missing for language in languages)
    return 1 if missing or any(language.failed for language in languages) else 0


def _missing(name: str, tool: str) -> str:
    if not (ROOT / "clients" / name / "Makefile").exists():
        return f"there is no clients/{name}"
    return "" if shutil.which(tool) else f"{tool} is not on PATH"


def _attempt(language: Language, step: Any) -> None:
    if not language.runs:
        return
    try:
        step(language)
    except RunError as error:
        language.failure = str(error)
        print(f"{language.name}: {error}", file=sys.stderr, flush=True)


def _build(language: Language) -> None:
    print(f"Building clients/{language.name} …", flush=True)
    _make(language, "build", {}, BUILD_WITHIN)


def _run_cases(language: Language, settings: dict[str, str]) -> None:
    print(f"Running the cases in {language.name} …", flush=True)
    language.result = _make(language, "cases", settings, RUN_WITHIN, answers=True)


def _cross(languages: list[Language], settings: dict[str, str]) -> None:
    for language in languages:
        way = settings | {"STATEKEEP_CROSS": f"write:{language.name}"}
        _attempt(language, lambda one, way=way: _make(one, "cases", way, RUN_WITHIN, answers=True))
    names = [language.name for language in languages if language.runs]
    for language in languages:
        _attempt(language, lambda one: _read(one, names, settings))


def _read(language: Language, names: list[str], settings: dict[str, str]) -> None:
    print(f"Reading in {language.name} what was written in {', '.join(names)} …", flush=True)
    way = settings | {"STATEKEEP_CROSS": f"read:{','.join(names)}"}
    read = _make(language, "cases", way, RUN_WITHIN, answers=True).get("read", {})
    if sorted(read) != sorted(names) or not all(one["passed"] + one["failed"] for one in read.values()):
        raise RunError(f"it was to read {names}, and says it read {read}")
    language.read = read


def _make(
    language: Language, target: str, settings: dict[str, str], within: float, *, answers: bool = False
) -> dict[str, Any]:
    """Run a target of a client's Makefile, and return what its last line says where it `answers`."""
    code, output = _run_make(language.name, target, settings, within)
    if not answers:
        if code:
            raise RunError(f"make {target} ended with {code}")
        return {}
    result = _last_line(output)
    if result.get("language") != language.name or not {"passed", "failed", "skipped"} <= set(result):
        raise RunError(f"make {target} ended with {code}, and its last line is not one of {language.name}'s runner")
    ran = result["passed"] + result["failed"] + len(result["skipped"])
    if bool(code) != bool(result["failed"]) or not ran:
        raise RunError(f"make {target} ended with {code}, but says {result['passed']=} {result['failed']=}")
    return result


def _run_make(name: str, target: str, settings: dict[str, str], within: float) -> tuple[int, str]:
    only = {name: text for name, text in os.environ.items() if name == "STATEKEEP_ONLY"}
    command = ["make", "--silent", "--no-print-directory", "-C", str(ROOT / "clients" / name), target]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        to = output if settings else None
        # In a group of its own, so that all of it ends where it takes too long.
        process = subprocess.Popen(
            command, env=environment(only | settings), stdin=subprocess.DEVNULL, stdout=to, start_new_session=True
        )
        try:
            code = process.wait(within)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise RunError(f"make {target} was not done after {within:g} s") from None
            raise
        output.seek(0)
        return code, output.read()


def _last_line(output: str) -> dict[str, Any]:
    lines = output.split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    try:
        result = json.loads(last)
        return result if isinstance(result, dict) else {}
    except json.JSONDecodeError:
        return {}


def _skipped(languages: list[Language]) -> str:
    """Return what each client cannot express: reasons, each with its cases."""
    lines = []
    for language in languages:
        reasons: dict[str, list[str]] = {}
        for case, why in language.result.get("skipped", []):
            reasons.setdefault(why, []).append(case)
        lines += [f"{language.name} skips {', '.join(cases)} ({why})" for why, cases in reasons.items()]
    return "\n".join(["", *lines, ""])


def _table(languages: list[Language]) -> str:
    writers = [language.name for language in languages if language.read]
    rows = [["language", "passed", "failed", "skipped", *(f"from {name}" for name in writers)]]
    rows += [[language.name, *_cells(language, writers)] for language in languages]
    whole = [row for row in rows if len(row) == len(rows[0])]
    widths = [
        max(len(name) for name, *_ in rows),
        *(max(map(len, column)) for column in list(zip(*whole, strict=True))[1:]),
    ]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _cells(language: Language, names: list[str]) -> list[str]:
    if not language.runs:
        return [f"skipped: {language.missing}" if language.missing else f"FAILED: {language.failure}"]
    result = language.result
    counts = [str(result["passed"]), str(result["failed"]), str(len(result["skipped"]))]
    return counts + [_reading(language.read.get(name)) for name in names]


def _reading(read: dict[str, int] | None) -> str:
    return "-" if read is None else f"{read['passed']}/{read['passed'] + read['failed']}"


if __name__ == "__main__":
    sys.exit(main())
