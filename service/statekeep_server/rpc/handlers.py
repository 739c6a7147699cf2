"""How any RPC is served: the request is parsed, the method awaited, and what it raises becomes a status.

What every call needs is wrapped around a method once, when it is registered; a chain of interceptors would be gone
through at each call.
"""

from asyncio import CancelledError, Task, current_task, sleep
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from sys import maxsize
from time import perf_counter_ns
from typing import Any, TypeAlias, TypeVar, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from statekeep_server.core.errors import LIMITS, Reason, StatekeepError, limit_reached, shutting_down
from statekeep_server.rpc.access import Access, Context
from statekeep_server.rpc.batches import Batches
from statekeep_server.rpc.calls import CANCELLED, FAULTS, MethodCalls
from statekeep_server.rpc.errors import status
from statekeep_server.rpc.turns import Turns
from statekeep_server.tokens import Token

Send = Callable[[bytes], Awaitable[None]]
Unary = Callable[[Message], Awaitable[bytes]]
Stream = Callable[[Message, Send], Awaitable[None]]
Handlers: TypeAlias = "dict[str, grpc.RpcMethodHandler[Any, Any]]"
"""A service's methods, by name."""
Exchange = Callable[[AsyncIterator[Any], Send], Awaitable[None]]
"""A stream both ways: what the client sends is read as fast as the method takes it."""
Method: TypeAlias = Unary | Stream | Exchange
Request = TypeVar("Request", bound=Message)

peer: ContextVar[str] = ContextVar("peer", default="")
"""The connection that a stream's call came on, as gRPC names it: on TCP, address and port of the client."""

_LARGE = 64 * 2**10  # bytes of a request that takes so long by itself that others go in between


class Traffic:
    """How many calls have begun, are in flight, and were refused, by reason; and what is counted of each method.

    `slow` is in seconds: a unary call that takes as long is logged; 0 for none. `most` calls may be in flight; 0 is no
    limit.
    """

    def __init__(self, slow: float = 0.0, most: int = 0) -> None:
        self._slow = slow
        self._most = most or maxsize
        self.begun = 0
        self.in_flight = 0
        self.closing = False
        """Whether calls that begin from now on are refused."""
        self.refused: Counter[Reason] = Counter()
        self.limits_reached: Counter[str] = Counter(dict.fromkeys(LIMITS, 0))
        """How many calls were refused by each limit, by its name."""
        self.methods: list[MethodCalls] = []
        """The calls of each method that is served."""
        self._streams: set[Task[object]] = set()
        self._cut = False
        self.large = Turns()
        """Whose turn it is among the calls with large requests."""

    def of(self, method: MethodDescriptor) -> MethodCalls:
        """Return what the calls of a method are to be counted in."""
        calls = MethodCalls(method, self._slow)
        self.methods.append(calls)
        return calls

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

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count a call that streams for as long as the block takes; SHUTTING_DOWN where it is cut off."""
        task = cast("Task[object]", current_task())  # a handler always runs in one
        self._streams.add(task)
        try:
            self.begin()
            yield
        except CancelledError:
            if self._cut:
                raise shutting_down() from None
            raise
        finally:
            self._streams.discard(task)
            self.end()

    def cut_streams(self) -> None:
        """End all streams, whatever they are waiting for."""
        self._cut = True
        for task in self._streams:
            task.cancel()


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
    calls = traffic.of(method)
    large = traffic.large

    async def unary(data: bytes, context: Context) -> object:
        began = perf_counter_ns()
        outcome: str | None = None
        try:
            traffic.begin()
            token = guard.admit(context) if guard else None
            if len(data) >= _LARGE:
                await large.take(len(data))
            elif turn := batches.join():
                await turn
            request = parse(data)
            if guard and token:
                guard.check(token, request)
            answer = await serve(request)
            if batches.several:
                await sleep(0)
            return answer
        except CancelledError:
            outcome = CANCELLED
            raise
        except Exception as error:  # noqa: BLE001 (this is where errors end)
            outcome = _reason(error)
            await _abort(context, method, error, traffic, calls, began)
            return None
        finally:
            traffic.end()
            calls.end(began, outcome, context)

    def answer(data: bytes, send: Send, token: Token | None) -> Awaitable[object]:
        request = parse(data)
        if guard and token:
            guard.check(token, request)
        return serve(request, send)

    def exchange(requests: AsyncIterator[bytes], send: Send, _: Token | None) -> Awaitable[object]:
        return serve((parse(data) async for data in requests), send)

    begin: Callable[[Any, Send, Token | None], Awaitable[object]] = exchange if method.client_streaming else answer

    async def stream(received: Any, context: Context) -> None:
        began = perf_counter_ns()
        outcome: str | None = None
        try:
            with traffic.stream():
                token = guard.admit(context) if guard else None
                peer.set(context.peer())
                work = begin(received, context.write, token)
                await (guard.hold(token, work) if guard and token else work)
        except CancelledError:
            outcome = CANCELLED
            raise
        except grpc.aio.InternalError:
            outcome = CANCELLED
            return  # a message could not be sent: the connection was cut, or the client died
        except Exception as error:  # noqa: BLE001 (this is where errors end)
            outcome = _reason(error)
            await _abort(context, method, error, traffic, calls, began)
        finally:
            calls.end(began, outcome, context)

    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(stream)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream)
    return grpc.unary_unary_rpc_method_handler(unary)


def _reason(error: Exception) -> Reason:
    if isinstance(error, StatekeepError):
        return error.reason
    return Reason.INVALID_FIELD if isinstance(error, DecodeError) else Reason.INTERNAL


async def _abort(
    context: Context, method: MethodDescriptor, error: Exception, traffic: Traffic, calls: MethodCalls, began: int
) -> None:
    reason = _reason(error)
    if reason in FAULTS:
        calls.say_fault(began, reason, context, None if isinstance(error, StatekeepError) else error)
    if isinstance(error, DecodeError):
        error = StatekeepError(reason, "The request is no {type}", type=method.input_type.full_name)
    elif not isinstance(error, StatekeepError):
        error = StatekeepError(reason, "The server failed; its log says why")
    traffic.refuse(error)
    await context.abort_with_status(status(error))
