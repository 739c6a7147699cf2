"""Which calls a token may make: every method there is, found in the descriptors, so that a new one is not forgotten."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import statekeep.v1
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from requests_of import METHODS, good_request
from rpc_support import CODES, Refusal, Stubs, event_of, items, key_of, next_of, refusal_of, refused, scope, set_of
from server_process import ServerProcess
from statekeep.v1 import admin_pb2 as admin
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1 import state_store_pb2 as state
from statekeep_server.rpc.access import NEEDS, Access
from statekeep_server.tokens import Tokens
from token_support import BOUNDED, OWNER, READER, WRONG, bearer, calling_with, refusal_to, replace, table

READS = ("Get", "BatchGet", "List", "History", "Watch", "StreamHistory", "Latest", "Export")
"""What the names of methods that change nothing begin with. Any other method must need the right to write."""
WHOLE = {"Import", "Backup"}
UNBOUNDED = {"ListScopes", "ListThreads", "GetInfo"}
"""What a token that may touch only some names may call, whatever those are: the lists are cut to them."""

every_method = pytest.mark.parametrize(
    "method", METHODS, ids=lambda method: f"{method.containing_service.name}.{method.name}"
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give a server with tokens of several kinds, whose log must tell none of them."""
    file = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    tokens = [
        table("owner", OWNER),
        table("reader", READER, "read"),
        table("bounded", BOUNDED, scopes="app/", threads="app/", instances="app/"),
        table("closed", BOUNDED + "-closed", threads="app/"),
        table("literal", BOUNDED + "-literal", scopes="a_", threads="a%", instances="a*"),
        table("names", BOUNDED + "-names", scopes="na", threads="thr", instances="k"),
    ]
    replace(file, "\n".join(tokens))
    process = ServerProcess("--token-file", str(file))
    yield process.address
    log = process.stderr
    process.stop()
    assert log == ""


@pytest.fixture(scope="module")
def owner(address: str) -> Iterator[Stubs]:
    with calling_with(address, OWNER) as stubs:
        yield stubs


@pytest.fixture(scope="module")
def bounded(address: str) -> Iterator[Stubs]:
    with calling_with(address, BOUNDED) as stubs:
        yield stubs


def request_of(method: MethodDescriptor) -> Any:
    """Return a request that names a scope, a thread or an instance where the method has any."""
    request = good_request(method)
    if isinstance(request, admin.AdminExportRequest):
        request.thread_id = "thread"
    return request


def check(refusal: Refusal | None, reason: str) -> Refusal:
    assert refusal is not None, "it was not refused"
    assert refusal.reason == reason, refusal
    assert refusal.code == CODES[reason]
    assert refusal.domain == "statekeep"
    for token in (OWNER, READER, BOUNDED, WRONG):
        assert token not in str(refusal)
    return refusal


def kept(owner: Stubs) -> list[str]:
    """Return the names of all that is kept."""
    scopes = items(owner.memory.ListScopes, memory.MemoryListScopesRequest(), "scopes")
    threads = items(owner.state.ListThreads, state.ListThreadsRequest(), "threads")
    return [one.scope.name for one in scopes] + [one.id for one in threads]


# --- every method


def test_the_table_has_every_method_of_every_service_there_is() -> None:
    modules = [
        importlib.import_module(f"statekeep.v1.{module.name}")
        for module in pkgutil.iter_modules(statekeep.v1.__path__)
        if module.name.endswith("_pb2")
    ]
    methods = [
        method
        for module in modules
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    assert {method.full_name for method in methods} == {method.full_name for method in METHODS}
    for method in methods:
        assert method.name in NEEDS[method.containing_service.full_name]


def test_a_method_that_the_table_does_not_have_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    method = METHODS[0]
    monkeypatch.delitem(NEEDS[method.containing_service.full_name], method.name)
    with pytest.raises(ValueError, match=method.full_name):
        Access(Tokens(None, OWNER)).guard(method)


@every_method
def test_without_a_token_every_call_is_refused(method: MethodDescriptor, address: str, owner: Stubs) -> None:
    before = kept(owner)
    check(refusal_to(address, method, request_of(method), ()), "UNAUTHENTICATED")
    assert kept(owner) == before


@every_method
def test_with_a_wrong_token_every_call_is_refused(method: MethodDescriptor, address: str, owner: Stubs) -> None:
    before = kept(owner)
    check(refusal_to(address, method, request_of(method), bearer(WRONG)), "UNAUTHENTICATED")
    assert kept(owner) == before


@every_method
def test_a_token_that_may_read_may_not_write(method: MethodDescriptor, address: str, owner: Stubs) -> None:
    before = kept(owner)
    refusal = refusal_to(address, method, request_of(method), bearer(READER))
    if method.name.startswith(READS):
        assert refusal is None or refusal.reason not in ("UNAUTHENTICATED", "PERMISSION_DENIED"), refusal
    else:
        check(refusal, "PERMISSION_DENIED")
    assert kept(owner) == before


@every_method
def test_outside_its_prefixes_a_token_may_call_nothing(method: MethodDescriptor, address: str, owner: Stubs) -> None:
    before = kept(owner)
    refusal = refusal_to(address, method, request_of(method), bearer(BOUNDED))
    if method.name in UNBOUNDED:
        assert refusal is None
    else:
        check(refusal, "PERMISSION_DENIED")
    assert kept(owner) == before


@every_method
def test_within_its_prefixes_a_token_may_call_all_but_what_touches_everything(
    method: MethodDescriptor, address: str
) -> None:
    refusal = refusal_to(address, method, request_of(method), bearer(BOUNDED + "-names"))
    if method.name in WHOLE:
        check(refusal, "PERMISSION_DENIED")
    else:
        assert refusal is None or refusal.reason not in ("UNAUTHENTICATED", "PERMISSION_DENIED"), refusal


@every_method
def test_a_token_with_all_rights_may_call_everything(method: MethodDescriptor, address: str) -> None:
    refusal = refusal_to(address, method, request_of(method), bearer(OWNER))
    assert refusal is None or refusal.reason not in ("UNAUTHENTICATED", "PERMISSION_DENIED"), refusal


@every_method
def test_a_call_is_refused_before_its_request_is_looked_at(method: MethodDescriptor, address: str) -> None:
    check(refusal_to(address, method, GetMessageClass(method.input_type)(), bearer(WRONG)), "UNAUTHENTICATED")


# --- what a call may carry


@pytest.mark.parametrize(
    "metadata",
    [
        (("authorization", OWNER),),
        (("authorization", f"Basic {OWNER}"),),
        (("authorization", "Bearer"),),
        (("authorization", "Bearer "),),
        (("authorization", f"Bearer {OWNER}x"),),
        (("authorization", f"Bearer {OWNER[:-1]}"),),
        (("authorization", f"Bearer {OWNER}, Bearer {READER}"),),
        (("authorization", f"Bearer {OWNER}"), ("authorization", f"Bearer {WRONG}")),
        (("token", f"Bearer {OWNER}"),),
        (("authorization-bin", b"Bearer " + OWNER.encode()),),
    ],
    ids=range(10),
)
def test_what_is_no_bearer_token_is_refused(metadata: Any, address: str) -> None:
    refusal = refusal_to(address, METHODS[0], request_of(METHODS[0]), metadata)
    assert "authorization: Bearer" in check(refusal, "UNAUTHENTICATED").message


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_taken_in_any_case(scheme: str, address: str) -> None:
    request = memory.MemoryListScopesRequest()
    method = memory.DESCRIPTOR.services_by_name["Memory"].methods_by_name["ListScopes"]
    assert refusal_to(address, method, request, (("authorization", f"{scheme} {READER}"),)) is None


def test_health_is_told_without_a_token(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_reflection_needs_any_token(address: str) -> None:
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with grpc.insecure_channel(address) as channel:
        ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        with pytest.raises(grpc.RpcError) as caught:
            list(ask(iter([request]), timeout=20))
        check(refusal_of(caught.value), "UNAUTHENTICATED")
        (answer,) = ask(iter([request]), timeout=20, metadata=bearer(READER))
    assert "statekeep.v1.Admin" in {one.name for one in answer.list_services_response.service}


# --- prefixes


def test_a_scope_is_compared_as_it_is_stored(bounded: Stubs, owner: Stubs, name: str) -> None:
    assert bounded.memory.Set(set_of(f"  app/{name}\u3000", "k")).entry.scope.name == f"app/{name}"
    assert owner.memory.Get(key_of(f"app/{name}", "k")).entry.value.json == "1"
    for outside in ("app", f"App/{name}", f" other/app/{name}", "xapp/"):
        refused("PERMISSION_DENIED", bounded.memory.Set, set_of(outside, "k"), at="scope.name", token="bounded")


def test_a_scope_is_told_apart_by_its_name_whatever_its_type(bounded: Stubs, name: str) -> None:
    for kind in (memory.SCOPE_TYPE_FLOW, memory.SCOPE_TYPE_EXECUTION):
        inside = memory.MemoryListRequest(scope=scope(f"app/{name}", kind))
        assert not bounded.memory.List(inside).entries
        refused("PERMISSION_DENIED", bounded.memory.List, memory.MemoryListRequest(scope=scope(name, kind)))


def test_a_bad_name_is_refused_as_for_everyone(bounded: Stubs) -> None:
    refused("INVALID_FIELD", bounded.memory.Set, set_of("app/a b", "k"), at="scope.name")
    refused("INVALID_FIELD", bounded.state.AppendNextEvent, next_of(" app/x"), at="event.thread_id")


def test_every_set_of_a_batch_is_looked_at(bounded: Stubs, owner: Stubs, name: str) -> None:
    sets = [set_of(f"app/{name}", "a"), set_of(f"other/{name}", "b")]
    request = memory.MemoryBatchSetRequest(sets=sets)
    refused("PERMISSION_DENIED", bounded.memory.BatchSet, request, at="sets[1].scope.name")
    assert not owner.memory.List(memory.MemoryListRequest(scope=scope(f"app/{name}"))).entries


def test_a_batch_or_a_fork_cannot_bring_records_of_another_thread(bounded: Stubs, owner: Stubs, name: str) -> None:
    inside, outside = f"app/{name}", f"other/{name}"
    bounded.state.AppendNextEvent(next_of(inside, "e"))
    events = state.AppendEventsRequest(thread_id=inside, events=[event_of(outside)])
    refused("INVALID_FIELD", bounded.state.AppendEvents, events, at="events[0].thread_id")
    fork = state.ForkRequest(thread_id=inside, from_event_id="e", event=event_of(outside))
    refused("INVALID_FIELD", bounded.state.Fork, fork, at="event.thread_id")
    fork = state.ForkRequest(thread_id=inside, from_event_id="e", checkpoint=state.Checkpoint(thread_id=outside))
    refused("INVALID_FIELD", bounded.state.Fork, fork, at="checkpoint.thread_id")
    assert not owner.state.GetHistory(state.GetHistoryRequest(thread_id=outside)).history.events


def test_lists_show_only_what_begins_with_the_prefix(bounded: Stubs, owner: Stubs, name: str) -> None:
    inside, outside = [f"app/{name}/{number}" for number in range(3)], [f"aop/{name}", f"app{name}", f"b/{name}"]
    for each in (*inside, *outside):
        owner.memory.Set(set_of(each, "k"))
        owner.state.AppendNextEvent(next_of(each))
    scopes = items(bounded.memory.ListScopes, memory.MemoryListScopesRequest(page_size=1), "scopes")
    threads = items(bounded.state.ListThreads, state.ListThreadsRequest(page_size=1), "threads")
    for shown in ([one.scope.name for one in scopes], [one.id for one in threads]):
        assert [each for each in shown if name in each] == inside
        assert all(each.startswith("app/") for each in shown)


def test_a_list_of_threads_is_cut_to_both_prefixes(bounded: Stubs, owner: Stubs, name: str) -> None:
    owner.state.AppendNextEvent(next_of(f"app/{name}"))
    owner.state.AppendNextEvent(next_of(f"zzz/{name}"))

    def shown(prefix: str) -> list[str]:
        threads = items(bounded.state.ListThreads, state.ListThreadsRequest(prefix=prefix), "threads")
        return [one.id for one in threads if name in one.id]

    assert shown("") == shown("ap") == shown("app/") == shown(f"app/{name}") == [f"app/{name}"]
    assert shown(f"app/{name}x") == shown("zzz/") == shown("apx") == []


def test_a_page_token_of_another_caller_opens_nothing(bounded: Stubs, owner: Stubs, name: str) -> None:
    for each in (f"aaa/{name}", f"aaa/{name}2", f"zzz/{name}"):
        owner.memory.Set(set_of(each, "k"))
    request = memory.MemoryListScopesRequest(page_size=1)
    request.page_token = owner.memory.ListScopes(request).next_page_token
    shown = items(bounded.memory.ListScopes, request, "scopes")
    assert all(one.scope.name.startswith("app/") for one in shown)


def test_a_prefix_means_itself(address: str) -> None:
    with calling_with(address, BOUNDED + "-literal") as literal:
        assert literal.memory.Set(set_of("a_b", "k")).entry.version
        refused("PERMISSION_DENIED", literal.memory.Set, set_of("axb", "k"), prefix="a_")
        assert literal.state.AppendNextEvent(next_of("a%b")).event.sequence
        refused("PERMISSION_DENIED", literal.state.AppendNextEvent, next_of("axb"), prefix="a%")
        assert literal.scratch.Open(scratch.ScratchOpenRequest(instance_id="a*b")).instance_id
        refused("PERMISSION_DENIED", literal.scratch.Open, scratch.ScratchOpenRequest(instance_id="axb"))


def test_a_kind_without_a_prefix_is_closed_where_another_has_one(address: str) -> None:
    with calling_with(address, BOUNDED + "-closed") as closed:
        assert closed.state.AppendNextEvent(next_of("app/closed")).event.sequence
        for method, request in (
            (closed.memory.Set, set_of("app/x", "k")),
            (closed.memory.ListScopes, memory.MemoryListScopesRequest()),
            (closed.scratch.Open, scratch.ScratchOpenRequest()),
            (closed.scratch.Attach, scratch.ScratchAttachRequest(instance_id="app/x")),
        ):
            refused("PERMISSION_DENIED", method, request, token="closed")


def test_an_instance_that_the_server_names_begins_with_the_prefix(bounded: Stubs, owner: Stubs) -> None:
    opened = bounded.scratch.Open(scratch.ScratchOpenRequest()).instance_id
    attached = bounded.scratch.Attach(scratch.ScratchAttachRequest(), timeout=20)
    for instance in (opened, next(attached).instance_id):
        assert instance.startswith("app/")
        assert len(instance) == len("app/") + 32
        assert list(bounded.scratch.List(scratch.ScratchListRequest(instance_id=instance)).keys) == []
    attached.cancel()
    assert "/" not in owner.scratch.Open(scratch.ScratchOpenRequest()).instance_id


def test_an_export_needs_what_it_takes_out(bounded: Stubs, owner: Stubs, name: str) -> None:
    for each in (f"app/{name}", f"other/{name}"):
        owner.memory.Set(set_of(each, "k"))
        owner.state.AppendNextEvent(next_of(each))
    export = bounded.admin.Export
    assert list(export(admin.AdminExportRequest(thread_id=f"app/{name}")))
    assert list(export(admin.AdminExportRequest(scope=scope(f"app/{name}"))))
    refused("PERMISSION_DENIED", export, admin.AdminExportRequest(thread_id=f"other/{name}"), at="thread_id")
    refused("PERMISSION_DENIED", export, admin.AdminExportRequest(scope=scope(f"other/{name}")), at="scope.name")
    refused("PERMISSION_DENIED", export, admin.AdminExportRequest(all=True))
    refused("INVALID_FIELD", export, admin.AdminExportRequest(), at="selection")
    with_name = [one for one in owner.admin.Export(admin.AdminExportRequest(all=True)) if name in str(one)]
    assert with_name


def test_the_token_of_the_environment_has_all_rights_also_beside_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    replace(file, table("reader", READER, "read"))
    process = ServerProcess("--token-file", str(file), extra={"STATEKEEP_TOKEN": f" {OWNER}\n"})
    try:
        for token, denied in ((OWNER, False), (READER, True)):
            with calling_with(process.address, token) as stubs:
                if denied:
                    refused("PERMISSION_DENIED", stubs.memory.Set, set_of("s", "k"), token="reader")
                else:
                    assert stubs.memory.Set(set_of("s", "k")).entry.version == 1
                assert stubs.memory.Get(key_of("s", "k")).entry.version == 1
    finally:
        process.stop()
