"""Pages: their size, their tokens, and that a walk yields each item once, also while others write."""

import base64
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from rpc_support import (
    MIB,
    Stubs,
    call_many,
    checkpoint_of,
    connected,
    event_of,
    items,
    next_of,
    pages,
    refused,
    scope,
    set_of,
)
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep.v1.value_pb2 import Value


class Listing(NamedTuple):
    """A paged RPC: how it is called, what it lists, and how items come to be there."""

    method: Callable[[Stubs], Any]
    request: Any
    other: Any
    field: str
    name: Callable[[Any], Any]
    add: Callable[[Stubs, list[str]], object]


def add_keys(stubs: Stubs, names: list[str]) -> None:
    stubs.memory.BatchSet(memory.MemoryBatchSetRequest(sets=[set_of("keys", name) for name in names]))


def add_scopes(stubs: Stubs, names: list[str]) -> None:
    call_many(stubs.memory.Set, (set_of(f"scope-{name}", "k") for name in names))


def add_purges(stubs: Stubs, names: list[str]) -> None:
    stubs.memory.BatchSet(memory.MemoryBatchSetRequest(sets=[set_of("purges", name) for name in names]))
    call_many(stubs.memory.Purge, (memory.MemoryPurgeRequest(scope=scope("purges"), key=name) for name in names))


def add_checkpoints(stubs: Stubs, names: list[str]) -> None:
    call_many(stubs.state.SaveCheckpoint, (checkpoint_of("checkpoints", name) for name in names))


def add_branches(stubs: Stubs, names: list[str]) -> None:
    stubs.state.AppendNextEvent(next_of("branches", "e"))
    forks = (state.ForkRequest(thread_id="branches", from_event_id="e", name=name) for name in names)
    call_many(stubs.state.Fork, forks)


def add_threads(stubs: Stubs, names: list[str]) -> None:
    call_many(stubs.state.AppendNextEvent, (next_of(f"thread-{name}") for name in names))


LISTINGS = {
    "List": Listing(
        lambda s: s.memory.List,
        memory.MemoryListRequest(scope=scope("keys")),
        memory.MemoryListRequest(scope=scope("keys"), include_deleted=True),
        "entries",
        lambda entry: entry.key,
        add_keys,
    ),
    "ListScopes": Listing(
        lambda s: s.memory.ListScopes,
        memory.MemoryListScopesRequest(),
        memory.MemoryListRequest(scope=scope("keys")),
        "scopes",
        lambda one: (one.scope.name, one.scope.type),
        add_scopes,
    ),
    "ListPurges": Listing(
        lambda s: s.memory.ListPurges,
        memory.MemoryListPurgesRequest(scope=scope("purges")),
        memory.MemoryListPurgesRequest(scope=scope("keys")),
        "purges",
        lambda purge: tuple(purge.keys),
        add_purges,
    ),
    "ListCheckpoints": Listing(
        lambda s: s.state.ListCheckpoints,
        state.ListCheckpointsRequest(thread_id="checkpoints"),
        state.ListCheckpointsRequest(thread_id="checkpoints", labels={"a": "b"}),
        "checkpoints",
        lambda checkpoint: checkpoint.id,
        add_checkpoints,
    ),
    "ListBranches": Listing(
        lambda s: s.state.ListBranches,
        state.ListBranchesRequest(thread_id="branches"),
        state.ListBranchesRequest(thread_id="branches", include_unforked=True),
        "branches",
        lambda branch: branch.id,
        add_branches,
    ),
    "ListThreads": Listing(
        lambda s: s.state.ListThreads,
        state.ListThreadsRequest(prefix="thread-"),
        state.ListThreadsRequest(prefix="thread"),
        "threads",
        lambda thread: thread.id,
        add_threads,
    ),
}
COUNT = 1_005


@pytest.fixture(scope="module")
def own() -> Iterator[Stubs]:
    """Give a server that holds 1,005 items of every kind, and what the tests add."""
    process = ServerProcess()
    with connected(process.address) as own:
        names = [f"m{number:04}" for number in range(COUNT)]
        for listing in LISTINGS.values():
            listing.add(own, names)
        yield own
    process.stop()


@pytest.fixture(params=LISTINGS.values(), ids=LISTINGS.keys())
def listing(request: pytest.FixtureRequest) -> Listing:
    """Give each paged RPC in turn."""
    return request.param  # type: ignore[no-any-return]


def with_fields(request: Any, **fields: Any) -> Any:
    changed = type(request)(**fields)
    changed.MergeFrom(request)
    return changed


def page_of(listing: Listing, own: Stubs, **fields: Any) -> tuple[list[Any], str]:
    page = listing.method(own)(with_fields(listing.request, **fields))
    return [listing.name(item) for item in getattr(page, listing.field)], page.next_page_token


def walk(listing: Listing, own: Stubs, size: int) -> list[Any]:
    request = with_fields(listing.request, page_size=size)
    return [listing.name(item) for item in items(listing.method(own), request, listing.field)]


@pytest.mark.parametrize(("asked", "given"), [(0, 100), (1, 1), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)])
def test_a_page_has_the_size_that_is_asked_for_up_to_1000(asked: int, given: int, listing: Listing, own: Stubs) -> None:
    found, token = page_of(listing, own, page_size=asked)
    assert len(found) == given
    assert token


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_page_size_is_refused(size: int, listing: Listing, own: Stubs) -> None:
    request = with_fields(listing.request, page_size=size)
    refused("INVALID_FIELD", listing.method(own), request, at="page_size", size=size)


@pytest.mark.parametrize("size", [7, 201, 1000])
def test_a_walk_yields_each_item_once_in_order(size: int, listing: Listing, own: Stubs) -> None:
    found = walk(listing, own, size)
    assert len(found) == len(set(found)) >= COUNT
    assert found == walk(listing, own, 999)


def test_the_last_page_has_no_token(listing: Listing, own: Stubs) -> None:
    found = list(pages(listing.method(own), with_fields(listing.request, page_size=1000)))
    assert not found[-1].next_page_token
    assert getattr(found[-1], listing.field)


def test_a_walk_yields_each_item_once_while_others_write(listing: Listing, own: Stubs) -> None:
    before = walk(listing, own, 1000)
    found = []
    for number, page in enumerate(pages(listing.method(own), with_fields(listing.request, page_size=150))):
        found += [listing.name(item) for item in getattr(page, listing.field)]
        tag = f"{listing.field}{number}"
        listing.add(own, [f"a{tag}", f"m0500{tag}", f"z{tag}"])
    assert len(found) == len(set(found))
    assert set(before) <= set(found)


def test_a_token_of_another_request_is_refused(listing: Listing, own: Stubs) -> None:
    _, token = page_of(listing, own, page_size=10)
    if isinstance(listing.other, type(listing.request)):
        other = with_fields(listing.other, page_token=token)
        refused("INVALID_FIELD", listing.method(own), other, at="page_token")
    else:
        foreign = LISTINGS["ListThreads"]
        _, foreign_token = page_of(foreign, own, page_size=10)
        request = with_fields(listing.request, page_token=foreign_token)
        refused("INVALID_FIELD", listing.method(own), request, at="page_token")


@pytest.mark.parametrize(
    "token", ["x", "====", "é", "\x00", "AAAA", "A" * 100_000, " ", base64.b64encode(bytes(64)).decode()]
)
def test_a_made_up_token_is_refused(token: str, listing: Listing, own: Stubs) -> None:
    request = with_fields(listing.request, page_token=token)
    refused("INVALID_FIELD", listing.method(own), request, at="page_token")


def test_a_broken_token_never_fails_the_server(listing: Listing, own: Stubs) -> None:
    _, token = page_of(listing, own, page_size=10)
    raw = base64.urlsafe_b64decode(token)
    for broken in (raw[:-1], raw + b"\xff", raw[:16], raw[:16] + b"9" * 30, raw[:16] + b"-1", raw[:16] + b"\x00"):
        request = with_fields(listing.request, page_token=base64.urlsafe_b64encode(broken).decode())
        try:
            listing.method(own)(request)
        except Exception:  # noqa: BLE001 (what it is, is looked at)
            refused("INVALID_FIELD", listing.method(own), request, at="page_token")


def test_pages_of_large_entries_are_cut_by_bytes(own: Stubs) -> None:
    where = scope("large-keys")
    for number in range(6):
        value = Value(data=bytes(3 * MIB // 2))
        own.memory.Set(memory.MemorySetRequest(scope=where, key=f"k{number}", value=value))
    request = memory.MemoryListRequest(scope=where, include_values=True)
    found = list(pages(own.memory.List, request))
    assert [entry.key for page in found for entry in page.entries] == [f"k{number}" for number in range(6)]
    assert len(found) > 1
    assert all(page.ByteSize() <= 4 * MIB for page in found)


def test_pages_without_values_are_cut_by_what_they_carry(own: Stubs) -> None:
    where = scope("labelled-keys")
    for number in range(4):
        request = memory.MemorySetRequest(scope=where, key=f"k{number}", value=Value(json="1"))
        request.labels["l"] = "x" * (3 * MIB // 2)
        own.memory.Set(request)
    found = list(pages(own.memory.List, memory.MemoryListRequest(scope=where)))
    assert [entry.key for page in found for entry in page.entries] == [f"k{number}" for number in range(4)]


def test_a_walk_goes_on_where_its_last_key_was_deleted_or_purged(own: Stubs) -> None:
    where = scope("walked-keys")
    own.memory.BatchSet(memory.MemoryBatchSetRequest(sets=[set_of("walked-keys", key) for key in "abcdef"]))
    found = []
    for page in pages(own.memory.List, memory.MemoryListRequest(scope=where, page_size=2)):
        found += [entry.key for entry in page.entries]
        own.memory.Delete(memory.MemoryDeleteRequest(scope=where, key=found[-1]))
        own.memory.Purge(memory.MemoryPurgeRequest(scope=where, key=found[-2]))
    assert found == list("abcdef")


def test_a_walk_over_threads_goes_on_where_they_are_deleted(own: Stubs) -> None:
    for number in range(6):
        own.state.AppendNextEvent(next_of(f"walked-{number}"))
    found = []
    for page in pages(own.state.ListThreads, state.ListThreadsRequest(prefix="walked-", page_size=2)):
        found += [thread.id for thread in page.threads]
        for thread in page.threads:
            own.state.DeleteThread(state.DeleteThreadRequest(thread_id=thread.id))
    assert found == [f"walked-{number}" for number in range(6)]


def test_a_page_of_threads_is_empty_where_none_has_the_prefix(own: Stubs) -> None:
    assert own.state.ListThreads(state.ListThreadsRequest(prefix="nobody")) == state.ListThreadsResponse()
    own.state.AppendEvents(state.AppendEventsRequest(thread_id="nobody", events=[event_of("")]))
    assert len(own.state.ListThreads(state.ListThreadsRequest(prefix="nobody")).threads) == 1
