"""The command `statekeep`: serve, health, and a few commands for people at a prompt."""

import argparse
import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from statekeep_server.cli import backup, info, memory, moving, serving, threads

WRONG_USE = 2

_EPILOG = """\
The commands talk to the server at --address, STATEKEEP_ADDRESS, or 127.0.0.1:50051, with the token in STATEKEEP_TOKEN,
and with TLS where --tls or another of its options says so.
Exit codes: 0 done; 1 it failed, or what was asked for is not there; 2 wrong use; 130 ended by Ctrl-C; 143 ended by
SIGTERM, but for serve, which drains and ends with 0.
"""


class _Parser(argparse.ArgumentParser):
    """Of the command, and of each that it has: options are written out, for --token is not to be --token-file."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False)
        self.add_argument("--token", action=_Refused, nargs="?", help=argparse.SUPPRESS)

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Refused(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error("a token is given in STATEKEEP_TOKEN, not as a flag, which everyone on the machine could read")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = _Parser(
        prog="statekeep",
        description="Keeps memory, scratch values and event histories for agents and other programs, over gRPC.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"statekeep {version('statekeep')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (serving, memory, threads, moving, backup, info):
        module.add(commands)
    options = parser.parse_args(arguments)
    # gRPC would write to stderr, in its own form, what the commands say in one line.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return 130  # as a shell says of a command that Ctrl-C ended
