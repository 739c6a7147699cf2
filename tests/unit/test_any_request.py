"""Whatever a client sends, a rule answers it or refuses it with a reason of the contract: "never INTERNAL".

Requests are made from the .proto, each field unset or with a value from a list of those that break things.
"""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.journal import Limits
from statekeep_server.core.memory_streams import KeyHistory, ScopeWatch
from statekeep_server.core.scratch import Scratch
from statekeep_server.core.thread_streams import BranchHistory
from statekeep_server.engines.memory import MemoryEngine
from statekeep_server.rpc.services import MEMORY, SCRATCH, STATE_STORE, Services
from statekeep_server.rpc.streams import Followers
from unit.rules_support import MemoryRules, Stream, ThreadRules, World, finish, in_batch, span

TEXTS = ["", " ", "k", "s", "t", "e1", "main", "draft", "c1", "a b", "é", "\U0001f4be", "\x00", "{x}", "%s", "x" * 600]
JSON = ["null", "[]", "{", "NaN", "1e999", '"\\ud800"', "[" * 600, ""]
INTS = [0, 1, -1, 2, 3, 100, 2**31 - 1, -(2**31)]
LONGS = [*INTS, 2**53 - 1, 2**53, 2**63 - 1, -(2**63), 10**9, -(10**9)]
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: st.sampled_from(TEXTS),
    FieldDescriptor.TYPE_BYTES: st.sampled_from([b"", b"\x00\xff"]),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.sampled_from(INTS),
    FieldDescriptor.TYPE_INT64: st.sampled_from(LONGS),
    FieldDescriptor.TYPE_ENUM: st.sampled_from([0, 1, 2, 3, 4, -1]),
}
STREAMS = {"History": KeyHistory, "Watch": ScopeWatch, "StreamHistory": BranchHistory}


def messages(descriptor: Descriptor) -> st.SearchStrategy[Message]:
    """Return messages of a type, each field unset or with a value of those above."""
    fields = {field.name: field_values(field) for field in descriptor.fields}
    kind = GetMessageClass(descriptor)
    return st.fixed_dictionaries({}, optional=fields).map(lambda given_fields: kind(**given_fields))


def field_values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return st.dictionaries(st.sampled_from(TEXTS), st.sampled_from(TEXTS), max_size=2)
    if field.message_type:
        one: st.SearchStrategy[Any] = messages(field.message_type)
    elif field.name == "json":
        one = st.sampled_from(JSON)
    else:
        one = SCALARS[field.type]
    return st.lists(one, max_size=3) if field.is_repeated else one


def filled() -> World:
    """Return a world where many of the names above are taken."""
    world = World()
    memory, threads = MemoryRules(world), ThreadRules(world)
    for key in ("k", "s", "t", "deleted", "expired"):
        memory.set(key, ttl=span(1) if key == "expired" else None)
    memory.delete("deleted")
    memory.purge(key="s")
    threads.append_batch(in_batch("e1"), in_batch(), in_batch("t"))
    threads.append(2**53 - 1, "e1", branch_id="k")
    threads.save("c1")
    threads.fork("e1", "draft", event=in_batch("e1"), checkpoint={"id": "c1", "state": {"json": "1"}})
    world.pass_time(1)
    return world


def unary_methods() -> list[tuple[ServiceDescriptor, MethodDescriptor]]:
    services = (MEMORY, STATE_STORE, SCRATCH)
    return [(service, method) for service in services for method in service.methods if not method.server_streaming]


def streaming_methods() -> list[MethodDescriptor]:
    return [method for service in (MEMORY, STATE_STORE) for method in service.methods if method.server_streaming]


def answer_or_refusal(call: Callable[[], object]) -> object:
    try:
        return call()
    except StatekeepError as error:
        return error


def hold_refusal(error: StatekeepError) -> None:
    assert error.reason in set(Reason) - {Reason.INTERNAL}
    assert error.message
    assert len(error.message.encode()) <= 1024


@pytest.mark.parametrize(("service", "method"), unary_methods(), ids=lambda descriptor: descriptor.name)
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_call_is_answered_or_refused(
    service: ServiceDescriptor, method: MethodDescriptor, data: st.DataObject
) -> None:
    world = filled()
    services = Services(world.engine, Scratch(), Followers(world.engine), Limits())
    table = {MEMORY: services.memory, STATE_STORE: services.state_store, SCRATCH: services.scratch}[service]()
    requests = data.draw(st.lists(messages(method.input_type), min_size=1, max_size=3))
    for request in (*requests, requests[0]):
        result = answer_or_refusal(lambda request=request: finish(table[method.name](request)))
        if isinstance(result, StatekeepError):
            hold_refusal(result)
        else:
            assert isinstance(result, bytes)
            GetMessageClass(method.output_type).FromString(result)


@pytest.mark.parametrize("method", streaming_methods(), ids=lambda descriptor: descriptor.name)
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_stream_is_sent_or_refused(method: MethodDescriptor, data: st.DataObject) -> None:
    world = filled()
    request = data.draw(messages(method.input_type))
    answer = GetMessageClass(method.output_type)
    result = answer_or_refusal(lambda: Stream(world, STREAMS[method.name](request), answer).rest())
    if isinstance(result, StatekeepError):
        hold_refusal(result)
    else:
        assert all(isinstance(message, answer) for message in result)


def test_every_method_is_called_here() -> None:
    assert len(unary_methods()) + len(streaming_methods()) + 1 == 30  # the one left is Attach
    assert MemoryEngine in {type(filled().engine)}
