"""The commands that move what is kept, whole: export and import."""

import argparse
import json
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from statekeep_server.cli.memory import add_scope_type
from statekeep_server.cli.progress import ProgressLine
from statekeep_server.cli.talk import Commands, add_command, fail, no_reader

if TYPE_CHECKING:
    from statekeep import Client
    from statekeep.records import Imported


def add(commands: Commands) -> None:
    """Add the commands."""
    export = add_command(
        commands, "export", export_to_stdout, "write scopes and threads to a file", records=False, in_parts=True
    )
    what = export.add_mutually_exclusive_group(required=True)
    what.add_argument("--thread", metavar="ID", help="this thread")
    what.add_argument("--scope", metavar="NAME", help="this scope")
    what.add_argument("--all", action="store_true", help="every scope and every thread")
    add_scope_type(export)
    bring = add_command(commands, "import", import_file, "bring in what an export wrote", records=False, in_parts=True)
    bring.add_argument("file", nargs="?", default="-", metavar="FILE", help="the export; - is stdin (default: -)")
    bring.add_argument(
        "--skip-existing", action="store_true", help="pass over what is there already and holds something else"
    )
    bring.add_argument("--json", action="store_true", help="write what was done as JSON")


def export_to_stdout(client: "Client", options: argparse.Namespace) -> int:
    """Write a thread, a scope, or everything to stdout, as JSON Lines: statekeep export --all > file.jsonl.

    Each scope and thread is as it was at one moment, also while it is written to. Where it is not there nothing is
    written, and the exit code is 1.
    """
    if sys.stdout.isatty():
        return fail(
            "statekeep export: stdout is a terminal; send it to a file: statekeep export … > file.jsonl", code=2
        )
    try:
        with closing(ProgressLine(sys.stderr)) as line:
            exported = client.admin.export(
                sys.stdout.buffer,
                thread=options.thread,
                scope=options.scope,
                scope_type=options.scope_type,
                everything=options.all,
                progress=line,
            )
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        no_reader()
        return fail("statekeep export: whoever reads stdout is gone; what it has is no whole export")
    if not exported.partitions and not options.all:
        named = f"thread {options.thread}" if options.scope is None else f"scope {options.scope} ({options.scope_type})"
        return fail(f"statekeep export: there is no {named}")
    return 0


def import_file(client: "Client", options: argparse.Namespace) -> int:
    """Bring in what an export wrote. What is there already stays as it is; after a failure, simply run it again.

    A scope or thread that is there and holds something else ends the import, unless --skip-existing. A file is checked
    as a whole before anything is imported; what comes through a pipe is checked one scope or thread at a time.
    """
    if options.file == "-" and sys.stdin.isatty():
        return fail("statekeep import: stdin is a terminal; name a file: statekeep import file.jsonl", code=2)
    from statekeep.errors import ExportFileError

    named = "stdin" if options.file == "-" else options.file
    try:
        file = sys.stdin.buffer if options.file == "-" else open(options.file, "rb")  # noqa: SIM115 (closed below)
        with file, closing(ProgressLine(sys.stderr, os.fstat(file.fileno()).st_size)) as line:
            imported = client.admin.import_(file, skip_existing=options.skip_existing, progress=line)
    except ExportFileError as error:
        return fail(f"statekeep import: {named}: {error}")
    except OSError as error:
        return fail(f"statekeep import: {named} cannot be read: {error.strerror}")
    _print_imported(imported, as_json=options.json)
    return 0


def _print_imported(imported: "Imported", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(imported._asdict()))
        return
    print(f"{imported.restored} scopes and threads came in, with {imported.records} records", end="")
    print(f"; {imported.unchanged} were there already" if imported.unchanged else "")
    for name in imported.skipped:
        print(f"skipped {name}: another one is there")
