"""Writes into docs/operations.md what a command prints, between the lines that name it: `make docs`."""

import re
import subprocess
import sys
from pathlib import Path

_GENERATED = re.compile(r"(<!-- begin: (.+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _filled(found: re.Match[str]) -> str:
    command, *arguments = found[2].split()
    program = Path(sys.executable).with_name(command)
    printed = subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout  # noqa: S603 (our own page)
    return f"{found[1]}{printed}{found[3]}"


for page in Path(__file__).parent.glob("*.md"):
    text = page.read_text()
    page.write_text(_GENERATED.sub(_filled, text))
