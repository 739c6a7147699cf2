"""The settings of `statekeep serve`: each declared once, here, for flags, environment, file and documentation.

A flag wins over the environment, the environment over the file, the file over the default.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from statekeep_server.core.journal import MAX_NUMBER, Limits
from statekeep_server.core.scratch import DEFAULT_IDLE_TTL

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 100 * 365 * 86400.0
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|)")
_SIZES = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|KiB|MiB|GiB|TiB|)")
_YOUNGEST = 0.1  # seconds that a stream may last at least
_MOST_REQUEST = 2**31 - 1  # what gRPC takes

_NEARLY = 0.8  # how alike two names are of which one may be the other misspelt
_OTHERS = frozenset({"ADDRESS", "TLS", "TLS_CA", "TLS_SERVER_NAME"})  # variables of clients


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
    raise ValueError("give a number of bytes, or one with KiB, MiB, GiB or TiB, such as 512MiB")


def _between(least: int, most: int) -> Callable[[str | float], int]:
    def checked(given: str | float) -> int:
        if not least <= size(given) <= most:
            raise ValueError(f"give {least} to {most} bytes")
        return size(given)

    return checked


def _memory(given: str | float) -> int | str:
    if given == "auto":
        return "auto"
    try:
        return size(given)
    except ValueError as error:
        raise ValueError(f"{error}; or auto") from error


def _age(given: str | float) -> float:
    age = seconds(given)
    if 0 < age < _YOUNGEST:
        raise ValueError("give 100ms at least, or clients would do nothing but resume; 0 for ever")
    return age


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
    if "\0" in address or ("%" in address and not address.startswith("unix:")):
        raise ValueError("an address holds no zero byte, and that of an interface no zone (%)")
    if address.startswith("unix-abstract:"):
        raise ValueError(f"{address!r} has no file, so that nobody could be kept from it; give unix:PATH")
    if address.startswith("unix:"):
        if not address.removeprefix("unix:"):
            raise ValueError("give a path after unix:, such as unix:/run/statekeep.sock")
        return
    host, _, port = address.rpartition(":")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"{address!r} is no address; write an IPv6 one in brackets, such as [::1]:50051")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is no address; give HOST:PORT (port 0 takes a free one) or unix:PATH")


def _endpoint(given: str) -> str:
    if given == "off":
        return given
    if str(given).startswith("unix:"):
        raise ValueError("give HOST:PORT (port 0 takes a free one): Prometheus reads no Unix socket")
    try:
        _check_address(str(given))
    except ValueError as error:
        raise ValueError(f"{given!r} is no address; give HOST:PORT, such as 127.0.0.1:9464, or off") from error
    return str(given)


def _one_of(*names: str) -> Callable[[Any], str]:
    def parse(given: Any) -> str:
        if str(given).lower() not in names:
            raise ValueError(f"{str(given)[:40]!r} is none of {', '.join(names)}")
        return str(given).lower()

    return parse


def _traces(given: str) -> str:
    if given in ("off", "otlp:"):
        return given
    kind, _, address = str(given).partition("://")
    if "@" in address:
        raise ValueError("a URL with a user or password is not taken; OTEL_EXPORTER_OTLP_HEADERS is for those")
    if kind not in ("otlp", "otlps"):
        raise ValueError(f"{str(given)[:40]!r} is none of off, otlp:, otlp://HOST:PORT and otlps://HOST:PORT")
    _check_address(address)
    return given


def _count(given: str | float) -> int:
    if isinstance(given, str) and given.strip().isdecimal():
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= MAX_NUMBER:
        raise ValueError(f"give a whole number from 0 to {MAX_NUMBER}")
    return given


def _pause(given: str | float) -> float:
    pause = seconds(given)
    if not 0.01 <= pause <= 3600:
        raise ValueError("give a time from 10ms to 1h, such as 15s")
    return pause


def _health_address(given: str) -> str:
    address = given.strip()
    if address.startswith("unix:"):
        raise ValueError(
            "give HOST:PORT: probes come over the network, and a socket answers to statekeep health anyway"
        )
    if address:
        _check_address(address)
    return address


def _store(given: str) -> str:
    from statekeep_server.engines import check_store

    return check_store(given)


def _path(given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError("give the path of a file")
    return given


def _token(given: str) -> str:
    from statekeep_server.tokens import secret

    return secret(given)


def yes_or_no(given: Any) -> bool:
    """Return what true or false, yes or no, 1 or 0 say. ValueError otherwise."""
    said = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(given, bool):
        return given
    if isinstance(given, str) and given.strip().lower() in said:
        return said[given.strip().lower()]
    raise ValueError("give true or false")


def _setting(
    default: Any, parse: Callable[[Any], Any], metavar: str, text: str, *, many: bool = False, secret: bool = False
) -> Any:
    """Declare a setting. A secret one is never shown, and has no flag: everyone on the machine could read that."""
    about = {"parse": parse, "metavar": metavar, "help": text, "many": many, "secret": secret}
    return field(default=default, repr=not secret, metadata=about)


@dataclass(frozen=True, slots=True)
class Settings:
    """What `statekeep serve` can be told."""

    listen: tuple[str, ...] = _setting(
        ("127.0.0.1:50051",),
        _addresses,
        "ADDR",
        "HOST:PORT (port 0 takes a free one) or unix:PATH; may stand several times, in the environment with commas"
        " between, in the file as a list",
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
        20.0,
        seconds,
        "TIME",
        "how long calls in flight may go on after SIGTERM, SIGINT or SIGHUP before they are cut off",
    )
    scratch_idle_ttl: float = _setting(
        DEFAULT_IDLE_TTL, seconds, "TIME", "how long a scratch instance lives unused; 0 for ever"
    )
    tls_cert: str = _setting(
        "",
        _path,
        "FILE",
        "the server's certificate with its chain, as PEM: HOST:PORT addresses then speak TLS, sockets stay as they are;"
        " read again when it changes",
    )
    tls_key: str = _setting("", _path, "FILE", "the private key of --tls-cert, as PEM, not encrypted")
    tls_client_ca: str = _setting(
        "", _path, "FILE", "the certificates, as PEM, of which one must have signed that of a client"
    )
    token_file: str = _setting(
        "",
        _path,
        "FILE",
        "the tokens that calls may carry, as TOML (see docs/security.md); calls without one are refused; read again"
        " when it changes",
    )
    token: str = _setting("", _token, "TOKEN", "a token that calls may carry, with all rights", secret=True)
    insecure: bool = _setting(
        False,
        yes_or_no,
        "BOOL",
        "listen where other machines can reach it also without TLS, or without tokens or certificates of clients; the"
        " same for --metrics",
    )
    metrics: str = _setting(
        "off",
        _endpoint,
        "ADDR",
        "HOST:PORT of an HTTP endpoint with /metrics for Prometheus, /livez and /readyz, such as 127.0.0.1:9464; it has"
        " no authentication, so only loopback is taken without --insecure; or off",
    )
    log_level: str = _setting(
        "info",
        _one_of("debug", "info", "warning", "error"),
        "LEVEL",
        "the least that is written to stderr: debug (every call), info, warning or error",
    )
    log_format: str = _setting(
        "auto",
        _one_of("auto", "json", "text"),
        "FORMAT",
        "json, one object a line; text, for people; auto: text on a terminal, else json",
    )
    slow_call: float = _setting(
        1.0, seconds, "TIME", "a unary call that takes as long is logged as a warning; 0 for none"
    )
    traces: str = _setting(
        "off",
        _traces,
        "URL",
        "where a span of each call is sent: otlp://HOST:PORT, otlps://HOST:PORT with TLS, or otlp: as OpenTelemetry's"
        " environment says (OTEL_EXPORTER_OTLP_ENDPOINT and so on); needs statekeep[otel]; or off",
    )
    max_versions: int = _setting(
        0,
        _count,
        "N",
        "how many versions Memory keeps of each key, tombstones included: a write removes what is older than the newest"
        " N, and a sweep what was written or imported without the limit; 0 keeps all",
    )
    thread_ttl: float = _setting(
        0.0,
        seconds,
        "TIME",
        "how long StateStore keeps a thread that nobody writes to, then it goes whole, as DeleteThread removes it (an"
        " imported one keeps the time of its last write); 0 for ever",
    )
    sweep_every: float = _setting(
        15.0,
        _pause,
        "TIME",
        "how often what has expired, idle threads and unused scratch instances are looked for and removed, and room in"
        " the file is given back; 10ms to 1h",
    )
    health_listen: str = _setting(
        "",
        _health_address,
        "ADDR",
        "HOST:PORT that answers grpc.health.v1's Check and nothing else, without TLS and token, for probes that cannot"
        " reach the other addresses, such as the kubelet's",
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


_SETTINGS: "Mapping[str, Field[Any]]" = {setting.name: setting for setting in fields(Settings)}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A setting in force: its name, its value, and where that came from."""

    name: str
    value: Any
    source: str

    def line(self) -> str:
        """Return it as a line of the file that would set it; a comment where it is not set, or secret and not shown."""
        if self.value == "":  # an empty one is refused: a variable whose secret is missing must not turn a check off
            return f"# {self.name} is not set"
        if _SETTINGS[self.name].metadata["secret"] and self.value:
            return f"# {self.name} = ********  # {self.source}"
        return f"{self.name} = {_toml(self.value)}  # {self.source}"


def load(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None) -> Settings:
    """Return the settings in force; ConfigError where one cannot be taken, or is unknown."""
    return Settings(**{chosen.name: chosen.value for chosen in choose(flags, environment, file)})


def choose(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None) -> list[Chosen]:
    """Return every setting with its source, in the order they are declared.

    The file is the one given, or the one that STATEKEEP_CONFIG names. Raises ConfigError where a setting cannot be
    taken, the file has an unknown key, or a variable of the environment is nearly a setting's. Other variables are
    passed over: a container platform sets STATEKEEP_… of its own.
    """
    if file is None and (named := environment.get(variable("config"))):
        file = Path(named)
    in_file = _read(file) if file else {}
    _refuse_misspelt(environment)
    return [_chosen(setting, flags, environment, in_file, file) for setting in _SETTINGS.values()]


def flag(name: str) -> str:
    """Return the flag of a setting."""
    return f"--{name.replace('_', '-')}"


def variable(name: str) -> str:
    """Return the variable of a setting in the environment."""
    return f"STATEKEEP_{name.upper()}"


def reference() -> str:
    """Return what can be set, as a table in Markdown: docs/operations.md has it."""
    rows = ["| flag, variable, key | what | default |", "|---|---|---|"]
    for name, setting in _SETTINGS.items():
        names = f"`{flag(name)} {setting.metadata['metavar']}`".replace(" `", "`")
        if setting.metadata["secret"]:
            names = "no flag"
        told = setting.metadata["help"].replace("|", "\\|")
        default = f"`{_toml(setting.default)}`" if setting.default not in ("", ()) else ""
        rows.append(f"| {names}<br>`{variable(name)}`<br>`{name}` | {told} | {default} |")
    return "\n".join(rows)


def _chosen(
    setting: "Field[Any]",
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    in_file: Mapping[str, Any],
    file: Path | None,
) -> Chosen:
    name = setting.name
    for given, source in (
        (flags.get(name), flag(name)),
        (environment.get(variable(name)), variable(name)),
        (in_file.get(name), f"{file}: {name}"),
    ):
        if given is not None:
            return Chosen(name, _parsed(setting.metadata["parse"], given, source), source)
    return Chosen(name, setting.default, "default")


def _refuse_misspelt(environment: Mapping[str, str]) -> None:
    known = (*map(str.upper, _SETTINGS), "CONFIG")
    for name in environment:
        setting = name.removeprefix(variable(""))
        if setting == name or setting in known or setting in _OTHERS:
            continue
        if near := difflib.get_close_matches(setting, known, n=1, cutoff=_NEARLY):
            raise ConfigError(f"there is no setting for {name}; did you mean {variable(near[0])}?")


def _read(file: Path) -> dict[str, Any]:
    try:
        read = tomllib.loads(file.read_text())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from error
    for name in read:
        if name not in _SETTINGS:
            near = difflib.get_close_matches(name, _SETTINGS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_SETTINGS)}"
            raise ConfigError(f"{file} has an unknown key {name!r}; {hint}")
    return read


def _parsed(parse: Callable[[Any], Any], given: Any, source: str) -> Any:
    try:
        return parse(given)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{source}: {error}") from error


def _toml(value: Any) -> str:
    """Return a setting's value as TOML has it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return f"{value:.12g}"
    # What JSON escapes in a text, TOML does too.
    return json.dumps(value)
