"""A contest: what its ratios are of, and what happens where a side fails."""

from collections.abc import Iterator
from itertools import count

import pytest

from bench.contest import Effort, Side, Turn, contest

EFFORT = Effort(turns=5, seconds=0.0, quick=True)


def paced(name: str, *rates: float, goal: float | None = None) -> Side:
    """A side with a rate for each turn, of which the first is to warm up."""
    return Side(name, lambda number, seconds: Turn(rates[number + 1]), goal)


def failing(name: str, turn: int) -> Side:
    def measure(number: int, seconds: float) -> Turn:
        assert number != turn, "answered wrongly"
        return Turn(1.0)

    return Side(name, measure)


def test_the_ratio_is_the_median_of_the_turns_made_beside_each_other_though_the_machine_drifts() -> None:
    mine = paced("mine", 99, 10, 20, 40, 80, 160)
    (row,) = contest("calls", "calls/s", mine, [paced("theirs", 99, 5, 10, 20, 40, 20, goal=1.9)], EFFORT)
    assert (row.figure, row.floor, row.ratio, row.least, row.greatest) == (40, 20, 2, 2, 8)
    assert (row.goal, row.met) == ("≥ 1.9", True)


def test_every_turn_is_made_by_all_sides_and_each_order_has_its_turns() -> None:
    order: list[str] = []
    sides = [Side(name, lambda number, seconds, name=name: order.append(name) or Turn(1.0)) for name in "ab"]
    list(contest("calls", "calls/s", sides[0], sides[1:], EFFORT))
    assert order == ["a", "b", "b", "a"] * 3


def test_a_goal_of_the_figure_alone_has_a_row_of_its_own() -> None:
    mine = paced("mine", *[7.0] * 6)
    alone, beside = contest("calls", "calls/s", mine, [paced("theirs", *[1.0] * 6)], EFFORT, least=8)
    assert (alone.beside, alone.goal, alone.met) == ("", "≥ 8", False)
    assert (beside.beside, beside.goal, beside.met) == ("theirs", "", None)


@pytest.mark.parametrize("turn", [-1, 0, 4])
def test_another_side_that_fails_is_left_out_and_said_and_the_rest_goes_on(
    turn: int, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [failing("broken", turn), paced("sound", *[1.0] * 6)]
    rows = list(contest("calls", "calls/s", paced("mine", *[2.0] * 6), others, EFFORT))
    assert [(row.beside, row.ratio) for row in rows] == [("sound", 2)]
    assert "left out: calls, beside broken" in capsys.readouterr().err


def test_without_any_other_side_the_figure_stands_alone() -> None:
    (row,) = contest("calls", "calls/s", paced("mine", *[2.0] * 6), [failing("broken", 2)], EFFORT)
    assert (row.figure, row.beside, row.ratio) == (2, "", None)


def test_a_wrong_answer_of_the_subject_ends_the_contest() -> None:
    rows: Iterator[object] = contest("calls", "calls/s", failing("mine", 3), [], EFFORT)
    with pytest.raises(AssertionError, match="answered wrongly"):
        next(rows)


def test_processor_time_is_compared_where_both_sides_know_it() -> None:
    numbers = count()
    mine = Side("mine", lambda number, seconds: Turn(1.0, 0.5))
    theirs = Side("theirs", lambda number, seconds: Turn(1.0, 0.25 if next(numbers) else None))
    (row,) = contest("calls", "calls/s", mine, [theirs], EFFORT)
    assert row.cpu_ratio == 0.5
