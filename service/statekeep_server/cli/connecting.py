"""Which server a command talks to, and with what TLS."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from statekeep_server.config import ConfigError, seconds, yes_or_no

if TYPE_CHECKING:
    import grpc

DEFAULT_ADDRESS = "127.0.0.1:50051"

_TLS_OPTIONS = (
    ("--tls-ca", "FILE", "the certificates, as PEM, of which one must have signed the server's"),
    ("--tls-cert", "FILE", "a certificate of your own, as PEM, for a server that asks for one"),
    ("--tls-key", "FILE", "the private key of --tls-cert, as PEM"),
    ("--tls-server-name", "NAME", "the name in the server's certificate, where it is not that of --address"),
)


def add_address(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which server is meant."""
    parser.add_argument(
        "--address",
        metavar="ADDR",
        default=os.environ.get("STATEKEEP_ADDRESS") or DEFAULT_ADDRESS,
        help="HOST:PORT or unix:PATH of the server (default: STATEKEEP_ADDRESS, or 127.0.0.1:50051)",
    )
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=_patience,
        default=10.0,
        help="how long to wait for an answer, of what comes in parts for the beginning (default: 10)",
    )
    tls = parser.add_argument_group(
        "TLS",
        "Each option may stand in the environment (--tls-ca as STATEKEEP_TLS_CA), and each turns TLS on."
        " Unix sockets are without it.",
    )
    tls.add_argument("--tls", action="store_true", help="speak TLS; the system's roots are trusted without --tls-ca")
    for flag, metavar, text in _TLS_OPTIONS:
        tls.add_argument(flag, metavar=metavar, default=os.environ.get(_variable(flag)), help=text)


def speaks_tls(options: argparse.Namespace) -> bool:
    """Whether the options say that the connection is to be with TLS."""
    named = (options.tls_ca, options.tls_cert, options.tls_key, options.tls_server_name)
    return not options.address.startswith("unix:") and (options.tls or _tls_of_environment() or any(named))


def channel_credentials(options: argparse.Namespace) -> "grpc.ChannelCredentials | None":
    """Return what the options say of TLS, None for none of it; ConfigError where a file cannot be taken."""
    import grpc

    from statekeep_server.files import read
    from statekeep_server.tls import check_authority, check_pair

    if not speaks_tls(options):
        return None
    if bool(options.tls_cert) != bool(options.tls_key):
        raise ConfigError("--tls-cert and --tls-key belong together; give both")
    ca, key, cert = (
        read(Path(path), flag) if path else None
        for path, flag in (
            (options.tls_ca, "--tls-ca"),
            (options.tls_key, "--tls-key"),
            (options.tls_cert, "--tls-cert"),
        )
    )
    if options.tls_ca:
        check_authority(Path(options.tls_ca), "--tls-ca")
    if options.tls_cert:
        check_pair(Path(options.tls_cert), Path(options.tls_key))
    return grpc.ssl_channel_credentials(ca, key, cert)


def channel_options(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the options of a channel whose server's certificate has another name than its address."""
    return [("grpc.ssl_target_name_override", options.tls_server_name)] if options.tls_server_name else []


def _variable(flag: str) -> str:
    return f"STATEKEEP_{flag[2:].replace('-', '_').upper()}"


def _tls_of_environment() -> bool:
    given = os.environ.get("STATEKEEP_TLS")
    try:
        return yes_or_no(given) if given else False
    except ValueError as error:
        raise ConfigError(f"STATEKEEP_TLS: {error}") from error


def _patience(text: str) -> float:
    try:
        given = seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not given:
        raise argparse.ArgumentTypeError("give more than 0 seconds")
    return given
