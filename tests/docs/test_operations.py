"""The commands that docs/operations.md shows are run as they stand there, one section after the other."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import statekeep
from server_process import ServerProcess, environment

StartServer = Callable[..., ServerProcess]
PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
SHOWN = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def commands(section: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", SHOWN[section], re.DOTALL)
    assert blocks, f"{section} shows no command"
    return "".join(blocks).splitlines()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Run a command as it is shown, in a folder of the test's own, with a server's address."""
    monkeypatch.chdir(tmp_path)

    def run(command: str, address: str) -> None:
        where = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        extra = {"STATEKEEP_ADDRESS": address, "PATH": where}
        subprocess.run(["sh", "-ec", command], env=environment(extra), timeout=60, check=True)

    return run


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_restore_as_shown_brings_back_what_a_backup_as_shown_has(
    shell: Callable[[str, str], None], start_server: StartServer, end: signal.Signals
) -> None:
    server = start_server("--store", "sqlite:state.db")
    with statekeep.Client(server.address) as client:
        client.memory.set("k", 1, scope="s")
    for command in commands("Back up"):
        shell(command, server.address)
    with statekeep.Client(server.address) as client:
        client.memory.set("k", 2, scope="s")
    server.signal(end)
    server.wait(20)
    served = 0
    for command in commands("Restore"):
        if not command.startswith("statekeep serve "):
            shell(command, "")
            continue
        restored = start_server(*command.split()[2:4])
        with statekeep.Client(restored.address) as client:
            found = client.memory.get("k", scope="s")
            assert found is not None
            assert (found.version, found.value) == (1, 1)
        served += 1
    assert served == 2


def test_a_move_as_shown_brings_all_to_another_engine(
    shell: Callable[[str, str], None], start_server: StartServer
) -> None:
    one, other = start_server(), start_server("--store", "sqlite:state.db")
    with statekeep.Client(one.address) as client:
        client.state.append_next("t", statekeep.NewEvent("note"))
    for command in commands("Move to another engine"):
        shell(command.replace("127.0.0.1:50052", other.address), one.address)
    with statekeep.Client(other.address) as client:
        assert [event.type for event in client.state.history("t")] == ["note"]
