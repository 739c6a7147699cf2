"""Scratch values as RocketRide's users know them: :class:`MemoryNode`."""

from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from statekeep._borrowed import Borrowed, ClientOrAddress
from statekeep._calls import Calls
from statekeep._names import WHITE_SPACE
from statekeep._scratch import Scratch
from statekeep._waiting import Blocking
from statekeep.errors import StateError

__all__ = ["MemoryNode"]


class MemoryNode:
    """Keeps values under keys for one instance of a pipeline. Safe to use from any thread.

    The values are the server's, apart from those of every other node, and gone with the server's process, or
    once the node was not used for its ``idle_ttl``.

    Args:
        client: A client, an address, or None for ``STATEKEEP_ADDRESS`` (default ``127.0.0.1:50051``).
        idle_ttl: Seconds without use after which the values are gone; None leaves it to the server.
    """

    def __init__(self, client: ClientOrAddress = None, *, idle_ttl: float | timedelta | None = None) -> None:
        self._borrowed = Borrowed(client)
        self._scratch = Scratch(Calls(self._borrowed.connection, Blocking()))
        self._idle_ttl = idle_ttl
        self._instance_id: str | None = None

    def beginInstance(self) -> None:  # noqa: N802 # the original's name
        """Begins an instance of the node's own, empty."""
        before = self._instance_id
        self._instance_id = self._scratch.open(idle_ttl=self._idle_ttl).id
        if before is not None:
            self._scratch.close(before)

    def open(self, obj: object) -> None:
        """Empties the instance, as each object that goes through the pipeline finds it. ``obj`` is not used."""
        self._scratch.open(self._instance, idle_ttl=self._idle_ttl)

    def put(self, args: dict[str, Any]) -> dict[str, Any]:
        """Keeps ``args["value"]`` under ``args["key"]``: ``{"ok": True, "key": …}``."""
        key = _key(args)
        if "value" not in args:
            raise ValueError('"value" is required')
        return {"ok": True, "key": self._scratch.put(self._instance, key, args["value"])}

    def get(self, args: dict[str, Any]) -> dict[str, Any]:
        """The value under ``args["key"]``: ``{"ok": True, "key": …, "value": …}``, or not ok and None."""
        key = _key(args)
        item = self._scratch.get(self._instance, key)
        if item is None:
            return {"ok": False, "key": key, "value": None}
        return {"ok": True, "key": item.key, "value": item.value}

    def list(self, args: dict[str, Any]) -> dict[str, Any]:
        """The keys: ``{"ok": True, "keys": [sorted]}``."""
        _check(args)
        return {"ok": True, "keys": self._scratch.list(self._instance)}

    def clear(self, args: dict[str, Any]) -> dict[str, Any]:
        """Removes ``args["key"]``, or where it is missing, None or blank every key.

        Answers ``{"ok": True, "cleared": [the keys removed, sorted]}``.
        """
        _check(args)
        key = args.get("key")
        if key is not None and not isinstance(key, str):
            raise ValueError('"key" must be a string if provided')
        return {"ok": True, "cleared": self._scratch.clear(self._instance, key)}

    def close(self) -> None:
        """Ends the instance, and the client where it is the node's own. Closing again does nothing."""
        instance_id, self._instance_id = self._instance_id, None
        try:
            if instance_id is not None:
                self._scratch.close(instance_id)
        finally:
            self._borrowed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _instance(self) -> str:
        if self._instance_id is None:
            raise StateError("call beginInstance() first")
        return self._instance_id


def _check(args: object) -> None:
    if not isinstance(args, dict):
        raise ValueError("args must be a dict")  # the original's error


def _key(args: dict[str, Any]) -> str:
    """The key in the arguments, trimmed."""
    _check(args)
    key = args.get("key")
    if not isinstance(key, str) or not key.strip(WHITE_SPACE):
        raise ValueError('"key" is required and must be a non-empty string')
    return key.strip(WHITE_SPACE)
