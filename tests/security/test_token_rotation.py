"""A token file that changes while the server runs."""

import queue
import signal
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2 as reflection
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub
from rpc_support import PATIENCE, Refusal, Stubs, end_of, next_of, read_records, refusal_of, set_of, stream_of, until
from server_process import ServerProcess, run_to_its_end
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1.value_pb2 import Value
from token_support import BOUNDED, OWNER, READER, calling_with, replace, table

StartServer = Callable[..., ServerProcess]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.toml"
    replace(path, table("old", OWNER) + table("kept", READER, "read"))
    return path


def outcome(stubs: Stubs) -> str:
    """Return "OK", or why a write is refused."""
    try:
        stubs.memory.Set(set_of("rotation", "k"), timeout=PATIENCE)
    except grpc.RpcError as error:
        return refusal_of(error).reason
    return "OK"


def ended(stream: Any) -> Refusal:
    refusal = end_of(stream)
    assert refusal.code == grpc.StatusCode.UNAUTHENTICATED, refusal
    assert refusal.reason == "UNAUTHENTICATED"
    return refusal


def test_a_token_that_is_added_is_taken_and_one_that_is_removed_is_refused(
    start_server: StartServer, file: Path
) -> None:
    process = start_server("--token-file", str(file))
    with calling_with(process.address, OWNER) as old, calling_with(process.address, BOUNDED) as new:
        assert (outcome(old), outcome(new)) == ("OK", "UNAUTHENTICATED")
        replace(file, table("old", OWNER) + table("new", BOUNDED))
        until("the new token is taken", lambda: outcome(new) == "OK")
        assert outcome(old) == "OK"
        digest = sha256(BOUNDED.encode()).hexdigest()
        file.write_text(f'[[token]]\nname = "new"\nsha256 = "{digest}"\nrights = "write"\n')
        until("the old token is refused", lambda: outcome(old) == "UNAUTHENTICATED")
        assert outcome(new) == "OK"
    assert OWNER not in process.stderr


def test_rights_that_change_are_in_force_for_calls_that_begin(start_server: StartServer, file: Path) -> None:
    process = start_server("--token-file", str(file))
    with calling_with(process.address, OWNER) as stubs:
        assert outcome(stubs) == "OK"
        replace(file, table("old", OWNER, "read"))
        until("writes are refused", lambda: outcome(stubs) == "PERMISSION_DENIED")
        replace(file, table("old", OWNER, scopes="rot"))
        until("writes are taken again", lambda: outcome(stubs) == "OK")


def test_streams_of_a_token_that_is_removed_end_and_those_of_others_go_on(
    start_server: StartServer, file: Path
) -> None:
    process = start_server("--token-file", str(file))
    with calling_with(process.address, OWNER) as old, calling_with(process.address, READER) as kept:
        old.state.AppendNextEvent(next_of("t"))
        follower = old.state.StreamHistory(stream_of("t", follow=True), timeout=PATIENCE)
        other = kept.state.StreamHistory(stream_of("t", follow=True), timeout=PATIENCE)
        watch = old.memory.Watch(memory.MemoryWatchRequest(scope=memory.Scope(name="s")), timeout=PATIENCE)
        instance = old.scratch.Attach(scratch.ScratchAttachRequest(instance_id="i"), timeout=PATIENCE)
        imported = old.admin.Import(never_ending(), timeout=PATIENCE)
        assert [len(read_records(stream, 1)) for stream in (follower, other)] == [1, 1]
        assert next(watch).caught_up
        assert next(instance).instance_id == "i"
        assert next(imported).parts == 0
        replace(file, table("new", BOUNDED) + table("kept", READER, "read"))
        for stream in (follower, watch, instance, imported):
            assert "not in force any more" in ended(stream).message
        with calling_with(process.address, BOUNDED) as new:
            new.state.AppendNextEvent(next_of("t"))
        assert [event.sequence for event in read_records(other, 1)] == [2]
        other.cancel()


def test_a_server_that_stops_tells_followers_with_a_token_as_it_tells_all(
    start_server: StartServer, file: Path
) -> None:
    process = start_server("--token-file", str(file))
    with calling_with(process.address, OWNER) as stubs:
        stubs.state.AppendNextEvent(next_of("t"))
        follower = stubs.state.StreamHistory(stream_of("t", follow=True), timeout=PATIENCE)
        assert len(read_records(follower, 1)) == 1
        process.signal(signal.SIGTERM)
        assert end_of(follower).reason == "SHUTTING_DOWN"
    assert process.wait(PATIENCE) == 0
    assert process.stderr == ""


def never_ending() -> Any:
    """Yield one message of an import, and wait with the next until the call is over."""
    yield admin.AdminImportRequest()
    threading.Event().wait(PATIENCE)


def test_a_reader_that_reads_nothing_gets_no_more_than_what_was_sent_once_its_token_is_removed(
    start_server: StartServer, file: Path
) -> None:
    process = start_server("--token-file", str(file))
    count = 40
    with calling_with(process.address, OWNER) as old:
        for _ in range(count):
            old.state.AppendNextEvent(next_of("t", data=Value(text="x" * 2**20)))
        stalled = old.state.StreamHistory(stream_of("t", follow=True), timeout=PATIENCE)
        next(stalled)
        replace(file, table("new", BOUNDED))
        until("the old token is refused", lambda: outcome(old) == "UNAUTHENTICATED")
        got: list[int] = []
        ended(len(message.events) and got.append(1) for message in stalled)
        assert len(got) < count / 2


def test_a_file_that_cannot_be_taken_leaves_the_tokens_as_they_were(start_server: StartServer, file: Path) -> None:
    process = start_server("--token-file", str(file))

    def failures() -> int:
        return process.stderr.count("the tokens stay as they were")

    with calling_with(process.address, OWNER) as old, calling_with(process.address, BOUNDED) as new:
        for count, broken in enumerate((table("a", OWNER)[:-3], "", None), 1):
            if broken is None:
                file.unlink()
            else:
                file.write_text(broken)
            until("it is logged", lambda count=count: failures() == count)
            assert outcome(old) == "OK"
        replace(file, table("new", BOUNDED))
        until("the next one is taken", lambda: outcome(new) == "OK")
        assert outcome(old) == "UNAUTHENTICATED"
    assert failures() == 3
    assert str(file) in process.stderr
    assert OWNER[:-3] not in process.stderr


def test_a_file_that_everyone_may_read_is_warned_of(start_server: StartServer, file: Path) -> None:
    file.chmod(0o644)
    process = start_server("--token-file", str(file))
    assert f"read or change {file}" in process.stderr


def test_a_file_that_cannot_be_taken_at_the_start_ends_it_with_one_line(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    replace(file, table("a", OWNER, right="write"))
    done = run_to_its_end("--token-file", str(file))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"statekeep serve: --token-file: {file}: token 1 (a) has an unknown key; did you mean rights?"
    )
    assert OWNER not in line


@pytest.mark.parametrize("bad", ["", "short"])
def test_a_bad_token_in_the_environment_ends_the_start_and_is_not_told(bad: str) -> None:
    done = run_to_its_end("--listen", "127.0.0.1:0", extra={"STATEKEEP_TOKEN": bad})
    assert done.returncode == 2
    assert "STATEKEEP_TOKEN: give a token of at least 16" in done.stderr
    assert not bad or bad not in done.stderr


def test_a_stream_of_reflection_ends_with_its_token(start_server: StartServer, file: Path) -> None:
    process = start_server("--token-file", str(file))
    asked: queue.Queue[reflection.ServerReflectionRequest | None] = queue.Queue()
    with grpc.insecure_channel(process.address) as channel:
        stub = ServerReflectionStub(channel)  # type: ignore[no-untyped-call]
        metadata = (("authorization", f"Bearer {OWNER}"),)
        stream = stub.ServerReflectionInfo(iter(asked.get, None), metadata=metadata, timeout=PATIENCE)
        asked.put(reflection.ServerReflectionRequest(list_services=""))
        assert next(stream).list_services_response.service
        replace(file, table("kept", READER, "read"))
        with calling_with(process.address, OWNER) as old:
            until("the token is refused", lambda: outcome(old) == "UNAUTHENTICATED")
        asked.put(reflection.ServerReflectionRequest(list_services=""))
        assert end_of(stream).reason == "UNAUTHENTICATED"
        asked.put(None)
