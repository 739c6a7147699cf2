"""`make bench`: every figure in one run, as a table that grows as it goes on.

Each ratio is of turns that were made one after the other: see contest.py. CPU is the same ratio in what the servers'
processors did, which others' load disturbs less. How far the floor is from itself says what the ratios are worth; the
other figures are as good as the machine is quiet.
"""

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    delivery,
    disk,
    features,
    footprint,
    growth,
    load,
    lookups,
    stage,
    stores,
    streams,
    table,
    unary,
    writers,
)
from bench.contest import Effort
from bench.machine import machine
from bench.stage import Stage
from bench.table import Row

_FULL = Effort(turns=10, seconds=0.4, quick=False)
_QUICK = Effort(turns=1, seconds=0.1, quick=True)
_ON_STAGE: dict[str, Callable[[Stage], Iterator[Row]]] = {
    "unary": unary.rows,
    "delivery": delivery.rows,  # before much is kept
    "streams": streams.rows,
    "lookups": lookups.rows,
    "writers": writers.rows,
    "growth": growth.rows,
}
_ALONE: dict[str, Callable[[Effort], Iterator[Row]]] = {
    "features": features.rows,
    "footprint": footprint.rows,
    "sqlite": stores.rows,
    "disk": disk.rows,
}


def main() -> int:
    """Measure, and return the exit code: 0, 1 where the server failed a check, 2 without h2load."""
    options = _options()
    if not load.available():
        print(load.MISSING, file=sys.stderr)
        return 2
    os.environ.pop("GRPC_EXPERIMENTS", None)  # the floor has gRPC's defaults
    about, began = machine(), time.perf_counter()
    print(f"{about}\n\n{table.head()}", flush=True)
    rows: list[Row] = []
    failed = False
    for section, measured in _sections(options.only or [*_ON_STAGE, *_ALONE], _QUICK if options.quick else _FULL):
        try:
            for row in measured:
                rows.append(replace(row, section=section))
                print(row.line(), flush=True)
        except Exception as error:  # noqa: BLE001 (the other sections go on)
            failed = True
            print(f"bench: {section} failed: {error!r:.500}", file=sys.stderr)
            traceback.print_exception(error, limit=-3)
    ended = (
        f"{time.perf_counter() - began:.0f} s, load {os.getloadavg()[0]:.2f} at the end (the bench alone makes about 2)"
    )
    print(f"\n{ended}")
    if options.json:
        _write(options.json, f"{about};\n{ended}", rows, options.quick)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    sections = [*_ON_STAGE, *_ALONE]
    parser = argparse.ArgumentParser(prog="bench", description="Measures Statekeep beside its floors and its peers.")
    parser.add_argument("--quick", action="store_true", help="few and short turns, small stores: to see the answers")
    parser.add_argument("--only", nargs="+", choices=sections, metavar="SECTION", help=f"one of {', '.join(sections)}")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to a file too")
    return parser.parse_args()


def _sections(wanted: list[str], effort: Effort) -> Iterator[tuple[str, Iterator[Row]]]:
    if any(section in _ON_STAGE for section in wanted):
        with stage.opened(effort) as opened:
            for section, measure in _ON_STAGE.items():
                if section in wanted:
                    yield section, measure(opened)
    for section, measure_alone in _ALONE.items():
        if section in wanted:
            yield section, measure_alone(effort)


def _write(file: Path, about: str, rows: list[Row], quick: bool) -> None:
    when = datetime.now(UTC).date().isoformat()
    said = {"date": when, "quick": quick, "machine": about.splitlines(), "rows": [asdict(row) for row in rows]}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
