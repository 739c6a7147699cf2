"""What a scrape says is what was done."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from rpc_support import (
    PATIENCE,
    Stubs,
    connected,
    key_of,
    next_of,
    refused,
    scope,
    set_of,
    stream_of,
    until,
    until_caught_up,
    watch_of,
)
from scraping import METRICS, Scrape, calls, get
from server_process import ServerProcess
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value
from statekeep_server.telemetry.metrics import FAMILIES, reference
from stores import STORES, url_of

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


def ended(process: ServerProcess, before: Scrape, count: int) -> Scrape:
    """Return how far all has moved once so many calls have ended: a client has its answer before that is counted."""
    until(f"{count} have ended", lambda: sum((Scrape(process) - before).all("statekeep_calls_total").values()) == count)
    return Scrape(process) - before


def test_each_call_is_counted_by_method_code_and_reason(watched: ServerProcess, stubs: Stubs, name: str) -> None:
    before = Scrape(watched)
    for number in range(3):
        stubs.memory.Set(set_of(name, f"k{number}"))
    stubs.memory.Get(key_of(name, "k0"))
    refused("INVALID_FIELD", stubs.memory.Get, key_of(name, "no good"))
    refused("THREAD_NOT_FOUND", stubs.state.Fork, state.ForkRequest(thread_id=name, from_event_id="e"))
    list(stubs.memory.History(memory.MemoryHistoryRequest(scope=scope(name), key="k0")))
    moved = ended(watched, before, 7)
    assert calls(moved, "Memory", "Set") == 3
    assert calls(moved, "Memory", "Get") == 1
    assert calls(moved, "Memory", "Get", "INVALID_ARGUMENT", "INVALID_FIELD") == 1
    assert calls(moved, "StateStore", "Fork", "NOT_FOUND", "THREAD_NOT_FOUND") == 1
    assert calls(moved, "Memory", "History") == 1


def test_the_durations_of_a_method_are_as_many_as_its_calls(watched: ServerProcess, stubs: Stubs, name: str) -> None:
    before = Scrape(watched)
    for _ in range(5):
        stubs.memory.Get(key_of(name, "k"))
    refused("INVALID_FIELD", stubs.memory.Get, key_of(name, "no good"))
    moved = ended(watched, before, 6)
    method = {"grpc_service": "statekeep.v1.Memory", "grpc_method": "Get"}
    assert moved("statekeep_call_duration_seconds_count", **method) == 6
    assert moved("statekeep_call_duration_seconds_bucket", le="+Inf", **method) == 6
    assert 0 < moved("statekeep_call_duration_seconds_sum", **method) < 6 * PATIENCE


def test_the_buckets_of_every_histogram_grow_up_to_its_count(watched: ServerProcess, stubs: Stubs, name: str) -> None:
    stubs.memory.Set(set_of(name, "k"))
    for family in Scrape(watched).families.values():
        series: dict[Any, list[tuple[float, float]]] = {}
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                labels = frozenset(item for item in sample.labels.items() if item[0] != "le")
                series.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        for labels, buckets in series.items():
            assert buckets == sorted(buckets)
            assert [count for _, count in buckets] == sorted(count for _, count in buckets)
            assert buckets[-1] == (float("inf"), Scrape(watched)(f"{family.name}_count", **dict(labels)))


def test_a_conflict_is_counted_and_no_error_in_the_log(watched: ServerProcess, stubs: Stubs, name: str) -> None:
    before, logged = Scrape(watched), watched.stderr
    stubs.memory.Set(set_of(name, "k"))
    for _ in range(2):
        refused("VERSION_MISMATCH", stubs.memory.Set, set_of(name, "k", expected_version=7))
    late = next_of(name)
    late.expected_last_sequence = 5
    refused("SEQUENCE_MISMATCH", stubs.state.AppendNextEvent, late)
    moved = ended(watched, before, 4)
    assert moved("statekeep_conflicts_total", reason="VERSION_MISMATCH") == 2
    assert moved("statekeep_conflicts_total", reason="SEQUENCE_MISMATCH") == 1
    assert calls(moved, "StateStore", "AppendNextEvent", "ABORTED", "SEQUENCE_MISMATCH") == 1
    assert watched.stderr == logged


def test_followers_are_counted_by_service_and_gone_when_they_are_cancelled(
    watched: ServerProcess, stubs: Stubs, name: str
) -> None:
    before = Scrape(watched)
    follow: list[Any] = [stubs.state.StreamHistory(stream_of(name, follow=True), timeout=PATIENCE) for _ in range(3)]
    follow += [stubs.memory.Watch(watch_of(name), timeout=PATIENCE) for _ in range(2)]
    for stream in follow:
        until_caught_up(stream)
    attached = stubs.scratch.Attach(scratch.ScratchAttachRequest(instance_id=name), timeout=PATIENCE)
    next(attached)
    scrape = Scrape(watched)
    assert scrape.all("statekeep_followers") == {
        ("statekeep.v1.Memory",): 2,
        ("statekeep.v1.StateStore",): 3,
        ("statekeep.v1.Scratch",): 1,
    }
    assert scrape("statekeep_calls_in_flight") == 6
    assert scrape("statekeep_scratch_instances") == 1
    for stream in (*follow, attached):
        stream.cancel()
    moved = ended(watched, before, 6)
    assert calls(moved, "StateStore", "StreamHistory", "CANCELLED") == 3
    assert calls(moved, "Memory", "Watch", "CANCELLED") == 2
    assert calls(moved, "Scratch", "Attach", "CANCELLED") == 1
    scrape = Scrape(watched)
    assert set(scrape.all("statekeep_followers").values()) == {0}
    assert scrape("statekeep_calls_in_flight") == scrape("statekeep_scratch_instances") == 0


def test_a_follower_that_does_not_read_is_behind_and_one_that_reads_is_not(
    watched: ServerProcess, stubs: Stubs, name: str
) -> None:
    stuck = stubs.state.StreamHistory(stream_of(name, follow=True), timeout=100)  # from before the thread began
    until_caught_up(stuck)
    stubs.state.AppendNextEvent(next_of(name))
    assert len(next(stuck).events) == 1
    until("what was read is not behind", lambda: Scrape(watched)("statekeep_follower_lag_revisions") == 0)
    for _ in range(100):
        stubs.state.AppendNextEvent(next_of(name, data=Value(data=bytes(200_000))))
    until("it is behind", lambda: 0 < Scrape(watched)("statekeep_follower_lag_revisions") <= 100)
    for message in stuck:
        if message.events and message.events[-1].sequence == 100:
            break
    until("it is no more", lambda: Scrape(watched)("statekeep_follower_lag_revisions") == 0)
    stuck.cancel()


def test_what_is_kept_is_counted_and_counted_no_more_once_it_is_gone(
    watched: ServerProcess, stubs: Stubs, name: str
) -> None:
    before = Scrape(watched)
    for number in range(10):
        stubs.memory.Set(set_of(name, f"k{number}"))
    stubs.memory.Set(set_of(name, "k0"))
    for thread in (name, f"{name}-2"):
        for _ in range(4):
            stubs.state.AppendNextEvent(next_of(thread, data=Value(data=bytes(20_000))))

    def kept(scopes: int, threads: int, records: int) -> bool:
        moved = Scrape(watched) - before
        partitions = (moved("statekeep_partitions", kind="scope"), moved("statekeep_partitions", kind="thread"))
        return (*partitions, moved("statekeep_records")) == (scopes, threads, records)

    until("all is counted", lambda: kept(1, 2, 19))
    if watched.store == "memory:":
        assert (Scrape(watched) - before)("statekeep_store_bytes") >= 160_000
    stubs.state.DeleteThread(state.DeleteThreadRequest(thread_id=name))
    until("the thread is gone", lambda: kept(1, 1, 15))
    stubs.memory.Purge(memory.MemoryPurgeRequest(scope=scope(name), key="k1", keep=0))
    stubs.memory.Purge(memory.MemoryPurgeRequest(scope=scope(name), key="k0", keep=0))
    until("three versions are gone, and two purges came", lambda: kept(1, 1, 14))
    assert Scrape(watched)("statekeep_store_writable") == 1


def test_the_bytes_of_a_file_are_those_of_it_and_its_log(
    start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    process = start_server("--store", f"sqlite:{tmp_path}/state.db", *METRICS)
    with connected(process.address) as stubs:
        stubs.memory.Set(set_of("s", "k"))
    on_disk = sum((tmp_path / name).stat().st_size for name in ("state.db", "state.db-wal"))
    until("it is counted", lambda: Scrape(process)("statekeep_store_bytes") == on_disk)


def test_each_write_is_in_one_commit_and_a_store_in_memory_has_none(
    watched: ServerProcess, stubs: Stubs, name: str
) -> None:
    before = Scrape(watched)
    answers = [stubs.memory.Set.future(set_of(f"{name}-{number % 7}", "k"), timeout=PATIENCE) for number in range(50)]
    for answer in answers:
        answer.result()
    moved = Scrape(watched) - before
    if watched.store == "memory:":
        assert not {one for one in moved.names if one.startswith("statekeep_commit")}
        return
    assert moved("statekeep_commit_writes_sum") == 50
    assert 1 <= moved("statekeep_commit_writes_count") <= 50
    assert moved("statekeep_commit_writes_count") == moved("statekeep_commit_duration_seconds_count")
    assert moved("statekeep_commit_failures_total") == 0


def test_expired_records_are_counted_when_they_are_swept(watched: ServerProcess, stubs: Stubs, name: str) -> None:
    before = Scrape(watched)
    for number in range(3):
        stubs.memory.Set(set_of(name, f"k{number}", ttl=Duration(nanos=1_000_000)))
    stubs.memory.Set(set_of(name, "stays"))
    until("they expired", lambda: len(stubs.memory.List(memory.MemoryListRequest(scope=scope(name))).entries) == 1)
    list(stubs.admin.Export(admin.AdminExportRequest(thread_id=name)))  # which sweeps before it begins
    assert (Scrape(watched) - before).all("statekeep_swept_total") == {("record",): 3}


@pytest.mark.parametrize("store", STORES)
def test_what_sweeps_remove_is_counted_by_kind(tmp_path: Path, store: str, name: str) -> None:
    swept = ("--sweep-every", "20ms", "--thread-ttl", "1s", "--scratch-idle-ttl", "500ms")
    process = ServerProcess("--store", url_of(store, tmp_path), *METRICS, *swept)
    try:
        with connected(process.address) as stubs:
            stubs.memory.Set(set_of(name, "k", ttl=Duration(nanos=1_000_000)))
            event = state.Event(thread_id=name, type="t", data=Value(json=f'"{"x" * 3_000_000}"'))
            stubs.state.AppendNextEvent(state.AppendNextEventRequest(event=event))
            stubs.scratch.Open(scratch.ScratchOpenRequest(instance_id=name))
            expected = {("record",): 1, ("version",): 0, ("thread",): 1, ("scratch_instance",): 1}
            until("all went", lambda: Scrape(process).all("statekeep_swept_total") == expected)
            if store == "sqlite":
                until("the file is shorter", lambda: Scrape(process)("statekeep_reclaimed_bytes_total") > 2_000_000)
    finally:
        process.stop()


def test_what_runs_and_since_when_is_told(watched: ServerProcess) -> None:
    scrape = Scrape(watched)
    ((engine, python_version, version),) = scrape.all("statekeep_build_info")
    assert engine == watched.store.partition(":")[0]
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", version)
    assert python_version.startswith("3.")
    assert 0 < scrape("statekeep_uptime_seconds") < 100
    assert abs(scrape("statekeep_start_time_seconds") - scrape("process_start_time_seconds")) < 60
    assert scrape("process_resident_memory_bytes") > 1e6


def test_a_scrape_may_ask_for_one_metric_and_for_the_open_metrics_format(watched: ServerProcess) -> None:
    _, text = get(watched, "/metrics?name[]=statekeep_calls_in_flight")
    assert re.findall(r"^[a-z_]+", text, re.MULTILINE) == ["statekeep_calls_in_flight"]
    _, text = get(watched, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")


def test_docs_name_the_metrics_that_there_are_and_no_others(watched: ServerProcess) -> None:
    assert reference() in PAGE, "run make docs, and commit what it changes"
    named = re.findall(r"^\| `(\w+)` \| (?:counter|gauge|histogram) \|", PAGE, re.MULTILINE)
    scraped = [
        family.name + ("_total" if family.type == "counter" else "") for family in Scrape(watched).families.values()
    ]
    assert sorted(named) == sorted(scraped)


def test_a_stream_both_ways_that_its_client_cancels_is_counted_once(watched: ServerProcess, stubs: Stubs) -> None:
    held = threading.Event()

    def requests() -> Iterator[admin.AdminImportRequest]:
        yield admin.AdminImportRequest()
        held.wait(PATIENCE)

    before = Scrape(watched)
    stream = stubs.admin.Import(requests(), timeout=PATIENCE)
    next(stream)
    stream.cancel()
    moved = ended(watched, before, 1)
    held.set()
    # gRPC may show a cancelled client as one that has sent everything, before it cancels the call.
    assert calls(moved, "Admin", "Import", "CANCELLED") + calls(moved, "Admin", "Import") == 1
    assert Scrape(watched)("statekeep_calls_in_flight") == 0


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_follow_the_conventions_of_prometheus(family: Any) -> None:
    assert re.fullmatch(r"statekeep_[a-z_]+", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert family.help.endswith(".")
    assert all(re.fullmatch(r"[a-z_]+", label) for label in family.labels)
