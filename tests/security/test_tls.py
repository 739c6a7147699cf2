"""TLS and mutual TLS: who gets through, and certificates that change while the server runs."""

import os
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import statekeep
import trustme
from cryptography.hazmat.primitives import serialization as pem
from rpc_support import PATIENCE, Stubs, connected, next_of, read_records, set_of, stream_of, until
from server_process import LOOPBACK, ServerProcess, run_to_its_end
from statekeep.errors import UnauthenticatedError
from statekeep_server.config import ConfigError, Settings
from statekeep_server.tls import certificates_of
from tls_support import Files, credentials, over_tls
from token_support import OWNER, replace, table

StartServer = Callable[..., ServerProcess]


def writes(stubs: Stubs) -> bool:
    """Return whether a write came through; False where the connection was refused."""
    try:
        return stubs.memory.Set(set_of("s", "k"), timeout=PATIENCE).entry.version > 0
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.UNAVAILABLE:
            raise
        return False


def trusts(address: str, authority: trustme.CA, issued: trustme.LeafCert | None = None) -> bool:
    with over_tls(address, authority, issued) as stubs:
        return writes(stubs)


def test_a_client_that_trusts_the_certificate_gets_through_and_no_other(
    start_server: StartServer, files: Files, authority: trustme.CA, other_authority: trustme.CA
) -> None:
    process = start_server(*files.flags)
    assert trusts(process.address, authority)
    assert not trusts(process.address, other_authority)
    assert trusts(process.address.replace("127.0.0.1", "localhost"), authority)


def test_a_client_without_tls_is_refused_and_the_next_with_it_is_served(
    start_server: StartServer, files: Files, authority: trustme.CA
) -> None:
    process = start_server(*files.flags)
    with connected(process.address) as plain:
        assert not writes(plain)
    assert trusts(process.address, authority)


def test_a_certificate_of_another_name_is_refused_by_the_client(
    start_server: StartServer, files: Files, authority: trustme.CA
) -> None:
    files.hold(authority.issue_cert("elsewhere.example"))
    process = start_server(*files.flags)
    assert not trusts(process.address, authority)


def test_unix_sockets_stay_without_tls(
    start_server: StartServer, files: Files, authority: trustme.CA, tmp_path: Path
) -> None:
    process = start_server(*files.flags, listen=(LOOPBACK, f"unix:{tmp_path}/s.sock"))
    assert trusts(process.addresses[0], authority)
    with connected(process.addresses[1]) as plain:
        assert writes(plain)


def test_with_a_client_ca_a_client_needs_a_certificate_that_it_signed(
    start_server: StartServer, files: Files, ca: Path, authority: trustme.CA, other_authority: trustme.CA
) -> None:
    process = start_server(*files.flags, "--tls-client-ca", str(ca))
    assert trusts(process.address, authority, authority.issue_cert("agent@example.org"))
    assert not trusts(process.address, authority)
    assert not trusts(process.address, authority, other_authority.issue_cert("agent@example.org"))
    with connected(process.address) as plain:
        assert not writes(plain)
    assert trusts(process.address, authority, authority.issue_cert("agent@example.org"))


def test_connections_that_begin_get_the_new_certificate_and_those_that_are_there_go_on(
    start_server: StartServer, files: Files, authority: trustme.CA, other_authority: trustme.CA
) -> None:
    process = start_server(*files.flags)
    with over_tls(process.address, authority) as old:
        old.state.AppendNextEvent(next_of("t"))
        follower = old.state.StreamHistory(stream_of("t", follow=True), timeout=PATIENCE)
        assert len(read_records(follower, 1)) == 1
        files.hold(other_authority.issue_cert("localhost", "127.0.0.1"))
        assert trusts(process.address, other_authority)
        assert not trusts(process.address, authority)
        old.state.AppendNextEvent(next_of("t"))
        assert len(read_records(follower, 1)) == 1
        follower.cancel()


def test_every_address_gets_the_new_certificate(
    start_server: StartServer, files: Files, authority: trustme.CA, other_authority: trustme.CA
) -> None:
    process = start_server(*files.flags, listen=(LOOPBACK, LOOPBACK))
    for vouching in (authority, other_authority):
        files.hold(vouching.issue_cert("localhost", "127.0.0.1"))
        assert [trusts(address, vouching) for address in process.addresses] == [True, True]


def test_files_that_cannot_be_taken_leave_the_certificate_as_it_was_and_are_logged_once(
    start_server: StartServer, files: Files, authority: trustme.CA, other_authority: trustme.CA
) -> None:
    process = start_server(*files.flags)
    foreign = other_authority.issue_cert("localhost", "127.0.0.1")
    broken = (
        lambda: replace(files.key, foreign.private_key_pem.bytes().decode()),
        lambda: replace(files.cert, "no certificate"),
        files.key.unlink,
    )
    for failures, break_them in enumerate(broken, 1):
        break_them()
        for _ in range(3):
            assert trusts(process.address, authority)
        assert process.stderr.count("the certificates stay as they were") == failures
    files.hold(foreign)
    assert trusts(process.address, other_authority)
    assert "is not the key of the certificate" in process.stderr
    assert "PRIVATE KEY" not in process.stderr


def test_the_authority_of_clients_can_be_replaced(
    start_server: StartServer, files: Files, ca: Path, authority: trustme.CA, other_authority: trustme.CA
) -> None:
    process = start_server(*files.flags, "--tls-client-ca", str(ca))
    ours, theirs = authority.issue_cert("a@example.org"), other_authority.issue_cert("b@example.org")
    assert not trusts(process.address, authority, theirs)
    replace(ca, (authority.cert_pem.bytes() + other_authority.cert_pem.bytes()).decode())
    assert trusts(process.address, authority, theirs)
    assert trusts(process.address, authority, ours)
    replace(ca, other_authority.cert_pem.bytes().decode())
    assert trusts(process.address, authority, theirs)
    assert not trusts(process.address, authority, ours)


def test_the_python_client_brings_a_token_over_tls_and_over_loopback(
    start_server: StartServer, files: Files, authority: trustme.CA, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.toml"
    replace(tokens, table("owner", OWNER))
    for flags, tls in ((files.flags, credentials(authority)), ((), False)):
        process = start_server("--token-file", str(tokens), *flags)
        with statekeep.Client(process.address, token=OWNER, tls=tls) as client:
            assert client.memory.set("k", 1, scope="s").version == 1
            assert [event.sequence for event in client.state.history("none")] == []
        with (
            statekeep.Client(process.address, token="another-token-than-that", tls=tls) as client,
            pytest.raises(UnauthenticatedError),
        ):
            client.memory.get("k", scope="s")


# --- what is refused at the start


def refusal_of(**settings: object) -> str:
    """Return why certificates are refused."""
    with pytest.raises(ConfigError) as refusal:
        certificates_of(Settings(**{name: str(value) for name, value in settings.items()}))
    return str(refusal.value)


def test_a_certificate_without_its_key_is_refused(files: Files, ca: Path) -> None:
    assert "--tls-key" in refusal_of(tls_cert=files.cert)
    assert "--tls-cert" in refusal_of(tls_key=files.key)
    assert "--tls-cert" in refusal_of(tls_client_ca=ca)
    done = run_to_its_end("--listen", LOOPBACK, "--tls-cert", str(files.cert))
    assert (done.returncode, done.stderr) == (2, f"statekeep serve: {refusal_of(tls_cert=files.cert)}\n")


def test_files_that_are_not_what_they_should_be_are_named(files: Files, authority: trustme.CA, tmp_path: Path) -> None:
    none, junk = tmp_path / "none.pem", tmp_path / "junk.pem"
    replace(junk, "junk")
    assert "none.pem cannot be read" in refusal_of(tls_cert=none, tls_key=files.key)
    assert "junk.pem" in refusal_of(tls_cert=junk, tls_key=files.key)
    assert "junk.pem" in refusal_of(tls_cert=files.cert, tls_key=junk)
    told = refusal_of(tls_cert=files.cert, tls_key=files.key, tls_client_ca=junk)
    assert told == f"--tls-client-ca: {junk} holds no certificates as PEM"
    replace(junk, authority.issue_cert("localhost").private_key_pem.bytes().decode())
    assert "is not the key of the certificate" in refusal_of(tls_cert=files.cert, tls_key=junk)


def test_a_key_that_is_encrypted_is_refused_without_asking_for_its_password(files: Files) -> None:
    key = pem.load_pem_private_key(files.key.read_bytes(), None)
    how = pem.BestAvailableEncryption(b"secret")
    files.key.write_bytes(key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, how))
    assert "not encrypted" in refusal_of(tls_cert=files.cert, tls_key=files.key)


# --- addresses that other machines reach

HOST = "0.0.0.0"  # noqa: S104 (that is what is tried)
EVERYWHERE = f"{HOST}:0"


def refusal_of_start(*flags: str) -> str:
    done = run_to_its_end("--listen", EVERYWHERE, *flags)
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert EVERYWHERE in line
    assert "--insecure" in line
    return line


def test_beyond_this_machine_a_server_needs_tls_and_a_check_of_who_calls(
    start_server: StartServer, files: Files, ca: Path, authority: trustme.CA, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.toml"
    replace(tokens, table("owner", OWNER))
    with_tokens = ("--token-file", str(tokens))
    line = refusal_of_start()
    assert "--tls-cert" in line
    assert "--token-file" in line
    assert "--token-file" not in refusal_of_start(*with_tokens)
    assert "--tls-cert" not in refusal_of_start(*files.flags)
    for flags in ((*files.flags, *with_tokens), (*files.flags, "--tls-client-ca", str(ca))):
        assert start_server(*flags, listen=(EVERYWHERE,)).stderr == ""


@pytest.mark.parametrize("given", [("--insecure",), ("--insecure", "true")], ids=["alone", "with a word"])
def test_insecure_says_that_the_network_is_trusted_and_is_warned_of(
    start_server: StartServer, given: tuple[str, ...]
) -> None:
    process = start_server(*given, listen=(EVERYWHERE,))
    with connected(process.address.replace(HOST, "127.0.0.1")) as plain:
        assert writes(plain)
    until("it is warned of", lambda: f"other machines may reach {EVERYWHERE}" in process.stderr)


def test_one_open_address_among_local_ones_is_refused(tmp_path: Path) -> None:
    done = run_to_its_end("--listen", f"unix:{tmp_path}/s.sock", "--listen", EVERYWHERE)
    assert done.returncode == 2
    assert EVERYWHERE in done.stderr


# --- Unix sockets


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_unix_socket_is_for_its_owner_and_group_whatever_the_mask(mask: int, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    before = os.umask(mask)
    try:
        process = ServerProcess(listen=(f"unix:{path}",))
    finally:
        os.umask(before)
    try:
        assert path.stat().st_mode & 0o777 == 0o660
    finally:
        process.stop()


def test_a_path_that_grpc_would_read_as_another_is_refused(tmp_path: Path) -> None:
    done = run_to_its_end("--listen", f"unix:{tmp_path}/a%41")
    assert done.returncode == 1
    assert "percent" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_too_long_is_refused_with_the_reason(tmp_path: Path) -> None:
    done = run_to_its_end("--listen", f"unix:{tmp_path}/{'x' * 108}")
    assert done.returncode == 1
    assert "at most 107 bytes" in done.stderr


def test_abstract_sockets_are_refused() -> None:
    done = run_to_its_end("--listen", "unix-abstract:5")
    assert done.returncode == 2
    assert "unix:PATH" in done.stderr
