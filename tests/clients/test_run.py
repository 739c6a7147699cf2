"""`make test-clients`: what a client's runner says is believed only where it is whole and consistent."""

import json
from pathlib import Path

import pytest

from clients import run

GOOD = {"language": "go", "passed": 2, "failed": 0, "skipped": []}
CROSSED = GOOD | {"read": {"go": {"passed": 2, "failed": 0}}}


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the Makefile of the one client there is, to be written by the test."""
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "TOOLS", {"go": "make"})
    folder = tmp_path / "clients" / "go"
    folder.mkdir(parents=True)
    return folder / "Makefile"


def says(answer: object, exits: int = 0, crossed: object = CROSSED) -> str:
    """Return a Makefile whose cases print an answer, another one when they cross, and end with a code."""
    return (
        "build:\n\t@true\n"
        f"cases:\n\t@echo compiling; case \"$$STATEKEEP_CROSS\" in read:*) echo '{json.dumps(crossed)}';; "
        f"*) echo '{json.dumps(answer)}'; exit {exits};; esac; test -n \"$$STATEKEEP_ADDRESS\"\n"
    )


def test_a_client_that_passes_is_in_the_table(runner: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runner.write_text(says(GOOD | {"skipped": [["a/b", "no such method"]]}))
    assert run.main() == 0
    lines = capfd.readouterr().out.splitlines()
    assert "go skips a/b (no such method)" in lines
    assert [line.split() for line in lines[-2:]] == [
        ["language", "passed", "failed", "skipped", "from", "go"],
        ["go", "2", "0", "1", "2/2"],
    ]


@pytest.mark.parametrize(
    ("makefile", "told"),
    [
        (says(GOOD | {"passed": 1, "failed": 1}, exits=1), "go        1       1       0"),
        (says(GOOD | {"passed": 1, "failed": 1}), "make cases ended with 0, but says"),
        (says(GOOD, exits=1), "make cases ended with 2, but says"),
        (says(GOOD | {"passed": 0}), "make cases ended with 0, but says"),
        (says(GOOD | {"language": "java"}), "its last line is not one of go's runner"),
        (says("go"), "its last line is not one of go's runner"),
        (says({"language": "go"}), "its last line is not one of go's runner"),
        (says(GOOD, crossed=GOOD), "it was to read ['go'], and says it read {}"),
        (says(GOOD, crossed=GOOD | {"read": {"go": {"passed": 0, "failed": 0}}}), "it was to read ['go']"),
        ("build:\n\t@exit 3\n", "make build ended with 2"),
        ("build:\n\t@true\n", "make cases ended with 2, and its last line is not one of go's runner"),
    ],
)
def test_a_client_that_fails_fails_the_run(
    makefile: str, told: str, runner: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runner.write_text(makefile)
    assert run.main() == 1
    assert told in capfd.readouterr().out


def test_a_runner_that_does_not_end_is_ended(
    runner: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "BUILD_WITHIN", 0.3)
    runner.write_text("build:\n\t@sleep 100\n")
    assert run.main() == 1
    assert "make build was not done after 0.3 s" in capfd.readouterr().out


@pytest.mark.parametrize(("required", "code"), [("", 0), ("1", 1)])
def test_a_missing_tool_is_said_and_fails_only_where_all_are_required(
    required: str, code: int, runner: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "TOOLS", {"go": "no-such-tool"})
    monkeypatch.setenv("STATEKEEP_REQUIRE_ALL", required)
    runner.write_text(says(GOOD))
    assert run.main() == code
    assert "go        skipped: no-such-tool is not on PATH" in capfd.readouterr().out
