"""Plain counts: which bucket a value falls in, and how rarely all is counted."""

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statekeep_server.counting import Distribution
from statekeep_server.engines import tally
from statekeep_server.engines.tally import Counted, Tally

BOUNDS = (10, 20, 50)


@pytest.mark.parametrize(("value", "bucket"), [(0, 0), (10, 0), (11, 1), (20, 1), (50, 2), (51, 3), (10**12, 3)])
def test_a_value_falls_in_the_first_bucket_whose_bound_is_not_below_it(value: int, bucket: int) -> None:
    noted = Distribution(BOUNDS)
    noted.note(value)
    assert noted.counts == [int(place == bucket) for place in range(4)]
    assert noted.total == value


@given(st.lists(st.integers(0, 100)))
def test_every_value_is_in_one_bucket_and_in_the_total(values: list[int]) -> None:
    noted = Distribution(BOUNDS)
    for value in values:
        noted.note(value)
    upto = [sum(noted.counts[: place + 1]) for place in range(3)]
    assert upto == [sum(value <= bound for value in values) for bound in BOUNDS]
    assert (sum(noted.counts), noted.total) == (len(values), sum(values))


def test_a_copy_stays_as_it_was() -> None:
    noted = Distribution(BOUNDS)
    noted.note(5)
    copy = noted.copy()
    noted.note(5)
    assert (copy.counts, copy.total, copy.bounds) == ([1, 0, 0, 0], 5, BOUNDS)


class Clock:
    """A clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(tally.time, "perf_counter", lambda: self.now)


def test_what_takes_long_to_count_is_told_again_for_fifty_times_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, counts = Clock(monkeypatch), 0

    async def count() -> tuple[Mapping[str, int], int, int]:
        nonlocal counts
        counts += 1
        clock.now += 2  # seconds that it takes
        return {"t": counts}, counts, counts

    async def run() -> None:
        told = Tally()
        assert await told.counted(count) == Counted({"t": 1}, 1, 1)
        clock.now += 99.9
        assert await told.counted(count) == Counted({"t": 1}, 1, 1)
        clock.now += 0.1
        assert await told.counted(count) == Counted({"t": 2}, 2, 2)

    asyncio.run(run())


def test_a_count_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)

    async def failing() -> tuple[Mapping[str, int], int, int]:
        raise OSError("not now")

    async def count() -> tuple[Mapping[str, int], int, int]:
        return {}, 1, 2

    async def run() -> None:
        told = Tally()
        with pytest.raises(OSError, match="not now"):
            await told.counted(failing)
        assert await told.counted(count) == Counted({}, 1, 2)

    asyncio.run(run())
