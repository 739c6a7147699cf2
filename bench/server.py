"""The server that is measured: the real one, with two methods beside its services that do nothing, the floors.

    bench.Floor/Empty    takes a google.protobuf.BytesValue and answers with one of 100 bytes, as a method that was
                         generated and does nothing would
    bench.Floor/Stream   sends messages of the sizes that the request lists (see `pack_sizes`)

`python -m bench.server [STORE]` says where it listens as `statekeep serve` does, and ends when its standard input does:
so nothing is left behind, however the one who started it ends.
"""

import asyncio
import gc
import json
import sys
from array import array
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import grpc
import uvloop
from google.protobuf.wrappers_pb2 import BytesValue
from statekeep_server.engines import open_engine
from statekeep_server.rpc.handlers import Handlers
from statekeep_server.server import Server

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, bytes]

EMPTY = "/bench.Floor/Empty"
STREAM = "/bench.Floor/Stream"
ANSWER = BytesValue(value=bytes(98))  # 100 bytes with tag and length


def pack_sizes(sizes: Iterable[int]) -> bytes:
    """Return a request of bench.Floor/Stream."""
    return array("I", sizes).tobytes()


@cache
def _messages(request: bytes) -> list[bytes]:
    # Not bytes(size): pages that were never written to are all one page to the kernel, and a stream of those is unfair.
    return [b"x" * size for size in array("I", request)]


async def _empty(request: BytesValue, context: "grpc.aio.ServicerContext[BytesValue, BytesValue]") -> BytesValue:
    return ANSWER


async def _stream(request: bytes, context: "Context") -> None:
    for message in _messages(request):
        await context.write(message)


FLOORS: Handlers = {
    "Empty": grpc.unary_unary_rpc_method_handler(_empty, BytesValue.FromString, BytesValue.SerializeToString),
    "Stream": grpc.unary_stream_rpc_method_handler(_stream),
}


async def serve(store: str) -> None:
    """Serve until standard input ends. What is done between start and ready is what `statekeep serve` does."""
    server = Server(open_engine(store), handlers={"bench.Floor": FLOORS})
    address = server.listen("127.0.0.1:0")
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await server.start()
    gc.collect()
    gc.freeze()
    print(json.dumps({"event": "ready", "listen": [address]}), flush=True)
    await ended.wait()
    await server.stop(grace=0)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
