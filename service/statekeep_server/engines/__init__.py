"""The engines that keep records, each behind the same small interface, and the one place that names them."""

from statekeep_server.engines.interface import Engine as Engine

NAMES = ("memory:",)
"""The forms of store that `open_engine` takes."""


def open_engine(store: str) -> Engine:
    """Return the engine that a store's URL names; ValueError where there is none of that name."""
    if store == "memory:":
        from statekeep_server.engines.memory import MemoryEngine

        return MemoryEngine()
    raise ValueError(f"There is no store {store!r}; there is: {', '.join(NAMES)}")
