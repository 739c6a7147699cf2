"""The processes that bench.workers arranges: each serves until its standard input ends.

python -m bench.worker apart PORT          gRPC and an engine of its own
python -m bench.worker engine PATH         an engine, behind a Unix socket
python -m bench.worker front PORT PATH     gRPC, each call handed on to that engine
"""

import asyncio
import json
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import uvloop
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value
from statekeep_server.core.journal import Limits
from statekeep_server.core.scratch import Scratch
from statekeep_server.engines.memory import MemoryEngine
from statekeep_server.rpc.batches import Batches
from statekeep_server.rpc.handlers import Traffic, method_handlers
from statekeep_server.rpc.routes import Routes
from statekeep_server.rpc.services import MEMORY, STATE_STORE, Services
from statekeep_server.rpc.streams import Followers

SCOPE = memory.Scope(name="bench")
EVENT = state.Event(thread_id="append", type="step", data=Value(json='{"note": "' + "n" * 200 + '"}'))
HISTORY = 10_000  # events of the thread that is read

_HEAD = struct.Struct("<IIB")  # bytes that follow, the call, and the method or the kind of the answer
_PART, _END = 0, 1
_METHODS = [method for service in (MEMORY, STATE_STORE) for method in service.methods]


async def _serve(port: int, methods: "dict[str, Mapping[str, Any]]") -> None:
    """Serve methods on a port that others serve too, until standard input ends."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 1)])
    routes = Routes()
    for service in (MEMORY, STATE_STORE):
        handlers = method_handlers(service, methods[service.name], Traffic(), Batches())
        routes.add_registered_method_handlers(service.full_name, handlers)
    server.add_generic_rpc_handlers([routes])
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await _until_the_end()
    await server.stop(0)


async def _until_the_end() -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    print(json.dumps({"event": "ready"}), flush=True)
    await ended.wait()


async def _services() -> Services:
    """Return the services over an engine that holds what is read."""
    engine = MemoryEngine()
    services = Services(engine, Scratch(), Followers(engine), Limits())
    value = Value(json='{"step": 7, "note": "' + "n" * 80 + '"}')
    await services.memory()["Set"](memory.MemorySetRequest(scope=SCOPE, key="k", value=value))  # type: ignore[call-arg, arg-type]
    for _ in range(HISTORY // 100):
        batch = state.AppendEventsRequest(thread_id="read", events=[EVENT] * 100)
        for event in batch.events:
            event.thread_id = "read"
        await services.state_store()["AppendEvents"](batch)  # type: ignore[call-arg, arg-type]
    return services


async def _apart(port: str) -> None:
    services = await _services()
    await _serve(int(port), {"Memory": services.memory(), "StateStore": services.state_store()})


class _Wire(asyncio.Protocol):
    """Frames over a socket, each with a head."""

    def __init__(self, received: "Callable[[_Wire, int, int, bytes], None]") -> None:
        self._received = received
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport  # uvloop's are no subclasses of asyncio's

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= _HEAD.size:
            size, call, kind = _HEAD.unpack_from(buffer, at)
            if len(buffer) - at < _HEAD.size + size:
                break
            at += _HEAD.size + size
            self._received(self, call, kind, bytes(buffer[at - size : at]))
        del buffer[:at]

    def send(self, call: int, kind: int, payload: bytes) -> None:
        self._transport.writelines([_HEAD.pack(len(payload), call, kind), payload])


async def _engine(path: str) -> None:
    """Answer calls that come over a socket."""
    services = await _services()
    served = {"Memory": services.memory(), "StateStore": services.state_store()}
    methods: list[tuple[Any, Any, bool]] = [
        (
            GetMessageClass(method.input_type).FromString,
            served[method.containing_service.name][method.name],
            method.server_streaming,
        )
        for method in _METHODS
    ]
    tasks: set[asyncio.Task[None]] = set()

    async def answer(wire: _Wire, call: int, number: int, payload: bytes) -> None:
        parse, method, streams = methods[number]

        async def send(message: bytes) -> None:
            wire.send(call, _PART, message)

        if streams:
            await method(parse(payload), send)
            wire.send(call, _END, b"")
        else:
            wire.send(call, _END, await method(parse(payload)))

    def received(wire: _Wire, call: int, number: int, payload: bytes) -> None:
        task = asyncio.ensure_future(answer(wire, call, number, payload))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.get_running_loop().create_unix_server(lambda: _Wire(received), path)
    await _until_the_end()
    server.close()


async def _front(port: str, path: str) -> None:
    """Speak gRPC, and hand the calls on."""
    waiting: dict[int, asyncio.Queue[tuple[int, bytes]]] = {}
    last = 0

    def received(_: _Wire, call: int, kind: int, payload: bytes) -> None:
        if call in waiting:
            waiting[call].put_nowait((kind, payload))

    _, wire = await asyncio.get_running_loop().create_unix_connection(lambda: _Wire(received), path)

    def forward(number: int) -> Callable[..., Awaitable[Any]]:
        async def call(request: Message, send: Any = None) -> bytes:
            nonlocal last
            last = here = (last + 1) % 2**32
            answers = waiting[here] = asyncio.Queue()
            wire.send(here, number, request.SerializeToString())
            try:
                while True:
                    kind, payload = await answers.get()
                    if kind == _END:
                        return payload
                    await send(payload)
            finally:
                del waiting[here]

        return call

    numbers = {(method.containing_service.name, method.name): forward(at) for at, method in enumerate(_METHODS)}
    await _serve(
        int(port),
        {
            name: {method: run for (its, method), run in numbers.items() if its == name}
            for name in ("Memory", "StateStore")
        },
    )


_ROLES: Mapping[str, Callable[..., Any]] = {"apart": _apart, "engine": _engine, "front": _front}

if __name__ == "__main__":
    uvloop.run(_ROLES[sys.argv[1]](*sys.argv[2:]))
