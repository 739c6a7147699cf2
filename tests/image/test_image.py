"""The image: built from the Dockerfile, and run as its user on a read-only root file system."""

import gzip
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import statekeep
from deploy.manifests import server_of, services, variables
from image import building, running
from image.building import ROOT, Images, members
from image.running import Container
from required import require

pytestmark = pytest.mark.timeout(1200)  # a base is installed, and an image built

USER = 65532
LARGEST = 40 * 2**20  # bytes, compressed, over the base

Run = Callable[..., Container]


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    """Give a storage that holds the image; it is gone afterwards."""
    require(*building.COMMANDS, *running.COMMANDS, root=True)
    with building.folder_in_memory() as folder:
        images = Images(folder)
        images.make_base()
        images.build()
        yield images


@pytest.fixture(scope="module")
def config(images: Images) -> dict[str, Any]:
    return images.config()


@pytest.fixture(scope="module")
def added(images: Images) -> list[Path]:
    """Give the layers over the base."""
    return images.added_layers()


@pytest.fixture(scope="module")
def files(images: Images) -> Path:
    return images.unpack()


@contextmanager
def volume() -> Iterator[Path]:
    """Give a folder as a volume of the image's user is, with a path that is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="statekeep-volume-"))
    os.chown(folder, USER, USER)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def data() -> Iterator[Path]:
    """Give the volume for /data."""
    with volume() as folder:
        yield folder


@pytest.fixture
def sockets() -> Iterator[Path]:
    """Give the volume for /run/statekeep."""
    with volume() as folder:
        yield folder


@pytest.fixture
def run(files: Path, config: dict[str, Any], data: Path, sockets: Path) -> Iterator[Run]:
    """Run containers of a test's own; they are ended with the test."""
    started: list[Container] = []

    def start(*arguments: str, environment: Mapping[str, str] | None = None) -> Container:
        volumes = {"/data": data, "/run/statekeep": sockets}
        container = Container(files, config, volumes, environment or {}, *arguments)
        started.append(container)
        return container

    yield start
    for container in started:
        container.stop()


def is_healthy(container: Container, config: Mapping[str, Any]) -> bool:
    """Ask as an engine does: only after three failures in a row it counts as unhealthy."""
    return any(container.run(*config["Healthcheck"]["Test"][1:]).stdout == "SERVING\n" for _ in range(3))


def test_it_says_what_an_engine_and_an_operator_want_to_know(config: dict[str, Any]) -> None:
    assert config["User"] == f"{USER}:{USER}"
    assert set(config["Volumes"]) == {"/data"}
    assert set(config["ExposedPorts"]) == {"50051/tcp"}
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"][:3] == ["CMD", "statekeep", "health"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert labels["version"] == project["version"]
    assert labels["licenses"] == project["license"]
    assert labels["title"] == "Statekeep"


def test_it_adds_little_to_its_base(added: list[Path]) -> None:
    size = sum(len(gzip.compress(layer.read_bytes(), compresslevel=6)) for layer in added)
    print(f"{size / 1e6:.1f} MB over the base, compressed")
    assert 1_000_000 < size < LARGEST


def test_it_adds_only_what_runs_and_its_user_can_change_none_of_it(added: list[Path]) -> None:
    inside = [member for layer in added for member in members(layer)]
    outside = [member for member in inside if not f"{member.name}/".startswith(("opt/statekeep/", "data/"))]
    assert [member.name.rstrip("/") for member in outside] == ["opt"]
    changeable = [member.name for member in inside if member.uid or (member.mode & 0o022 and not member.issym())]
    assert [name.rstrip("/") for name in changeable] == ["data"]
    names = {member.name for member in inside}
    assert "opt/statekeep/bin/statekeep" in names
    assert not [name for name in names if name.endswith((".whl", "/pip.conf", "/bin/pip"))]


def test_with_nothing_set_it_serves_on_its_loopback_and_is_healthy(config: dict[str, Any], run: Run) -> None:
    container = run()
    assert container.ready["listen"] == ["127.0.0.1:50051"]
    assert is_healthy(container, config)
    assert container.run("statekeep", "set", "k", "1", "--scope", "s").returncode == 0
    assert container.terminate() == 0


def test_its_check_fails_where_nothing_answers(config: dict[str, Any], run: Run) -> None:
    container = run(environment={"STATEKEEP_LISTEN": "unix:/data/s"})
    assert container.run(*config["Healthcheck"]["Test"][1:]).returncode == 1
    assert container.run("statekeep", "health", "--address", "unix:/data/s").returncode == 0


def test_it_runs_as_a_user_without_rights_who_can_write_to_data_alone(run: Run) -> None:
    container = run()
    assert set(container.status("Uid").split()) == set(container.status("Gid").split()) == {str(USER)}
    assert int(container.status("CapEff"), 16) == int(container.status("CapPrm"), 16) == 0
    assert container.status("NoNewPrivs") == "1"
    assert container.status("NSpid").split()[-1] == "1"
    for place in ("/", "/opt/statekeep", "/usr/bin", "/var/cache", "/tmp"):  # noqa: S108 (none is used)
        refused = container.run("touch", f"{place}/x")
        assert "Read-only file system" in refused.stderr
    assert container.run("touch", "/data/x").returncode == 0


def test_what_was_answered_is_in_data_and_there_after_a_stop(run: Run, data: Path) -> None:
    settings = {"STATEKEEP_STORE": "sqlite:/data/state.db", "STATEKEEP_LISTEN": "127.0.0.1:50051,unix:/data/s"}
    first = run(environment=settings)
    with statekeep.Client(f"unix:{data / 's'}") as client:
        client.memory.set("k", {"kept": True}, scope="s")
        assert client.state.append_next("t", statekeep.NewEvent("message", {"n": 1})).sequence == 1
    assert first.terminate() == 0
    assert (data / "state.db").stat().st_uid == USER
    second = run(environment=settings)
    with statekeep.Client(f"unix:{data / 's'}") as client:
        entry = client.memory.get("k", scope="s")
        assert entry is not None
        assert entry.value == {"kept": True}
        assert [event.data for event in client.state.history("t")] == [{"n": 1}]
    assert second.terminate() == 0


def test_its_command_is_statekeep(run: Run) -> None:
    container = run("serve", "--listen", "unix:/data/s")
    assert container.ready["listen"] == ["unix:/data/s"]
    assert container.run("statekeep", "--version").stdout.startswith("statekeep ")


def test_the_compose_file_s_settings_serve_its_app(config: dict[str, Any], run: Run, sockets: Path) -> None:
    server, app = services()["statekeep"], services()["app"]
    container = run(environment=server["environment"])
    assert is_healthy(container, config)
    assert container.run(*config["Entrypoint"], *app["command"]).returncode == 0
    with statekeep.Client(f"unix:{sockets / Path(app['environment']['STATEKEEP_ADDRESS']).name}") as client:
        entry = client.memory.get("greeting", scope="app")
        assert entry is not None
        assert entry.value == "hello"
    assert container.terminate() == 0


def test_the_sidecar_s_settings_answer_its_probes_and_its_app(run: Run, sockets: Path) -> None:
    server = server_of(ROOT / "deploy/kubernetes/sidecar.yaml")
    container = run(environment=variables(server))
    port = server["readinessProbe"]["grpc"]["port"]
    assert container.run("statekeep", "health", "--address", f"127.0.0.1:{port}").stdout == "SERVING\n"
    with statekeep.Client(f"unix:{sockets / 'statekeep.sock'}") as client:
        assert client.memory.set("k", 1, scope="s").version == 1
    assert container.terminate() == 0
