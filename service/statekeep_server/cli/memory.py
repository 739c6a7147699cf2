"""The commands of Memory: set, get, list, history, delete."""

import argparse
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from statekeep_server.cli.talk import Commands, add_command, fail, lifetime, whole

if TYPE_CHECKING:
    from statekeep import Client, Json, Text
    from statekeep.records import Entry


def add(commands: Commands) -> None:
    """Add the commands."""
    _add_set(commands)
    get = add_command(commands, "get", get_key, "read a key's value, or one version of it")
    _add_key(get)
    get.add_argument("--version", type=whole, metavar="N", help="this version, not the newest")
    listing = add_command(commands, "list", list_keys, "list the keys of a scope, or the scopes")
    _add_scope(listing, required=False)
    listing.add_argument("--prefix", default="", help="only keys that begin with it")
    _add_key(add_command(commands, "history", key_history, "show every version of a key, newest first", in_parts=True))
    _add_key(add_command(commands, "delete", delete_key, "hide a key; its versions stay readable"))


def set_key(client: "Client", options: argparse.Namespace) -> int:
    """Write a new version of a key. A value that is JSON is kept as JSON, any other as text; - reads it from stdin."""
    entry = client.memory.set(
        options.key,
        _value(options),
        scope=options.scope,
        scope_type=options.scope_type,
        ttl=options.ttl,
        expected_version=options.expected_version,
    )
    _print_written(entry, options)
    return 0


def get_key(client: "Client", options: argparse.Namespace) -> int:
    """Write a key's value as it is kept (bytes as bytes); exit 1 where it has none."""
    from statekeep import Data

    from statekeep_server.cli.output import json_line, value_text

    entry = client.memory.get(options.key, scope=options.scope, scope_type=options.scope_type, version=options.version)
    if entry is None:
        return fail(f"statekeep get: {options.key} has no value in scope {options.scope}")
    if options.json:
        print(json_line(entry))
    elif isinstance(entry.raw, Data):
        sys.stdout.buffer.write(entry.raw.data)
    else:
        print(value_text(entry.raw))
    return 0


def list_keys(client: "Client", options: argparse.Namespace) -> int:
    """List the keys of a scope that have a value; without --scope, the scopes that have such keys."""
    from statekeep_server.cli.output import json_line, table

    if options.prefix and not options.scope:
        return fail("statekeep list: --prefix is of keys; give their --scope too", code=2)
    if options.scope:
        entries = client.memory.list(
            options.prefix, scope=options.scope, scope_type=options.scope_type, include_values=True
        )
        _print_entries(entries, options)
    elif options.json:
        for scope in client.memory.scopes():
            print(json_line(scope))
    else:
        rows = [(scope.scope, scope.scope_type, scope.entry_count) for scope in client.memory.scopes()]
        print(table(("SCOPE", "TYPE", "KEYS"), rows))
    return 0


def key_history(client: "Client", options: argparse.Namespace) -> int:
    """Show every version of a key, newest first, tombstones too."""
    with client.memory.history(
        options.key, scope=options.scope, scope_type=options.scope_type, include_values=True
    ) as versions:
        _print_entries(versions, options)
    return 0


def delete_key(client: "Client", options: argparse.Namespace) -> int:
    """Hide a key behind a tombstone. Exit 1 where it never had a value."""
    entry = client.memory.delete(options.key, scope=options.scope, scope_type=options.scope_type)
    if entry is None:
        return fail(f"statekeep delete: {options.key} has no value in scope {options.scope}")
    _print_written(entry, options)
    return 0


def _add_set(commands: Commands) -> None:
    parser = add_command(commands, "set", set_key, "write a new version of a key")
    _add_key(parser)
    parser.add_argument("value", metavar="VALUE", help="JSON, or any text; - reads it from stdin")
    parser.add_argument("--text", action="store_true", help="keep it as text even where it is JSON")
    parser.add_argument("--ttl", type=lifetime, metavar="TIME", help="how long it lives, such as 90s, 15m or 7d")
    parser.add_argument(
        "--expected-version", type=whole, metavar="N", help="write only if this is the current version; 0: none"
    )


def _add_scope(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("--scope", required=required, metavar="NAME", help="the scope")
    add_scope_type(parser)


def add_scope_type(parser: argparse.ArgumentParser) -> None:
    """Add the option that says of which type a scope is."""
    parser.add_argument(
        "--scope-type", choices=("namespace", "flow", "execution"), default="namespace", help="(default: namespace)"
    )


def _add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY")
    _add_scope(parser)


def _value(options: argparse.Namespace) -> "Json | Text":
    from statekeep import Json, Text

    text = _stdin() if options.value == "-" else options.value
    if options.text:
        return Text(text)
    try:
        json.loads(text, parse_int=str, parse_constant=_refuse)
    except ValueError:
        return Text(text)
    except RecursionError:
        pass  # nested deeper than the server takes, which says so better
    return Json(text)


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise ValueError("what stdin holds is no UTF-8 text; values that are none are set by a program") from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _print_written(entry: "Entry", options: argparse.Namespace) -> None:
    from statekeep_server.cli.output import json_line

    print(
        json_line(entry) if options.json else f"{entry.key} has version {entry.version}{' (deleted)' * entry.deleted}"
    )


def _print_entries(entries: "Iterable[Entry]", options: argparse.Namespace) -> None:
    from statekeep_server.cli.output import json_line, local, shortened, table

    if options.json:
        for entry in entries:
            print(json_line(entry))
        return
    rows = []
    for entry in entries:
        shown = "(deleted)" if entry.deleted else shortened(entry.raw)
        rows.append((entry.key, entry.version, entry.value_type, local(entry.create_time), shown))
    print(table(("KEY", "VERSION", "TYPE", "WRITTEN", "VALUE"), rows))
