"""Which handler serves a method: one table of all.

gRPC would keep them itself, as registered methods, but does something for each of them at every call: with 50 that is
a seventh of an empty call's time (grpcio 1.85). Generic handlers are asked one after the other, so there is one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc


class Routes(grpc.GenericRpcHandler):
    """The handlers of all services, found by their path. Generated code adds to it as it would to a server."""

    def __init__(self) -> None:
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def add_registered_method_handlers(
        self, service: str, handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]"
    ) -> None:
        """Add a service's methods."""
        for name, handler in handlers.items():
            self._handlers[f"/{service}/{name}"] = handler

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Do nothing: what generated code adds so, it adds the other way too."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Return the handler of a call; None where there is no such method."""
        return self._handlers.get(handler_call_details.method)
