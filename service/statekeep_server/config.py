"""The settings of `statekeep serve`: each declared once, here, for flags, environment, file and documentation.

A flag wins over the environment, the environment over the file, the file over the default.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from statekeep_server.core.journal import Limits
from statekeep_server.core.scratch import DEFAULT_IDLE_TTL

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 100 * 365 * 86400.0
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|)")
_SIZES = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|KiB|MiB|GiB|TiB|)")
_YOUNGEST = 0.1  # seconds that a stream may last at least
_MOST_REQUEST = 2**31 - 1  # what gRPC takes


class ConfigError(Exception):
    """A setting that cannot be taken; the text says which, and what would be right."""


def seconds(given: str | float) -> float:
    """Return a duration: a number of seconds, or text with a unit (ms, s, m, h or d). ValueError otherwise."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        duration = float(given)
    elif isinstance(given, str) and (match := _DURATION.fullmatch(given.strip())):
        duration = float(match[1]) * _UNITS[match[2]]
    else:
        duration = -1
    if not 0 <= duration <= _LONGEST:
        raise ValueError("give seconds up to a hundred years, or a number with ms, s, m, h or d, such as 20 or 1.5h")
    return duration


def size(given: str | float) -> int:
    """Return a number of bytes: a whole number, or text with a unit (KiB, MiB, GiB, TiB). ValueError otherwise."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    if isinstance(given, str) and (match := _SIZE.fullmatch(given.strip())):
        return round(float(match[1]) * _SIZES[match[2]])
    raise ValueError("give bytes from 0, or a number with KiB, MiB, GiB or TiB, such as 512MiB")


def _between(least: int, most: int) -> Callable[[str | float], int]:
    def checked(given: str | float) -> int:
        if not least <= size(given) <= most:
            raise ValueError(f"give {least} to {most} bytes, such as {least} or 4MiB")
        return size(given)

    return checked


def _memory(given: str | float) -> int | str:
    return "auto" if given == "auto" else size(given)


def _age(given: str | float) -> float:
    age = seconds(given)
    if 0 < age < _YOUNGEST:
        raise ValueError("give 100ms at least, or clients would do nothing but resume; 0 for ever")
    return age


def _count(given: str | int) -> int:
    number = int(given) if isinstance(given, str) and given.strip().isdecimal() else given
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**53:
        raise ValueError("give a whole number, 0 for no limit")
    return number


def _addresses(given: str | list[str]) -> tuple[str, ...]:
    listed = given.split(",") if isinstance(given, str) else given
    if not isinstance(listed, list):
        raise ValueError("give HOST:PORT (port 0 takes a free one) or unix:PATH, or a list of them")
    addresses = tuple(str(address).strip() for address in listed)
    for address in addresses:
        _check_address(address)
    if not addresses:
        raise ValueError("give at least one address")
    return addresses


def _check_address(address: str) -> None:
    if address.startswith("unix:"):
        if not address.removeprefix("unix:"):
            raise ValueError("give a path after unix:, such as unix:/run/statekeep.sock")
        return
    host, _, port = address.rpartition(":")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"{address!r} is no address; write an IPv6 one in brackets, such as [::1]:50051")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is no address; give HOST:PORT (port 0 takes a free one) or unix:PATH")


def _store(given: str) -> str:
    from statekeep_server.engines import check_store

    return check_store(given)


def _setting(default: Any, parse: Callable[[Any], Any], metavar: str, text: str, *, many: bool = False) -> Any:
    return field(default=default, metadata={"parse": parse, "metavar": metavar, "help": text, "many": many})


@dataclass(frozen=True, slots=True)
class Settings:
    """What `statekeep serve` can be told."""

    listen: tuple[str, ...] = _setting(
        ("127.0.0.1:50051",),
        _addresses,
        "ADDR",
        "HOST:PORT (port 0 takes a free one) or unix:PATH; may stand several times",
        many=True,
    )
    store: str = _setting(
        "memory:",
        _store,
        "URL",
        "where records are kept: memory: (gone when the server ends) or sqlite:PATH (a file that is made where it is"
        " not there; one server at a time)",
    )
    grace: float = _setting(
        20.0, seconds, "TIME", "how long calls in flight may go on after SIGTERM or SIGINT before they are cancelled"
    )
    scratch_idle_ttl: float = _setting(
        DEFAULT_IDLE_TTL, seconds, "TIME", "how long a scratch instance lives unused; 0 for ever"
    )
    max_request: int = _setting(
        Limits().request,
        _between(4 * 2**20, _MOST_REQUEST),
        "SIZE",
        "bytes of a request that the server receives at most, 64 MiB unless said otherwise; larger than a record, or"
        " nobody could be told that one is too large",
    )
    max_record: int = _setting(
        Limits().record,
        _between(1024, Limits().record),
        "SIZE",
        "bytes of a record (a version, an event, a checkpoint) as it is stored, at most; no more than the default, or a"
        " client with gRPC's own limit of 4 MiB could not read it",
    )
    max_batch: int = _setting(
        Limits().batch, _count, "N", "sets, keys or events of one request at most; 0 for no limit"
    )
    max_scope_keys: int = _setting(0, _count, "N", "keys of a scope that have a value, at most; 0 for no limit")
    max_scope_versions: int = _setting(
        0, _count, "N", "versions that a scope keeps of all its keys, at most; a purge makes room; 0 for no limit"
    )
    max_thread_events: int = _setting(0, _count, "N", "events of a thread on all its branches, at most; 0 for no limit")
    max_scratch_instances: int = _setting(0, _count, "N", "scratch instances at most; 0 for no limit")
    max_scratch_bytes: int = _setting(
        0, size, "SIZE", "bytes of all scratch keys and values together, at most; 0 for no limit"
    )
    max_memory: int | str = _setting(
        "auto",
        _memory,
        "SIZE",
        "bytes of memory for records (of the store memory:) and scratch values together, overhead included: at that"
        " writes are refused, reads and what takes away go on; 0 for no limit; auto for 70 % of what the container may"
        " take, and no limit where that is not known",
    )
    max_followers: int = _setting(
        Limits().followers, _count, "N", "streams that stay (follow, watch, attach) at once, at most; 0 for no limit"
    )
    max_connection_followers: int = _setting(
        0,
        _count,
        "N",
        "of those on one connection at most (all clients of a Unix socket count as one); 0 for no limit",
    )
    max_calls: int = _setting(
        Limits().calls, _count, "N", "calls under way at once, streams included, at most; 0 for no limit"
    )
    max_stream_age: float = _setting(
        0.0,
        _age,
        "TIME",
        "how long a stream follows before it is ended with UNAVAILABLE, at which clients resume it; 0 for ever",
    )


def load(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None) -> Settings:
    """Return the settings in force; ConfigError where one cannot be taken, or is unknown in the file.

    Unknown variables of the environment are passed over: a container platform may set STATEKEEP_… of its own.
    """
    in_file = _read(file) if file else {}
    chosen: dict[str, Any] = {}
    for setting in fields(Settings):
        name = setting.name
        variable = f"STATEKEEP_{name.upper()}"
        if flags.get(name) is not None:
            chosen[name] = _parsed(setting.metadata["parse"], flags[name], f"--{name.replace('_', '-')}")
        elif variable in environment:
            chosen[name] = _parsed(setting.metadata["parse"], environment[variable], variable)
        elif name in in_file:
            chosen[name] = _parsed(setting.metadata["parse"], in_file[name], f"{file}: {name}")
    return Settings(**chosen)


def _read(file: Path) -> dict[str, Any]:
    try:
        read = tomllib.loads(file.read_text())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from error
    known = [setting.name for setting in fields(Settings)]
    for name in read:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ConfigError(f"{file} has an unknown key {name!r}; {hint}")
    return read


def _parsed(parse: Callable[[Any], Any], given: Any, source: str) -> Any:
    try:
        return parse(given)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{source}: {error}") from error
