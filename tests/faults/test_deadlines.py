"""A call whose deadline passes ends with that, and what it asked for is done or not, never half."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import grpc
import pytest
from rpc_support import Stubs, connected, event_of, events_in, key_of, next_of, scope, set_of, until
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from stores import url_of

SHORT = 0.3  # seconds


@contextmanager
def file_held(path: Path) -> Iterator[None]:
    """Hold the file's right to write, so that a server's writes wait."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@pytest.fixture
def on_disk(start_server: Any, tmp_path: Path) -> ServerProcess:
    process: ServerProcess = start_server("--store", url_of("sqlite", tmp_path))
    return process


def late(method: Callable[..., Any], request: object) -> float:
    """Make a call whose deadline passes, and return how long that took."""
    began = time.monotonic()
    with pytest.raises(grpc.RpcError) as ended:
        method(request, timeout=SHORT)
    assert ended.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    return time.monotonic() - began


def test_a_write_that_has_not_begun_when_its_deadline_passes_is_never_written(
    on_disk: ServerProcess, tmp_path: Path, name: str
) -> None:
    with connected(on_disk.address) as own:
        own.memory.Set(set_of(name, "before"))
        with file_held(tmp_path / "state.db"):
            took = late(own.memory.Set, set_of(name, "late"))
            late(own.state.AppendNextEvent, next_of(name, "late"))
            late(own.memory.Delete, memory.MemoryDeleteRequest(scope=scope(name), key="before"))
            batch = state.AppendEventsRequest(
                thread_id=name, events=[event_of("", f"e{number}") for number in range(9)]
            )
            late(own.state.AppendEvents, batch)
            assert took < 3, "it was not ended at its deadline"
            assert own.memory.Get(key_of(name, "before")).entry.version == 1  # reads go on meanwhile
        own.memory.Set(set_of(name, "after"), timeout=30)  # whatever waited before it is decided by then
        entries = own.memory.List(memory.MemoryListRequest(scope=scope(name))).entries
        assert [entry.key for entry in entries] == ["after", "before"]
        assert events_in(own, name) == []


def test_batches_whose_deadlines_pass_while_they_run_are_written_whole_or_not_at_all(
    on_disk: ServerProcess, name: str
) -> None:
    def batch(own: Stubs, tag: int, patience: float) -> bool:
        sets = [set_of(name, f"{tag}-{number}") for number in range(50)]
        call = own.memory.BatchSet.future(memory.MemoryBatchSetRequest(sets=sets), timeout=patience)  # type: ignore[attr-defined]
        assert call.code() in (grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED)
        return call.code() is grpc.StatusCode.OK

    with connected(on_disk.address) as own:
        answered = {tag for tag in range(80) if batch(own, tag, 0.0005 * (1 + tag % 20))}
        own.memory.Set(set_of(name, "last"), timeout=30)
        found: dict[int, int] = {}
        request = memory.MemoryListRequest(scope=scope(name), page_size=1000)
        while True:
            page = own.memory.List(request)
            for entry in page.entries:
                if entry.key != "last":
                    tag = int(entry.key.partition("-")[0])
                    found[tag] = found.get(tag, 0) + 1
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
    assert set(found.values()) <= {50}
    assert answered <= found.keys()


def test_every_stream_ends_at_its_deadline_and_is_gone_from_the_server(start_server: Any, name: str) -> None:
    process = start_server("--max-followers", "1")
    with connected(process.address) as own:
        follow = state.StreamHistoryRequest(thread_id=name, follow=True)
        watch = memory.MemoryWatchRequest(scope=scope(name))
        for method, request in ((own.state.StreamHistory, follow), (own.memory.Watch, watch)):
            with pytest.raises(grpc.RpcError) as ended:
                list(method(request, timeout=SHORT))
            assert ended.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED

            def free(method: Callable[..., Any] = method, request: object = request) -> bool:
                stream = method(request, timeout=30)
                try:
                    next(stream)
                except grpc.RpcError:
                    return False
                stream.cancel()
                return True

            until("the one place is free again", free)
            until("and again", free)
        assert not own.state.ListThreads(state.ListThreadsRequest()).threads
    assert process.stderr == ""
