"""The log: JSON for programs, text for people, and nothing in it that a client stored."""

import json
import logging
import os
import pty
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from hpack import Encoder
from http2_frames import DATA, END_HEADERS, END_STREAM, HEADERS, HEADERS_FRAME, PREFACE, SETTINGS, frame, message
from rpc_support import PATIENCE, connected, key_of, refusal_of, refused, scope, set_of, until
from server_process import COMMAND, ServerProcess, environment
from statekeep.v1 import memory_pb2 as memory
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.engines.memory import MemoryEngine

StartServer = Callable[..., ServerProcess]

DEBUG = ("--log-level", "debug")


def lines(process: ServerProcess) -> list[dict[str, Any]]:
    """Return what was logged, of which every line must be an object of JSON with the same first parts."""
    logged = [json.loads(line) for line in process.stderr.splitlines()]
    for line in logged:
        assert list(line)[:3] == ["time", "level", "event"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line["time"])
    return logged


def test_at_debug_every_call_is_a_line(start_server: StartServer) -> None:
    process = start_server(*DEBUG)
    with connected(process.address) as stubs:
        stubs.memory.Set(set_of("s", "k"))
        refused("INVALID_FIELD", stubs.memory.Get, key_of("s", "no good"))
    until("both are there", lambda: len(lines(process)) == 2)
    done, failed = lines(process)
    assert (done["method"], done["code"], done["level"]) == ("statekeep.v1.Memory/Set", "OK", "debug")
    assert "reason" not in done
    assert (failed["code"], failed["reason"]) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    for line in (done, failed):
        assert line["event"] == "call"
        assert 0 < line["duration_ms"] < PATIENCE * 1000
        assert line["peer"].startswith("ipv4:127.0.0.1:")
        assert re.fullmatch("[0-9a-f]{16}", line["request_id"])


def test_by_default_calls_refused_for_the_clients_sake_are_not_logged(start_server: StartServer) -> None:
    process = start_server("--slow-call", "0")
    with connected(process.address) as stubs:
        stubs.memory.Set(set_of("s", "k"))
        refused("VERSION_MISMATCH", stubs.memory.Set, set_of("s", "k", expected_version=5))
        refused("INVALID_FIELD", stubs.memory.Get, key_of("s", "no good"))
    assert process.stderr == ""


def test_the_callers_request_id_is_the_lines_unless_it_may_do_harm(start_server: StartServer) -> None:
    process = start_server(*DEBUG)
    good = ["abc-123", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a" * 128]
    bad = ["", "a" * 129, 'x","level":"error', "a b", "[31m"]
    with connected(process.address) as stubs:
        for given in (*good, *bad):
            stubs.memory.Get(key_of("s", "k"), metadata=[("x-request-id", given)])
    until("all are logged", lambda: len(lines(process)) == len(good) + len(bad))
    logged = [line["request_id"] for line in lines(process)]
    assert logged[: len(good)] == good
    assert all(re.fullmatch("[0-9a-f]{16}", one) for one in logged[len(good) :])


def test_no_value_key_name_or_token_is_in_the_log(start_server: StartServer) -> None:
    process = start_server(*DEBUG)
    secret = "hunter2"  # noqa: S105 (not one)
    with connected(process.address) as stubs:
        stubs.memory.Set(set_of(secret, secret, f'"{secret}"'), metadata=[("authorization", f"Bearer {secret}")])
        refused("INVALID_FIELD", stubs.memory.Get, key_of("s", f"{secret} " * 2))
        refused("INVALID_FIELD", stubs.memory.Set, set_of("s", "k", f'"{secret}'))
    until("all are there", lambda: len(lines(process)) == 3)
    assert secret not in process.stderr


def test_a_slow_call_is_a_warning_and_a_stream_never_is(start_server: StartServer) -> None:
    process = start_server("--slow-call", "0.000001")
    with connected(process.address) as stubs:
        list(stubs.memory.History(memory.MemoryHistoryRequest(scope=scope("s"), key="k")))
        stubs.memory.Set(set_of("s", "k"))
    until("it is logged", lambda: lines(process))
    (line,) = lines(process)
    assert (line["level"], line["event"], line["method"]) == ("warning", "slow call", "statekeep.v1.Memory/Set")


class Faulty(MemoryEngine):
    """An engine with a fault."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self._fault = fault

    async def read(self, partition: str, query: Any) -> Any:
        raise self._fault


@pytest.fixture
def failing(serve: Callable[..., str]) -> Iterator[Callable[[Exception], grpc.RpcError]]:
    """Read from an engine that fails so, and give what the client gets."""

    def fail(fault: Exception) -> grpc.RpcError:
        with connected(serve(Faulty(fault))) as stubs, pytest.raises(grpc.RpcError) as caught:
            stubs.memory.Get(key_of("s", "k"), metadata=[("x-request-id", "r-1")])
        return caught.value

    return fail


def test_a_fault_of_the_server_is_logged_with_its_traceback_and_not_told_to_the_client(
    failing: Callable[[Exception], grpc.RpcError], caplog: pytest.LogCaptureFixture
) -> None:
    refusal = refusal_of(failing(ValueError("inner workings")))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "inner" not in refusal.message
    (record,) = caplog.records
    assert (record.levelno, record.message) == (logging.ERROR, "call failed")
    assert record.__dict__["request_id"] == "r-1"
    assert record.__dict__["reason"] == "INTERNAL"
    assert record.exc_info
    assert str(record.exc_info[1]) == "inner workings"


def test_a_call_that_the_store_failed_is_a_warning_without_a_traceback(
    failing: Callable[[Exception], grpc.RpcError], caplog: pytest.LogCaptureFixture
) -> None:
    failing(StatekeepError(Reason.STORE_UNAVAILABLE, "The store is away", retry_after=1))
    (record,) = caplog.records
    assert (record.levelno, record.message, record.exc_info) == (logging.WARNING, "call failed", None)
    assert record.__dict__["code"] == "UNAVAILABLE"


def test_a_traceback_is_one_line_of_json() -> None:
    program = (
        "import logging\nfrom statekeep_server.telemetry.logs import configure\nconfigure('info', 'json')\n"
        "try:\n    {}['absent']\nexcept KeyError:\n"
        "    logging.getLogger('x').exception('it %s', 'failed', extra={'n': 2**70})\n"
        "logging.getLogger('x').info('a \\udcff surrogate')\nlogging.getLogger('x').debug('not shown')\n"
    )
    done = subprocess.run([COMMAND[0], "-c", program], capture_output=True, text=True, timeout=30)
    first, second = map(json.loads, done.stderr.splitlines())
    assert (first["event"], first["level"], first["logger"], first["n"]) == ("it failed", "error", "x", 2**70)
    assert first["exception"].startswith("Traceback")
    assert first["exception"].endswith("KeyError: 'absent'")
    assert second["event"] == "a \udcff surrogate"


@pytest.mark.parametrize(
    ("flags", "form"),
    [((), "colours"), (("--log-format", "json"), "json")],
    ids=["auto", "json"],
)
def test_a_terminal_gets_text_in_colours_unless_json_is_asked_for(flags: tuple[str, ...], form: str) -> None:
    ours, theirs = pty.openpty()
    command = [*COMMAND, "--listen", "127.0.0.1:0", *DEBUG, *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment()) as process:
        os.close(theirs)
        try:
            assert process.stdout
            with connected(json.loads(process.stdout.readline())["listen"][0]) as stubs:
                stubs.memory.Get(key_of("s", "k"))
            shown = os.read(ours, 10_000).decode()
        finally:
            process.terminate()
            process.wait(20)
            os.close(ours)
    assert "statekeep.v1.Memory/Get" in shown
    assert ("\x1b[" in shown) == (form == "colours")
    assert shown.startswith("{") == (form == "json")


def test_text_without_a_terminal_has_no_colours(start_server: StartServer) -> None:
    process = start_server(*DEBUG, "--log-format", "text")
    with connected(process.address) as stubs:
        stubs.memory.Get(key_of("s", "k"))
    until("it is logged", lambda: process.stderr)
    assert re.match(r"\S+Z \[debug +\] call +\[statekeep_server.calls\] code=OK duration_ms=", process.stderr)
    assert "\x1b" not in process.stderr


def test_metadata_that_is_no_text_is_not_in_the_log(start_server: StartServer) -> None:
    process = start_server("--log-format", "json")
    host, _, port = process.address.rpartition(":")
    fields = Encoder().encode([*HEADERS, ("authorization", b"Bearer s3cr3t-0123456789\xff")])
    sent = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS_FRAME, END_HEADERS, 1, fields)
    sent += frame(DATA, END_STREAM, 1, message(b""))
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(sent)
        connection.settimeout(PATIENCE)
        while b"grpc-status" not in (got := connection.recv(65536)) and got:
            pass
    with connected(process.address) as stubs:
        stubs.memory.Set(set_of("log", "k"))
    assert "s3cr3t" not in process.stderr
