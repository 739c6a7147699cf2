"""What a client can know of a server: Admin.GetInfo, client.admin.info() and statekeep info."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest
import statekeep
from rpc_support import RECORD_LIMIT, Stubs
from scraping import METRICS
from server_process import ServerProcess, environment
from statekeep.records import ServerInfo
from statekeep.v1 import admin_pb2 as admin
from statekeep_server.core.journal import Limits

StartServer = Callable[..., ServerProcess]


def info_of(process: ServerProcess) -> ServerInfo:
    with statekeep.Client(process.address) as client:
        return client.admin.info()


def test_it_tells_the_version_the_engine_and_since_when(watched: ServerProcess) -> None:
    info = info_of(watched)
    assert info.version == version("statekeep")
    assert info.engine == watched.store.partition(":")[0]
    assert timedelta() < info.uptime < timedelta(minutes=5)
    assert abs(info.start_time + info.uptime - datetime.now(UTC)) < timedelta(seconds=20)
    assert info_of(watched).start_time == info.start_time
    assert info_of(watched).uptime > info.uptime


def test_it_tells_every_limit_there_is(watched: ServerProcess) -> None:
    limits = info_of(watched).limits
    assert set(limits) == {field.name for field in fields(Limits)}
    assert limits["record"] == RECORD_LIMIT


def test_the_wire_has_limits_and_capabilities_sorted(stubs: Stubs) -> None:
    answer = stubs.admin.GetInfo(admin.AdminGetInfoRequest())
    names = [limit.name for limit in answer.limits]
    assert names == sorted(names)
    assert list(answer.capabilities) == sorted(answer.capabilities)


def test_capabilities_are_those_of_the_engine_and_of_the_settings(start_server: StartServer, tmp_path: Path) -> None:
    assert info_of(start_server()).capabilities == frozenset()
    durable = start_server("--store", f"sqlite:{tmp_path}/s.db", *METRICS, extra={"STATEKEEP_TOKEN": "t" * 40})
    with statekeep.Client(durable.address, token="t" * 40) as client:
        assert client.admin.info().capabilities == {"durable", "metrics", "tokens"}


def test_both_clients_get_the_same(server: ServerProcess) -> None:
    async def info() -> ServerInfo:
        async with statekeep.AsyncClient(server.address) as client:
            return await client.admin.info(timeout=20)

    awaited, blocking = asyncio.run(info()), info_of(server)
    assert (awaited.version, awaited.start_time, awaited.limits) == (
        blocking.version,
        blocking.start_time,
        blocking.limits,
    )


def test_limits_cannot_be_changed_by_who_reads_them(server: ServerProcess) -> None:
    with pytest.raises(TypeError):
        info_of(server).limits["record"] = 0  # type: ignore[index]


def run(address: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "statekeep_server", "info", "--address", address, *flags]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30)


def test_the_command_shows_it_to_people_and_as_json(watched: ServerProcess) -> None:
    shown = run(watched.address)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(f"statekeep {version('statekeep')}, on {watched.store.partition(':')[0]}\nup since ")
    assert re.search(r"^record +4128768$", shown.stdout, re.MULTILINE)
    told = json.loads(run(watched.address, "--json").stdout)
    assert told["limits"]["record"] == RECORD_LIMIT
    assert told["uptime_seconds"] > 0
    assert ("durable" in told["capabilities"]) == (watched.store != "memory:")


def test_a_server_that_is_not_there_is_told_in_one_line() -> None:
    done = run("127.0.0.1:1")
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
