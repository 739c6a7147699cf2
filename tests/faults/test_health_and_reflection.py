"""Health and reflection: what tools without stubs see."""

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_requests import Client
from requests_of import METHODS, SERVICES
from server_process import ServerProcess

OURS = [service.full_name for service in SERVICES]
HEALTH = "grpc.health.v1.Health"


@pytest.mark.parametrize("service", ["", *OURS])
def test_every_service_is_serving(service: str, channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=service)
    assert stub.Check(request).status == health_pb2.HealthCheckResponse.SERVING
    watch = stub.Watch(request, timeout=20)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()


def test_the_health_of_an_unknown_service_is_not_found(channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="nobody"))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    watch = stub.Watch(health_pb2.HealthCheckRequest(service="nobody"), timeout=20)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


@pytest.fixture(scope="module")
def tool(server: ServerProcess) -> Client:
    """Give a client that has no stubs, and learns all it knows by reflection."""
    return Client(server.address)


def test_reflection_lists_every_service(tool: Client) -> None:
    assert {*OURS, HEALTH} <= set(tool.service_names)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.containing_service.name}.{method.name}")
def test_reflection_describes_every_method(method: MethodDescriptor, tool: Client) -> None:
    described = tool.get_service_descriptor(method.containing_service.full_name).methods_by_name[method.name]
    assert [field.name for field in described.input_type.fields] == [field.name for field in method.input_type.fields]
    assert described.server_streaming == method.server_streaming


def test_a_tool_without_stubs_writes_and_reads(tool: Client, name: str) -> None:
    where = {"type": "SCOPE_TYPE_NAMESPACE", "name": name}
    memory, state = OURS[0], OURS[2]
    tool.request(memory, "Set", {"scope": where, "key": "k", "value": {"json": "18446744073709551616"}})
    answer = tool.request(memory, "Get", {"scope": where, "key": "k"})
    assert answer["entry"]["value"]["json"] == "18446744073709551616"
    tool.request(state, "AppendNextEvent", {"event": {"thread_id": name, "type": "note"}})
    messages = list(tool.request(state, "StreamHistory", {"thread_id": name}))
    assert [event["sequence"] for message in messages for event in message["events"]] == ["1"]
    assert messages[-1]["caught_up"] is True


def test_a_tool_without_stubs_asks_for_health(tool: Client) -> None:
    assert tool.request(HEALTH, "Check", {"service": ""})["status"] == "SERVING"
