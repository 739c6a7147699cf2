"""Servers and clients for the tests of the Python client: the real server, and small ones that play a part."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from operator import methodcaller
from typing import Any
from uuid import uuid4

import grpc
import pytest
import statekeep
from statekeep.v1 import admin_pb2, memory_pb2, scratch_pb2, state_store_pb2

Behaviour = Callable[[Any, grpc.ServicerContext], Any]

SERVICES = {
    service.full_name: service
    for module in (memory_pb2, scratch_pb2, state_store_pb2, admin_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
}


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of a real server."""
    command = [sys.executable, "-m", "statekeep_server", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["listen"][0]
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture
def client(address: str) -> Iterator[statekeep.Client]:
    with statekeep.Client(address) as client:
        yield client


class Wire:
    """A port that leads to a server, over connections that can be cut."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        """Cuts every connection there is."""
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cuts every connection and takes no more. Closing again does nothing."""
        if self._listener.fileno() == -1:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self.cut()
        for thread in self._threads[1:]:
            thread.join()
        for end in (*self._ends, self._listener):
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._server)
                self._ends += [near, far]
                for ends in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=_carry, args=ends))
                    self._threads[-1].start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while taken := source.recv(1 << 16):
            target.sendall(taken)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    """A way to the real server that can be cut."""
    wire = Wire(address)
    yield wire
    wire.close()


@pytest.fixture
def name() -> str:
    """A scope, thread or instance that no other test uses."""
    return uuid4().hex


@pytest.fixture
def play() -> Iterator[Callable[[Mapping[str, Behaviour]], str]]:
    """Starts a server that answers some methods ("Memory.Get") as told, and gives its address."""
    started: list[tuple[grpc.Server, ThreadPoolExecutor]] = []

    def start(behaviours: Mapping[str, Behaviour]) -> str:
        threads = ThreadPoolExecutor(8)
        server = grpc.server(threads)
        for service in {method.partition(".")[0] for method in behaviours}:
            server.add_generic_rpc_handlers([_handlers(f"statekeep.v1.{service}", behaviours)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        started.append((server, threads))
        return f"127.0.0.1:{port}"

    yield start
    for server, threads in started:
        server.stop(None).wait()
        threads.shutdown()


def _handlers(service: str, behaviours: Mapping[str, Behaviour]) -> grpc.GenericRpcHandler:
    methods = {}
    for method in SERVICES[service].methods:
        behaviour = behaviours.get(f"{method.containing_service.name}.{method.name}")
        if behaviour:
            kind = grpc.unary_stream_rpc_method_handler if method.server_streaming else None
            methods[method.name] = (kind or grpc.unary_unary_rpc_method_handler)(
                behaviour, method.input_type._concrete_class.FromString, methodcaller("SerializeToString")
            )
    return grpc.method_handlers_generic_handler(service, methods)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fails a test after which a thread of a stream still runs."""
    yield
    for thread in threading.enumerate():
        if thread.name == "statekeep-stream":
            thread.join(5)
            assert not thread.is_alive()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATEKEEP_ADDRESS", raising=False)
    monkeypatch.delenv("STATEKEEP_TOKEN", raising=False)


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes lost streams try again at once."""
    monkeypatch.setattr("statekeep._reading.FIRST_PAUSE", 0.0)
