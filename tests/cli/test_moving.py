"""`statekeep export` and `statekeep import`, as they are run at a prompt, between real servers."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import statekeep
from server_process import ServerProcess, environment

StartServer = Callable[..., ServerProcess]
COMMAND = (sys.executable, "-m", "statekeep_server")


@pytest.fixture
def source(start_server: StartServer) -> str:
    """Give the address of a server that keeps a little of everything."""
    address = start_server().address
    with statekeep.Client(address) as client:
        client.memory.set("k", statekeep.Json('{"a": -0.0, "big": 18446744073709551616}'), scope="app")
        client.memory.delete("k", scope="app")
        client.memory.set("k", b"\x00\xff", scope="run", scope_type="flow")
        for number in range(3):
            client.state.append_next("chat", statekeep.NewEvent("message", {"n": number}))
    return address


@pytest.fixture
def target(start_server: StartServer) -> str:
    """Give the address of an empty server."""
    return start_server().address


def run(address: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments, "--address", address],
        env=environment(),
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def export(address: str, *arguments: str) -> bytes:
    done = run(address, "export", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def lines(file: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.splitlines()]


def test_export_import_and_export_again_give_the_same_file(source: str, target: str, tmp_path: Path) -> None:
    file = export(source, "--all")
    path = tmp_path / "all.jsonl"
    path.write_bytes(file)
    done = run(target, "import", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"3 scopes and threads came in, with 9 records\n", b"")
    assert export(target, "--all") == file
    done = run(target, "import", str(path), "--json")
    assert json.loads(done.stdout) == {"restored": 0, "records": 0, "unchanged": 3, "skipped": []}


def test_a_pipe_from_server_to_server(source: str, target: str) -> None:
    done = run(target, "import", stdin=export(source, "--thread", "chat"))
    assert done.stdout == b"1 scopes and threads came in, with 3 records\n"
    assert export(target, "--all") == export(source, "--thread", "chat")
    assert run(target, "import", "-", stdin=export(source, "--all")).returncode == 0
    assert export(target, "--all") == export(source, "--all")


def test_a_scope_is_exported_by_name_and_type(source: str) -> None:
    found = lines(export(source, "--scope", "run", "--scope-type", "flow"))
    assert [next(iter(line)) for line in found] == ["format", "partition", "entry", "answer", "end", "complete"]
    assert found[2]["entry"]["value"] == {"data": "AP8="}  # type: ignore[index]


@pytest.mark.parametrize("what", [("--thread", "nobody"), ("--scope", "nobody"), ("--scope", "run")])
def test_the_export_of_what_is_not_there_fails(source: str, what: tuple[str, str]) -> None:
    done = run(source, "export", *what)
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"there is no {what[0][2:]} {what[1]}" in done.stderr.decode()


def test_an_export_whose_reader_goes_away_fails(source: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "export", "--all", "--address", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout
        process.stdout.close()
        assert process.wait(30) == 1
        assert process.stderr
        assert "no whole export" in process.stderr.read().decode()


@pytest.mark.parametrize(
    "what", [(), ("--all", "--thread", "t"), ("--thread", "a", "--scope", "b"), ("--thread", " t")]
)
def test_an_export_of_nothing_in_particular_is_wrong_use(source: str, what: tuple[str, ...]) -> None:
    done = run(source, "export", *what)
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(done.stderr.splitlines()) == 1


def test_an_import_names_the_line_at_which_a_file_is_wrong_and_brings_in_nothing(
    source: str, target: str, tmp_path: Path
) -> None:
    file = export(source, "--all")
    path = tmp_path / "damaged.jsonl"
    for damaged, line in (
        (file[:-200], b"line %d: the line has no end" % (len(file.splitlines()) - 1)),
        (file.replace(b"message", b"massage", 1), b"line %d: the checksum" % (len(file.splitlines()) - 1)),
        (file.replace(b'"version":1', b'"version":9', 1), b"line 1: the file has format version 9"),
        (b"hello\n", b"line 1: this is no Statekeep export"),
    ):
        path.write_bytes(damaged)
        done = run(target, "import", str(path))
        assert done.returncode == 1
        assert done.stderr.startswith(b"statekeep import: " + os.fsencode(path) + b": " + line), done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert len(lines(export(target, "--all"))) == 2


def test_what_comes_whole_before_the_damage_in_a_pipe_stays(source: str, target: str) -> None:
    file = export(source, "--all")
    done = run(target, "import", stdin=file.replace(b"message", b"massage", 1))
    assert done.returncode == 1
    assert done.stderr.startswith(b"statekeep import: stdin: line %d: the checksum" % (len(file.splitlines()) - 1))
    assert export(target, "--scope", "app") == export(source, "--scope", "app")
    assert run(target, "export", "--thread", "chat").returncode == 1
    assert run(target, "import", stdin=file).stdout.endswith(b"came in, with 3 records; 2 were there already\n")


def test_a_file_that_the_server_refuses_is_told_by_its_line_too(source: str, target: str, tmp_path: Path) -> None:
    import io

    from statekeep._export_file import Writer, read

    parts = [line.part for line in read(io.BytesIO(export(source, "--thread", "chat")))]
    parts[2].event.type = ""
    with (tmp_path / "odd.jsonl").open("wb") as odd:
        writer = Writer(odd)
        for part in parts:
            writer.write(part)
        writer.finish()
    done = run(target, "import", str(tmp_path / "odd.jsonl"))
    assert done.returncode == 1
    assert b"odd.jsonl: line 4: parts[2].event.type: is empty" in done.stderr


def test_another_thread_of_the_name_ends_the_import_or_is_skipped(source: str, target: str) -> None:
    with statekeep.Client(target) as client:
        client.state.append_next("chat", statekeep.NewEvent("mine"))
    file = export(source, "--all")
    done = run(target, "import", stdin=file)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"statekeep import: Thread chat is there already, and is another one; nothing of it")
    done = run(target, "import", "--skip-existing", stdin=file)
    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        "0 scopes and threads came in, with 0 records; 2 were there already",
        "skipped thread chat: another one is there",
    ]
    with statekeep.Client(target) as client:
        assert [event.type for event in client.state.history("chat")] == ["mine"]


@pytest.mark.parametrize("name", ["nowhere.jsonl", "."])
def test_a_file_that_cannot_be_read_is_told(target: str, tmp_path: Path, name: str) -> None:
    done = run(target, "import", str(tmp_path / name))
    assert done.returncode == 1
    assert b"cannot be read" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_server_that_is_not_there_is_told_in_one_line(source: str, tmp_path: Path) -> None:
    nowhere = f"unix:{tmp_path}/nobody.sock"
    for arguments, stdin in ((("export", "--all"), b""), (("import",), export(source, "--all"))):
        done = run(nowhere, *arguments, stdin=stdin)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_progress_is_shown_on_a_terminal_and_taken_away_at_the_end(source: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_bytes(export(source, "--all"))
    shown = {}
    for how in (("export", "--all"), ("import", str(path))):
        leader, follower = pty.openpty()
        try:
            subprocess.run(
                [*COMMAND, *how, "--address", source if how[0] == "export" else target],
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=follower,
                timeout=60,
                check=True,
            )
            shown[how[0]] = os.read(leader, 10_000).decode()
        finally:
            os.close(follower)
            os.close(leader)
    assert "exported 3 scopes and threads, 9 records" in shown["export"]
    assert "% " in shown["import"]
    assert all(text.endswith("\r\x1b[K") for text in shown.values())
