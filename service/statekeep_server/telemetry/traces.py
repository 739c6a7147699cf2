"""A span of each call, for OpenTelemetry. Nothing of this is imported, and nothing of it paid, unless it is asked for.

It goes around the handlers when they are registered, as all that every call needs does.
"""

import asyncio
import threading
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status as RpcStatus
from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode

from statekeep_server.rpc.access import Context
from statekeep_server.rpc.handlers import Handlers

_FLUSH_WITHIN = 5.0  # seconds that the last spans may take at the end
_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}
_OF_THE_SERVER = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)


def sending(url: str) -> SpanProcessor:
    """Return what sends spans to otlp://HOST:PORT, otlps://HOST:PORT or, for otlp:, where the environment says."""
    kind, _, address = url.partition("://")
    exporter = OTLPSpanExporter(endpoint=address, insecure=kind == "otlp") if address else OTLPSpanExporter()
    return BatchSpanProcessor(exporter)


class Traces:
    """Spans of calls, and where they go. Sampling and more are as OpenTelemetry's environment variables say."""

    def __init__(self, processor: SpanProcessor) -> None:
        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "statekeep"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("statekeep_server")

    def wrap(self, service: str, handlers: Handlers) -> Handlers:
        """Return a service's handlers with a span around each call."""
        return {name: self._wrapped(service, name, handler) for name, handler in handlers.items()}

    async def close(self) -> None:
        """Send what is left, for some seconds at most."""
        # A thread of our own: one of the event loop's would hold up the end of the process.
        ending = threading.Thread(target=self._provider.shutdown, name="statekeep-traces", daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, _FLUSH_WITHIN)

    def _wrapped(self, service: str, name: str, handler: Any) -> "grpc.RpcMethodHandler[Any, Any]":
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._around(service, name, handler.unary_unary))
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._around(service, name, handler.unary_stream))
        return grpc.stream_stream_rpc_method_handler(self._around(service, name, handler.stream_stream))

    def _around(self, service: str, name: str, serve: Callable[..., Any]) -> Callable[..., Any]:
        async def traced(request: "bytes | AsyncIterator[bytes]", context: Context) -> object:
            with self._span(service, name, context) as span:
                try:
                    answer = await serve(request, context)
                except CancelledError:
                    _end(span, grpc.StatusCode.CANCELLED)
                    raise
                except Exception:
                    _end(span, _code(context))
                    _add_reason(span, context)
                    raise
                _end(span, grpc.StatusCode.OK)
                return answer

        return traced

    @contextmanager
    def _span(self, service: str, name: str, context: Context) -> Iterator[Span]:
        carrier = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}
        with self._tracer.start_as_current_span(
            f"{service}/{name}",
            context=propagate.extract(carrier),
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield span


def _end(span: Span, code: grpc.StatusCode) -> None:
    number: int = code.value[0]
    span.set_attribute("rpc.grpc.status_code", number)
    if code in _OF_THE_SERVER:
        span.set_status(StatusCode.ERROR)


def _code(context: Context) -> grpc.StatusCode:
    code: Any = context.code()  # a number, whatever its type stubs say
    return code if isinstance(code, grpc.StatusCode) else _BY_NUMBER.get(code, grpc.StatusCode.UNKNOWN)


def _add_reason(span: Span, context: Context) -> None:
    """Add why the call was refused, as its client is told."""
    for key, value in context.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            info = ErrorInfo()
            for detail in RpcStatus.FromString(value).details:
                if detail.Unpack(info):
                    span.set_attribute("error.type", info.reason)
