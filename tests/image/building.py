"""Builds the image as its Dockerfile says, by buildah, which needs no engine: in a storage of its own, gone with it.

No registry is asked for the base: one is made of Debian's packages, with their Python, under the name that FROM gives.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
BASE = "docker.io/library/python:3.13-slim"
IMAGE = "localhost/statekeep:test"
COMMANDS = ("buildah", "debootstrap", "apt-get")
WITHIN = 600  # seconds for one command

_PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
_DPKG = """\
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
"""


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Give a folder for files by the ten thousand that no disk has to write, for none is kept."""
    folder = tempfile.mkdtemp(prefix="statekeep-image-")
    _run("mount", "-t", "tmpfs", "-o", "mode=0700,size=4g", "tmpfs", folder)
    try:
        yield Path(folder)
    finally:
        _run("umount", "--recursive", folder)
        os.rmdir(folder)


class Images:
    """A storage of images in a folder, which the caller takes away."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._storage = ["--root", str(folder / "storage"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]

    def make_base(self) -> None:
        """Make the image that FROM names."""
        root = self._folder / "base"
        mirror, release = _mirror()
        # The second half with a dpkg that does not wait for the disk after each file: nobody keeps this one.
        _run("debootstrap", "--foreign", "--variant=minbase", f"--include={_PACKAGES}", release, str(root), mirror)
        (root / "etc/dpkg/dpkg.cfg.d/base").write_text(_DPKG)
        _run("chroot", str(root), "/debootstrap/debootstrap", "--second-stage")
        # Debian's pip, without the compiler that its package wants beside it.
        with ZipFile(next((root / "usr/share/python-wheels").glob("pip-*.whl"))) as wheel:
            wheel.extractall(root / "usr/lib/python3/dist-packages")  # noqa: S202 (it is Debian's own)
        _run("chroot", str(root), "apt-get", "clean")
        container = self.buildah("from", "scratch").strip()
        self.buildah("add", "--quiet", container, str(root), "/")
        self.buildah("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
        self.buildah("commit", "--quiet", "--rm", container, BASE)
        shutil.rmtree(root)

    def build(self) -> None:
        """Build the image, with pip set up as it is here."""
        mounts = [part for mount in self._pip_mounts() for part in ("--volume", f"{mount}:ro")]
        how = ["--isolation", "chroot", "--pull=never", "--format", "docker", *mounts, "--tag", IMAGE]
        self.buildah("build", *how, str(ROOT))

    def config(self) -> dict[str, Any]:
        """Return the image's configuration, as Docker names its members."""
        config: dict[str, Any] = self._described(IMAGE)["Docker"]["config"]
        return config

    def added_layers(self) -> list[Path]:
        """Return the layers that the image has over its base, as archives that are not compressed."""
        own, base = (self._described(image)["OCIv1"]["rootfs"]["diff_ids"] for image in (IMAGE, BASE))
        assert own[: len(base)] == base
        self.buildah("push", "--quiet", "--disable-compression", IMAGE, f"dir:{self._folder / 'image'}")
        return [self._folder / "image" / digest.partition(":")[2] for digest in own[len(base) :]]

    def unpack(self) -> Path:
        """Return a folder with the image's files."""
        container = self.buildah("from", "--pull-never", IMAGE).strip()
        return Path(self.buildah("mount", container).strip())

    def buildah(self, command: str, *arguments: str) -> str:
        """Run a command of buildah on this storage, and return what it writes to stdout."""
        return _run("buildah", *self._storage, command, *arguments)

    def _described(self, image: str) -> dict[str, Any]:
        described: dict[str, Any] = json.loads(self.buildah("inspect", "--type", "image", image))
        return described

    def _pip_mounts(self) -> Iterator[str]:
        """Set pip up in the build as it is here, through mounts: no layer and no history of an image has them."""
        file = self._folder / "pip.conf"
        sections = _pip_settings()
        file.write_text("".join(f"[{section}]\n{chr(10).join(lines)}\n" for section, lines in sections.items()))
        yield f"{file}:/etc/pip.conf"
        values = {line.partition(" = ")[2] for lines in sections.values() for line in lines}
        yield from (f"{value}:{value}" for value in sorted(values) if value.startswith("/") and Path(value).exists())


def members(layer: Path) -> list[tarfile.TarInfo]:
    """Return what a layer adds."""
    with tarfile.open(layer) as archive:
        return archive.getmembers()


def _pip_settings() -> dict[str, list[str]]:
    """Return the settings of pip here as the lines of each section of a file; those of the environment win."""
    listed = _run(sys.executable, "-m", "pip", "config", "list").splitlines()
    chosen: dict[tuple[str, str], str] = {}
    for line in sorted(listed, key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        section, _, key = name.replace(":env:", "global").partition(".")
        chosen[section, key] = str(ast.literal_eval(value)).replace("\n", "\n  ")
    sections: dict[str, list[str]] = {"global": []}
    for (section, key), value in chosen.items():
        sections.setdefault(section, []).append(f"{key} = {value}")
    return sections


def _mirror() -> tuple[str, str]:
    """Return the address of Debian's packages and the release, as apt is set up here."""
    targets = _run(
        "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Origin: Debian"
    )
    found = [line.split() for line in targets.splitlines()]
    mirror, release = next((mirror, release) for mirror, release in found if "-" not in release)
    return mirror, release


def _run(*command: str) -> str:
    """Run a command and return what it writes to stdout; what it said is told where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False, env=_environment())
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def _environment() -> dict[str, str]:
    return os.environ | {"BUILDAH_ISOLATION": "chroot"}
