"""What README.md shows is run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import ServerProcess

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PRINTED = ["{'first': 'Ada'}\n1 message {'text': 'hello'}\nhalf a sentence\n", "42\n{'ok': True, 'key': 'plan'}\n1\n"]


@pytest.mark.parametrize(("snippet", "printed"), list(zip(SNIPPETS, PRINTED, strict=True)), ids=["client", "faces"])
def test_the_python_in_the_readme_prints_what_it_says(server: ServerProcess, snippet: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", snippet.replace("127.0.0.1:50051", server.address)],
        env=os.environ | {"STATEKEEP_ADDRESS": server.address},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.stderr, done.stdout) == ("", printed)


def test_every_task_the_readme_names_is_in_the_makefile() -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named >= {"run", "test"}
    assert named <= targets


def test_every_page_the_readme_points_to_is_there() -> None:
    pages = re.findall(r"\]\(([^)#]+)\)", README)
    assert pages
    assert [page for page in pages if not (ROOT / page).exists()] == []
