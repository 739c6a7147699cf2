"""A server's metrics and probes, as Prometheus and others get them."""

import copy
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from server_process import ServerProcess

METRICS = ("--metrics", "127.0.0.1:0")


def get(process: ServerProcess, path: str, **headers: str) -> tuple[int, str]:
    """Return the status and text of a page of the endpoint."""
    request = urllib.request.Request(f"http://{process.ready['metrics']}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 (it is http)
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


class Scrape:
    """One scrape: samples by name and labels."""

    def __init__(self, process: ServerProcess) -> None:
        status, text = get(process, "/metrics")
        assert status == 200, text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        samples = [sample for family in self.families.values() for sample in family.samples]
        self.names = {sample.name for sample in samples}
        self._samples = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
        assert len(self._samples) == len(samples), "a sample stands twice"

    def __call__(self, name: str, /, **labels: str) -> float:
        """Return the value of a sample, 0 where it is not there."""
        return self._samples.get((name, frozenset(labels.items())), 0.0)

    def __sub__(self, before: "Scrape") -> "Scrape":
        """Return by how much each sample has moved, and only those that did."""
        moved = copy.copy(self)
        moved._samples = {
            key: value - before._samples.get(key, 0.0)
            for key, value in self._samples.items()
            if value != before._samples.get(key, 0.0)
        }
        return moved

    def all(self, name: str) -> Mapping[Any, float]:
        """Return the samples of a name by their labels' values, sorted by label."""
        return {
            tuple(value for _, value in sorted(labels)): number
            for (found, labels), number in self._samples.items()
            if found == name
        }


def calls(scrape: Scrape, service: str, method: str, code: str = "OK", reason: str = "") -> float:
    """Return how many calls of a method ended so."""
    labels = {"grpc_service": f"statekeep.v1.{service}", "grpc_method": method}
    return scrape("statekeep_calls_total", **labels, grpc_code=code, reason=reason)
