"""What the commands at a prompt share: the address, the client, and how an error is told."""

import argparse
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from statekeep_server.config import seconds

if TYPE_CHECKING:
    from statekeep import Client

Commands: TypeAlias = "argparse._SubParsersAction[Any]"
Run: TypeAlias = "Callable[[Client, argparse.Namespace], int]"

DEFAULT_ADDRESS = "127.0.0.1:50051"


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


def _talk(name: str, run: Run, options: argparse.Namespace) -> int:
    from statekeep import Client, errors

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is escaped
    try:
        with Client(options.address, timeout=options.timeout) as client:
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
