"""The floor: a bare grpc.aio server on uvloop, with its defaults, whose two methods do nothing.

    bench.Floor/Empty    takes a google.protobuf.BytesValue and answers with one of 100 bytes, as a method that was
                         generated and does nothing would
    bench.Floor/Stream   sends messages of the sizes that the request lists (see `pack_sizes`)

`python -m bench.bare` says where it listens as `statekeep serve` does, and ends with SIGTERM.
"""

import gc
import json
from array import array
from collections.abc import Iterable
from functools import cache

import grpc
import uvloop
from google.protobuf.wrappers_pb2 import BytesValue

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


async def _stream(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
    for message in _messages(request):
        await context.write(message)


async def serve() -> None:
    """Serve until a signal ends the process."""
    server = grpc.aio.server()
    methods = {
        "Empty": grpc.unary_unary_rpc_method_handler(_empty, BytesValue.FromString, BytesValue.SerializeToString),
        "Stream": grpc.unary_stream_rpc_method_handler(_stream),
    }
    # As generated code does.
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("bench.Floor", methods)])
    server.add_registered_method_handlers("bench.Floor", methods)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    gc.collect()
    gc.freeze()
    print(json.dumps({"event": "ready", "listen": [f"127.0.0.1:{port}"]}), flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve())
