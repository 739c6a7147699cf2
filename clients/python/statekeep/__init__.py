"""Statekeep's client: memory, scratch values and event histories, kept by a server over gRPC.

>>> import statekeep
>>> with statekeep.Client("127.0.0.1:50051") as client:
...     client.memory.set("greeting", {"text": "hello"}, scope="app")
...     client.memory.get("greeting", scope="app").value

:class:`Client` and :class:`AsyncClient` reach all of it. :mod:`statekeep.memory`, :mod:`statekeep.scratch` and
:mod:`statekeep.state` offer it under three interfaces that programs know already.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statekeep import errors, memory, scratch, state
    from statekeep._reading import AsyncReading
    from statekeep._sync import Pages, Reading
    from statekeep.client import AsyncClient, Client
    from statekeep.errors import StatekeepError
    from statekeep.flows import checkpoint, flow
    from statekeep.records import NewCheckpoint, NewEvent, Write
    from statekeep.values import Data, Json, Text

    __version__: str

__all__ = [
    "AsyncClient",
    "AsyncReading",
    "Client",
    "Data",
    "Json",
    "NewCheckpoint",
    "NewEvent",
    "Pages",
    "Reading",
    "StatekeepError",
    "Text",
    "Write",
    "__version__",
    "checkpoint",
    "errors",
    "flow",
    "memory",
    "scratch",
    "state",
]

# Where each name is. They are imported when they are first asked for: the server imports statekeep.v1 alone,
# and must not pay for the client.
_HOMES = {
    "AsyncClient": "client",
    "AsyncReading": "_reading",
    "Client": "client",
    "Data": "values",
    "Json": "values",
    "NewCheckpoint": "records",
    "NewEvent": "records",
    "Pages": "_sync",
    "Reading": "_sync",
    "StatekeepError": "errors",
    "Text": "values",
    "Write": "records",
    "checkpoint": "flows",
    "flow": "flows",
}
_MODULES = {"errors", "memory", "scratch", "state"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"statekeep.{name}")
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("statekeep")
    if name not in _HOMES:
        raise AttributeError(f"module 'statekeep' has no attribute {name!r}")
    return getattr(importlib.import_module(f"statekeep.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
