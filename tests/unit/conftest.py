"""What the tests of the rules start from: an empty world, and the three services' rules over it."""

import pytest
from hypothesis import settings
from unit.rules_support import MemoryRules, ScratchRules, ThreadRules, World

settings.register_profile("unit", deadline=None, database=None)
settings.load_profile("unit")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def memory(world: World) -> MemoryRules:
    return MemoryRules(world)


@pytest.fixture
def threads(world: World) -> ThreadRules:
    return ThreadRules(world)


@pytest.fixture
def scratch(world: World) -> ScratchRules:
    return ScratchRules(world)
