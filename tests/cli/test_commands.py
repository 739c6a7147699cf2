"""The commands for people at a prompt, against a real server."""

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
import statekeep
from server_process import ServerProcess
from statekeep_server.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(server: ServerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command as `statekeep` does, against the shared server."""
    monkeypatch.setenv("STATEKEEP_ADDRESS", server.address)

    def run(*arguments: str) -> Done:
        try:
            code = main(arguments)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


def lines(done: Done) -> list[list[str]]:
    return [line.split() for line in done.out.splitlines()]


def test_set_says_the_version_and_get_gives_the_value_as_kept(run: Run, name: str) -> None:
    value = '{"big": 18446744073709551616, "zero": -0.0, "far": 1e999}'
    assert run("set", "a/b", value, "--scope", name) == Done(0, "a/b has version 1\n", "")
    assert run("get", "a/b", "--scope", name) == Done(0, value + "\n", "")


def test_a_value_that_is_no_json_is_kept_as_text(run: Run, name: str) -> None:
    run("set", "k", "hello there", "--scope", name)
    assert json.loads(run("get", "k", "--scope", name, "--json").out)["value"] == {"text": "hello there"}
    run("set", "k", "NaN", "--scope", name)
    assert json.loads(run("get", "k", "--scope", name, "--json").out)["value"] == {"text": "NaN"}


def test_text_keeps_as_text_what_is_json(run: Run, name: str) -> None:
    run("set", "k", "1", "--text", "--scope", name)
    assert json.loads(run("get", "k", "--scope", name, "--json").out)["value"] == {"text": "1"}


def test_a_dash_reads_the_value_from_stdin(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("[1,\n2]"))
    run("set", "k", "-", "--scope", name)
    assert run("get", "k", "--scope", name).out == "[1,\n2]\n"
    (line,) = run("get", "k", "--scope", name, "--json").out.splitlines()
    assert json.loads(line)["value"] == {"json": [1, 2]}


def test_json_lines_lose_no_digit(run: Run, name: str) -> None:
    run("set", "k", "[18446744073709551616, 1e999, 1.10]", "--scope", name)
    assert '"json":[18446744073709551616, 1e999, 1.10]' in run("get", "k", "--scope", name, "--json").out


def test_bytes_are_written_as_bytes(server: ServerProcess, name: str) -> None:
    data = bytes(range(256))
    with statekeep.Client(server.address) as client:
        client.memory.set("k", data, scope=name)
    command = [sys.executable, "-m", "statekeep_server", "get", "k", "--scope", name, "--address", server.address]
    assert subprocess.run(command, capture_output=True, timeout=30).stdout == data


def test_get_of_a_version(run: Run, name: str) -> None:
    run("set", "k", "1", "--scope", name)
    run("set", "k", "2", "--scope", name)
    assert run("get", "k", "--version", "1", "--scope", name).out == "1\n"


def test_what_is_not_there_is_one_line_and_exit_1(run: Run, name: str) -> None:
    assert run("get", "k", "--scope", name) == Done(1, "", f"statekeep get: k has no value in scope {name}\n")
    assert run("delete", "k", "--scope", name) == Done(1, "", f"statekeep delete: k has no value in scope {name}\n")


def test_a_wrong_expected_version_is_one_line_and_exit_1(run: Run, name: str) -> None:
    done = run("set", "k", "1", "--expected-version", "7", "--scope", name)
    assert (done.code, done.out) == (1, "")
    assert "version 0, not 7" in done.err
    assert done.err.count("\n") == 1


def test_a_value_with_a_ttl_says_when_it_expires(run: Run, name: str) -> None:
    run("set", "k", "1", "--ttl", "1.5h", "--scope", name)
    assert "expire_time" in json.loads(run("get", "k", "--scope", name, "--json").out)


def test_an_integer_of_many_digits_is_written_as_kept(run: Run, name: str) -> None:
    digits = "7" * 5000
    run("set", "k", digits, "--scope", name)
    assert run("get", "k", "--scope", name) == Done(0, digits + "\n", "")


def test_stdin_that_is_no_text_is_one_line_and_exit_2(server: ServerProcess, name: str) -> None:
    command = [sys.executable, "-m", "statekeep_server", "set", "k", "-", "--scope", name, "--address", server.address]
    done = subprocess.run(command, input=b"\xff", capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"UTF-8" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_socket_that_cannot_be_is_one_line_and_exit_1(run: Run) -> None:
    done = run("serve", "--listen", "unix:/etc/passwd/x")
    assert (done.code, done.out) == (1, "")
    assert "Not a directory" in done.err
    assert done.err.count("\n") == 1


def test_list_shows_the_keys_of_a_scope_in_columns(run: Run, name: str) -> None:
    run("set", "b", '"two"', "--scope", name)
    run("set", "a", "1", "--scope", name)
    header, *rows = lines(run("list", "--scope", name))
    assert header == ["KEY", "VERSION", "TYPE", "WRITTEN", "VALUE"]
    assert [(row[0], row[-1]) for row in rows] == [("a", "1"), ("b", '"two"')]
    assert [row[0] for row in lines(run("list", "--scope", name, "--prefix", "b"))[1:]] == ["b"]


def test_list_of_an_empty_scope_says_so(run: Run, name: str) -> None:
    assert run("list", "--scope", name) == Done(0, "(none)\n", "")
    assert run("list", "--scope", name, "--json") == Done(0, "", "")


def test_list_without_a_scope_shows_the_scopes(run: Run, name: str) -> None:
    run("set", "k", "1", "--scope", name, "--scope-type", "flow")
    assert [name, "flow", "1"] in lines(run("list"))
    scopes = map(json.loads, run("list", "--json").out.splitlines())
    assert {"scope": name, "scope_type": "flow", "entry_count": 1} in list(scopes)


def test_history_shows_every_version_newest_first(run: Run, name: str) -> None:
    run("set", "k", "1", "--scope", name)
    run("set", "k", "2", "--scope", name)
    assert run("delete", "k", "--scope", name) == Done(0, "k has version 3 (deleted)\n", "")
    rows = lines(run("history", "k", "--scope", name))[1:]
    assert [(row[1], row[-1]) for row in rows] == [("3", "(deleted)"), ("2", "2"), ("1", "1")]


def test_a_long_value_is_shortened_in_columns_only(run: Run, name: str) -> None:
    run("set", "k", "x" * 5000, "--scope", name)
    assert len(run("list", "--scope", name).out.splitlines()[1]) < 200
    assert run("get", "k", "--scope", name).out == "x" * 5000 + "\n"


@pytest.fixture
def thread(server: ServerProcess, name: str) -> str:
    with statekeep.Client(server.address) as client:
        for number in range(3):
            client.state.append_next(name, statekeep.NewEvent("step", {"n": number}, node="plan", id=f"e{number}"))
        client.state.fork(name, "e1", name="draft", event=statekeep.NewEvent("forked"))
    return name


def test_threads_are_listed_by_prefix(run: Run, thread: str) -> None:
    header, row = lines(run("threads", thread))
    assert header[:4] == ["THREAD", "EVENTS", "CHECKPOINTS", "BRANCHES"]
    assert row[:4] == [thread, "4", "0", "1"]
    assert json.loads(run("threads", thread, "--json").out)["event_count"] == 4


def test_events_are_shown_in_order(run: Run, thread: str) -> None:
    rows = lines(run("events", thread))
    assert [(row[0], row[3], row[4]) for row in rows] == [(str(n), "step", "plan") for n in (1, 2, 3)]
    assert [row[0] for row in lines(run("events", thread, "--last", "1"))] == ["3"]


def test_events_of_a_branch_begin_with_its_ancestors_where_asked(run: Run, thread: str) -> None:
    shown = run("events", thread, "--branch", "draft", "--ancestors", "--json").out.splitlines()
    assert [json.loads(line)["type"] for line in shown] == ["step", "step", "forked"]


def test_events_go_on_after_a_revision(run: Run, thread: str) -> None:
    first = json.loads(run("events", thread, "--json").out.splitlines()[0])
    assert [row[0] for row in lines(run("events", thread, "--after", str(first["revision"])))] == ["2", "3"]


def test_branches_show_where_each_was_forked(run: Run, thread: str) -> None:
    assert lines(run("branches", thread)) == [
        ["BRANCH", "FORKED", "FROM", "AT", "EVENT"],
        ["main", "-", "-"],
        ["draft", "main", "e1"],
    ]
    names = [json.loads(line)["id"] for line in run("branches", thread, "--json").out.splitlines()]
    assert names == ["main", "draft"]


def test_follow_shows_each_event_as_it_is_stored(server: ServerProcess, thread: str) -> None:
    command = [sys.executable, "-m", "statekeep_server", "events", thread, "--follow", "--json"]
    command += ["--address", server.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        try:
            assert follower.stdout is not None
            assert [json.loads(follower.stdout.readline())["sequence"] for _ in range(3)] == [1, 2, 3]
            with statekeep.Client(server.address) as client:
                client.state.append_next(thread, statekeep.NewEvent("new"))
            assert json.loads(follower.stdout.readline())["type"] == "new"
        finally:
            follower.terminate()


def test_a_reader_that_has_enough_is_no_error(server: ServerProcess, thread: str) -> None:
    with statekeep.Client(server.address) as client:
        client.state.append_many(thread, [statekeep.NewEvent("many", "x" * 90) for _ in range(2000)])
    command = [sys.executable, "-m", "statekeep_server", "events", thread, "--address", server.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.readline()
        reader.stdout.close()
        assert reader.stderr.read() == ""
        assert reader.wait(20) == 0


def test_what_would_move_the_cursor_is_escaped(server: ServerProcess, run: Run, name: str) -> None:
    with statekeep.Client(server.address) as client:
        client.state.append_next(name, statekeep.NewEvent("a\x1b[31m\nb", "\x1b[2J"))
    (line,) = run("events", name).out.splitlines()
    assert "a\\x1b[31m\\nb" in line
    assert "\x1b" not in line


def test_output_that_cannot_be_written_is_one_line_and_exit_1(server: ServerProcess, name: str) -> None:
    command = [sys.executable, "-m", "statekeep_server", "list", "--scope", name, "--address", server.address]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30)
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_the_terminals_encoding_lacks_is_escaped(server: ServerProcess, run: Run, name: str) -> None:
    run("set", "k", "é…", "--scope", name)
    command = [sys.executable, "-m", "statekeep_server", "get", "k", "--scope", name, "--address", server.address]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\\xe9\\u2026\n", "")


def test_a_socket_path_that_is_too_long_says_so(run: Run) -> None:
    done = run("serve", "--listen", f"unix:/tmp/{'x' * 120}")
    assert (done.code, done.out) == (1, "")
    assert "at most 107 bytes" in done.err


def test_version_is_told(run: Run) -> None:
    assert run("--version") == Done(0, f"statekeep {statekeep.__version__}\n", "")


def test_health_says_serving(run: Run) -> None:
    assert run("health") == Done(0, "SERVING\n", "")
    assert run("health", "--service", "statekeep.v1.Memory") == Done(0, "SERVING\n", "")


@pytest.mark.parametrize("command", [["health"], ["list"], ["events", "t"], ["history", "k", "--scope", "s"]])
def test_a_server_that_hangs_is_waited_for_no_longer_than_the_timeout(run: Run, command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        done = run(*command, "--address", f"127.0.0.1:{hanging.getsockname()[1]}", "--timeout", "300ms")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"statekeep {command[0]}: no answer came within 0.3 s; --timeout says how long to wait\n"


@pytest.mark.parametrize("command", [["health"], ["list"], ["get", "k", "--scope", "s"]])
def test_no_server_is_one_line_and_exit_1(run: Run, command: list[str]) -> None:
    done = run(*command, "--address", "127.0.0.1:1", "--timeout", "2")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"statekeep {command[0]}: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "right"),
    [
        ([], "COMMAND"),
        (["nosuch"], "'serve'"),
        (["set", "k"], "VALUE"),
        (["get", "k"], "--scope"),
        (["get", "a:b", "--scope", "s"], "letters"),
        (["get", "k", "--scope", "s", "--version", "0"], "versions count from 1"),
        (["set", "k", "1", "--scope", "s", "--ttl", "soon"], "1.5h"),
        (["serve", "--listen", "::1:0"], "[::1]:50051"),
        (["events", "t", "--last", "-1"], "0 for all"),
        (["events", " t "], "not trimmed"),
        (["list", "--prefix", "k"], "--scope"),
        (["get", "k", "--scope", "s", "--version", "9" * 30], "version"),
        (["events", "t", "--last", "9" * 30], "last"),
        (["events", "t\udcff"], ""),
        (["set", "k", "\udcff", "--scope", "s"], "surrogate"),
        (["serve", "--store", "nosuch:"], "there is: memory:"),
        (["serve", "--listen", "nowhere"], "HOST:PORT"),
        (["serve", "--grace", "soon"], "1.5h"),
        (["get", "k", "--scope", "s", "--timeout", "soon"], "1.5h"),
        (["get", "k", "--scope", "s", "--timeout", "0"], "more than 0"),
    ],
)
def test_wrong_use_is_one_line_that_says_what_is_right_and_exit_2(run: Run, command: list[str], right: str) -> None:
    done = run(*command)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("statekeep")
    assert right in done.err
    assert done.err.count("\n") == 1


def test_help_names_every_command(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    for command in [
        "serve",
        "health",
        "set",
        "get",
        "list",
        "history",
        "delete",
        "threads",
        "events",
        "branches",
        "info",
    ]:
        assert f"    {command}" in done.out
        assert run(command, "--help").out.startswith(f"usage: statekeep {command}")
