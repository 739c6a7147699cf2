"""What the commands at a prompt share: the client, and how an error is told."""

import argparse
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from statekeep_server.cli.connecting import add_address, channel_credentials, channel_options
from statekeep_server.config import ConfigError, seconds

if TYPE_CHECKING:
    from statekeep import Client

Commands: TypeAlias = "argparse._SubParsersAction[Any]"
Run: TypeAlias = "Callable[[Client, argparse.Namespace], int]"


def add_command(
    commands: Commands, name: str, run: Run, brief: str, *, records: bool = True, in_parts: bool = False
) -> argparse.ArgumentParser:
    """Add a command that talks to a server, and shows `records` or not. Its description is the docstring of `run`.

    With `in_parts` the answer comes in parts, for as long as it takes: the server is asked first whether it is there.
    """
    parser: argparse.ArgumentParser = commands.add_parser(name, help=brief, description=run.__doc__)
    add_address(parser)
    if records:
        parser.add_argument("--json", action="store_true", help="write JSON, one line for each record")
    parser.set_defaults(run=lambda options: _talk(name, run, options, in_parts=in_parts))
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


def _talk(name: str, run: Run, options: argparse.Namespace, *, in_parts: bool) -> int:
    from statekeep import Client, errors

    from statekeep_server.cli.failures import why

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is escaped
    try:
        tls, others = channel_credentials(options) or False, channel_options(options)
        with Client(options.address, timeout=options.timeout, tls=tls, options=others) as client:
            if in_parts:
                with suppress(errors.UnimplementedError):
                    client.admin.info()
            code = run(client, options)
            sys.stdout.flush()
            return code
    except (ConfigError, ValueError, OverflowError) as error:  # of the client, or of the server: InvalidArgumentError
        return fail(f"statekeep {name}: {error}", code=2)
    except errors.StatekeepError as error:
        return fail(f"statekeep {name}: {why(error, options)}")
    except BrokenPipeError:
        return no_reader()  # such as head, which has enough
    except OSError as error:
        no_reader()
        return fail(f"statekeep {name}: the output cannot be written: {error.strerror}")
