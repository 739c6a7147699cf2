"""The commands of StateStore: threads, events, branches."""

import argparse
from typing import TYPE_CHECKING

from statekeep_server.cli.talk import Commands, add_command, whole

if TYPE_CHECKING:
    from statekeep import Client
    from statekeep.records import Event


def add(commands: Commands) -> None:
    """Add the commands."""
    threads = add_command(commands, "threads", list_threads, "list threads")
    threads.add_argument("prefix", nargs="?", default="", metavar="PREFIX", help="only threads whose id begins with it")
    events = add_command(commands, "events", list_events, "show a thread's events, and follow it", in_parts=True)
    events.add_argument("thread", metavar="THREAD")
    events.add_argument("--branch", default="main", help="(default: main)")
    events.add_argument("--last", type=whole, default=0, metavar="N", help="begin at the last N events")
    events.add_argument("--after", type=whole, default=0, metavar="REVISION", help="begin after this revision")
    events.add_argument("--ancestors", action="store_true", help="first the events that the branch inherits")
    events.add_argument("--follow", action="store_true", help="stay, and show each event as it is stored")
    branches = add_command(commands, "branches", list_branches, "list the branches of a thread")
    branches.add_argument("thread", metavar="THREAD")


def list_threads(client: "Client", options: argparse.Namespace) -> int:
    """List threads, sorted by id."""
    from statekeep_server.cli.output import json_line, local, table

    threads = client.state.threads(options.prefix)
    if options.json:
        for thread in threads:
            print(json_line(thread))
        return 0
    rows = [
        (one.id, one.event_count, one.checkpoint_count, one.branch_count, local(one.update_time)) for one in threads
    ]
    print(table(("THREAD", "EVENTS", "CHECKPOINTS", "BRANCHES", "WRITTEN"), rows))
    return 0


def list_events(client: "Client", options: argparse.Namespace) -> int:
    """Show the events of a branch in the order they were stored.

    A lost connection is taken up again where it broke, as long as the server has kept what it had.
    """
    read = client.state.tail if options.follow else client.state.history
    with read(
        options.thread,
        options.branch,
        after_revision=options.after,
        last=options.last,
        include_ancestors=options.ancestors,
    ) as events:
        for event in events:
            print(_line(event, as_json=options.json), flush=options.follow)
    return 0


def list_branches(client: "Client", options: argparse.Namespace) -> int:
    """List the branches of a thread, oldest first, main and those that were never forked among them."""
    from statekeep_server.cli.output import json_line, table

    branches = client.state.branches(options.thread, include_unforked=True)
    if options.json:
        for branch in branches:
            print(json_line(branch))
        return 0
    rows = [(one.id, one.parent_branch_id or "-", one.from_event_id or "-") for one in branches]
    print(table(("BRANCH", "FORKED FROM", "AT EVENT"), rows))
    return 0


def _line(event: "Event", *, as_json: bool) -> str:
    from statekeep_server.cli.output import json_line, local, shortened, shown

    if as_json:
        return json_line(event)
    parts = (f"{event.sequence:>6}", local(event.create_time), event.type, event.node or "", shortened(event.raw))
    return "  ".join(shown(part) for part in parts if part)
