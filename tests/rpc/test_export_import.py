"""Export and Import between real servers: large records, clients that die, followers, bounded memory."""

import itertools
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from rpc_support import (
    MIB,
    PATIENCE,
    RECORD_LIMIT,
    Stubs,
    call_many,
    check_refusal,
    connected,
    events_in,
    next_of,
    read_records,
    refused,
    scope,
    set_of,
    stream_of,
    until,
    watch_of,
)
from server_process import ServerProcess, environment
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value

StartServer = Callable[..., ServerProcess]


@pytest.fixture
def source(start_server: StartServer) -> Iterator[Stubs]:
    """Give a server that nobody else writes to."""
    with connected(start_server().address) as stubs:
        yield stubs


@pytest.fixture
def target(start_server: StartServer) -> Iterator[Stubs]:
    """Give another one."""
    with connected(start_server().address) as stubs:
        yield stubs


def exported(stubs: Stubs, **selection: Any) -> list[admin.AdminExportResponse]:
    request = admin.AdminExportRequest(**selection or {"all": True})
    return list(stubs.admin.Export(request, timeout=PATIENCE))


def imported(stubs: Stubs, messages: list[admin.AdminExportResponse]) -> list[admin.ImportedPartition]:
    requests = (admin.AdminImportRequest(parts=message.parts) for message in messages)
    answers = list(stubs.admin.Import(requests, timeout=PATIENCE))
    assert answers[-1].parts == sum(len(message.parts) for message in messages)
    return [one for answer in answers for one in answer.partitions]


def test_what_one_server_exports_another_imports_as_it_came(source: Stubs, target: Stubs) -> None:
    first = source.memory.Set(set_of("s", "k0", "0", request_id="first"))
    call_many(source.memory.Set, [set_of("s", f"k{n % 50}", str(n), request_id=f"r{n}") for n in range(499)])
    call_many(source.state.AppendNextEvent, [next_of(f"t{n % 5}", f"e{n}") for n in range(500)])
    messages = exported(source)
    done = imported(target, messages)
    assert [one.outcome for one in done] == [admin.IMPORT_OUTCOME_RESTORED] * 6
    assert [one.records for one in done] == [1000, *[100] * 5]
    assert exported(target) == messages
    assert target.memory.Set(set_of("s", "k0", "0", request_id="first")) == first


def test_a_record_of_the_largest_size_passes_with_a_clients_default_limits(source: Stubs, target: Stubs) -> None:
    overhead = state.Event(id="e", thread_id="t", branch_id="main", sequence=1, type="note", revision=2**52)
    overhead.create_time.GetCurrentTime()
    data = Value(data=b"\xff" * (RECORD_LIMIT - overhead.ByteSize() - 16))
    for number in range(3):
        source.state.AppendNextEvent(next_of("t", f"{number}", data=data))
    refused("VALUE_TOO_LARGE", source.state.AppendNextEvent, next_of("t", data=Value(data=data.data + b"x" * 64)))
    messages = exported(source)
    assert max(message.ByteSize() for message in messages) < 4 * MIB
    imported(target, messages)
    assert [event.data for event in read_records(target.state.StreamHistory(stream_of("t")), 3)] == [data] * 3


def test_a_follower_goes_on_by_its_cursor_at_the_other_server(source: Stubs, target: Stubs) -> None:
    for number in range(10):
        source.state.AppendNextEvent(next_of("t", f"e{number}"))
    cursor = read_records(source.state.StreamHistory(stream_of("t", limit=4)), 4)[-1].revision
    imported(target, exported(source))
    stream = target.state.StreamHistory(stream_of("t", after_revision=cursor, follow=True), timeout=PATIENCE)
    assert [event.id for event in read_records(stream, 6)] == [f"e{n}" for n in range(4, 10)]
    target.state.AppendNextEvent(next_of("t", "new"))
    assert read_records(stream, 1)[0].id == "new"
    stream.cancel()


def test_a_follower_that_waits_for_a_thread_gets_all_of_it_when_it_comes_in_whole(source: Stubs, target: Stubs) -> None:
    for number in range(100):
        source.state.AppendNextEvent(next_of("t", f"e{number}"))
    stream = target.state.StreamHistory(stream_of("t", follow=True), timeout=PATIENCE)
    assert next(stream).caught_up
    watch = target.memory.Watch(watch_of("s"), timeout=PATIENCE)
    assert next(watch).caught_up
    source.memory.Set(set_of("s", "k"))
    imported(target, exported(source))
    assert [event.id for event in read_records(stream, 100)] == [f"e{number}" for number in range(100)]
    assert read_records(watch, 1)[0].key == "k"
    stream.cancel()
    watch.cancel()


def test_a_partition_that_is_there_and_is_another_is_refused_by_name(source: Stubs, target: Stubs) -> None:
    source.memory.Set(set_of("s", "k"))
    target.memory.Set(set_of("s", "mine"))
    messages = exported(source)
    with pytest.raises(grpc.RpcError) as caught:
        imported(target, messages)
    check_refusal(caught.value, "PARTITION_EXISTS", name="Scope s (namespace)")
    answers = list(target.admin.Import(iter([admin.AdminImportRequest(parts=messages[0].parts, skip_existing=True)])))
    assert [one.outcome for one in answers[0].partitions] == [admin.IMPORT_OUTCOME_SKIPPED]
    listed = target.memory.List(memory.MemoryListRequest(scope=scope("s"))).entries
    assert [entry.key for entry in listed] == ["mine"]


def test_a_part_that_does_not_fit_is_named_by_its_place_in_the_stream(source: Stubs, target: Stubs) -> None:
    for number in range(5):
        source.state.AppendNextEvent(next_of("t", f"e{number}"))
    parts = [part for message in exported(source) for part in message.parts]
    parts[3].event.type = ""
    requests = (admin.AdminImportRequest(parts=[part]) for part in parts)
    with pytest.raises(grpc.RpcError) as caught:
        list(target.admin.Import(requests, timeout=PATIENCE))
    check_refusal(caught.value, "INVALID_FIELD", at="parts[3].event.type")
    assert events_in(target, "t") == []


def test_each_message_is_answered_once_its_parts_are_taken(source: Stubs, target: Stubs) -> None:
    for number in range(3):
        source.state.AppendNextEvent(next_of(f"t{number}"))
    parts = [part for message in exported(source) for part in message.parts]
    go_on = threading.Semaphore(1)

    def requests() -> Iterator[admin.AdminImportRequest]:
        for part in parts:
            assert go_on.acquire(timeout=PATIENCE)
            yield admin.AdminImportRequest(parts=[part])

    taken = []
    for answer in target.admin.Import(requests(), timeout=PATIENCE):
        taken.append((answer.parts, [one.thread_id for one in answer.partitions]))
        go_on.release()
    ends = {3: ["t0"], 6: ["t1"], 9: ["t2"]}
    assert taken == [(number, ends.get(number, [])) for number in range(1, 10)]


_IMPORT_AND_DIE = """
import os, sys
import statekeep
from statekeep._admin import _BATCH

class Dying:
    '''A file that ends its reader, as kill -9 does, once it was read so far the second time.'''
    def __init__(self, file, left):
        self.file, self.left, self.again = file, left, False
    def seekable(self):
        return True
    def tell(self):
        return self.file.tell()
    def seek(self, place):
        self.again = True
        return self.file.seek(place)
    def readline(self, size=-1):
        data = self.file.readline(size)
        if self.again:
            self.left -= len(data)
            if self.left < 0:
                os.kill(os.getpid(), 9)
        return data

address, path, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
with statekeep.Client(address) as client, open(path, "rb") as file:
    client.admin.import_(Dying(file, left))
"""


def test_an_import_whose_client_is_killed_midway_is_completed_by_running_it_again(
    start_server: StartServer, source: Stubs, tmp_path: Path
) -> None:
    for thread in range(8):
        events = [state.Event(id=f"e{n}", type="note", data=Value(text="x" * 1000)) for n in range(300)]
        source.state.AppendEvents(state.AppendEventsRequest(thread_id=f"t{thread}", events=events))
    process = start_server()
    path = tmp_path / "export.jsonl"
    path.write_bytes(file_of(exported(source)))
    size = path.stat().st_size
    with connected(process.address) as target:
        whole_before = -1
        for cut in (size // 3, size // 2, size - 300):
            command = [sys.executable, "-c", _IMPORT_AND_DIE, process.address, str(path), str(cut)]
            died = subprocess.run(command, env=environment(), capture_output=True, timeout=60, check=False)
            assert died.returncode == -9, died.stderr
            settled = _settled(target)
            assert settled >= whole_before
            whole_before = settled
        command = [sys.executable, "-m", "statekeep_server", "import", "--address", process.address, str(path)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=True)
        there_already = int(re.findall(r"; ([0-9]+) were there already", done.stdout)[0])
        assert whole_before <= there_already < 8  # the server may have been at the end of one when it was looked
        assert exported(target) == exported(source)
        for thread in range(8):
            assert [event.id for event in events_in(target, f"t{thread}")] == [f"e{n}" for n in range(300)]


def _settled(target: Stubs) -> int:
    """Return how many threads there are, each of which must be whole."""
    threads = target.state.ListThreads(state.ListThreadsRequest()).threads
    assert all(thread.event_count == 300 for thread in threads)
    return len(threads)


def file_of(messages: list[admin.AdminExportResponse]) -> bytes:
    import io

    from statekeep._export_file import Writer

    file = io.BytesIO()
    writer = Writer(file)
    for message in messages:
        for part in message.parts:
            writer.write(part)
    writer.finish()
    return file.getvalue()


_MOVE = """
import resource, sys
import statekeep
how, address, path = sys.argv[1:]
with statekeep.Client(address) as client:
    if how == "export":
        with open(path, "wb") as file:
            done = client.admin.export(file, everything=True)
    else:
        with open(path, "rb") as file:
            done = client.admin.import_(file)
print(done.records, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def _move(how: str, address: str, path: Path) -> tuple[int, int]:
    """Export or import in a process of its own; return the records, and the most memory it had, in bytes."""
    command = [sys.executable, "-c", _MOVE, how, address, str(path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=100, check=True)
    records, peak = map(int, done.stdout.split())
    return records, peak


@pytest.mark.timeout(200)
def test_a_large_thread_moves_in_bounded_memory_on_both_sides(start_server: StartServer, tmp_path: Path) -> None:
    """40,000 events of 4 KB are 160 MB; neither client nor the server that sends may hold much of that."""
    source, target, small = start_server(), start_server(), start_server()
    data = Value(text="x" * 4_000)
    with connected(small.address) as stubs:
        stubs.state.AppendNextEvent(next_of("t", "e", data=data))
    with connected(source.address) as stubs:
        for first in range(0, 40_000, 200):
            events = [state.Event(id=f"e{n}", type="note", data=data) for n in range(first, first + 200)]
            stubs.state.AppendEvents(state.AppendEventsRequest(thread_id="t", events=events))
    before = source.rss()
    _, least = _move("export", small.address, tmp_path / "small.jsonl")
    records, most = _move("export", source.address, tmp_path / "large.jsonl")
    assert records == 40_000
    assert most < least + 25 * MIB
    assert source.rss() < before + 25 * MIB
    assert (tmp_path / "large.jsonl").stat().st_size > 160_000_000
    kept = before - small.rss()
    empty = target.rss()
    records, most = _move("import", target.address, tmp_path / "large.jsonl")
    assert records == 40_000
    assert most < least + 25 * MIB
    assert target.rss() < empty + 1.5 * kept
    again = target.rss()
    records, most = _move("import", target.address, tmp_path / "large.jsonl")
    assert records == 0
    assert target.rss() < again + 25 * MIB
    with connected(target.address) as stubs:
        last = read_records(stubs.state.StreamHistory(stream_of("t", last=1)), 1)[0]
        assert (last.id, last.sequence) == ("e39999", 40_000)


def test_a_client_that_does_not_read_its_export_holds_up_nobody_and_costs_little(start_server: StartServer) -> None:
    process = start_server()
    with connected(process.address) as stubs:
        events = [state.Event(type="note", data=Value(text="x" * 10_000)) for _ in range(300)]
        for _ in range(20):
            stubs.state.AppendEvents(state.AppendEventsRequest(thread_id="t", events=events))
        before = process.rss()
        slow = [stubs.admin.Export(admin.AdminExportRequest(all=True)) for _ in range(10)]
        for stream in slow:
            assert next(stream).parts
        for number in range(200):
            stubs.state.AppendNextEvent(next_of("other", f"e{number}"), timeout=5)
        assert process.rss() < before + 60 * MIB
        rest = list(itertools.chain.from_iterable(message.parts for message in slow[0]))
        assert rest[-1].end.records == 6_000
        for stream in slow:
            stream.cancel()


def test_a_cancelled_import_leaves_nothing_of_what_it_had(source: Stubs, start_server: StartServer) -> None:
    source.state.AppendNextEvent(next_of("t", "e"))
    parts = [part for message in exported(source) for part in message.parts]
    over = threading.Event()
    process = start_server()

    def requests() -> Iterator[admin.AdminImportRequest]:
        yield admin.AdminImportRequest(parts=parts[:-1])
        over.wait(PATIENCE)

    with connected(process.address) as target:
        stream = target.admin.Import(requests(), timeout=PATIENCE)
        assert next(stream).parts == len(parts) - 1
        assert target.state.ListThreads(state.ListThreadsRequest()).threads == []
        stream.cancel()
        over.set()
        target.state.AppendNextEvent(next_of("t", "mine"))
        assert [event.id for event in events_in(target, "t")] == ["mine"]
    until("nothing is logged as a failure", lambda: "Traceback" not in process.stderr)


def test_exports_that_were_cancelled_while_their_client_did_not_read_leave_room_for_as_many(
    start_server: StartServer, tmp_path: Path
) -> None:
    process = start_server("--store", f"sqlite:{tmp_path / 'state.db'}")
    with connected(process.address) as stubs:
        for _ in range(10):
            events = [state.Event(type="note", data=Value(text="x" * 2**14)) for _ in range(64)]
            stubs.state.AppendEvents(state.AppendEventsRequest(thread_id="t", events=events))

        def all_begin() -> bool:
            streams = [stubs.admin.Export(admin.AdminExportRequest(all=True), timeout=PATIENCE) for _ in range(32)]
            try:
                assert all(next(stream).parts for stream in streams)
                # Meanwhile each has sent what it can, and waits for its client.
                call_many(stubs.state.AppendNextEvent, [next_of("other") for _ in range(500)])
                return True
            except grpc.RpcError as error:
                check_refusal(error, "STORE_UNAVAILABLE")
                return False
            finally:
                for stream in streams:
                    stream.cancel()

        assert all_begin()
        for _ in range(3):
            until("the snapshots of those before are closed", all_begin)
