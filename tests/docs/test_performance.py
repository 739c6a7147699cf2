"""The tables of docs/performance.md are what the newest run of the bench makes."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from bench import report
from bench.table import Row

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "performance.md").read_text()
ROWS = [
    Row("Get", 1234.5, "calls/s", "empty call", 1000, 1.2345, 1, 2, 0.9, "≥ 1.1", met=True, section="unary"),
    Row("Start", 0.5, "s", goal="≤ 0.30", met=False, section="footprint"),
]


@pytest.fixture
def run(tmp_path: Path) -> report.Run:
    file = tmp_path / "2026-01-01.json"
    file.write_text(
        json.dumps({"date": "2026-01-01", "machine": ["a machine", "grpcio"], "rows": [asdict(row) for row in ROWS]})
    )
    return report.read(file)


def test_the_tables_are_those_of_the_newest_run() -> None:
    newest = max((ROOT / "bench" / "results").glob("*.json"))
    assert report.filled(PAGE, report.read(newest)) == PAGE
    assert len(re.findall(r"<!-- bench: \w+ -->", PAGE)) == len(re.findall(r"<!-- end -->", PAGE)) > 3


def test_every_picture_of_the_page_is_there() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", PAGE)
    assert pictures
    assert [picture for picture in pictures if not (ROOT / "docs" / picture).exists()] == []


def test_a_table_has_its_sections_rows_and_that_of_the_goals_all_with_one(run: report.Run) -> None:
    page = "before\n<!-- bench: unary -->\nold\n<!-- end -->\n<!-- bench: goals -->\n<!-- end -->\nafter\n"
    made = report.filled(page, run)
    assert made.startswith("before\n<!-- bench: unary -->\n| what |")
    assert made.endswith("<!-- end -->\nafter\n")
    assert "old" not in made
    get = "| Get | 1,234 calls/s | empty call | 1,000 | 1.23 | 1.00 to 2.00 | 0.90 | ≥ 1.1: met |"
    start = "| Start | 0.50 s |  |  |  |  |  | ≤ 0.30: **missed** |"
    unary, goals = made.split("<!-- end -->")[:2]
    assert (get in unary, start in unary, get in goals, start in goals) == (True, False, True, True)
    assert f"{start} `--only footprint` |" in goals


def test_a_table_that_the_run_has_no_rows_for_is_refused(run: report.Run) -> None:
    with pytest.raises(ValueError, match=r"2026-01-01\.json has no rows for the table 'streams'"):
        report.filled("<!-- bench: streams -->\n<!-- end -->", run)
