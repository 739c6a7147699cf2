"""The commands at a prompt, against a server with TLS and tokens."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from server_process import LOOPBACK, ServerProcess
from statekeep_server.cli import main
from tls_support import Files
from token_support import OWNER, READER, WRONG, replace, table


class Done(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command as `statekeep` does, with nothing in the environment but what it is given."""
    for name in list(os.environ):
        if name.startswith("STATEKEEP_"):
            monkeypatch.delenv(name)

    def run(*arguments: str, **environment: str) -> Done:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(f"STATEKEEP_{name}", value)
            try:
                code = main(arguments)
            except SystemExit as exit_:
                code = int(exit_.code or 0)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def process(files: Files, ca: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    """Give a server that wants a certificate of its clients, and a token."""
    tokens = tmp_path / "tokens.toml"
    replace(tokens, table("owner", OWNER) + table("reader", READER, "read"))
    listen = (LOOPBACK, f"unix:{tmp_path}/s.sock")
    flags = (*files.flags, "--tls-client-ca", str(ca), "--token-file", str(tokens))
    server = ServerProcess(*flags, listen=listen)
    yield server
    server.stop()


def test_commands_take_tls_and_the_token_from_options_and_the_environment(
    run: Run, process: ServerProcess, files: Files, ca: Path, authority: trustme.CA, tmp_path: Path
) -> None:
    mine = Files(tmp_path / "mine.pem", tmp_path / "mine.key")
    mine.hold(authority.issue_cert("me@example.org"))
    options = ("--address", process.address, "--tls-ca", str(ca), *mine.flags)
    environment = {
        "ADDRESS": process.address,
        "TLS_CA": str(ca),
        "TLS_CERT": str(mine.cert),
        "TLS_KEY": str(mine.key),
        "TOKEN": OWNER,
    }
    assert run("health", *options) == Done(0, "SERVING\n", "")
    assert run("set", "k", "1", "--scope", "s", *options, TOKEN=OWNER) == Done(0, "k has version 1\n", "")
    assert run("health", **environment) == Done(0, "SERVING\n", "")
    assert run("get", "k", "--scope", "s", **environment) == Done(0, "1\n", "")
    denied = run("set", "k", "1", "--scope", "s", **environment | {"TOKEN": READER})
    assert (denied.code, denied.out) == (1, "")
    assert "'reader' may only read" in denied.err
    unknown = run("get", "k", "--scope", "s", **environment | {"TOKEN": WRONG})
    assert unknown.code == 1
    assert "none that is in force" in unknown.err
    assert WRONG not in unknown.err


def test_without_what_the_server_wants_a_command_says_what_in_one_line(
    run: Run, process: ServerProcess, ca: Path, tmp_path: Path
) -> None:
    theirs = Files(tmp_path / "theirs.pem", tmp_path / "theirs.key")
    theirs.hold(trustme.CA().issue_cert("me@example.org"))
    trusting = ("--tls-ca", str(ca))
    for options, missing in (
        ((), "if it speaks TLS, give --tls or --tls-ca"),
        (("--tls",), "--tls-ca has to name"),
        (trusting, "give --tls-cert and --tls-key"),
        ((*trusting, *theirs.flags), "who signed --tls-cert"),
        ((*trusting, "--tls-server-name", "state.example"), "--tls-server-name"),
    ):
        for command in (("health",), ("get", "k", "--scope", "s"), ("export", "--all")):
            done = run(*command, "--address", process.address, *options)
            assert (done.code, done.out) == (1, "")
            assert done.err.startswith(f"statekeep {command[0]}: no server can be reached at {process.address} (")
            assert missing in done.err
            assert done.err.count("\n") == 1


def test_tls_towards_a_server_without_it_is_told(run: Run, server: ServerProcess) -> None:
    done = run("health", "--address", server.address, "--tls")
    assert (done.code, done.out) == (1, "")
    assert "leave out --tls" in done.err


def test_files_that_are_not_what_they_should_be_are_named_before_anything_is_sent(
    run: Run, files: Files, ca: Path, tmp_path: Path
) -> None:
    theirs = Files(tmp_path / "theirs.pem", tmp_path / "theirs.key")
    theirs.hold(trustme.CA().issue_cert("me@example.org"))
    for options, wrong in (
        (("--tls-ca", str(files.key)), f"--tls-ca: {files.key} holds no certificates as PEM"),
        (("--tls-ca", f"{tmp_path}/none"), f"--tls-ca: {tmp_path}/none cannot be read"),
        (("--tls-ca", str(ca), "--tls-cert", str(files.cert)), "--tls-cert and --tls-key belong together"),
        (("--tls-cert", str(files.cert), "--tls-key", str(theirs.key)), f"{theirs.key} is not the key of"),
    ):
        done = run("health", "--address", "127.0.0.1:1", *options)
        assert (done.code, done.out) == (2, "")
        assert wrong in done.err
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", [("get", "k", "--scope", "s"), ("serve",), ("config",), ()])
@pytest.mark.parametrize("given", [("--token", OWNER), (f"--token={OWNER}",)])
def test_a_token_is_no_flag_and_is_not_printed(run: Run, command: tuple[str, ...], given: tuple[str, ...]) -> None:
    done = run(*command, *given)
    assert (done.code, done.out) == (2, "")
    assert "a token is given in STATEKEEP_TOKEN" in done.err
    assert OWNER not in done.err


def test_no_flag_can_be_shortened(run: Run) -> None:
    for command in (("config", "--tls-c", "file"), ("list", "--addr", "127.0.0.1:1")):
        done = run(*command)
        assert (done.code, done.out) == (2, "")
        assert "unrecognized arguments" in done.err


def test_over_a_unix_socket_the_environment_of_the_server_does_no_harm(
    run: Run, process: ServerProcess, files: Files
) -> None:
    of_the_server = {"TLS_CERT": str(files.cert), "TLS_KEY": str(files.key), "TLS": "true"}
    socket = ("--address", process.addresses[1])
    assert run("health", *socket, **of_the_server) == Done(0, "SERVING\n", "")
    assert "wants a token; give it in STATEKEEP_TOKEN" in run("list", *socket, **of_the_server).err
    assert run("list", *socket, TOKEN=READER, **of_the_server).code == 0


def test_a_certificate_of_another_name_is_taken_under_that_name(
    run: Run, authority: trustme.CA, files: Files, ca: Path
) -> None:
    files.hold(authority.issue_cert("state.example"))
    server = ServerProcess(*files.flags)
    try:
        options = ("health", "--address", server.address, "--tls-ca", str(ca))
        assert run(*options).code == 1
        assert run(*options, "--tls-server-name", "state.example") == Done(0, "SERVING\n", "")
        assert run(*options, TLS_SERVER_NAME="state.example") == Done(0, "SERVING\n", "")
    finally:
        server.stop()


def test_wrong_use_is_told(run: Run, ca: Path) -> None:
    for command in (("health",), ("get", "k", "--scope", "s")):
        prefix = f"statekeep {command[0]}: "
        assert run(*command, "--tls-cert", str(ca)) == Done(
            2, "", f"{prefix}--tls-cert and --tls-key belong together; give both\n"
        )
        missing = run(*command, "--tls-ca", "/nowhere/ca.pem")
        assert missing == Done(2, "", f"{prefix}--tls-ca: /nowhere/ca.pem cannot be read: No such file or directory\n")
        assert run(*command, TLS="maybe") == Done(2, "", f"{prefix}STATEKEEP_TLS: give true or false\n")
