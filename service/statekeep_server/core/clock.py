"""Times on the wire: microseconds since 1970 here, google.protobuf.Timestamp and Duration there."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from statekeep_server.core.errors import invalid

MICROS = 1_000_000
_YEAR_1 = -62_135_596_800
_YEAR_10000 = 253_402_300_800
_NANOS = 1_000_000_000


def stamp(timestamp: Timestamp, micros: int) -> None:
    """Set a timestamp to a time."""
    timestamp.seconds, rest = divmod(micros, MICROS)
    timestamp.nanos = rest * 1000


def check_timestamp(timestamp: Timestamp, field: str) -> None:
    """Refuse a timestamp that is not within the years 1 to 9999, or whose nanos are not within a second."""
    if not (_YEAR_1 <= timestamp.seconds < _YEAR_10000 and 0 <= timestamp.nanos < _NANOS):
        raise invalid(field, "is no time within the years 1 to 9999 with nanos from 0 to 999999999")


def duration(value: Duration, field: str) -> int:
    """Return a duration in microseconds, rounded up. Refused: negative ones, and parts that do not belong together."""
    if value.seconds < 0 or not 0 <= value.nanos < _NANOS:
        raise invalid(field, "is negative or no duration; give seconds from 0 and nanos from 0 to 999999999")
    return value.seconds * MICROS + -(-value.nanos // 1000)


def expiry(ttl: Duration, now: int, field: str) -> int:
    """Return when something ends that lives for `ttl` from now on."""
    lifetime = duration(ttl, field)
    if not lifetime:
        raise invalid(field, "is zero; give a time above it, or leave it unset")
    if now + lifetime >= _YEAR_10000 * MICROS:
        raise invalid(field, "reaches past the year 9999; give a shorter time")
    return now + lifetime
