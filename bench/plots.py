"""The plots of docs/performance.md: streams beside the peers, unary calls beside the floor, growth, and delivery."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.table import Row, number

_OURS, _FLOOR, _PEERS = "#1f6fb4", "#9a9a9a", ("#e08a2e", "#5b9a5b")
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "statekeep",  # the same figures make the same file
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(rows: Sequence[Row], folder: Path) -> None:
    """Draw all plots that the rows have figures for, as SVG."""
    with mpl.rc_context(_SETTINGS):
        for name, plot in _PLOTS.items():
            figure = Figure(figsize=(8, 3.2), layout="constrained")
            if plot(figure, [row for row in rows if row.section == name]):
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, facecolor="white")


def _streams(figure: Figure, rows: Sequence[Row]) -> bool:
    """Bars of each history that h2load reads on one connection."""
    names = [name for name in _names(rows) if name.startswith("StreamHistory") and name.endswith("1 connection")]
    for place, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), place + 1)
        own = [row for row in rows if row.name == name]
        sides = [("Statekeep", own[0].figure), *((row.beside, row.floor or 0.0) for row in own)]
        _bars(axes, sides)
        axes.set_title(name.removesuffix(", 1 connection"))
        axes.set_xlabel("events a second")
    return bool(names)


def _unary(figure: Figure, rows: Sequence[Row]) -> bool:
    """How much of the empty call's rate each call reaches."""
    own = [row for row in rows if row.beside.startswith("empty call") and row.ratio and row.unit == "calls/s"]
    axes = figure.subplots()
    for place, row in enumerate(reversed(own)):
        ratio, least, greatest = row.ratio or 0, row.least or 0, row.greatest or 0
        color = _FLOOR if row.name.startswith("Empty") else _OURS
        axes.barh(place, ratio, color=color, xerr=[[ratio - least], [greatest - ratio]], ecolor="#555555", height=0.6)
        if goal := re.match(r"≥ ([\d.]+)", row.goal):
            axes.plot([float(goal[1])] * 2, [place - 0.4, place + 0.4], color="#c0392b", linewidth=2)
    axes.axvline(1, color="#555555", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(own)), [row.name for row in reversed(own)])
    axes.set_xlabel("times the rate of a bare server's empty call (line: least to greatest; red: goal)")
    return bool(own)


def _growth(figure: Figure, rows: Sequence[Row]) -> bool:
    """How the rate of each call changes with what is kept, against that with the least."""
    axes = figure.subplots()
    for name in _names(rows):
        ratios = {_count(row.beside): row.ratio or 0.0 for row in rows if row.name == name} | {_count(name): 1.0}
        sizes = sorted(ratios)  # the ratios are of the largest to each
        relative = [ratios[sizes[0]] / ratios[size] for size in sizes]
        axes.plot(sizes, relative, marker="o", label=name.split(" with ")[0])
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_ylim(0, 1.5)
    axes.axhline(1 / 1.2, color="#c0392b", linewidth=1, linestyle=":")
    axes.set_xlabel("records kept")
    axes.set_ylabel("rate beside that with the fewest")
    figure.legend(loc="outside right center", frameon=False)
    return bool(rows)


def _delivery(figure: Figure, rows: Sequence[Row]) -> bool:
    """Milliseconds from an append to the last follower."""
    names = [name for name in _names(rows) if "Python" not in name]
    for place, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), place + 1)
        own = [row for row in rows if row.name == name]
        _bars(axes, [("Statekeep", own[0].figure), *((row.beside, row.floor or 0.0) for row in own if row.beside)])
        axes.set_title(name.removeprefix("Append to delivery, "))
        axes.set_xlabel("ms")
        if place:
            axes.set_yticklabels([])
    return bool(names)


def _bars(axes: Axes, sides: Sequence[tuple[str, float]]) -> None:
    for place, (name, figure) in enumerate(reversed(sides)):
        peer = _PEERS[1] if name.startswith("Valkey") else _PEERS[0]
        color = _OURS if name == "Statekeep" else _FLOOR if name.startswith(("constant", "empty")) else peer
        axes.barh(place, figure, color=color, height=0.6)
        axes.annotate(f" {number(figure)}", (figure, place), va="center")
    axes.set_yticks(range(len(sides)), [name for name, _ in reversed(sides)])
    axes.set_xlim(0, 1.35 * max(figure for _, figure in sides))
    axes.locator_params(axis="x", nbins=3)
    axes.ticklabel_format(axis="x", style="plain")


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.name for row in rows))


def _count(text: str) -> int:
    found = re.search(r"with ([\d,]+)", text)
    assert found, text
    return int(found[1].replace(",", ""))


_PLOTS: dict[str, Callable[[Figure, Sequence[Row]], bool]] = {
    "streams": _streams,
    "unary": _unary,
    "growth": _growth,
    "delivery": _delivery,
}
