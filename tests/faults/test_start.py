"""The start of a server: addresses, the ready line, settings, and wrong use."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from rpc_support import connected, set_of, until
from server_process import COMMAND, LOOPBACK, ServerProcess, run_to_its_end
from statekeep_server.cli import main, serving

StartServer = Callable[..., ServerProcess]


def serves(address: str) -> bool:
    with connected(address) as own:
        return own.memory.Set(set_of("s", "k"), timeout=20).entry.version > 0


def test_the_ready_line_is_one_line_of_json_with_the_real_port(start_server: StartServer) -> None:
    process = start_server()
    assert process.ready == {"event": "ready", "listen": [process.address]}
    assert re.fullmatch(r"127\.0\.0\.1:[1-9][0-9]+", process.address)
    assert serves(process.address)
    process.signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert process.process.stdout
    assert process.process.stdout.read() == b""


def test_two_addresses_are_listened_on(start_server: StartServer, tmp_path: Path) -> None:
    unix = f"unix:{tmp_path}/s.sock"
    process = start_server(listen=(LOOPBACK, unix, LOOPBACK))
    first, second, third = process.addresses
    assert (second, first != third) == (unix, True)
    assert all(serves(address) for address in process.addresses)


def test_addresses_of_ipv6_are_listened_on(start_server: StartServer) -> None:
    process = start_server(listen=("[::1]:0",))
    assert re.fullmatch(r"\[::1\]:[1-9][0-9]+", process.address)
    assert serves(process.address)


def test_a_second_server_on_a_port_ends_and_says_that_it_is_in_use(start_server: StartServer) -> None:
    process = start_server()
    ended = run_to_its_end("--listen", process.address)
    assert ended.returncode == 1
    assert "in use" in ended.stderr.lower()
    assert process.address in ended.stderr
    assert ended.stdout == ""
    assert serves(process.address)


def test_a_second_server_on_a_live_unix_socket_is_refused(start_server: StartServer, tmp_path: Path) -> None:
    unix = f"unix:{tmp_path}/s.sock"
    process = start_server(listen=(unix,))
    ended = run_to_its_end("--listen", unix)
    assert ended.returncode == 1
    assert unix in ended.stderr
    assert serves(process.address)


def test_a_unix_socket_that_nobody_answers_on_is_replaced(start_server: StartServer, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    start = start_server(listen=(f"unix:{path}",))
    start.process.kill()
    start.wait(10)
    assert path.is_socket()
    assert serves(start_server(listen=(f"unix:{path}",)).address)


def test_a_file_of_the_name_of_a_unix_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    path.write_text("precious")
    ended = run_to_its_end("--listen", f"unix:{path}")
    assert ended.returncode == 1
    assert path.read_text() == "precious"
    assert str(path) in ended.stderr


def test_a_unix_socket_where_there_is_no_directory_is_refused(tmp_path: Path) -> None:
    ended = run_to_its_end("--listen", f"unix:{tmp_path}/nowhere/s.sock")
    assert ended.returncode == 1
    assert f"{tmp_path}/nowhere/s.sock" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_unix_socket_with_too_long_a_path_is_refused(tmp_path: Path) -> None:
    ended = run_to_its_end("--listen", f"unix:{tmp_path}/{'x' * 120}")
    assert ended.returncode in (1, 2)
    assert "Traceback" not in ended.stderr


def wrong_use(*flags: str, extra: dict[str, str] | None = None) -> str:
    """Run what must end with exit code 2 and one line, and return that line."""
    ended = run_to_its_end(*flags, extra=extra)
    assert ended.returncode == 2, ended
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    return line


def test_an_unknown_store_names_those_that_there_are() -> None:
    line = wrong_use("--store", "nosuch:x")
    assert "nosuch:" in line
    assert "memory:" in line


def test_an_unknown_flag_is_named() -> None:
    assert "--no-such-flag" in wrong_use("--no-such-flag")


def test_a_flag_without_its_value_is_named() -> None:
    assert "--listen" in wrong_use("--listen")


@pytest.mark.parametrize(
    "bad", ["", "nonsense", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":", ":-1", "unix:", "h:"]
)
def test_an_address_that_is_none_is_named(bad: str) -> None:
    line = wrong_use("--listen", bad)
    assert "--listen" in line
    assert bad in line


def test_one_bad_address_among_good_ones_is_named() -> None:
    assert "nonsense" in wrong_use("--listen", LOOPBACK, "--listen", "nonsense")


def test_a_host_that_is_not_there_is_named() -> None:
    ended = run_to_its_end("--listen", "host.invalid:0", "--insecure")
    assert ended.returncode == 1
    assert "host.invalid" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("bad", ["x", "-1", "nan", "inf", "1 year", ""])
def test_a_time_that_is_none_is_named(bad: str) -> None:
    assert "--grace" in wrong_use(f"--grace={bad}")


@pytest.mark.parametrize("good", ["2", "2s", "500ms", "0.5m", " 1 h "])
def test_a_time_may_have_a_unit(good: str, start_server: StartServer) -> None:
    assert start_server("--grace", good).ready


def test_the_environment_and_a_file_set_what_flags_do_not(start_server: StartServer, tmp_path: Path) -> None:
    config = tmp_path / "statekeep.toml"
    from_file, from_environment = f"unix:{tmp_path}/file.sock", f"unix:{tmp_path}/environment.sock"
    config.write_text(f'listen = ["{from_file}"]\ngrace = "3s"\n')
    flags = ("--config", str(config))
    extra = {"STATEKEEP_LISTEN": f"{from_environment},{LOOPBACK}"}
    assert start_server(*flags, listen=()).addresses == [from_file]
    assert start_server(*flags, listen=(), extra=extra).addresses[0] == from_environment
    assert start_server(*flags, extra=extra).address.startswith("127.0.0.1:")


def test_an_unknown_key_of_a_file_is_named(tmp_path: Path) -> None:
    config = tmp_path / "statekeep.toml"
    config.write_text('lisen = ["127.0.0.1:0"]\n')
    line = wrong_use("--config", str(config))
    assert "lisen" in line
    assert "listen" in line.replace("lisen", "")


@pytest.mark.parametrize("content", ["listen = [", "listen = 7", "grace = []", "grace = true", 'store = ["memory:"]'])
def test_a_file_that_cannot_be_taken_is_named(content: str, tmp_path: Path) -> None:
    config = tmp_path / "statekeep.toml"
    config.write_text(content)
    assert str(config) in wrong_use("--config", str(config))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "missing.toml" in wrong_use("--config", f"{tmp_path}/missing.toml")


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    config = tmp_path / "statekeep.toml"
    config.write_bytes(b"\xff\xfe\x00")
    assert str(config) in wrong_use("--config", str(config))


def test_a_bad_variable_is_named() -> None:
    assert "STATEKEEP_GRACE" in wrong_use("--listen", LOOPBACK, extra={"STATEKEEP_GRACE": "soon"})


def test_an_unknown_variable_is_passed_over(start_server: StartServer) -> None:
    assert start_server(extra={"STATEKEEP_PORT_50051_TCP": "tcp://10.0.0.1:50051"}).ready


def test_a_server_whose_stdout_is_closed_still_serves(tmp_path: Path) -> None:
    """A supervisor may read the ready line and close its end."""
    process = ServerProcess()
    try:
        assert process.process.stdout
        process.process.stdout.close()
        assert serves(process.address)
    finally:
        process.stop()


def test_a_port_is_free_again_once_a_server_has_ended(start_server: StartServer) -> None:
    first = start_server()
    assert serves(first.address)
    first.stop()
    host, port = first.address.split(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, int(port)))
    again = start_server(listen=(first.address,))
    assert again.address == first.address


def test_the_ready_line_is_one_write_of_valid_json(start_server: StartServer) -> None:
    process = start_server()
    assert process.ready_line.count("\n") == 1
    assert json.loads(process.ready_line)["event"] == "ready"
    assert os.path.exists(f"/proc/{process.process.pid}")


def test_a_server_serves_also_where_nobody_reads_that_it_is_ready(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen([*COMMAND, "--listen", f"unix:{path}"], stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        try:
            with grpc.insecure_channel(f"unix:{path}") as channel:
                grpc.channel_ready_future(channel).result(timeout=30)
        finally:
            process.terminate()
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("grpc_version", "given", "chosen"),
    [
        ("1.85.3", None, "-event_engine_listener"),
        ("1.85.3", "event_engine_dns", "event_engine_dns"),
        ("1.86.0", None, None),
    ],
)
def test_grpc_listens_in_its_older_way_where_it_has_it_and_nobody_chose(
    monkeypatch: pytest.MonkeyPatch, grpc_version: str, given: str | None, chosen: str | None
) -> None:
    found: list[str | None] = []
    monkeypatch.setattr(serving, "version", lambda package: grpc_version)
    monkeypatch.setattr(serving.signal, "signal", lambda number, handler: None)  # the tests' own stays
    monkeypatch.setattr("statekeep_server.serve.run", lambda settings: found.append(os.environ.get("GRPC_EXPERIMENTS")))
    monkeypatch.setenv("GRPC_EXPERIMENTS", given or "")  # so that it is as it was afterwards
    if given is None:
        monkeypatch.delenv("GRPC_EXPERIMENTS")
    assert main(["serve"]) == 0
    assert found == [chosen]


def test_a_unix_socket_whose_server_takes_no_more_connections_is_not_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as other, contextlib.ExitStack() as waiting:
        other.bind(str(path))
        other.listen(0)
        waiting.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))  # and no more may wait
        before = path.stat().st_ino
        done = run_to_its_end("--listen", f"unix:{path}")
        assert (done.returncode, path.stat().st_ino) == (1, before)
        assert "remove it if no server has it" in done.stderr


def test_sigterm_before_it_is_ready_ends_it(tmp_path: Path) -> None:
    fifo = tmp_path / "config.toml"
    os.mkfifo(fifo)
    with subprocess.Popen([*COMMAND, "--config", str(fifo)], stderr=subprocess.PIPE, text=True) as process:
        try:
            writers: list[int] = []  # it reads until this one is closed
            until("it reads its settings", lambda: writers or writers.extend(_opened(fifo)), within=60)
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=60)[1]
            os.close(writers[0])
        finally:
            process.kill()
    assert (process.returncode, said) == (0, "")


def _opened(fifo: Path) -> list[int]:
    """Open a pipe to write to, where somebody reads it."""
    try:
        return [os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)]
    except OSError:
        return []
