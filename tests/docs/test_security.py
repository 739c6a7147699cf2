"""What docs/security.md shows is run as it stands there."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from server_process import LOOPBACK, ServerProcess, environment
from statekeep_server.rpc.access import NEEDS

PAGE = (Path(__file__).parents[2] / "docs/security.md").read_text()
CERTIFICATES, TOKENS, SERVE, CALL = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
(PYTHON,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None and "STATEKEEP_REQUIRE_ALL" not in os.environ, reason="there is no openssl"
)


def run(folder: Path, *command: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env=environment({"PATH": path}), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_openssl
def test_the_commands_make_what_server_and_clients_need(
    start_server: Callable[..., ServerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, "bash", "-euo", "pipefail", "-c", CERTIFICATES + TOKENS)
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    words = SERVE.replace("\\\n", " ").split()
    assert words[:4] == ["statekeep", "serve", "--listen", "0.0.0.0:50051"]
    monkeypatch.chdir(tmp_path)
    process = start_server(*words[4:], listen=(LOOPBACK,))
    address = process.address.replace("127.0.0.1", "localhost")
    printed = run(tmp_path, "bash", "-euo", "pipefail", "-c", CALL.replace("localhost:50051", address))
    assert printed == "SERVING\ngreeting has version 1\n"
    assert run(tmp_path, sys.executable, "-c", PYTHON.replace("localhost:50051", address)) == "hello\n"
    assert process.stderr == ""


def test_every_call_that_needs_a_token_without_prefixes_is_told() -> None:
    (told,) = re.findall(r"^- (.*) need a token without prefixes", PAGE, re.MULTILINE)
    whole = {name for needs in NEEDS.values() for name, need in needs.items() if need.everywhere}
    assert whole | {"Export"} == set(re.findall(r"`(\w+)`", told))
