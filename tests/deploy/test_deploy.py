"""deploy/: each file is what its format wants, says what the server knows, and gives no more than it needs."""

import copy
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from deploy.manifests import COMPOSE, KUBERNETES, ROOT, containers, pods, resources, server_of, services, variables
from required import require
from statekeep_server.config import Settings, load, variable

COMPOSE_GO = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"  # the loader of Docker Compose itself
RELEASES = ["1.29", "1.37"]  # of Kubernetes: the oldest that the manifests are for, and the newest
IMAGE = f"statekeep:{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"
CLIENTS = {"STATEKEEP_ADDRESS"}  # what the health check reads

each_manifest = pytest.mark.parametrize("file", KUBERNETES, ids=lambda file: file.stem)


def compose(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["go", "run", COMPOSE_GO, str(file)], capture_output=True, text=True, timeout=280, cwd="/")


@pytest.mark.timeout(600)  # Go may have to fetch and build it first
def test_docker_compose_takes_the_compose_file_and_refuses_a_misspelt_one(tmp_path: Path) -> None:
    require("go")
    taken = compose(COMPOSE)
    assert (taken.returncode, "read_only: true" in taken.stdout) == (0, True), taken.stderr
    misspelt = tmp_path / "docker-compose.yaml"
    misspelt.write_text(COMPOSE.read_text().replace("stop_grace_period", "stop_grace_perod"))
    refused = compose(misspelt)
    assert refused.returncode != 0
    assert "stop_grace_perod" in refused.stderr


@pytest.mark.parametrize("release", RELEASES)
@each_manifest
def test_kubernetes_takes_the_manifests(file: Path, release: str) -> None:
    for resource in resources(file):
        kubernetes_validate.validate(resource, release, strict=True)


@each_manifest
def test_a_misspelt_member_or_a_wrong_type_would_be_found(file: Path) -> None:
    resource = copy.deepcopy(next(resource for resource in resources(file) if "template" in resource["spec"]))
    pod: dict[str, Any] = resource["spec"]["template"]["spec"]
    pod["terminationGracePeriodSeconds"] = "45s"
    with pytest.raises(kubernetes_validate.ValidationError, match="45s"):
        kubernetes_validate.validate(resource, RELEASES[-1], strict=True)
    pod["terminationGracePeriodSecond"] = 45
    del pod["terminationGracePeriodSeconds"]
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriodSecond"):
        kubernetes_validate.validate(resource, RELEASES[-1], strict=True)


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(services()["statekeep"]["environment"], id="docker-compose"),
        *(pytest.param(variables(server_of(file)), id=file.stem) for file in KUBERNETES),
    ],
)
def test_every_setting_is_one_of_the_server_and_keeps_to_its_volumes(environment: dict[str, str]) -> None:
    known = {variable(setting.name) for setting in fields(Settings)}
    assert set(environment) <= known | CLIENTS
    settings = load({}, environment, None)
    assert settings.store == "sqlite:/data/state.db"
    sockets = [address for address in settings.listen if address.startswith("unix:")]
    assert all(address.startswith("unix:/run/statekeep/") for address in sockets)
    assert environment.get("STATEKEEP_ADDRESS", settings.listen[0]) in settings.listen


@each_manifest
def test_probes_ask_where_the_server_answers_them(file: Path) -> None:
    server = server_of(file)
    port = int(load({}, variables(server), None).health_listen.rpartition(":")[2])
    assert [server[probe]["grpc"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")] == [
        {"port": port}
    ] * 3
    assert port in [declared["containerPort"] for declared in server["ports"]]


@each_manifest
def test_every_container_gets_what_it_needs_and_no_more(file: Path) -> None:
    for pod in pods(file):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"] == 65532
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
        volumes = {volume["name"] for volume in pod["volumes"]} | {"data"}
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@each_manifest
def test_the_server_has_longer_to_end_than_its_grace(file: Path) -> None:
    for pod in pods(file):
        assert pod["terminationGracePeriodSeconds"] > load({}, variables(server_of(file)), None).grace


def test_the_sidecar_starts_before_the_app_and_ends_after_it() -> None:
    (pod,) = pods(ROOT / "deploy/kubernetes/sidecar.yaml")
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert variables(pod["containers"][0])["STATEKEEP_ADDRESS"] == variables(sidecar)["STATEKEEP_LISTEN"]


def test_every_service_of_the_compose_file_is_as_narrow_as_the_pods() -> None:
    for service in services().values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_all_name_the_version_that_this_is() -> None:
    images = [server_of(file)["image"] for file in KUBERNETES] + [services()["statekeep"]["image"]]
    assert images == [IMAGE] * 3
