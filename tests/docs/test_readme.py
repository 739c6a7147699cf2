"""What README.md shows is run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import ServerProcess

README = (Path(__file__).parents[2] / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(code: str, address: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code.replace("127.0.0.1:50051", address)],
        env=os.environ | {"STATEKEEP_ADDRESS": address},
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (0, "{'first': 'Ada'}\n1 message {'text': 'hello'}\nhalf a sentence\n"),
        (1, "42\n{'ok': True, 'key': 'plan'}\n"),
    ],
)
def test_the_python_in_the_readme_runs_and_prints_what_it_says(server: ServerProcess, number: int, printed: str) -> None:
    done = run(SNIPPETS[number], server.address)
    assert done.stderr == ""
    assert done.stdout == printed


def test_there_is_no_python_in_the_readme_that_is_not_run() -> None:
    assert len(SNIPPETS) == 2


def test_every_task_the_readme_names_is_in_the_makefile() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert named
    assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in named)
