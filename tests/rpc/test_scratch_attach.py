"""Scratch.Attach: an instance lives exactly as long as its stream, however that ends."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from rpc_support import PATIENCE, Stubs, connected, refused, until
from server_process import ServerProcess
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1.value_pb2 import Value


@contextmanager
def attached(stubs: Stubs, name: str) -> Iterator[Any]:
    """Give an attached stream whose one message was read, and cancel it."""
    stream = stubs.scratch.Attach(scratch.ScratchAttachRequest(instance_id=name), timeout=PATIENCE)
    assert next(stream).instance_id == name
    yield stream
    stream.cancel()


def put(stubs: Stubs, name: str, *keys: str) -> None:
    for key in keys:
        stubs.scratch.Put(scratch.ScratchPutRequest(instance_id=name, key=key, value=Value(json="1")))


def keys_in(stubs: Stubs, name: str) -> list[str]:
    return list(stubs.scratch.List(scratch.ScratchListRequest(instance_id=name)).keys)


def ended(stubs: Stubs, name: str) -> None:
    until("the instance ended with its stream", lambda: keys_in(stubs, name) == [])


def test_attach_opens_and_empties_the_instance(stubs: Stubs, name: str) -> None:
    put(stubs, name, "old")
    with attached(stubs, name):
        assert keys_in(stubs, name) == []
        put(stubs, name, "k")
        assert keys_in(stubs, name) == ["k"]


def test_attach_makes_up_an_instance_id(stubs: Stubs) -> None:
    stream = stubs.scratch.Attach(scratch.ScratchAttachRequest(), timeout=PATIENCE)
    assert next(stream).instance_id
    stream.cancel()


def test_an_instance_ends_when_its_stream_is_cancelled(stubs: Stubs, name: str) -> None:
    with attached(stubs, name):
        put(stubs, name, "k")
    ended(stubs, name)


def test_an_instance_ends_when_its_channel_is_closed(stubs: Stubs, server: ServerProcess, name: str) -> None:
    channel = grpc.insecure_channel(server.address, options=[("grpc.use_local_subchannel_pool", 1)])
    stream = Stubs(channel).scratch.Attach(scratch.ScratchAttachRequest(instance_id=name), timeout=PATIENCE)
    next(stream)
    put(stubs, name, "k")
    channel.close()
    ended(stubs, name)


def test_an_instance_ends_when_its_stream_runs_out_of_time(stubs: Stubs, name: str) -> None:
    stream = stubs.scratch.Attach(scratch.ScratchAttachRequest(instance_id=name), timeout=0.5)
    next(stream)
    put(stubs, name, "k")
    until("the deadline", lambda: stream.code() == grpc.StatusCode.DEADLINE_EXCEEDED)
    ended(stubs, name)


CLIENT = """
import sys, grpc
from statekeep.v1 import scratch_pb2 as scratch, scratch_pb2_grpc
stub = scratch_pb2_grpc.ScratchStub(grpc.insecure_channel(sys.argv[1]))
for message in stub.Attach(scratch.ScratchAttachRequest(instance_id=sys.argv[2])):
    print(message.instance_id, flush=True)
"""


def test_an_instance_ends_when_its_client_is_killed(stubs: Stubs, server: ServerProcess, name: str) -> None:
    with subprocess.Popen([sys.executable, "-c", CLIENT, server.address, name], stdout=subprocess.PIPE) as client:
        assert client.stdout
        assert client.stdout.readline().decode().strip() == name
        put(stubs, name, "k")
        assert keys_in(stubs, name) == ["k"]
        client.kill()
        client.wait(10)
    ended(stubs, name)


def test_an_instance_is_not_attached_twice(stubs: Stubs, name: str) -> None:
    request = scratch.ScratchAttachRequest(instance_id=name)
    with attached(stubs, name):
        put(stubs, name, "k")
        refused("INSTANCE_ATTACHED", stubs.scratch.Attach, request, instance=name)
        assert keys_in(stubs, name) == ["k"]
    ended(stubs, name)

    def free() -> bool:
        stream = stubs.scratch.Attach(request, timeout=PATIENCE)
        try:
            return bool(next(stream).instance_id == name)
        except grpc.RpcError:
            return False
        finally:
            stream.cancel()

    until("it can be attached again", free)


def test_open_empties_an_attached_instance_and_leaves_it_attached(stubs: Stubs, name: str) -> None:
    with attached(stubs, name):
        put(stubs, name, "k")
        opened = stubs.scratch.Open(scratch.ScratchOpenRequest(instance_id=name))
        assert list(opened.cleared) == ["k"]
        request = scratch.ScratchAttachRequest(instance_id=name)
        refused("INSTANCE_ATTACHED", stubs.scratch.Attach, request, instance=name)


def test_a_stream_does_not_end_an_instance_that_began_after_its_own_was_closed(stubs: Stubs, name: str) -> None:
    with attached(stubs, name):
        put(stubs, name, "old")
        stubs.scratch.Close(scratch.ScratchCloseRequest(instance_id=name))
        put(stubs, name, "new")
    probe = f"{name}-probe"
    with attached(stubs, probe):
        put(stubs, probe, "k")
    ended(stubs, probe)
    assert keys_in(stubs, name) == ["new"]


def test_an_attached_instance_does_not_end_unused(start_server: Any, name: str) -> None:
    process = start_server("--scratch-idle-ttl", "200ms")
    with connected(process.address) as own, attached(own, name):
        put(own, name, "k")
        put(own, f"{name}-x", "k")

        clock = scratch.ScratchOpenRequest(instance_id=f"{name}-clock")
        start = own.scratch.Open(clock).expire_time.ToMicroseconds()
        until("it is over", lambda: own.scratch.Open(clock).expire_time.ToMicroseconds() > start + 400_000)
        assert keys_in(own, name) == ["k"]
        assert keys_in(own, f"{name}-x") == []
