"""How any RPC is served: the request is parsed, the method awaited, and what it raises becomes a status.

What every call needs is wrapped around a method once, when it is registered; a chain of interceptors would be gone
through at each call.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from sys import maxsize
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from statekeep_server.core.errors import Reason, StatekeepError, limit_reached, shutting_down
from statekeep_server.rpc.batches import Batches
from statekeep_server.rpc.errors import status

Send = Callable[[bytes], Awaitable[None]]
Unary = Callable[[Message], Awaitable[bytes]]
Stream = Callable[[Message, Send], Awaitable[None]]
Handlers: TypeAlias = "dict[str, grpc.RpcMethodHandler[Any, Any]]"
"""A service's methods, by name."""
Exchange = Callable[[AsyncIterator[Any], Send], Awaitable[None]]
"""A stream both ways: what the client sends is read as fast as the method takes it."""
Method: TypeAlias = Unary | Stream | Exchange
Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
Request = TypeVar("Request", bound=Message)

log = logging.getLogger(__name__)

peer: ContextVar[str] = ContextVar("peer", default="")
"""The connection that a stream's call came on, as gRPC names it: on TCP, address and port of the client."""

_LARGE = 64 * 2**10  # bytes of a request that takes so long by itself that it does not wait for others


class Traffic:
    """How many calls have begun, are in flight, and were refused, by reason.

    `most` calls may be in flight; 0 is no limit.
    """

    def __init__(self, most: int = 0) -> None:
        self._most = most or maxsize
        self.begun = 0
        self.in_flight = 0
        self.closing = False
        """Whether calls that begin from now on are refused."""
        self.refused: Counter[Reason] = Counter()
        self.limits_reached: Counter[str] = Counter()
        """How many calls were refused by each limit, by its name."""

    def begin(self) -> None:
        """Count a call that begins; refused where no more are taken, or too many are there, it ends all the same."""
        self.begun += 1
        self.in_flight += 1
        if self.closing:
            raise shutting_down()
        if self.in_flight > self._most:
            raise limit_reached(
                "concurrent calls", self._most, "wait for others, or have the server started with a higher --max-calls"
            )

    def refuse(self, error: StatekeepError) -> None:
        """Count a call that is refused."""
        self.refused[error.reason] += 1
        if "limit" in error.metadata:
            self.limits_reached[error.metadata["limit"]] += 1

    def end(self) -> None:
        """Count a call that ends, however it does."""
        self.in_flight -= 1


def method_handlers(
    service: ServiceDescriptor, methods: Mapping[str, Method], traffic: Traffic, batches: Batches
) -> Handlers:
    """Return the handlers of a service's methods; ValueError unless `methods` are exactly the service's.

    Requests come and answers go as bytes: an answer is mostly what is stored, and an error in a gRPC deserializer
    could not be told to the client properly.
    """
    if set(methods) != {method.name for method in service.methods}:
        raise ValueError(f"The methods of {service.full_name} are not those that are served: {sorted(methods)}")
    return {method.name: _method_handler(method, methods[method.name], traffic, batches) for method in service.methods}


def _method_handler(
    method: MethodDescriptor, serve: Callable[..., Awaitable[object]], traffic: Traffic, batches: Batches
) -> "grpc.RpcMethodHandler[bytes, bytes]":
    parse = GetMessageClass(method.input_type).FromString

    async def unary(data: bytes, context: Context) -> object:
        try:
            traffic.begin()
            if len(data) < _LARGE and (turn := batches.join()):
                await turn
            answer = await serve(parse(data))
            await batches.leave()
            return answer
        except Exception as error:  # noqa: BLE001 (this is where errors end)
            await _abort(context, method, error, traffic)
            return None
        finally:
            traffic.end()

    async def stream(data: bytes, context: Context) -> None:
        try:
            traffic.begin()
            peer.set(context.peer())
            await serve(parse(data), context.write)
        except grpc.aio.InternalError:
            return  # a message could not be sent: the connection was cut, or the client died
        except Exception as error:  # noqa: BLE001 (this is where errors end)
            await _abort(context, method, error, traffic)
        finally:
            traffic.end()

    async def exchange(requests: AsyncIterator[bytes], context: Context) -> None:
        try:
            traffic.begin()
            await serve((parse(data) async for data in requests), context.write)
        except grpc.aio.InternalError:
            return  # as above
        except Exception as error:  # noqa: BLE001 (this is where errors end)
            await _abort(context, method, error, traffic)
        finally:
            traffic.end()

    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(exchange)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream)
    return grpc.unary_unary_rpc_method_handler(unary)


async def _abort(context: Context, method: MethodDescriptor, error: Exception, traffic: Traffic) -> None:
    if isinstance(error, DecodeError):
        error = StatekeepError(Reason.INVALID_FIELD, "The request is no {type}", type=method.input_type.full_name)
    elif not isinstance(error, StatekeepError):
        log.error("%s failed", method.full_name, exc_info=error)
        error = StatekeepError(Reason.INTERNAL, "The server failed; its log says why")
    traffic.refuse(error)
    await context.abort_with_status(status(error))
