"""clock.py: times and durations as they come over the wire."""

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from statekeep_server.core import clock
from unit.rules_support import SECOND, START, MemoryRules, ThreadRules, invalid, micros

YEAR_1 = -62_135_596_800
YEAR_10000 = 253_402_300_800


@given(st.integers(YEAR_1 * SECOND, YEAR_10000 * SECOND - 1))
def test_a_stamp_is_protobufs(moment: int) -> None:
    stamped, expected = Timestamp(), Timestamp()
    clock.stamp(stamped, moment)
    expected.FromMicroseconds(moment)
    assert stamped == expected


@pytest.mark.parametrize("seconds", [YEAR_1, -1, 0, 1, YEAR_10000 - 1])
@pytest.mark.parametrize("nanos", [0, 1, 999_999_999])
def test_a_time_from_year_1_to_9999_is_accepted(seconds: int, nanos: int) -> None:
    assert clock.check_timestamp(Timestamp(seconds=seconds, nanos=nanos), "create_time") is None


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [(YEAR_1 - 1, 0), (YEAR_10000, 0), (-(2**63), 0), (2**63 - 1, 0), (0, -1), (0, 10**9), (0, 2**31 - 1)],
)
def test_any_other_time_is_refused(threads: ThreadRules, seconds: int, nanos: int) -> None:
    time = Timestamp(seconds=seconds, nanos=nanos)
    with invalid("event.create_time"):
        threads.append_next("e", create_time=time)
    with invalid("checkpoint.create_time"):
        threads.save("c", create_time=time)


@pytest.mark.parametrize(
    ("seconds", "nanos", "expected"),
    [(0, 0, 0), (0, 1, 1), (0, 999, 1), (0, 1000, 1), (0, 1001, 2), (1, 0, SECOND), (2**40, 0, 2**40 * SECOND)],
)
def test_a_duration_is_rounded_up_to_microseconds(seconds: int, nanos: int, expected: int) -> None:
    assert clock.duration(Duration(seconds=seconds, nanos=nanos), "ttl") == expected


BAD_DURATIONS = [(-1, 0), (0, -1), (-1, -1), (1, -1), (-1, 1), (0, 10**9), (-(2**63), 0)]


@pytest.mark.parametrize(("seconds", "nanos"), BAD_DURATIONS)
def test_a_negative_or_broken_duration_is_refused(memory: MemoryRules, threads: ThreadRules, seconds: int, nanos: int):
    span = Duration(seconds=seconds, nanos=nanos)
    with invalid("ttl"):
        memory.set("k", ttl=span)
    with invalid("heartbeat"):
        memory.watch(heartbeat=span)
    with invalid("heartbeat"):
        threads.stream(heartbeat=span)


def test_a_ttl_of_zero_is_refused(memory: MemoryRules) -> None:
    with invalid("ttl"):
        memory.set("k", ttl=Duration())


def test_a_ttl_below_a_microsecond_is_one(memory: MemoryRules) -> None:
    assert micros(memory.set("k", ttl=Duration(nanos=1)).expire_time) == START + 1


def test_a_ttl_may_reach_to_the_end_of_year_9999_and_no_further(memory: MemoryRules) -> None:
    left = YEAR_10000 - START // SECOND
    with invalid("ttl"):
        memory.set("k", ttl=Duration(seconds=left))
    with invalid("ttl"):
        memory.set("k", ttl=Duration(seconds=2**63 - 1))
    entry = memory.set("k", ttl=Duration(seconds=left - 1, nanos=999_999_000))
    assert micros(entry.expire_time) == YEAR_10000 * SECOND - 1
    assert clock.check_timestamp(entry.expire_time, "expire_time") is None
