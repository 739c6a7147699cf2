"""The metrics: one table of what there is, read from the server's own plain counts at a scrape and not before.

One more metric is one more `Family` in `FAMILIES`, and then `make docs`, which writes the table of docs/metrics.md.
"""

import platform
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.utils import floatToGoString

from statekeep_server.core import memory, state_store
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.counting import Distribution
from statekeep_server.engines.interface import Commits, Stats
from statekeep_server.rpc.calls import MethodCalls, code_of
from statekeep_server.telemetry.sources import Sources

Sample: TypeAlias = "tuple[tuple[str, ...], float | Distribution]"
"""The values of a family's labels, and the number; of a histogram the distribution."""
Read: TypeAlias = "list[tuple[Family, list[Sample]]]"

T = TypeVar("T")

_CONFLICTS = (Reason.VERSION_MISMATCH, Reason.SEQUENCE_MISMATCH)
_NANOSECONDS = 1e9


class Reading(NamedTuple):
    """What a scrape looks at; None where the store cannot tell now."""

    sources: Sources
    stats: Stats | None
    behind: int | None


class Family(NamedTuple):
    """One metric: its name as in Prometheus, its kind, what it means, its labels, and where its samples come from."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    read: Callable[[Reading], Iterable[Sample]]
    scale: float = 1
    """What the values of a histogram are divided by."""


def _one(number: float | None) -> list[Sample]:
    return [] if number is None else [((), number)]


def _stat(reading: Reading, name: Literal["records", "bytes", "writable"]) -> list[Sample]:
    return _one(getattr(reading.stats, name)) if reading.stats else []


def _by(numbers: Mapping[str, float]) -> list[Sample]:
    return [((name,), number) for name, number in numbers.items()]


def _method(calls: MethodCalls) -> tuple[str, str]:
    return calls.method.containing_service.full_name, calls.method.name


def _calls(reading: Reading) -> Iterator[Sample]:
    for calls in reading.sources.traffic.methods:
        refused = dict(calls.outcomes)
        yield (*_method(calls), "OK", ""), sum(calls.times.counts) - sum(refused.values())
        for outcome, count in refused.items():
            yield (*_method(calls), code_of(outcome), outcome if isinstance(outcome, Reason) else ""), count


def _durations(reading: Reading) -> list[Sample]:
    return [(_method(calls), calls.times) for calls in reading.sources.traffic.methods if any(calls.times.counts)]


def _followers(reading: Reading) -> list[Sample]:
    kinds = reading.sources.followers.by_kind()
    return _by(
        {
            "statekeep.v1.Memory": kinds[memory.PARTITIONS],
            "statekeep.v1.StateStore": kinds[state_store.PARTITIONS],
            "statekeep.v1.Scratch": reading.sources.followers.attached,
        }
    )


def _partitions(reading: Reading) -> list[Sample]:
    if not reading.stats:
        return []
    kinds = reading.stats.partitions
    return _by({"scope": kinds.get(memory.PARTITIONS, 0), "thread": kinds.get(state_store.PARTITIONS, 0)})


def _commits(part: Callable[[Commits], float | Distribution]) -> Callable[[Reading], list[Sample]]:
    def read(reading: Reading) -> list[Sample]:
        commits = reading.stats.commits if reading.stats else None
        return [((), part(commits))] if commits else []

    return read


def _swept(reading: Reading) -> list[Sample]:
    swept = reading.sources.swept
    others = {"version": swept.versions, "thread": swept.threads, "scratch_instance": swept.instances}
    return _by(({"record": reading.stats.expired} if reading.stats else {}) | others)


def _build(reading: Reading) -> list[Sample]:
    return [((version("statekeep"), platform.python_version(), reading.sources.engine.name), 1)]


def _conflicts(reading: Reading) -> list[Sample]:
    return _by({reason: reading.sources.traffic.refused[reason] for reason in _CONFLICTS})


_RPC = ("grpc_service", "grpc_method")

FAMILIES = (
    Family(
        "statekeep_calls_total",
        "counter",
        "Calls that ended, by gRPC status and, where one was refused, the reason. CANCELLED: the client went away, or"
        " its deadline passed.",
        (*_RPC, "grpc_code", "reason"),
        _calls,
    ),
    Family(
        "statekeep_call_duration_seconds",
        "histogram",
        "How long calls took in the server; of a stream, how long it was open.",
        _RPC,
        _durations,
        _NANOSECONDS,
    ),
    Family(
        "statekeep_calls_in_flight",
        "gauge",
        "Calls under way, streams among them.",
        (),
        lambda reading: _one(reading.sources.traffic.in_flight),
    ),
    Family(
        "statekeep_conflicts_total",
        "counter",
        "Writes refused because another came first, by reason. A normal outcome.",
        ("reason",),
        _conflicts,
    ),
    Family(
        "statekeep_limits_reached_total",
        "counter",
        "Calls that were refused, or streams that were ended, at a limit, by its name.",
        ("limit",),
        lambda reading: _by(reading.sources.traffic.limits_reached),
    ),
    Family(
        "statekeep_followers",
        "gauge",
        "Streams that stay and wait for more (of Scratch: attached instances), by service.",
        ("grpc_service",),
        _followers,
    ),
    Family(
        "statekeep_follower_lag_revisions",
        "gauge",
        "How many revisions the slowest follower has not been sent yet.",
        (),
        lambda reading: _one(reading.behind),
    ),
    Family("statekeep_partitions", "gauge", "Scopes and threads that are kept, by kind.", ("kind",), _partitions),
    Family(
        "statekeep_records",
        "gauge",
        "Records that are kept: versions, events, checkpoints, branches, purges and answers to request ids.",
        (),
        lambda reading: _stat(reading, "records"),
    ),
    Family(
        "statekeep_store_bytes",
        "gauge",
        "What the records take: of a file, its size with its log; in memory, the records' own bytes without overhead.",
        (),
        lambda reading: _stat(reading, "bytes"),
    ),
    Family(
        "statekeep_held_bytes",
        "gauge",
        "What records in memory and scratch values take with their overhead, about: what --max-memory is a limit of.",
        (),
        lambda reading: _one(reading.sources.engine.held + reading.sources.scratch.held),
    ),
    Family(
        "statekeep_store_writable",
        "gauge",
        "0 while the last write failed because of the store, else 1.",
        (),
        lambda reading: _stat(reading, "writable"),
    ),
    Family(
        "statekeep_commit_writes",
        "histogram",
        "Writes that went to disk together in one commit. Not where all is kept in memory.",
        (),
        _commits(lambda commits: commits.sizes),
    ),
    Family(
        "statekeep_commit_duration_seconds",
        "histogram",
        "How long a commit took, the disk included. Not where all is kept in memory.",
        (),
        _commits(lambda commits: commits.times),
        _NANOSECONDS,
    ),
    Family(
        "statekeep_commit_failures_total",
        "counter",
        "Commits that the store could not make. Not where all is kept in memory.",
        (),
        _commits(lambda commits: commits.failed),
    ),
    Family(
        "statekeep_scratch_instances",
        "gauge",
        "Scratch instances.",
        (),
        lambda reading: _one(len(reading.sources.scratch)),
    ),
    Family(
        "statekeep_swept_total",
        "counter",
        "What was removed by itself, by kind: expired records, versions over --max-versions (those that a sweep found,"
        " for a write takes its own), threads over --thread-ttl, and scratch instances not used.",
        ("kind",),
        _swept,
    ),
    Family(
        "statekeep_reclaimed_bytes_total",
        "counter",
        "Bytes by which sweeps made the file of the SQLite engine shorter.",
        (),
        lambda reading: _one(reading.sources.swept.reclaimed),
    ),
    Family(
        "statekeep_start_time_seconds",
        "gauge",
        "When the server began, in seconds since 1970.",
        (),
        lambda reading: _one(reading.sources.start_time),
    ),
    Family(
        "statekeep_uptime_seconds",
        "gauge",
        "How long the server has been up.",
        (),
        lambda reading: _one(time.time() - reading.sources.start_time),
    ),
    Family(
        "statekeep_build_info",
        "gauge",
        "Always 1; its labels say what runs.",
        ("version", "python_version", "engine"),
        _build,
    ),
)
"""Every metric of Statekeep's own. Those that begin with `process_` are the Prometheus client library's."""


async def read(sources: Sources) -> "Read":
    """Read all metrics, on the loop on which the server runs."""
    reading = Reading(sources, await _or_none(sources.engine.stats()), await _or_none(sources.followers.behind()))
    return [(family, [_as_of_now(sample) for sample in family.read(reading)]) for family in FAMILIES]


def metric(family: Family, samples: Iterable[Sample]) -> Metric:
    """Return a family and its samples in the form of the Prometheus client library."""
    made = Metric(family.name.removesuffix("_total"), family.help, family.kind)
    for values, number in samples:
        labels = dict(zip(family.labels, values, strict=True))
        if isinstance(number, Distribution):
            _add_histogram(made, family, labels, number)
        else:
            made.add_sample(family.name, labels, float(number))
    return made


def reference() -> str:
    """Return what there is, as a table in Markdown: docs/metrics.md has it."""
    rows = ["| metric | kind | labels | what |", "|---|---|---|---|"]
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.help} |")
    for made in ProcessCollector(registry=None).collect():
        name = f"{made.name}_total" if made.type == "counter" else made.name
        rows.append(f"| `{name}` | {made.type} | | {made.documentation} |")
    return "\n".join(rows)


def _add_histogram(made: Metric, family: Family, labels: dict[str, str], values: Distribution) -> None:
    bounds = [*(bound / family.scale for bound in values.bounds), float("inf")]
    upto = list(accumulate(values.counts))
    for bound, count in zip(bounds, upto, strict=True):
        made.add_sample(f"{family.name}_bucket", labels | {"le": _shown(bound)}, count)
    made.add_sample(f"{family.name}_sum", labels, values.total / family.scale)
    made.add_sample(f"{family.name}_count", labels, upto[-1])


def _shown(bound: float) -> str:
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]


def _as_of_now(sample: Sample) -> Sample:
    labels, number = sample
    return (labels, number.copy()) if isinstance(number, Distribution) else sample


async def _or_none(telling: Awaitable[T]) -> T | None:
    try:
        return await telling
    except StatekeepError:
        return None
