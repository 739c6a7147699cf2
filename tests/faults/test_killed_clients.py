"""Clients that come and go by the thousand, in every way there is to go, leave nothing behind."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from http2_frames import DATA, END_STREAM, PREFACE, SETTINGS, changed, frame, headers, message
from rpc_support import MIB, call_many, connected, next_of, scope, stream_of, until, watch_of
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import memory_pb2_grpc, scratch_pb2_grpc, state_store_pb2_grpc
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1 import state_store_pb2 as state

OWN = [("grpc.use_local_subchannel_pool", 1)]
BATCH = 500
DROPPED_SOCKETS = 300


@pytest.fixture
def target() -> Iterator[ServerProcess]:
    """Give a server whose memory and descriptors are watched."""
    process = ServerProcess()
    yield process
    process.stop()


def open_streams(channel: grpc.aio.Channel, count: int, tag: str) -> list[Any]:
    """Open streams of every kind that stays."""
    history: Any = state_store_pb2_grpc.StateStoreStub(channel)
    watch: Any = memory_pb2_grpc.MemoryStub(channel)
    attach: Any = scratch_pb2_grpc.ScratchStub(channel)
    return [
        (
            history.StreamHistory(stream_of("thread", follow=True)),
            history.StreamHistory(stream_of(f"nobody-{tag}-{number}", follow=True)),
            watch.Watch(watch_of(f"nobody-{tag}-{number}")),
            attach.Attach(scratch.ScratchAttachRequest(instance_id=f"{tag}-{number}")),
        )[number % 4]
        for number in range(count)
    ]


async def all_open(streams: list[Any]) -> None:
    await asyncio.gather(*(stream.read() for stream in streams))


async def batch_of_followers(address: str, tag: str) -> None:
    """Open half of a batch on one channel and cancel it, the other half on ten channels and close those."""
    async with grpc.aio.insecure_channel(address, options=OWN) as channel:
        streams = open_streams(channel, BATCH // 2, tag)
        await all_open(streams)
        for stream in streams:
            stream.cancel()
    channels = [grpc.aio.insecure_channel(address, options=OWN) for _ in range(10)]
    await asyncio.gather(
        *(all_open(open_streams(channel, BATCH // 20, f"{tag}-{number}")) for number, channel in enumerate(channels))
    )
    await asyncio.gather(*(channel.close() for channel in channels))


@asynccontextmanager
async def wire(address: str) -> AsyncIterator[tuple[str, list[asyncio.StreamWriter]]]:
    """Give an address that leads to the server, and the connections on it, to be cut."""
    host, _, port = address.rpartition(":")
    sides: list[asyncio.StreamWriter] = []
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        sides.append(inner_writer)
        sides.append(writer)
        for task in (pump(reader, inner_writer), pump(inner_reader, writer)):
            tasks.add(asyncio.create_task(task))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", sides
    finally:
        server.close()
        for side in sides:
            side.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)


async def drop_sockets(address: str, count: int) -> None:
    """Open connections with two streams each, and cut them with a reset, without a word of HTTP/2."""
    async with wire(address) as (through, sides):
        channels = [grpc.aio.insecure_channel(through, options=OWN) for _ in range(count)]
        await asyncio.gather(
            *(all_open(open_streams(channel, 4, f"wire-{number}")) for number, channel in enumerate(channels))
        )
        for side in sides:
            side.transport.abort()
        await asyncio.gather(*(channel.close() for channel in channels))


def settled(target: ServerProcess, fds: int) -> None:
    until(f"no more than {fds} descriptors are open", lambda: target.fds() <= fds, within=60.0)


def answers(target: ServerProcess) -> None:
    with connected(target.address) as own:
        assert own.state.AppendNextEvent(next_of("after")).event.sequence
        threads = own.state.ListThreads(state.ListThreadsRequest()).threads
        assert {thread.id for thread in threads} <= {"thread", "after"}
        assert not own.memory.ListScopes(memory.MemoryListScopesRequest()).scopes


@pytest.mark.parametrize("batches", [8, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_thousands_of_followers_that_come_and_go_leave_nothing_behind(batches: int, target: ServerProcess) -> None:
    with connected(target.address) as own:
        own.state.AppendNextEvent(next_of("thread"))
    idle = target.fds()

    async def run() -> int:
        for number in range(4):
            await batch_of_followers(target.address, f"warm-{number}")
        await drop_sockets(target.address, 100)  # as many at once as later, for a process keeps its peak
        settled(target, idle)
        warm = target.rss()
        for number in range(batches):
            await batch_of_followers(target.address, f"batch-{number}")
        for _ in range(DROPPED_SOCKETS // 100):
            await drop_sockets(target.address, 100)
        return warm

    warm = asyncio.run(run())
    settled(target, idle)
    assert target.rss() < warm * 1.25 + 4 * MIB, f"{warm / MIB:.1f} MiB, then {target.rss() / MIB:.1f} MiB"
    answers(target)
    assert target.stderr == ""


CLIENT = """
import sys, grpc
from statekeep.v1 import scratch_pb2, scratch_pb2_grpc, state_store_pb2, state_store_pb2_grpc
channel = grpc.insecure_channel(sys.argv[1])
attach = scratch_pb2_grpc.ScratchStub(channel).Attach
follow = state_store_pb2_grpc.StateStoreStub(channel).StreamHistory
streams = [attach(scratch_pb2.ScratchAttachRequest(instance_id=f"{sys.argv[2]}-{n}")) for n in range(20)]
streams += [follow(state_store_pb2.StreamHistoryRequest(thread_id="thread", follow=True)) for n in range(20)]
for stream in streams:
    next(stream)
print("open", flush=True)
for message in streams[-1]:
    pass
"""


def test_client_processes_that_are_killed_leave_nothing_behind(target: ServerProcess) -> None:
    idle = target.fds()
    clients = [
        subprocess.Popen([sys.executable, "-c", CLIENT, target.address, f"c{number}"], stdout=subprocess.PIPE)
        for number in range(10)
    ]
    try:
        for client in clients:
            assert client.stdout
            assert client.stdout.readline() == b"open\n"
        assert target.fds() > idle
    finally:
        for client in clients:
            client.kill()
            client.communicate()
    settled(target, idle)
    with connected(target.address) as own:

        def all_free() -> bool:
            for number in range(10):
                stream = own.scratch.Attach(scratch.ScratchAttachRequest(instance_id=f"c{number}-0"), timeout=20)
                try:
                    next(stream)
                except grpc.RpcError:
                    return False
                finally:
                    stream.cancel()
            return True

        until("every instance can be attached again", all_free, within=2.0)
    assert target.stderr == ""


# A client that needs no library, so that a thousand start in no time: it sends what it is given, reads, and waits.
PLAIN_CLIENT = """
import socket, sys
host, port, sent, streams = sys.argv[1:]
wire = socket.create_connection((host, int(port)))
wire.sendall(bytes.fromhex(sent))
frames = wire.makefile("rb")
answered = set()
while len(answered) < int(streams):
    head = frames.read(9)
    frames.read(int.from_bytes(head[:3], "big"))
    if head[3] == 0:  # data
        answered.add(head[5:])
print("open", flush=True)
while frames.read(1):
    pass
"""
STREAMS = 4  # of each plain client


def plain_calls(tag: str) -> bytes:
    """Return what a client sends to follow a thread and a scope, twice each."""
    sent = PREFACE + frame(SETTINGS, 0, 0)
    history = ("/statekeep.v1.StateStore/StreamHistory", stream_of("thread", follow=True))
    watch = ("/statekeep.v1.Memory/Watch", watch_of(f"nobody-{tag}"))
    for number, (path, request) in enumerate((history, watch) * 2):
        stream = 1 + 2 * number
        sent += headers(stream, changed(path=path))
        sent += frame(DATA, END_STREAM, stream, message(request.SerializeToString()))
    return sent


def kill_plain_clients(address: str, count: int, tag: str) -> None:
    """Start clients, wait until their streams are open, and kill them all."""
    host, _, port = address.rpartition(":")
    clients = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", PLAIN_CLIENT, host, port, plain_calls(f"{tag}-{number}").hex(), str(STREAMS)],
            stdout=subprocess.PIPE,
        )
        for number in range(count)
    ]
    try:
        for client in clients:
            assert client.stdout
            assert client.stdout.readline() == b"open\n"
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def follows(address: str, count: int) -> bool:
    """Whether so many can follow at once."""
    with connected(address) as own:
        streams = [own.state.StreamHistory(stream_of("thread", follow=True), timeout=60) for _ in range(count)]
        try:
            return all(next(stream).caught_up for stream in streams)
        except grpc.RpcError:
            return False
        finally:
            for stream in streams:
                stream.cancel()


@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_clients_that_are_killed_in_mid_stream_leave_no_follower_and_no_memory(rounds: int, start_server: Any) -> None:
    at_once = 20
    process: ServerProcess = start_server("--max-followers", str(at_once * STREAMS))
    with connected(process.address) as own:
        own.state.AppendNextEvent(next_of("thread"))
    idle = process.fds()
    kill_plain_clients(process.address, at_once, "warm")
    settled(process, idle)
    warm = process.rss()
    for number in range(rounds):
        until("none is counted any more", lambda: follows(process.address, at_once * STREAMS), within=30.0)
        settled(process, idle)
        kill_plain_clients(process.address, at_once, f"round-{number}")
        settled(process, idle)
    assert process.rss() < warm * 1.15 + 4 * MIB, f"{warm / MIB:.1f} MiB, then {process.rss() / MIB:.1f} MiB"
    assert process.stderr == ""


def test_calls_that_are_cancelled_while_they_run_leave_nothing_behind(target: ServerProcess) -> None:
    with connected(target.address) as own:
        for number in range(500):
            call = own.state.AppendNextEvent.future(next_of("cancelled", f"e{number}"))
            call.cancel()
        request = memory.MemoryGetRequest(scope=scope("s"), key="k")
        for _ in range(100):
            own.memory.Get(request)
    assert target.stderr == ""


def test_deleted_threads_leave_nothing_behind(target: ServerProcess) -> None:
    with connected(target.address) as own:

        def generation() -> None:
            events = [state.Event(id=f"e{number}", type="x", message="m" * 1000) for number in range(2_000)]
            for number in range(5):
                name = f"t{number}"
                own.state.AppendEvents(state.AppendEventsRequest(thread_id=name, events=events))
                own.state.Fork(state.ForkRequest(thread_id=name, from_event_id="e7", request_id="r"))
                own.state.DeleteThread(state.DeleteThreadRequest(thread_id=name))

        for _ in range(4):
            generation()
        warm = target.rss()
        for _ in range(12):
            generation()
        assert target.rss() < warm * 1.2 + 4 * MIB


def test_reads_of_names_that_do_not_exist_leave_nothing_behind(target: ServerProcess) -> None:
    with connected(target.address) as own:

        def read_all(tag: str) -> None:
            for start in range(0, 4_000, 400):
                names = [f"{tag}-{number}" for number in range(start, start + 400)]
                call_many(own.memory.Get, (memory.MemoryGetRequest(scope=scope(one), key=one) for one in names))
                call_many(own.state.GetHistory, (state.GetHistoryRequest(thread_id=one) for one in names))
                call_many(own.scratch.List, (scratch.ScratchListRequest(instance_id=one) for one in names))

        read_all("warm")
        warm = target.rss()
        read_all("again")
        assert target.rss() < warm + 5 * MIB
        assert not own.memory.ListScopes(memory.MemoryListScopesRequest()).scopes
        assert not own.state.ListThreads(state.ListThreadsRequest()).threads
