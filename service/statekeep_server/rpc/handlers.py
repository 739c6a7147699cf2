"""How any RPC is served: the request is parsed, the method awaited, and what it raises becomes a status.

What every call needs is wrapped around a method once, when it is registered; a chain of interceptors would be gone
through at each call.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from statekeep_server.core.errors import Reason, StatekeepError, shutting_down
from statekeep_server.rpc.access import Access
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


class Traffic:
    """How many calls have begun, are in flight, and were refused, by reason."""

    def __init__(self) -> None:
        self.begun = 0
        self.in_flight = 0
        self.closing = False
        """Whether calls that begin from now on are refused."""
        self.refused: Counter[Reason] = Counter()

    def begin(self) -> None:
        """Count a call that begins; it is refused with SHUTTING_DOWN where no more are taken, and ends all the same."""
        self.begun += 1
        self.in_flight += 1
        if self.closing:
            raise shutting_down()

    def end(self) -> None:
        """Count a call that ends, however it does."""
        self.in_flight -= 1


def method_handlers(
    service: ServiceDescriptor,
    methods: Mapping[str, Method],
    traffic: Traffic,
    batches: Batches,
    access: Access | None = None,
) -> Handlers:
    """Return the handlers of a service's methods; ValueError unless `methods` are exactly the service's.

    With `access` a call is let in, or not, before its request is read, and looked at again once it is.

    Requests come and answers go as bytes: an answer is mostly what is stored, and an error in a gRPC deserializer
    could not be told to the client properly.
    """
    if set(methods) != {method.name for method in service.methods}:
        raise ValueError(f"The methods of {service.full_name} are not those that are served: {sorted(methods)}")
    return {
        method.name: _method_handler(method, methods[method.name], traffic, batches, access)
        for method in service.methods
    }


def _method_handler(
    method: MethodDescriptor,
    serve: Callable[..., Awaitable[object]],
    traffic: Traffic,
    batches: Batches,
    access: Access | None,
) -> "grpc.RpcMethodHandler[bytes, bytes]":
    parse = GetMessageClass(method.input_type).FromString
    guard = access.guard(method) if access else None

    async def unary(data: bytes, context: Context) -> object:
        try:
            traffic.begin()
            token = guard.admit(context) if guard else None
            if turn := batches.join():
                await turn
            request = parse(data)
            if guard and token:
                guard.check(token, request)
            answer = await serve(request)
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
            if guard:
                token = guard.admit(context)
                guard.check(token, request := parse(data))
                await guard.hold(token, serve(request, context.write))
            else:
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
            token = guard.admit(context) if guard else None
            work = serve((parse(data) async for data in requests), context.write)
            await (guard.hold(token, work) if guard and token else work)
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
    traffic.refused[error.reason] += 1
    await context.abort_with_status(status(error))
