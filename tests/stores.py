"""The stores that tests of engines and servers run over: one more is one more URL here."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from server_process import ServerProcess

STORES = {"memory": "memory:", "sqlite": "sqlite:{directory}/state.db"}
"""The URL of each store, with {directory} for one that is empty and the test's own."""


def url_of(store: str, directory: Path) -> str:
    """Return a store's URL."""
    return STORES[store].format(directory=directory)


def check_left(directory: Path) -> None:
    """See that a store that was closed left its file at most."""
    assert [path.name for path in directory.iterdir()] in ([], ["state.db"])


@contextmanager
def serving(store: str, directory: Path, *flags: str) -> Iterator[ServerProcess]:
    """Give a server on a store."""
    process = ServerProcess("--store", url_of(store, directory), *flags)
    try:
        yield process
    finally:
        process.stop()
    check_left(directory)
