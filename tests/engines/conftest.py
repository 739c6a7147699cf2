"""The engines that the suite runs over: one more is one more URL here."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.engine_support import Store, races
from statekeep_server.engines import Engine, open_engine

STORES = ["memory:", "sqlite:{directory}/state.db"]


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=STORES, ids=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(request.param.format(directory=tmp_path))
    yield engine
    runner.run(engine.close())
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "state.db"]), "an engine that was closed leaves its file alone"


@pytest.fixture
def store(engine: Engine, runner: asyncio.Runner) -> Store:
    return Store(engine, runner)


@pytest.fixture
def provoked() -> Iterator[None]:
    """Provoke races while the test runs."""
    with races():
        yield
