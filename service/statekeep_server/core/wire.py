"""The few pieces of the protobuf wire format that let a stored message be sent again without decoding it.

A record is kept as a *frame*: the bytes that field 1 of an answer holds, tag and length included. Every answer
that carries a record carries it in field 1 (`MemoryGetResponse.entry`, `AppendEventResponse.event`,
`StreamHistoryResponse.events`, …), so the frame is that answer, and frames one after the other are a list.
Source: https://protobuf.dev/programming-guides/encoding
"""

from functools import partial

RECORD_TAG = b"\x0a"  # field 1, length-delimited


def varint(number: int) -> bytes:
    """Return a number from 0 to 2^64-1 as a varint."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(tag: bytes, payload: bytes) -> bytes:
    """Return a length-delimited field. Tags are of one byte here: fields 1 to 15."""
    size = len(payload)
    if size < 0x80:
        return b"%b%c%b" % (tag, size, payload)
    if size < 0x4000:
        return b"%b%c%c%b" % (tag, size & 0x7F | 0x80, size >> 7, payload)
    return b"%b%b%b" % (tag, varint(size), payload)


frame = partial(field, RECORD_TAG)
"""Return a message's bytes as field 1 of the message that will carry it."""


def body(framed: bytes) -> bytes:
    """Return the message in a frame."""
    return framed[_header_size(framed) :]


def retag(tag: bytes, framed: bytes) -> bytes:
    """Return a frame as another field (of number 15 at most) of the message that will carry it."""
    return tag + framed[1:]


def without_tail(framed: bytes, size: int) -> bytes:
    """Return a frame of the same message without its last `size` bytes, which are whole fields."""
    if not size:
        return framed
    return frame(framed[_header_size(framed) : -size])


def _header_size(framed: bytes) -> int:
    size = 2
    while framed[size - 1] & 0x80:
        size += 1
    return size
