"""`statekeep serve` and `statekeep health`."""

import argparse
import os
from dataclasses import fields
from pathlib import Path

from statekeep_server.cli.talk import Commands, add_address, fail
from statekeep_server.config import ConfigError, Settings, load

_SERVE = """\
Serves until SIGTERM or SIGINT. When it is ready it writes one line of JSON to stdout, with "event": "ready" and the
addresses it listens on. Each setting may also stand in the environment (--grace as STATEKEEP_GRACE) or in the file
(grace = "20s"); a flag wins over the environment, the environment over the file. Times are seconds, or take ms, s, m,
h or d.
"""


def add(commands: Commands) -> None:
    """Add the commands."""
    _add_serve(commands)
    health = commands.add_parser("health", help="ask a server whether it is serving", description=health_of.__doc__)
    health.add_argument("--service", default="", metavar="NAME", help="one service, such as statekeep.v1.Memory")
    add_address(health)
    health.set_defaults(run=health_of)


def _add_serve(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="serve until SIGTERM or SIGINT", description=_SERVE)
    serve.add_argument("--config", metavar="FILE", type=Path, help="a TOML file with these settings, - written as _")
    defaults = Settings()
    for setting in fields(Settings):
        about = setting.metadata
        default = getattr(defaults, setting.name)
        shown = ", ".join(default) if about["many"] else f"{default:g}" if isinstance(default, float) else default
        serve.add_argument(
            f"--{setting.name.replace('_', '-')}",
            metavar=about["metavar"],
            action="append" if about["many"] else "store",
            help=f"{about['help']} (default: {shown})",
        )
    serve.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    from statekeep_server.engines import StoreError
    from statekeep_server.serve import run
    from statekeep_server.server import ListenError

    try:
        run(load(vars(options), os.environ, options.config))
    except ConfigError as error:
        return fail(f"statekeep serve: {error}", code=2)
    except (ListenError, StoreError) as error:
        return fail(f"statekeep serve: {error}")
    return 0


def health_of(options: argparse.Namespace) -> int:
    """Ask a server whether it is serving: exit 0 where it is, 1 where it is not or cannot be reached."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(options.address) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(  # type: ignore[attr-defined]  # its stubs lack it
                health_pb2.HealthCheckRequest(service=options.service), timeout=options.timeout
            )
        except grpc.RpcError as error:
            return fail(f"statekeep health: {options.address}: {error.details() or error.code().name}")
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    print(name)
    return 0 if answer.status == health_pb2.HealthCheckResponse.SERVING else 1
