"""What the figures were measured on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

from bench import load


def machine() -> str:
    """Return the machine and the programs that matter, in two lines."""
    processors = len(os.sched_getaffinity(0))
    return (
        f"{_processor()}, {processors} cores, load {os.getloadavg()[0]:.2f} at the start, {platform.system()}\n"
        f"Python {platform.python_version()}, grpcio {version('grpcio')}, uvloop {version('uvloop')}, "
        f"protobuf {version('protobuf')}, h2load {load.version()}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()
