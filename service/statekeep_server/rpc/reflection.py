"""Reflection where tokens are needed: any of them will do."""

from collections.abc import AsyncIterable, Sequence
from typing import Any

import grpc
from grpc_reflection.v1alpha.reflection import aio
from grpc_reflection.v1alpha.reflection_pb2_grpc import add_ServerReflectionServicer_to_server

from statekeep_server.core.errors import StatekeepError
from statekeep_server.rpc.access import Access
from statekeep_server.rpc.errors import status


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


def serve_reflection(services: Sequence[str], access: Access, server: grpc.aio.Server) -> None:
    """Serve reflection of the services behind a token."""
    add_ServerReflectionServicer_to_server(Reflection(services, access), server)  # type: ignore[no-untyped-call]
