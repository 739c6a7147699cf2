"""`--health-listen`: an address that tells whether the server serves, and nothing else."""

import signal
from pathlib import Path
from queue import SimpleQueue

import grpc
from conftest import StartServer
from grpc_health.v1 import health_pb2, health_pb2_grpc
from server_process import LOOPBACK, run_to_its_end
from statekeep.v1 import admin_pb2, admin_pb2_grpc, memory_pb2, memory_pb2_grpc, state_store_pb2, state_store_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def code_of(call: grpc.Call) -> grpc.StatusCode:
    code: grpc.StatusCode = call.code()  # waits for the end
    return code


def test_a_server_on_a_socket_alone_is_probed_over_the_network(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--health-listen", LOOPBACK, listen=[f"unix:{tmp_path / 's'}"])
    with grpc.insecure_channel(server.ready["health"]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "statekeep.v1.Memory"):
            assert stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=20).status == SERVING


def test_nothing_but_the_check_is_there(start_server: StartServer) -> None:
    server = start_server("--health-listen", LOOPBACK)
    with grpc.insecure_channel(server.ready["health"]) as channel:
        written = memory_pb2_grpc.MemoryStub(channel).Set.future(memory_pb2.MemorySetRequest(), timeout=20)
        assert code_of(written) == grpc.StatusCode.UNIMPLEMENTED
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=20)
        assert code_of(watch) == grpc.StatusCode.UNIMPLEMENTED
        large = health_pb2_grpc.HealthStub(channel).Check.future(
            health_pb2.HealthCheckRequest(service="x" * 10_000), timeout=20
        )
        assert code_of(large) == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_draining_server_says_so_to_probes_and_then_ends(start_server: StartServer) -> None:
    server = start_server("--health-listen", LOOPBACK, "--grace", "50s")
    with grpc.insecure_channel(server.address) as channel, grpc.insecure_channel(server.ready["health"]) as probes:
        # A call that goes on holds the drain open; that it began shows in the follower, which came after it.
        requests: SimpleQueue[admin_pb2.AdminImportRequest | None] = SimpleQueue()
        importing = admin_pb2_grpc.AdminStub(channel).Import(iter(requests.get, None), timeout=60)
        follower = state_store_pb2_grpc.StateStoreStub(channel).StreamHistory(
            state_store_pb2.StreamHistoryRequest(thread_id="t", follow=True), timeout=60
        )
        next(follower)
        stub = health_pb2_grpc.HealthStub(probes)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=20).status == SERVING
        server.signal(signal.SIGTERM)
        assert code_of(follower) == grpc.StatusCode.UNAVAILABLE
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=20).status == NOT_SERVING
        requests.put(None)
        assert code_of(importing) == grpc.StatusCode.OK
        assert server.wait(40) == 0


def test_a_taken_address_is_refused_by_name(start_server: StartServer) -> None:
    server = start_server()
    ended = run_to_its_end("--listen", LOOPBACK, "--health-listen", server.address)
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        f"statekeep serve: cannot listen on {server.address} for probes: Address already in use"
    )
