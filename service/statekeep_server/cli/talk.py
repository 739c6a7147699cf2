"""What the commands at a prompt share: the address and its TLS, the client, and how an error is told."""

import argparse
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from statekeep_server.config import seconds, yes_or_no

if TYPE_CHECKING:
    import grpc
    from statekeep import Client

Commands: TypeAlias = "argparse._SubParsersAction[Any]"
Run: TypeAlias = "Callable[[Client, argparse.Namespace], int]"

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
        "--timeout", metavar="SECONDS", type=float, default=10.0, help="how long to wait for an answer (default: 10)"
    )
    tls = parser.add_argument_group(
        "TLS",
        "Each option may stand in the environment (--tls-ca as STATEKEEP_TLS_CA), and each turns TLS on."
        " Unix sockets are without it.",
    )
    tls.add_argument("--tls", action="store_true", help="speak TLS; the system's roots are trusted without --tls-ca")
    for flag, metavar, text in _TLS_OPTIONS:
        tls.add_argument(flag, metavar=metavar, default=os.environ.get(_variable(flag)), help=text)


def channel_credentials(options: argparse.Namespace) -> "grpc.ChannelCredentials | None":
    """Return what the options say of TLS; None for a connection without it. ValueError where a file cannot be taken."""
    import grpc

    named = (options.tls_ca, options.tls_cert, options.tls_key, options.tls_server_name)
    if options.address.startswith("unix:") or not (options.tls or _tls_of_environment() or any(named)):
        return None
    if bool(options.tls_cert) != bool(options.tls_key):
        raise ValueError("--tls-cert and --tls-key belong together; give both")
    return grpc.ssl_channel_credentials(
        _read(options.tls_ca, "--tls-ca"), _read(options.tls_key, "--tls-key"), _read(options.tls_cert, "--tls-cert")
    )


def channel_options(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the options of a channel whose server's certificate has another name than its address."""
    return [("grpc.ssl_target_name_override", options.tls_server_name)] if options.tls_server_name else []


def add_command(
    commands: Commands, name: str, run: Run, brief: str, *, records: bool = True
) -> argparse.ArgumentParser:
    """Add a command that talks to a server, and shows `records` or not. Its description is the docstring of `run`."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=brief, description=run.__doc__)
    add_address(parser)
    if records:
        parser.add_argument("--json", action="store_true", help="write JSON, one line for each record")
    parser.set_defaults(run=lambda options: _talk(name, run, options))
    return parser


def whole(text: str) -> int:
    """Return a whole number that the wire holds: an option's `type`."""
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise argparse.ArgumentTypeError("give a whole number below 2^63")
    return number


def lifetime(text: str) -> float:
    """Return a duration in seconds: an option's `type`."""
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def fail(line: str, *, code: int = 1) -> int:
    """Say in one line why a command ends, and return its exit code."""
    sys.stderr.write(line + "\n")
    return code


def no_reader() -> int:
    """Go on without stdout, whose reader is gone: without this Python complains of it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _variable(flag: str) -> str:
    return f"STATEKEEP_{flag[2:].replace('-', '_').upper()}"


def _tls_of_environment() -> bool:
    given = os.environ.get("STATEKEEP_TLS")
    try:
        return yes_or_no(given) if given else False
    except ValueError as error:
        raise ValueError(f"STATEKEEP_TLS: {error}") from error


def _read(path: str | None, flag: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise ValueError(f"{flag}: {path} cannot be read: {error.strerror}") from error


def _talk(name: str, run: Run, options: argparse.Namespace) -> int:
    from statekeep import Client, errors

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is escaped
    try:
        tls, others = channel_credentials(options) or False, channel_options(options)
        with Client(options.address, timeout=options.timeout, tls=tls, options=others) as client:
            code = run(client, options)
            sys.stdout.flush()
            return code
    except (ValueError, OverflowError) as error:  # of the client, or of the server: InvalidArgumentError
        return fail(f"statekeep {name}: {error}", code=2)
    except errors.StatekeepError as error:
        return fail(f"statekeep {name}: {error}")
    except BrokenPipeError:
        return no_reader()  # such as head, which has enough
    except OSError as error:
        no_reader()
        return fail(f"statekeep {name}: the output cannot be written: {error.strerror}")
