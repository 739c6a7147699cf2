"""deploy/grafana-dashboard.json: every metric and label that it asks for is one that a server has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from requests_of import METHODS
from rpc_support import connected, refused, set_of, until
from scraping import METRICS, Scrape
from server_process import ServerProcess

DASHBOARD = json.loads((Path(__file__).parents[2] / "deploy" / "grafana-dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
OF_PROMETHEUS = {"job", "instance"}  # labels that it adds to what it scrapes


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrape]:
    """Give a scrape of a server on disk that was called."""
    store = f"sqlite:{tmp_path_factory.mktemp('store')}/state.db"
    process = ServerProcess("--store", store, "--max-scope-keys", "1", *METRICS)
    with connected(process.address) as stubs:
        stubs.memory.Set(set_of("s", "k"))
        refused("LIMIT_REACHED", stubs.memory.Set, set_of("s", "l"))
        until("the call is counted", lambda: "statekeep_call_duration_seconds_sum" in Scrape(process).names)
    yield Scrape(process)
    process.stop()


def selectors(expression: str) -> list[tuple[str, str]]:
    """Return the metrics that an expression selects, with what stands between the braces."""
    return re.findall(r"\b((?:statekeep|process)_\w+)(?:\{([^}]*)\})?", expression)


def test_every_metric_of_the_dashboard_is_in_a_scrape(scrape: Scrape) -> None:
    queries = [
        variable["query"]["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"
    ]
    named = {name for expression in (*EXPRESSIONS, *queries) for name, _ in selectors(expression)}
    assert len(named) > 15
    assert named - scrape.names == set()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_label_that_an_expression_uses_is_one_of_its_metrics(scrape: Scrape, expression: str) -> None:
    labels: set[str] = set()
    for family in scrape.families.values():
        for sample in family.samples:
            if sample.name in {name for name, _ in selectors(expression)}:
                labels |= sample.labels.keys()
    grouped = re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", expression)
    used = {label.strip() for group in grouped for label in group.split(",")}
    used |= {label for _, matchers in selectors(expression) for label in re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers)}
    assert used - labels - OF_PROMETHEUS == set()


def test_every_metric_of_our_own_that_moves_is_shown(scrape: Scrape) -> None:
    shown = {name for expression in EXPRESSIONS for name, _ in selectors(expression)}
    own = {name for name, family in scrape.families.items() if name.startswith("statekeep_") and family.samples}
    unseen = {name for name in own if not any(one.startswith(name) for one in shown)}
    assert unseen == {"statekeep_start_time_seconds"}  # statekeep_uptime_seconds says the same


def test_the_methods_that_latencies_leave_out_are_all_the_streams() -> None:
    streams = {method.name for method in METHODS if method.server_streaming}
    for expression in EXPRESSIONS:
        for left_out in re.findall(r'grpc_method!~"([^"]*)"', expression):
            assert streams <= set(left_out.split("|"))


def test_counters_are_read_as_rates_and_brackets_match() -> None:
    for expression in EXPRESSIONS:
        assert [expression.count(one) for one in "({["] == [expression.count(one) for one in ")}]"]
        for name, _ in selectors(expression):
            if name.endswith(("_total", "_bucket", "_sum", "_count")):
                assert re.search(rf"rate\({name}\{{[^}}]*\}}\[\$__rate_interval\]\)", expression), expression


def test_each_panel_has_a_place_of_its_own_and_says_what_it_shows() -> None:
    places: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not own & places
        places |= own
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert all(panel["title"] and panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS)
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in PANELS)
