"""grpc.health.v1, with watches that end when the server does."""

from contextlib import suppress
from typing import Any

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio


class _LastWordSaid(Exception):  # noqa: N818 (it is no error)
    pass


class Health(aio.HealthServicer):
    """The library's servicer, but for this: a watch ends once it has said that the server is stopping.

    The library's own go on until their client goes, so that one client's health check would hold up every drain.
    """

    stopping = False

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:  # noqa: N802 (the RPC's name)
        """Send a service's status whenever it changes."""
        with suppress(_LastWordSaid):
            await super().Watch(request, _Watch(context, self))  # type: ignore[arg-type]  # all of it that is used

    async def enter_graceful_shutdown(self) -> None:
        """Say NOT_SERVING from now on."""
        self.stopping = True
        await super().enter_graceful_shutdown()


class _Watch:
    """The context of a watch, as far as the library's servicer uses it."""

    def __init__(self, context: Any, health: Health) -> None:
        self._context = context
        self._health = health

    async def write(self, response: health_pb2.HealthCheckResponse) -> None:
        await self._context.write(response)
        if self._health.stopping:
            raise _LastWordSaid
