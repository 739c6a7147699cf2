"""What a test needs of the machine: without it the test is skipped, or fails where nothing may be skipped."""

import os
import shutil
from typing import NoReturn

import pytest


def require(*commands: str, root: bool = False) -> None:
    """Go on only where these commands are on PATH and, where that is needed, as root."""
    if missing := [command for command in commands if not shutil.which(command)]:
        _do_without(f"not on PATH: {', '.join(missing)}")
    if root and os.geteuid() != 0:
        _do_without("only root can do it")


def _do_without(reason: str) -> NoReturn:
    if os.environ.get("STATEKEEP_REQUIRE_ALL") == "1":
        pytest.fail(f"{reason}, and STATEKEEP_REQUIRE_ALL=1 allows no skips", pytrace=False)
    pytest.skip(reason)
