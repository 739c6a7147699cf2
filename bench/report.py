"""`python -m bench.report`: the tables of docs/performance.md and its plots, from the newest of bench/results.

A table stands between `<!-- bench: NAME -->` and `<!-- end -->`, where NAME is a section of the bench, `goals` for all
rows with a goal, or `machine` for what it was measured on. `--check` changes nothing, and fails where a table is not
what the figures make.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from bench.process import ROOT
from bench.table import Row

_PAGE = ROOT / "docs" / "performance.md"
_IMAGES = ROOT / "docs" / "images"
_RESULTS = ROOT / "bench" / "results"
_HEAD = ("what", "median", "beside", "its median", "ratio", "least to greatest", "CPU", "goal")
_PLACE = re.compile(r"(<!-- bench: (?P<name>[a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


class Run(NamedTuple):
    """A run of the bench, as its file has it."""

    file: str
    date: str
    machine: list[str]
    rows: list[Row]


def main() -> int:
    """Write the page and the plots, and return the exit code: 1 without a run, or where --check finds a difference."""
    options = _options()
    file = options.file or max(_RESULTS.glob("*.json"), default=None)
    if file is None:
        print("bench.report: there is no run in bench/results; make one with: make bench", file=sys.stderr)
        return 1
    run = read(file)
    page = _PAGE.read_text()
    made = filled(page, run)
    if options.check:
        if made != page:
            print("docs/performance.md is not what the newest run makes; run: python -m bench.report", file=sys.stderr)
        return int(made != page)
    _PAGE.write_text(made)
    _draw(run)
    return 0


def read(file: Path) -> Run:
    """Read a run from its file."""
    said: dict[str, Any] = json.loads(file.read_text())
    return Run(file.name, said["date"], said["machine"], [Row(**row) for row in said["rows"]])


def filled(page: str, run: Run) -> str:
    """Return the page with all its tables made anew. ValueError where it asks for one that the run has not."""
    return _PLACE.sub(lambda found: f"{found[1]}{_content(found['name'], run)}\n{found[3]}", page)


def _content(name: str, run: Run) -> str:
    if name == "machine":
        return f"{run.date}, {' '.join(run.machine)}; bench/results/{run.file}"
    rows = [row for row in run.rows if (row.goal if name == "goals" else row.section == name)]
    if not rows:
        raise ValueError(f"the run {run.file} has no rows for the table {name!r} of docs/performance.md")
    lines = [_HEAD, ("---", "---:", "---", "---:", "---:", "---", "---:", "---"), *map(_cells, rows)]
    if name == "goals":  # of all sections, so each says which one measures it
        commands = ("measured by", "---", *(f"`--only {row.section}`" for row in rows))
        lines = [(*line, command) for line, command in zip(lines, commands, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    what, median, unit, beside, floor, ratio, spread, cpu, goal, verdict = row.cells()
    verdict = f"{goal}: {'**missed**' if verdict == 'missed' else verdict}" if goal else ""
    return (what, f"{median} {unit}", beside, floor, ratio, spread, cpu, verdict)


def _draw(run: Run) -> None:
    try:
        from bench import plots
    except ImportError:
        print("bench.report: the plots stay as they are, for matplotlib is missing (pip install -e '.[bench]')")
        return
    _IMAGES.mkdir(parents=True, exist_ok=True)
    plots.draw(run.rows, _IMAGES)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.report", description="Writes the tables of docs/performance.md.")
    parser.add_argument("file", nargs="?", type=Path, help="a run; the newest of bench/results where none is given")
    parser.add_argument("--check", action="store_true", help="change nothing; fail where the tables are not up to date")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
