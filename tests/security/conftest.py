"""Certificates made for the tests, by authorities that nobody else trusts."""

from pathlib import Path

import pytest
import trustme
from tls_support import Files


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def other_authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(tmp_path: Path, authority: trustme.CA) -> Files:
    """Give a certificate for localhost, and its key."""
    files = Files(tmp_path / "server.pem", tmp_path / "server.key")
    files.hold(authority.issue_cert("localhost", "127.0.0.1"))
    return files


@pytest.fixture
def ca(tmp_path: Path, authority: trustme.CA) -> Path:
    """Give the file of the authority's own certificate."""
    path = tmp_path / "ca.pem"
    path.write_bytes(authority.cert_pem.bytes())
    return path
