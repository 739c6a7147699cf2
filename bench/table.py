"""A figure with what it stands beside, and how it is shown."""

from dataclasses import dataclass

_NAME, _FIGURE, _UNIT, _FLOOR, _RATIO, _SPREAD, _GOAL = 46, 10, 11, 10, 6, 13, 9


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. Ratios and spread are of the floor; `goal` is a text, and `met` None where there is none."""

    name: str
    figure: float
    unit: str
    floor: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    cpu_ratio: float | None = None
    goal: str = ""
    met: bool | None = None

    def line(self) -> str:
        """Return the figure as a line of the table."""
        return _line(
            self.name,
            _number(self.figure),
            self.unit,
            "" if self.floor is None else _number(self.floor),
            "" if self.ratio is None else f"{self.ratio:.2f}",
            "" if self.spread is None else "{:.2f} to {:.2f}".format(*self.spread),
            "" if self.cpu_ratio is None else f"{self.cpu_ratio:.2f}",
            self.goal,
            {None: "", True: "ok", False: "missed"}[self.met],
        )


def head() -> str:
    """Return the table's first lines."""
    line = _line("", "median", "", "floor", "ratio", "min to max", "CPU", "goal", "")
    return f"{line}\n{'-' * (len(line) + len('  missed'))}"


def _line(
    name: str, figure: str, unit: str, floor: str, ratio: str, spread: str, cpu_ratio: str, goal: str, verdict: str
) -> str:
    measured = f"{name:<{_NAME}}{figure:>{_FIGURE}} {unit:<{_UNIT}}{floor:>{_FLOOR}}"
    compared = f"{ratio:>{_RATIO}}  {spread:>{_SPREAD}}  {cpu_ratio:>{_RATIO}}"
    return f"{measured}  {compared}  {goal:>{_GOAL}}  {verdict}".rstrip()


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 10 else f"{figure:.2f}"
