"""What the tests of export and import share: the rules over an engine, by a test's own clock, and the streams."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from statekeep._export_file import Writer, read
from statekeep.v1 import admin_pb2 as pb
from statekeep.v1 import memory_pb2, state_store_pb2
from statekeep.v1.value_pb2 import Value
from statekeep_server.core import memory, state_store
from statekeep_server.core.errors import StatekeepError
from statekeep_server.core.journal import Call, Change, View
from statekeep_server.core.streams import Reader
from statekeep_server.engines import Engine
from statekeep_server.rpc.admin import Export, Import

SECOND = 1_000_000
Part = pb.ExportedPart


def part_of(message: Any, **fields: Any) -> Part:
    """Return a part as it is, but for fields of what is in it."""
    copy = Part()
    copy.CopyFrom(message)
    kind = copy.WhichOneof("part")
    assert kind
    for name, value in fields.items():
        setattr(getattr(copy, kind), name, value)
    return copy


class Kept:
    """An engine with the rules over it."""

    def __init__(self, engine: Engine, runner: asyncio.Runner, now: int = 1_900_000_000 * SECOND) -> None:
        self.engine = engine
        self.runner = runner
        self.now = now

    def call(self) -> Call:
        return Call(self.now)

    def write(self, rule: Callable[[View, Any, Call], Change[bytes]], partition: str, request: Any) -> bytes:
        call = self.call()
        return self.runner.run(self.engine.write(partition, lambda view: rule(view, request, call)))

    def read(self, rule: Callable[[View, Any, Call], bytes], partition: str, request: Any) -> bytes:
        call = self.call()
        return self.runner.run(self.engine.read(partition, lambda view: rule(view, request, call)))

    def messages(self, reader: Reader[Any]) -> list[bytes]:
        """Return what a stream sends up to where it is caught up."""
        found: list[bytes] = []
        place: Any = None
        for _ in range(10_000):
            call = self.call()

            def query(view: View, call: Call = call, place: Any = place) -> Any:
                return reader.step(view, call, place)

            step = self.runner.run(self.engine.read(reader.partition, query))
            place = step.place
            found += step.messages
            if step.quiet or step.done:
                return found
        raise AssertionError("the stream does not end")

    # --- writes

    def set(self, scope: str, key: str = "k", json: str = "1", **fields: Any) -> memory_pb2.MemoryEntry:
        where = memory_pb2.Scope(name=scope, type=fields.pop("type", 1))
        request = memory_pb2.MemorySetRequest(**{"scope": where, "key": key, "value": Value(json=json), **fields})
        answer = self.write(memory.set_key, memory.partition(where), request)
        return memory_pb2.MemorySetResponse.FromString(answer).entry

    def delete(self, scope: str, key: str = "k") -> None:
        where = memory_pb2.Scope(name=scope, type=1)
        self.write(memory.delete_key, memory.partition(where), memory_pb2.MemoryDeleteRequest(scope=where, key=key))

    def purge(self, scope: str, **fields: Any) -> None:
        where = memory_pb2.Scope(name=scope, type=1)
        request = memory_pb2.MemoryPurgeRequest(scope=where, **fields)
        self.write(memory.purge, memory.partition(where), request)

    def get(self, scope: str, key: str = "k", **fields: Any) -> memory_pb2.MemoryEntry:
        where = memory_pb2.Scope(name=scope, type=1)
        request = memory_pb2.MemoryGetRequest(scope=where, key=key, **fields)
        answer = self.read(memory.get_key, memory.partition(where), request)
        return memory_pb2.MemoryGetResponse.FromString(answer).entry

    def append(self, thread: str, event_id: str = "", **fields: Any) -> state_store_pb2.Event:
        event = state_store_pb2.Event(**{"id": event_id, "thread_id": thread, "type": "note", **fields})
        request = state_store_pb2.AppendNextEventRequest(event=event)
        answer = self.write(state_store.append_next_event, state_store.partition(thread), request)
        return state_store_pb2.AppendNextEventResponse.FromString(answer).event

    def save(self, thread: str, checkpoint_id: str, sequence: int = 1, **fields: Any) -> state_store_pb2.Checkpoint:
        checkpoint = state_store_pb2.Checkpoint(
            **{"id": checkpoint_id, "thread_id": thread, "sequence": sequence, "state": Value(json="{}"), **fields}
        )
        request = state_store_pb2.SaveCheckpointRequest(checkpoint=checkpoint)
        answer = self.write(state_store.save_checkpoint, state_store.partition(thread), request)
        return state_store_pb2.SaveCheckpointResponse.FromString(answer).checkpoint

    def drop(self, thread: str) -> None:
        request = state_store_pb2.DeleteThreadRequest(thread_id=thread)
        self.write(state_store.delete_thread, state_store.partition(thread), request)

    def history(self, thread: str) -> list[str]:
        request = state_store_pb2.GetHistoryRequest(thread_id=thread)
        answer = self.read(state_store.get_history, state_store.partition(thread), request)
        return [event.id for event in state_store_pb2.GetHistoryResponse.FromString(answer).history.events]

    # --- export and import

    def export(
        self, meanwhile: Callable[[int], None] = lambda sent: None, size: int | None = None, **selection: Any
    ) -> list[Part]:
        """Return the parts of an export; `meanwhile` is called after each message with how many there were."""
        found: list[Part] = []
        messages = 0

        async def send(data: bytes) -> None:
            nonlocal messages
            messages += 1
            assert len(data) < 4 * 2**20
            found.extend(pb.AdminExportResponse.FromString(data).parts)
            await asyncio.to_thread(meanwhile, messages)

        limits = self.call().limits
        call = Call(self.now, limits if size is None else type(limits)(chunk=size))
        request = pb.AdminExportRequest(**selection or {"all": True})
        self.runner.run(Export(self.engine, lambda: call).run(request, send))
        return found

    def file(self, **selection: Any) -> bytes:
        """Return the file of an export."""
        return file_of(self.export(**selection))

    def bring(
        self, parts: Sequence[Part] | bytes, *, each: int = 7, skip_existing: bool = False
    ) -> list[pb.ImportedPartition]:
        """Import parts, or a file, `each` of them a message, and return what became of the partitions."""
        given = parts_of(parts) if isinstance(parts, bytes) else parts
        done: list[pb.ImportedPartition] = []

        async def requests() -> AsyncIterator[pb.AdminImportRequest]:
            for start in range(0, len(given), each):
                yield pb.AdminImportRequest(parts=given[start : start + each], skip_existing=skip_existing)

        async def send(data: bytes) -> None:
            done.extend(pb.AdminImportResponse.FromString(data).partitions)

        self.runner.run(Import(self.engine, self.call).run(requests(), send))
        return done


def file_of(parts: Iterable[Part]) -> bytes:
    file = io.BytesIO()
    writer = Writer(file)
    for part in parts:
        writer.write(part)
    writer.finish()
    return file.getvalue()


def parts_of(file: bytes) -> list[Part]:
    return [line.part for line in read(io.BytesIO(file))]


def answer_or_reason(job: Callable[[], Any]) -> Any:
    """Return what a call answers, or why it is refused."""
    try:
        return job()
    except StatekeepError as error:
        return error.reason, error.message
