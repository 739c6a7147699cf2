"""The command `statekeep`."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

from statekeep_server.config import ConfigError, Settings, load

WRONG_USE = 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code: 0, 1 where it failed, 2 where it was used wrongly."""
    options = _parser().parse_args(arguments)
    run = options.run
    return int(run(options))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="statekeep", description="Keeps memory, scratch values and histories for programs, over gRPC."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands)
    return parser


def _add_serve(commands: "argparse._SubParsersAction[_Parser]") -> None:
    serve = commands.add_parser("serve", help="serve until SIGTERM or SIGINT")
    serve.add_argument("--config", metavar="FILE", type=Path, help="a TOML file with the settings below, - as _")
    for setting in fields(Settings):
        about = setting.metadata
        serve.add_argument(
            f"--{setting.name.replace('_', '-')}",
            metavar=about["metavar"],
            action="append" if about["many"] else "store",
            help=about["help"],
        )
    serve.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    try:
        settings = load(vars(options), os.environ, options.config)
    except ConfigError as error:
        return _fail(WRONG_USE, f"statekeep serve: {error}")
    from statekeep_server.serve import run
    from statekeep_server.server import ListenError

    try:
        run(settings)
    except ListenError as error:
        return _fail(1, f"statekeep serve: {error}")
    return 0


def _fail(code: int, line: str) -> int:
    sys.stderr.write(line + "\n")
    return code
