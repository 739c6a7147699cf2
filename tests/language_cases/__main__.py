"""The program: `python -m language_cases` in tests/, as tests/clients/cases/README.md has it."""

import json
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from language_cases.crossing import read, write
from language_cases.faces import Blocking, Face, Looping
from language_cases.files import Case, cases
from language_cases.running import CaseError, run_case, why_skipped

FACES: list[tuple[str, type[Face]]] = [("s", Blocking), ("a", Looping)]


def main() -> int:
    """Run the cases, or one side of a crossing. Return the exit code."""
    address = os.environ["STATEKEEP_ADDRESS"]
    folder = Path(os.environ["STATEKEEP_CASES"])
    crossing = os.environ.get("STATEKEEP_CROSS", "")
    way, _, languages = crossing.partition(":")
    if crossing and way not in ("write", "read"):
        print(f"STATEKEEP_CROSS is write:LANGUAGE or read:LANGUAGE,…, not {crossing}", file=sys.stderr)
        return 2
    if crossing:
        side = write if way == "write" else read
        result = side(address, folder, os.environ["STATEKEEP_RUN"], languages.split(","))
    else:
        result = run_all(address, folder, os.environ.get("STATEKEEP_ONLY", ""))
    print(json.dumps({"language": "python"} | result, ensure_ascii=False))
    return 1 if result["failed"] or not (result["passed"] or result["skipped"]) else 0


def run_all(address: str, folder: Path, only: str) -> dict[str, Any]:
    """Run every case. It is passed where it is through both faces of the client."""
    passed, failed, skipped = 0, 0, []
    run = secrets.token_hex(4)
    for number, case in enumerate(one for one in cases(folder) if only in one.id):
        if why := why_skipped(case):
            skipped.append([case.id, why])
            continue
        problems = [_problem(case, f"{run}-{name}-{number}", lambda face=face: face(address)) for name, face in FACES]
        for problem in filter(None, problems):
            print(f"FAILED {problem[:2000]}", file=sys.stderr)
        failed, passed = failed + any(problems), passed + (not any(problems))
    return {"passed": passed, "failed": failed, "skipped": skipped}


def _problem(case: Case, run: str, client: Callable[[], Face]) -> str:
    """Return what is wrong with a case; empty where nothing is."""
    face = client()
    try:
        run_case(case, run, face, client)
    except CaseError as error:
        return f"{error} ({type(face).__name__})"
    except Exception as error:  # noqa: BLE001 (whatever it was: this case failed, the next may not)
        return f"{case.id}: {type(error).__name__}: {error} ({type(face).__name__})"
    finally:
        face.close()
    return ""


if __name__ == "__main__":
    sys.exit(main())
