"""What stands in deploy/, read as data."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy/docker-compose.yaml"
KUBERNETES = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))


def resources(file: Path) -> list[dict[str, Any]]:
    """Return the resources of a manifest."""
    return list(yaml.safe_load_all(file.read_text()))


def pods(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the specification of each pod that a manifest makes."""
    for resource in resources(file):
        if "template" in resource["spec"]:
            yield resource["spec"]["template"]["spec"]


def containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all containers of a pod."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def server_of(file: Path) -> dict[str, Any]:
    """Return the one container of a manifest that is Statekeep's server."""
    found = [container for pod in pods(file) for container in containers(pod) if container["name"] == "statekeep"]
    (container,) = found
    return container


def variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a container."""
    return {variable["name"]: variable["value"] for variable in container["env"]}


def services() -> dict[str, dict[str, Any]]:
    """Return the services of the compose file."""
    read: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return read
