"""Scratch as a client sees it: values that live as long as an instance."""

# ruff: noqa: ASYNC109 # the timeout is gRPC's own deadline, which the server sees too

import builtins
from datetime import timedelta
from types import TracebackType
from typing import Any
from uuid import uuid4

import grpc

from statekeep import _sync
from statekeep._building import build
from statekeep._calls import Calls
from statekeep._messages import duration_of
from statekeep._stored import time_of
from statekeep._waiting import Messages, run
from statekeep.errors import InternalError
from statekeep.records import Instance, ScratchItem
from statekeep.v1 import scratch_pb2
from statekeep.values import message_of, raw_of_message


class AsyncScratch:
    """Values under keys, for as long as one instance of a program lives. Nothing of it reaches a disk.

    Keys are trimmed. Every ``timeout`` is in seconds; None takes the client's. Every call may raise a
    :class:`statekeep.StatekeepError`. What tells which keys it removed (``open``, ``clear``, ``close``) is not
    tried again after a lost connection: the answer would be wrong.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._stub = calls.connection.scratch

    async def open(
        self,
        instance_id: str | None = None,
        *,
        idle_ttl: float | timedelta | None = None,
        timeout: float | None = None,
    ) -> Instance:
        """Begins an instance, or empties it where it was used before.

        Args:
            instance_id: None makes one up.
            idle_ttl: Seconds without use after which the instance ends; None leaves it to the server.
            timeout: Seconds.
        """
        request = build(
            scratch_pb2.ScratchOpenRequest,
            instance_id=str(uuid4()) if instance_id is None else instance_id,
            idle_ttl=duration_of(idle_ttl, "idle_ttl"),
        )
        answer = await self._calls.answer(self._stub.Open, request, timeout)
        expire_time = time_of(answer.expire_time) if answer.HasField("expire_time") else None
        return Instance(answer.instance_id, tuple(answer.cleared), expire_time)

    async def put(
        self, instance_id: str, key: str, value: Any, *, timeout: float | None = None
    ) -> str:  # fmt: skip
        """Keeps a value under a key, beginning the instance where it has not been; returns the key as kept."""
        request = build(scratch_pb2.ScratchPutRequest, instance_id=instance_id, key=key, value=message_of(value))
        return (await self._calls.answer(self._stub.Put, request, timeout)).key

    async def get(self, instance_id: str, key: str, *, timeout: float | None = None) -> ScratchItem | None:
        """The value under a key; None where there is none."""
        request = build(scratch_pb2.ScratchGetRequest, instance_id=instance_id, key=key)
        answer = await self._calls.answer(self._stub.Get, request, timeout)
        raw = raw_of_message(answer.value)
        return None if raw is None else ScratchItem(answer.key, raw)

    async def list(self, instance_id: str, *, timeout: float | None = None) -> builtins.list[str]:
        """The keys, sorted; none for an instance that is not there."""
        request = build(scratch_pb2.ScratchListRequest, instance_id=instance_id)
        return [*(await self._calls.answer(self._stub.List, request, timeout)).keys]

    async def clear(
        self, instance_id: str, key: str | None = None, *, timeout: float | None = None
    ) -> builtins.list[str]:
        """Removes one key, or where it is None or blank every key; returns those removed, sorted."""
        request = build(scratch_pb2.ScratchClearRequest, instance_id=instance_id, key=key)
        return [*(await self._calls.answer(self._stub.Clear, request, timeout)).cleared]

    async def close(self, instance_id: str, *, timeout: float | None = None) -> builtins.list[str]:
        """Ends an instance; returns the keys that were there, sorted."""
        request = build(scratch_pb2.ScratchCloseRequest, instance_id=instance_id)
        return [*(await self._calls.answer(self._stub.Close, request, timeout)).cleared]

    def attach(self, instance_id: str) -> "AsyncAttachment":
        """A context in which the instance is open, and with which it ends.

        It ends too where the program dies, or its connection is lost: what is put into it after that is in a
        new instance, which nobody is attached to.
        """
        return AsyncAttachment(self._calls, instance_id)


class AsyncAttachment:
    """The context of ``attach``. Entering it empties the instance and gives its id.

    Raises:
        InstanceAttachedError: On entering, where someone else has the instance.
    """

    def __init__(self, calls: Calls, instance_id: str) -> None:
        self._calls = calls
        self._request = build(scratch_pb2.ScratchAttachRequest, instance_id=instance_id)
        self._messages: Messages[scratch_pb2.ScratchAttachResponse] | None = None

    async def __aenter__(self) -> str:
        attach = self._calls.connection.scratch.Attach
        self._messages = self._calls.messages(attach, self._request, None, reopened=False)
        try:
            answer = await self._messages.next()
        except BaseException as failure:
            self._leave()
            if isinstance(failure, grpc.RpcError):
                raise self._calls.error_of(failure) from None
            raise
        if answer is None:
            raise InternalError("the server ended Attach without an answer")
        return answer.instance_id

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        messages, self._messages = self._messages, None
        if messages is not None:
            messages.cancel()
            messages.join()


class Attachment:
    """As :class:`AsyncAttachment`, blocking."""

    def __init__(self, attachment: AsyncAttachment) -> None:
        self._attachment = attachment

    def __enter__(self) -> str:
        return run(self._attachment.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self._attachment.__aexit__(kind, error, trace))


class Scratch:
    """As :class:`AsyncScratch`, blocking."""

    def __init__(self, calls: Calls) -> None:
        self._methods = AsyncScratch(calls)

    open = _sync.call(AsyncScratch.open)
    put = _sync.call(AsyncScratch.put)
    get = _sync.call(AsyncScratch.get)
    list = _sync.call(AsyncScratch.list)
    clear = _sync.call(AsyncScratch.clear)
    close = _sync.call(AsyncScratch.close)
    attach = _sync.Method(AsyncScratch.attach, Attachment)
