"""Reflection: what services there are, and their messages. Where tokens are needed, any of them will do."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

from grpc_reflection.v1alpha.reflection import aio
from grpc_reflection.v1alpha.reflection_pb2_grpc import add_ServerReflectionServicer_to_server

from statekeep_server.core.errors import StatekeepError
from statekeep_server.rpc.access import Access
from statekeep_server.rpc.errors import status
from statekeep_server.rpc.routes import Routes


class Reflection(aio.ReflectionServicer):
    """The library's servicer; behind a token where `access` says so, which is looked at again with each request."""

    def __init__(self, services: Sequence[str], access: Access | None) -> None:
        super().__init__(services)
        self._access = access
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End every stream."""
        self._stopping.set()

    async def ServerReflectionInfo(self, request_iterator: AsyncIterable[Any], context: Any) -> Any:  # noqa: N802
        """Answer what is asked about the services."""
        try:
            self._check(context)
            async for answer in super().ServerReflectionInfo(self._asked(aiter(request_iterator), context), context):  # type: ignore[attr-defined]  # its stubs say it is awaited
                yield answer
        except StatekeepError as error:
            await context.abort_with_status(status(error))

    def _check(self, context: Any) -> None:
        if self._access:
            self._access.authenticate(context)

    async def _asked(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Yield what is asked, until the server stops."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            while True:
                coming = asyncio.ensure_future(_next(requests))
                try:
                    await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
                    if not coming.done() or (request := coming.result()) is None:
                        return
                finally:
                    coming.cancel()
                self._check(context)
                yield request
        finally:
            stopping.cancel()


async def _next(requests: AsyncIterator[Any]) -> Any:
    return await anext(requests, None)


def serve_reflection(services: Sequence[str], access: Access | None, routes: Routes) -> Reflection:
    """Serve reflection of the services, and return what serves it, to be stopped."""
    servicer = Reflection(services, access)
    add_ServerReflectionServicer_to_server(servicer, routes)  # type: ignore[no-untyped-call]
    return servicer
