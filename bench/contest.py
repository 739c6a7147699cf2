"""How things are compared: short turns of each side, one after the other, again and again.

Machines drift, by a factor of two on shared ones. From one second to the next they hardly do, so each turn is compared
with the other sides' turns beside it, and the median of those ratios is the figure to trust.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple, TypeVar

from bench.table import Row


@dataclass(frozen=True, slots=True)
class Effort:
    """How many turns there are, how long each takes in seconds, and whether all of it is only to see the answers."""

    turns: int
    seconds: float
    quick: bool


class Turn(NamedTuple):
    """What a turn came to: units a second, and seconds of the server's processors for each, where that is known."""

    rate: float
    cost: float | None = None


Made = TypeVar("Made")


class Side(NamedTuple):
    """One side of a contest. `turn` gets its number, -1 to warm up, and seconds; it raises where an answer is wrong."""

    name: str
    turn: Callable[[int, float], Turn]
    goal: float | None = None
    """How many times as fast as this side the subject is to be."""


def timed(name: str, work: Callable[[], int], goal: float | None = None) -> Side:
    """Make a side of work in this process, which returns how many units it did."""

    def turn(number: int, seconds: float) -> Turn:
        started = time.perf_counter()
        done, taken = 0, 0.0
        while not done or taken < seconds:
            done += work()
            taken = time.perf_counter() - started
        return Turn(done / taken)

    return Side(name, turn, goal)


def each_in_turn(sides: Sequence[Side]) -> Side:
    """Return several processes of one kind as one side: each has a turn, then the next. All are warmed up."""

    def turn(number: int, seconds: float) -> Turn:
        if number < 0:
            for side in sides[1:]:
                side.turn(number, seconds)
        return sides[max(number, 0) % len(sides)].turn(number, seconds)

    return sides[0]._replace(turn=turn)


def contest(
    name: str, unit: str, subject: Side, others: Sequence[Side], effort: Effort, least: float | None = None
) -> Iterator[Row]:
    """Measure the subject and the others in turns, and yield a row for each other.

    `least` is what the subject is to reach by itself, in units a second: that has a row of its own. An other that
    fails is left out, and that is said; what the subject raises is raised.
    """
    kept: dict[str, list[Turn]] = {side.name: [] for side in others}
    mine: list[Turn] = []
    for number in range(-1, effort.turns):
        sides = [subject, *(side for side in others if side.name in kept)]
        for side in sides if number % 2 else reversed(sides):  # so that no order is favoured
            turn = side.turn(number, effort.seconds) if side is subject else _turn(side, number, effort, name)
            if turn is None:
                del kept[side.name]
            elif number >= 0:
                (mine if side is subject else kept[side.name]).append(turn)
    rate = median(turn.rate for turn in mine)
    if least is not None or not kept:
        goal = f"≥ {least:,.0f}" if least else ""
        yield Row(name, rate, unit, goal=goal, met=rate >= least if least else None)
    for side in others:
        if side.name in kept:
            yield _row(name, unit, mine, side, kept[side.name])


def attempt(name: str, make: Callable[[], Made]) -> list[Made]:
    """Return what is made of a peer, as the only one; where that fails none, and say so."""
    try:
        return [make()]
    except Exception as error:  # noqa: BLE001 (what a peer's own library raises cannot be known)
        left_out(name, repr(error))
        return []


def left_out(what: str, why: object) -> None:
    """Say that something is not measured."""
    print(f"  left out: {what}: {why!s:.300}", file=sys.stderr, flush=True)


def _turn(side: Side, number: int, effort: Effort, name: str) -> Turn | None:
    try:
        return side.turn(number, effort.seconds)
    except Exception as error:  # noqa: BLE001 (what a peer's own library raises cannot be known)
        left_out(f"{name}, beside {side.name}", repr(error))
        return None


def _row(name: str, unit: str, mine: list[Turn], side: Side, theirs: list[Turn]) -> Row:
    ratios = [turn.rate / other.rate for turn, other in zip(mine, theirs, strict=True)]
    costs = [other.cost / turn.cost for turn, other in zip(mine, theirs, strict=True) if turn.cost and other.cost]
    ratio = median(ratios)
    return Row(
        name,
        median(turn.rate for turn in mine),
        unit,
        side.name,
        median(turn.rate for turn in theirs),
        ratio,
        min(ratios),
        max(ratios),
        median(costs) if costs else None,
        f"≥ {side.goal:g}" if side.goal else "",
        ratio >= side.goal if side.goal else None,
    )
