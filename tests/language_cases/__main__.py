"""The program: `python -m language_cases` in tests/, as tests/clients/cases/README.md has it."""

import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from language_cases.crossing import read, write
from language_cases.faces import Blocking, Face, Looping
from language_cases.files import cases
from language_cases.running import CaseError, run_case, why_skipped

FACES: dict[str, type[Face]] = {"": Blocking, " (async)": Looping}


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
    """Run every case through both faces of the client."""
    passed, failed, skipped = 0, 0, []
    run = secrets.token_hex(4)
    for suffix, kind in FACES.items():
        face = kind(address)
        for number, case in enumerate(cases(folder)):
            if only not in case.id:
                continue
            if why := why_skipped(case):
                skipped.append([case.id + suffix, why])
                continue
            try:
                run_case(case, f"r{run}-{len(suffix)}-{number}", face, lambda kind=kind: kind(address))
                passed += 1
            except Exception as error:  # noqa: BLE001 (whatever it was: this case failed, the next may not)
                failed += 1
                told = str(error) if isinstance(error, CaseError) else f"{case.id}: {type(error).__name__}: {error}"
                print(f"FAILED{suffix} {told[:2000]}", file=sys.stderr)
        face.close()
    return {"passed": passed, "failed": failed, "skipped": skipped}


if __name__ == "__main__":
    sys.exit(main())
