"""The HTTP endpoint: where it listens, what the probes say, and when."""

import asyncio
import resource
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rpc_support import PATIENCE, connected, next_of, refused, until
from scraping import METRICS, Scrape, get
from server_process import ServerProcess, run_to_its_end
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1.value_pb2 import Value
from statekeep_server.telemetry import endpoint
from statekeep_server.telemetry.metrics import Read

StartServer = Callable[..., ServerProcess]


def test_a_server_that_serves_is_alive_and_ready(watched: ServerProcess) -> None:
    assert get(watched, "/livez") == (200, "ok\n")
    assert get(watched, "/readyz") == (200, "ok\n")


def test_an_unknown_page_is_not_found_and_the_answer_says_what_there_is(watched: ServerProcess) -> None:
    assert get(watched, "/") == (404, "there is /metrics, /livez and /readyz\n")


def test_without_the_setting_nothing_listens(start_server: StartServer) -> None:
    assert set(start_server().ready) == {"event", "listen"}


def test_a_server_that_drains_is_alive_and_not_ready(start_server: StartServer) -> None:
    process = start_server(*METRICS, "--grace", "30s")
    held = threading.Event()

    def requests() -> Iterator[admin.AdminImportRequest]:
        yield admin.AdminImportRequest()
        held.wait(PATIENCE)

    with connected(process.address) as stubs:
        stream = stubs.admin.Import(requests(), timeout=PATIENCE)
        next(stream)
        process.signal(signal.SIGTERM)
        until("it is not ready", lambda: get(process, "/readyz") == (503, "the server is stopping\n"))
        assert get(process, "/livez") == (200, "ok\n")
        held.set()
        assert list(stream) == []
    assert process.wait(20) == 0


def test_a_server_whose_disk_is_full_is_not_ready_until_it_can_write_again(
    start_server: StartServer, tmp_path: Path
) -> None:
    process = start_server("--store", f"sqlite:{tmp_path}/state.db", *METRICS)
    with connected(process.address) as stubs:
        stubs.state.AppendNextEvent(next_of("t"))
        largest = max(path.stat().st_size for path in tmp_path.iterdir())
        resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
        large = next_of("t", data=Value(data=bytes(2_000_000)))
        refused("STORE_UNAVAILABLE", stubs.state.AppendNextEvent, large)
        status, reason = get(process, "/readyz")
        assert (status, reason[:29]) == (503, "The store cannot be written: ")
        assert Scrape(process)("statekeep_store_writable") == 0
        assert Scrape(process)("statekeep_commit_failures_total") >= 1
        resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert get(process, "/readyz") == (200, "ok\n")
        assert Scrape(process)("statekeep_store_writable") == 1
        assert Scrape(process)("statekeep_partitions", kind="thread") == 1


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_address_that_others_reach_is_refused(address: str) -> None:
    ended = run_to_its_end("--listen", "127.0.0.1:0", "--metrics", address)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"statekeep serve: cannot serve metrics on {address}: they have no authentication")


def test_a_port_that_is_taken_is_refused_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run_to_its_end("--listen", "127.0.0.1:0", "--metrics", address)
    assert ended.returncode == 1
    assert ended.stderr == f"statekeep serve: cannot serve metrics on {address}: Address already in use\n"


@pytest.mark.parametrize("address", ["unix:/run/m.sock", "9464", "on"])
def test_what_is_no_address_is_wrong_use(address: str) -> None:
    ended = run_to_its_end("--metrics", address)
    assert ended.returncode == 2
    assert ended.stderr.startswith("statekeep serve: --metrics: ")
    assert "HOST:PORT" in ended.stderr
    assert "unix:PATH" not in ended.stderr


def test_insecure_lets_others_reach_it_and_the_log_says_so(start_server: StartServer) -> None:
    process = start_server("--metrics", "0.0.0.0:0", "--insecure", "true")
    assert process.ready["metrics"].startswith("0.0.0.0:")
    assert get(process, "/livez") == (200, "ok\n")
    assert "other machines may reach the metrics" in process.stderr


def test_it_listens_on_ipv6(start_server: StartServer) -> None:
    process = start_server("--metrics", "[::1]:0")
    assert process.ready["metrics"].startswith("[::1]:")
    assert get(process, "/livez") == (200, "ok\n")


def test_a_loop_that_hangs_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "LIVE_WITHIN", 0.2)
    hung, asked = threading.Event(), threading.Event()
    seen: list[int] = []

    async def read() -> Read:
        return []

    async def ready() -> str:
        return ""

    async def run() -> None:
        served = endpoint.Endpoint("127.0.0.1:0", read, ready)
        asking = threading.Thread(target=ask, args=(served.address,))
        asking.start()
        hung.set()
        assert asked.wait(PATIENCE)  # this is the hanging
        await asyncio.to_thread(asking.join)
        await served.close()

    def ask(address: str) -> None:
        assert hung.wait(PATIENCE)
        try:
            with urllib.request.urlopen(f"http://{address}/livez", timeout=PATIENCE) as answer:
                seen.append(answer.status)
        except urllib.error.HTTPError as refused:
            with refused:
                seen.append(refused.code)
        finally:
            asked.set()

    asyncio.run(run())
    assert seen == [503]


def test_clients_that_say_nothing_keep_nobody_waiting(start_server: StartServer) -> None:
    process = start_server(*METRICS)
    host, _, port = process.ready["metrics"].rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(20)]
    assert get(process, "/livez") == (200, "ok\n")
    assert Scrape(process)("statekeep_calls_in_flight") == 0
    for one in silent:
        one.close()
