"""Tokens, the files they stand in, and calls of any method that carry one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from requests_of import path_of
from rpc_support import PATIENCE, Refusal, Stubs, refusal_of

Metadata = Sequence[tuple[str, str]]

OWNER = "owner-0123456789abcdef"
READER = "reader-0123456789abcdef"
BOUNDED = "bounded-0123456789abcdef"
WRONG = "wrong-0123456789abcdef"


def table(name: str, value: str, rights: str = "write", **more: str) -> str:
    """Return one token as it stands in a file."""
    lines = {"name": name, "value": value, "rights": rights, **more}
    return "[[token]]\n" + "".join(f"{key} = '{text}'\n" for key, text in lines.items())


def replace(path: Path, text: str) -> None:
    """Put a file in the place of another at once."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(path)


def bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


class _Metadata(
    grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor
):
    """Puts metadata on each call."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def _call(self, going_on: Any, details: Any, request: Any) -> Any:
        return going_on(details._replace(metadata=self._metadata), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = _call


@contextmanager
def calling_with(address: str, token: str) -> Iterator[Stubs]:
    """Give the services on a connection whose calls carry a token."""
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield Stubs(grpc.intercept_channel(channel, _Metadata(bearer(token))))


def refusal_to(address: str, method: MethodDescriptor, request: Any, metadata: Metadata) -> Refusal | None:
    """Return how a call of any method is refused; None where it is not. Of a stream the first message is waited for."""
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        kind = channel.unary_stream if method.server_streaming else channel.unary_unary
        kind = channel.stream_stream if method.client_streaming else kind
        call = kind(path_of(method), request_serializer=None, response_deserializer=None)
        data = request.SerializeToString()
        try:
            answer = call(iter([data]) if method.client_streaming else data, timeout=PATIENCE, metadata=metadata)
            if method.server_streaming:
                next(answer, None)
                answer.cancel()
        except grpc.RpcError as error:
            return refusal_of(error)
    return None
