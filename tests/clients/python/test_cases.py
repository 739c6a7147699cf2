"""Every language-neutral case, through both faces of this client."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from language_cases.faces import Blocking, Face, Looping
from language_cases.files import Case, cases
from language_cases.running import run_case, why_skipped

CASES = cases(Path(__file__).parents[1] / "cases")


@pytest.fixture(params=[Blocking, Looping], ids=["blocking", "async"])
def face(request: pytest.FixtureRequest, address: str) -> Iterator[Face]:
    face = request.param(address)
    yield face
    face.close()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_case(case: Case, face: Face, address: str) -> None:
    if why := why_skipped(case):
        pytest.skip(why)
    run_case(case, f"t{secrets.token_hex(6)}", face, lambda: type(face)(address))
