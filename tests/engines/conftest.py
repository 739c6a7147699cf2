"""The engines that the suite runs over: those of stores.py."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.engine_support import Store, races
from statekeep_server.engines import Engine, open_engine
from stores import STORES, check_left, url_of


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=STORES)
def engine(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(url_of(request.param, tmp_path))
    yield engine
    runner.run(engine.close())
    check_left(tmp_path)


@pytest.fixture(params=STORES)
def other(
    request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """Give a second engine, of each kind in turn: what leaves one may go into any."""
    engine = open_engine(url_of(request.param, tmp_path_factory.mktemp("other")))
    yield engine
    runner.run(engine.close())


@pytest.fixture
def store(engine: Engine, runner: asyncio.Runner) -> Store:
    return Store(engine, runner)


@pytest.fixture
def provoked() -> Iterator[None]:
    """Provoke races while the test runs."""
    with races():
        yield
