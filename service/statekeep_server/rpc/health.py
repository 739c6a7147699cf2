"""grpc.health.v1: the server is serving, until it says that it is stopping."""

import asyncio
from collections.abc import Collection
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

NAME = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

# Strangers may reach it: what one of them can send and hold is little.
_PROBE_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 4096),
    ("grpc.max_concurrent_streams", 16),
    ("grpc.max_connection_age_ms", 60_000),
)

_WATCHES = 1_000  # at once: they need no token, and are no calls that are counted

_SERVING = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)
_NOT_SERVING = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)
_UNKNOWN = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)


class Health(health_pb2_grpc.HealthServicer):
    """The health of the server and of each of its services, which is one.

    The servicer of grpcio-health-checking holds a lock while it writes to a watch, so that one client that does not
    read keeps the server from stopping; and its watches go on until their client goes.
    """

    def __init__(self, services: Collection[str]) -> None:
        self._services = services
        self._stopping = asyncio.Event()
        self._watches = 0

    def stop(self) -> None:
        """Say NOT_SERVING from now on, and end every watch with it."""
        self._stopping.set()

    @property
    def serving(self) -> bool:
        """Whether it says SERVING."""
        return not self._stopping.is_set()

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Any) -> health_pb2.HealthCheckResponse:  # noqa: N802
        """Return the health of the server (""), or of a service."""
        if request.service not in self._services:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"The services are {', '.join(filter(None, self._services))}"
            )
        return _NOT_SERVING if self._stopping.is_set() else _SERVING

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:  # noqa: N802
        """Send the health, and again when it changes."""
        if self._watches >= _WATCHES:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"There are {_WATCHES} watches; use Check")
        self._watches += 1
        try:
            known = request.service in self._services
            if not self._stopping.is_set():
                await context.write(_SERVING if known else _UNKNOWN)
                await self._stopping.wait()
            if known:
                await context.write(_NOT_SERVING)
        finally:
            self._watches -= 1


def probe_server(health: Health) -> grpc.aio.Server:
    """Return a gRPC server that answers Check, and nothing else."""
    check = grpc.unary_unary_rpc_method_handler(
        health.Check,
        request_deserializer=health_pb2.HealthCheckRequest.FromString,
        response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
    )
    server = grpc.aio.server(options=_PROBE_OPTIONS)
    server.add_registered_method_handlers(NAME, {"Check": check})
    return server
