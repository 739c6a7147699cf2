"""What tells one request from another: a hash over all of it, but for the fields that may differ."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeAlias

from google.protobuf.message import Message

Normalise: TypeAlias = Callable[[Any], None]
"""Writes the names in a request as they are kept, so that it is the same request however they were written."""


def as_it_is(request: Any) -> None:
    """Leave a request alone: it has no names that could be written in two ways."""


def fingerprint(request: Message, *ignored: str, normalise: Normalise = as_it_is) -> bytes:
    """Return 16 bytes that are the same for requests that are equal but for the fields `ignored`."""
    bare = type(request)()
    bare.CopyFrom(request)
    normalise(bare)
    for name in ignored:
        bare.ClearField(name)
    text = request.DESCRIPTOR.full_name.encode() + b"\0" + bare.SerializeToString(deterministic=True)
    return blake2b(text, digest_size=16).digest()
