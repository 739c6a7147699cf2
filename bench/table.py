"""A figure with what it stands beside, and how it is shown on a terminal."""

from dataclasses import dataclass

_WIDTHS = (56, -10, 10, 28, -10, -6, -14, -6, -12, 6)
_HEAD = ("", "median", "", "beside", "its median", "ratio", "min to max", "CPU", "goal", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, beside another or by itself.

    The ratio is of the figure to the other's: the median of those of turns that were made one after the other, with the
    least and the greatest. `goal` is a text, and `met` None where there is none.
    """

    name: str
    figure: float
    unit: str
    beside: str = ""
    floor: float | None = None
    ratio: float | None = None
    least: float | None = None
    greatest: float | None = None
    cpu_ratio: float | None = None
    goal: str = ""
    met: bool | None = None
    section: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return what the columns say."""
        return (
            self.name,
            number(self.figure),
            self.unit,
            self.beside,
            number(self.floor),
            _ratio(self.ratio),
            f"{_ratio(self.least)} to {_ratio(self.greatest)}" if self.least is not None else "",
            _ratio(self.cpu_ratio),
            self.goal,
            {None: "", True: "met", False: "missed"}[self.met],
        )

    def line(self) -> str:
        """Return the figure as a line of the table."""
        return _line(self.cells())


def head() -> str:
    """Return the table's first lines."""
    return f"{_line(_HEAD)}\n{'-' * sum(abs(width) + 1 for width in _WIDTHS)}"


def number(figure: float | None) -> str:
    """Return a figure as people read it."""
    if figure is None:
        return ""
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.1f}" if abs(figure) >= 10 else f"{figure:.2f}"


def _ratio(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def _line(cells: tuple[str, ...]) -> str:
    return " ".join(
        f"{cell:{'>' if width < 0 else '<'}{abs(width)}}" for cell, width in zip(cells, _WIDTHS, strict=True)
    ).rstrip()
