"""Reflection: what services there are, and their messages. Where tokens are needed, any of them will do."""

from collections.abc import AsyncIterable, Sequence
from typing import Any

from grpc_reflection.v1alpha.reflection import aio
from grpc_reflection.v1alpha.reflection_pb2_grpc import add_ServerReflectionServicer_to_server

from statekeep_server.core.errors import StatekeepError
from statekeep_server.rpc.access import Access
from statekeep_server.rpc.errors import status
from statekeep_server.rpc.routes import Routes


class Reflection(aio.ReflectionServicer):
    """The library's servicer behind a token."""

    def __init__(self, services: Sequence[str], access: Access) -> None:
        super().__init__(services)
        self._access = access

    async def ServerReflectionInfo(self, request_iterator: AsyncIterable[Any], context: Any) -> Any:  # noqa: N802
        """Answer what is asked about the services."""
        try:
            self._access.authenticate(context)
        except StatekeepError as error:
            await context.abort_with_status(status(error))
        async for answer in super().ServerReflectionInfo(request_iterator, context):  # type: ignore[attr-defined]  # its stubs say it is awaited
            yield answer


def serve_reflection(services: Sequence[str], access: Access | None, routes: Routes) -> None:
    """Serve reflection of the services, behind a token where there is a check of those."""
    servicer = Reflection(services, access) if access else aio.ReflectionServicer(services)
    add_ServerReflectionServicer_to_server(servicer, routes)  # type: ignore[no-untyped-call]
