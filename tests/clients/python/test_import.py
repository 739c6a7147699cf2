"""Importing costs what is used: the server imports the stubs, and must not load the client."""

import subprocess
import sys
from importlib.metadata import version

import pytest
import statekeep


def in_a_new_interpreter(program: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_messages_loads_neither_grpc_nor_the_client() -> None:
    loaded = in_a_new_interpreter("import sys, statekeep.v1.memory_pb2; print(*sys.modules, sep='\\n')").splitlines()
    assert "grpc" not in loaded
    ours = {module for module in loaded if module.startswith("statekeep.")}
    assert ours == {"statekeep.v1", "statekeep.v1.value_pb2", "statekeep.v1.memory_pb2"}


def test_every_public_name_is_there() -> None:
    program = "import statekeep\nfor name in statekeep.__all__: getattr(statekeep, name)\nfrom statekeep import *"
    in_a_new_interpreter(program)
    assert set(statekeep.__all__) <= set(dir(statekeep))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = statekeep.nothing


def test_the_version_is_the_distributions() -> None:
    assert statekeep.__version__ == version("statekeep")


@pytest.mark.parametrize("name", ["memory", "scratch", "state", "errors", "flows", "client", "values", "records"])
def test_each_module_can_be_imported_first(name: str) -> None:
    in_a_new_interpreter(f"from statekeep import {name}")
