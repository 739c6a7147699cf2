"""What tells one request from another: a hash over all of it, but for the fields that may differ."""

from hashlib import blake2b

from google.protobuf.message import Message


def fingerprint(request: Message, *ignored: str) -> bytes:
    """Return 16 bytes that are the same for requests that are equal but for the fields `ignored`."""
    bare = type(request)()
    bare.CopyFrom(request)
    for name in ignored:
        bare.ClearField(name)
    text = request.DESCRIPTOR.full_name.encode() + b"\0" + bare.SerializeToString(deterministic=True)
    return blake2b(text, digest_size=16).digest()
