"""`statekeep serve`, `statekeep config` and `statekeep health`."""

import argparse
import os
import signal
import sys
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statekeep_server.cli.talk import Commands, add_command, fail
from statekeep_server.config import ConfigError, Settings, choose, flag, load, reference

if TYPE_CHECKING:
    from statekeep import Client

_SERVE = """\
Serves until SIGTERM, SIGINT or SIGHUP. When it is ready it writes one line of JSON to stdout, with "event": "ready"
and the addresses it listens on. Each setting may also stand in the environment (--grace as STATEKEEP_GRACE) or in the
file (grace = "20s"); a flag wins over the environment, the environment over the file. Times are seconds, or take ms, s,
m, h or d.
"""


_CONFIG = """\
Prints the settings that serve would have with the same flags, environment and file, as a file of them that says where
each came from. What is secret is not shown.
"""


def add(commands: Commands) -> None:
    """Add the commands."""
    serve = commands.add_parser("serve", help="serve until SIGTERM, SIGINT or SIGHUP", description=_SERVE)
    _add_settings(serve)
    serve.set_defaults(run=_serve)
    config = commands.add_parser("config", help="show the settings in force", description=_CONFIG)
    _add_settings(config)
    config.add_argument("--reference", action="store_true", help="print what can be set instead, as Markdown")
    config.set_defaults(run=_config)
    health = add_command(commands, "health", health_of, "ask a server whether it is serving", records=False)
    health.add_argument("--service", default="", metavar="NAME", help="one service, such as statekeep.v1.Memory")


def _file(given: str) -> Path:
    if not given:
        raise argparse.ArgumentTypeError("give the path of a file")
    return Path(given)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=_file,
        help="a TOML file with these settings, - written as _ (default: the one that STATEKEEP_CONFIG names, if any)",
    )
    defaults = Settings()
    for setting in fields(Settings):
        about = setting.metadata
        if about["secret"]:
            continue
        default = getattr(defaults, setting.name)
        shown = ", ".join(default) if about["many"] else f"{default:g}" if isinstance(default, float) else default
        alone: dict[str, Any] = {"nargs": "?", "const": "true"} if isinstance(default, bool) else {}
        parser.add_argument(
            flag(setting.name),
            metavar=about["metavar"],
            action="append" if about["many"] else "store",
            help=f"{about['help']} (default: {shown or 'none'})".replace("%", "%%"),  # argparse would fill it in
            **alone,
        )


def _serve(options: argparse.Namespace) -> int:
    # Until the server drains on SIGTERM, this ends the process, also where it is a container's first: the kernel would
    # pass the signal over there.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _choose_listener()
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


def _choose_listener() -> None:
    """Let gRPC listen as it did before 1.80, unless GRPC_EXPERIMENTS is set: docs/architecture.md says why."""
    # Read when gRPC is loaded. A version that no longer knows the name would complain of it at each start.
    if version("grpcio").startswith("1.85."):
        os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")


def _config(options: argparse.Namespace) -> int:
    if options.reference:
        print(reference())
        return 0
    try:
        print("\n".join(chosen.line() for chosen in choose(vars(options), os.environ, options.config)))
    except ConfigError as error:
        return fail(f"statekeep config: {error}", code=2)
    return 0


def health_of(client: "Client", options: argparse.Namespace) -> int:
    """Ask a server whether it is serving: exit 0 where it is, 1 where it is not or cannot be reached."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from statekeep import errors

    stub = health_pb2_grpc.HealthStub(client.connection.channel)
    try:
        answer = stub.Check(  # type: ignore[attr-defined]  # its stubs lack it
            health_pb2.HealthCheckRequest(service=options.service), timeout=options.timeout
        )
    except grpc.RpcError as failure:
        kind = errors.BY_CODE.get(failure.code(), errors.StatekeepError)
        raise kind(failure.details() or failure.code().name) from failure
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    print(name)
    return 0 if answer.status == health_pb2.HealthCheckResponse.SERVING else 1
