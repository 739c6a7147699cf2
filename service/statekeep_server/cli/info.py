"""`statekeep info`."""

import argparse
import json
from typing import TYPE_CHECKING

from statekeep_server.cli.talk import Commands, add_command

if TYPE_CHECKING:
    from statekeep import Client


def add(commands: Commands) -> None:
    """Add the command."""
    info = add_command(commands, "info", info_of, "show what a server is, and its limits", records=False)
    info.add_argument("--json", action="store_true", help="write JSON")


def info_of(client: "Client", options: argparse.Namespace) -> int:
    """Show a server's version, what keeps its state, how long it is up, what it can, and the limits in force."""
    from statekeep_server.cli.output import local, shown, table

    info = client.admin.info()
    capabilities = sorted(info.capabilities)
    limits = {name: int(value) if value.is_integer() else value for name, value in info.limits.items()}
    if options.json:
        members = {
            "version": info.version,
            "engine": info.engine,
            "start_time": info.start_time.isoformat(),
            "uptime_seconds": info.uptime.total_seconds(),
            "capabilities": capabilities,
            "limits": limits,
        }
        print(json.dumps(members))
        return 0
    print(shown(f"statekeep {info.version}, on {info.engine}"))
    print(f"up since {local(info.start_time)}, for {str(info.uptime).partition('.')[0]}")
    print(shown(f"capabilities: {', '.join(capabilities) or 'none of those that not every server has'}"))
    print(table(("LIMIT", "VALUE"), limits.items()))
    return 0
