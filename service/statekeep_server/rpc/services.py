"""The services: for each RPC the rule that answers it, and where the rule looks.

Memory and StateStore are tables of rules, run on an engine; Scratch is held by this process alone; Admin moves what
an engine keeps as a whole.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from google.protobuf.message import Message
from statekeep.v1 import admin_pb2, memory_pb2, scratch_pb2, state_store_pb2

from statekeep_server.core import memory, state_store
from statekeep_server.core.journal import Call, Change, Limits, View
from statekeep_server.core.memory_streams import KeyHistory, ScopeWatch
from statekeep_server.core.pages import Page
from statekeep_server.core.scratch import Scratch
from statekeep_server.core.streams import Reader
from statekeep_server.core.thread_streams import BranchHistory
from statekeep_server.engines import Engine
from statekeep_server.rpc.access import within
from statekeep_server.rpc.admin import Backup, Export, Import
from statekeep_server.rpc.handlers import Method, Send, Stream, Unary
from statekeep_server.rpc.info import Info
from statekeep_server.rpc.streams import Followers

Partition = Callable[[Any], str]
Write = Callable[[View, Any, Call], Change[bytes]]
Read = Callable[[View, Any, Call], bytes]
Line = Callable[[View, str, Call], bytes | None]

MEMORY = memory_pb2.DESCRIPTOR.services_by_name["Memory"]
SCRATCH = scratch_pb2.DESCRIPTOR.services_by_name["Scratch"]
STATE_STORE = state_store_pb2.DESCRIPTOR.services_by_name["StateStore"]
ADMIN = admin_pb2.DESCRIPTOR.services_by_name["Admin"]


class Services:
    """The methods of the services over an engine."""

    def __init__(
        self, engine: Engine, scratch: Scratch, followers: Followers, limits: Limits, capabilities: Iterable[str] = ()
    ) -> None:
        self._engine = engine
        self._scratch = scratch
        self._followers = followers
        self._limits = limits
        self._info = Info(engine, limits, capabilities)
        with_room = self._now_with_room if limits.memory else self._now
        self._now_of_scratch = with_room
        # Records on a disk take no memory, whatever is left of it.
        self.now = self._now if engine.durable else with_room
        """Returns what a rule on the engine may know of this moment."""

    def memory(self) -> Mapping[str, Method]:
        """Return the methods of Memory."""
        return {
            "Set": self._write(_scope, memory.set_key),
            "BatchSet": self._write(memory.batch_partition, memory.set_keys),
            "Get": self._read(_scope, memory.get_key),
            "BatchGet": self._read(_scope, memory.get_keys),
            "List": self._read(_scope, memory.list_keys),
            "History": self._stream(KeyHistory),
            "Delete": self._write(_scope, memory.delete_key),
            "Purge": self._write(_scope, memory.purge),
            "ListPurges": self._read(_scope, memory.list_purges),
            "ListScopes": self._list(memory.PARTITIONS, memory.scope_info),
            "Watch": self._stream(ScopeWatch),
        }

    def state_store(self) -> Mapping[str, Method]:
        """Return the methods of StateStore."""
        return {
            "AppendEvent": self._write(_event_thread, state_store.append_event),
            "AppendNextEvent": self._write(_event_thread, state_store.append_next_event),
            "AppendEvents": self._write(_thread, state_store.append_events),
            "SaveCheckpoint": self._write(_checkpoint_thread, state_store.save_checkpoint),
            "GetHistory": self._read(_thread, state_store.get_history),
            "StreamHistory": self._stream(BranchHistory),
            "LatestCheckpoint": self._read(_thread, state_store.latest_checkpoint),
            "ListCheckpoints": self._read(_thread, state_store.list_checkpoints),
            "Fork": self._write(_thread, state_store.fork),
            "ListBranches": self._read(_thread, state_store.list_branches),
            "ListThreads": self._list(state_store.PARTITIONS, state_store.thread),
            "DeleteThread": self._write(_thread, state_store.delete_thread),
        }

    def scratch(self) -> Mapping[str, Method]:
        """Return the methods of Scratch."""
        rules = self._scratch
        return {
            "Open": self._call(rules.open),
            "Put": self._call(rules.put),
            "Get": self._call(rules.get),
            "List": self._call(rules.list),
            "Clear": self._call(rules.clear),
            "Close": self._call(rules.close),
            "Attach": self._attach,
        }

    def admin(self) -> Mapping[str, Method]:
        """Return the methods of Admin."""
        return {
            "Export": self._export,
            "Import": self._import,
            "Backup": self._backup,
            "GetInfo": self._info.get,
        }

    def _now(self) -> Call:
        return Call(time.time_ns() // 1000, self._limits)

    def _now_with_room(self) -> Call:
        room = self._limits.memory - self._engine.held - self._scratch.held
        return Call(time.time_ns() // 1000, self._limits, room)

    def _write(self, partition: Partition, rule: Write) -> Unary:
        def write(request: Message) -> Awaitable[bytes]:
            call = self.now()
            return self._engine.write(partition(request), lambda view: rule(view, request, call))

        return write

    def _read(self, partition: Partition, rule: Read) -> Unary:
        def read(request: Message) -> Awaitable[bytes]:
            call = self.now()
            return self._engine.read(partition(request), lambda view: rule(view, request, call))

        return read

    def _stream(self, reader: Callable[[Any], Reader[Any]]) -> Stream:
        async def stream(request: Message, send: Send) -> None:
            await self._followers.run(reader(request), send, self.now)

        return stream

    def _list(self, prefix: str, line: Line) -> Unary:
        async def list_partitions(request: Any) -> bytes:
            call = self.now()
            page = Page(request, call.limits)
            shown = within(getattr(request, "prefix", ""))
            if shown is None:
                return page.answer()
            after = prefix + page.cursor if page.cursor else ""
            while names := await self._engine.partitions(prefix + shown, after, page.size + 1):
                for name in names:
                    framed = await self._engine.read(name, lambda view, name=name: line(view, name, call))  # type: ignore[misc]
                    if framed and not page.take(framed, name[len(prefix) :]):
                        return page.answer()
                after = names[-1]
                await asyncio.sleep(0)  # many may have nothing to show
            return page.answer()

        return list_partitions

    def _call(self, rule: Callable[[Any, Call], bytes]) -> Unary:
        async def call(request: Message) -> bytes:
            return rule(request, self._now_of_scratch())

        return call

    async def _export(self, request: Any, send: Send) -> None:
        await Export(self._engine, self.now).run(request, send)

    async def _import(self, requests: AsyncIterator[Any], send: Send) -> None:
        await Import(self._engine, self.now).run(requests, send)

    async def _backup(self, request: Any, send: Send) -> None:
        await Backup(self._engine).run(send)

    async def _attach(self, request: Any, send: Send) -> None:
        with self._followers.place():
            instance = self._scratch.attach(request, self._now_of_scratch())
            try:
                await send(scratch_pb2.ScratchAttachResponse(instance_id=instance.id).SerializeToString())
                await self._followers.stay()
            finally:
                self._scratch.detach(instance)


def _scope(request: Any) -> str:
    return memory.partition(request.scope)


def _thread(request: Any) -> str:
    return state_store.partition(request.thread_id)


def _event_thread(request: Any) -> str:
    return state_store.partition(request.event.thread_id, "event.thread_id")


def _checkpoint_thread(request: Any) -> str:
    return state_store.partition(request.checkpoint.thread_id, "checkpoint.thread_id")
