"""The engines that keep records, each behind the same small interface, and the one place that names them."""

from statekeep_server.engines.interface import Engine as Engine
from statekeep_server.engines.interface import StoreError as StoreError

NAMES = ("memory:", "sqlite:PATH")
"""The forms of store that `open_engine` takes."""


def check_store(store: str) -> str:
    """Return a store's URL; ValueError where there is none of that name."""
    kind, _, rest = str(store).partition(":")
    if kind == "sqlite" and rest.strip() == ":memory:":
        raise ValueError(f"{store!r} would be a file of that name; give memory: to keep nothing on disk")
    if store == "memory:" or (kind == "sqlite" and rest.strip() and "\0" not in rest):
        return store
    if kind == "sqlite":
        raise ValueError(f"{store!r} names no file; give its path, such as sqlite:/data/state.db")
    raise ValueError(f"there is no store {store!r}; there is: {', '.join(NAMES)}")


def open_engine(store: str) -> Engine:
    """Return the engine that a store's URL names.

    Raises ValueError where there is none of that name, and StoreError where what is named cannot be used.
    """
    check_store(store)
    if store == "memory:":
        from statekeep_server.engines.memory import MemoryEngine

        return MemoryEngine()
    from statekeep_server.engines.sqlite import SqliteEngine

    return SqliteEngine(store.removeprefix("sqlite:"))
