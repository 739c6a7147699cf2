"""required.py: a test that lacks a tool is skipped with the reason, and never where nothing may be skipped."""

import os

import pytest
from required import require


def test_a_tool_that_is_there_lets_the_test_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEKEEP_REQUIRE_ALL", "1")
    require("sh")


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_a_missing_tool_is_named(required: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEKEEP_REQUIRE_ALL", required)
    with pytest.raises(outcome, match="not on PATH: no-such-tool, nor-this"):
        require("sh", "no-such-tool", "nor-this")


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_what_only_root_can_do_is_said(
    required: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEKEEP_REQUIRE_ALL", required)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    require("sh")
    with pytest.raises(outcome, match="only root can do it"):
        require("sh", root=True)
