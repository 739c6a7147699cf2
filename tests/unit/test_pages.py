"""The contract's Pages: sizes, tokens, and each item exactly once."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from statekeep.v1 import memory_pb2, state_store_pb2
from statekeep_server.core.journal import Limits
from statekeep_server.core.pages import Page
from unit.rules_support import SCOPE, MemoryRules, ThreadRules, World, invalid, refusal_of

Listing = Callable[..., Any]
LISTINGS = ["keys", "purges", "checkpoints", "branches", "all branches"]


@pytest.fixture(params=LISTINGS)
def listing(request: pytest.FixtureRequest, memory: MemoryRules, threads: ThreadRules) -> Listing:
    """Return a listing of 25 items."""
    threads.append_next("e0")
    for number in range(25):
        memory.set(f"k{number:02}")
        memory.purge(key=f"k{number:02}")
        memory.set(f"k{number:02}")
        threads.save(f"c{number:02}")
        if request.param == "all branches" and number % 2:
            threads.append_next(branch_id=f"b{number:02}")
        else:
            threads.fork("e0", f"b{number:02}")
    return {
        "keys": memory.page,
        "purges": memory.purges,
        "checkpoints": threads.checkpoints,
        "branches": threads.branches,
        "all branches": lambda **fields: threads.branches(include_unforked=True, **fields),
    }[request.param]


def items(answer: Any) -> list[bytes]:
    return [item.SerializeToString() for item in getattr(answer, answer.DESCRIPTOR.fields[0].name)]


def walk(listing: Listing, page_size: int, between: Callable[[int], object] = lambda page: None) -> list[bytes]:
    """Return the items of all pages, `between` being called with each page's number after it."""
    found: list[bytes] = []
    token = ""
    for page in range(1000):
        answer = listing(page_size=page_size, page_token=token)
        assert len(items(answer)) <= page_size
        found += items(answer)
        token = answer.next_page_token
        if not token:
            return found
        between(page)
    raise AssertionError("the pages never end")


@pytest.mark.parametrize("page_size", [1, 2, 5, 24, 25, 26, 1000])
def test_walking_all_pages_yields_each_item_exactly_once_in_order(listing: Listing, page_size: int) -> None:
    whole = items(listing(page_size=1000))
    assert len(whole) >= 25
    assert len(set(whole)) == len(whole)
    assert walk(listing, page_size) == whole


def test_a_page_that_holds_the_last_item_has_no_token(listing: Listing) -> None:
    whole = len(items(listing(page_size=1000)))
    assert listing(page_size=whole).next_page_token == ""
    assert listing(page_size=whole - 1).next_page_token != ""


def test_walking_pages_while_others_write_yields_each_old_item_once(
    listing: Listing, memory: MemoryRules, threads: ThreadRules
) -> None:
    old = items(listing(page_size=1000))

    def write(page: int) -> None:
        if page >= 10:  # at the end of a listing as many come as are walked
            return
        for name in (f"a{page:02}", f"k{page:02}x", f"z{page:02}"):
            memory.set(name)
            memory.purge(key=name)
            memory.set(name)
            threads.save(name)
            threads.fork("e0", name)

    walked = walk(listing, 3, write)
    assert [item for item in walked if item in set(old)] == old
    assert len(set(walked)) == len(walked)


def test_a_page_size_of_0_is_the_default_100_and_above_1000_is_1000(memory: MemoryRules) -> None:
    for number in range(1100):
        memory.set(f"k{number}")
    assert len(memory.keys()) == 100
    assert len(memory.keys(page_size=0)) == 100
    assert len(memory.keys(page_size=999)) == 999
    assert len(memory.keys(page_size=1001)) == 1000
    assert len(memory.keys(page_size=2**31 - 1)) == 1000


@pytest.mark.parametrize("page_size", [-1, -(2**31)])
def test_a_negative_page_size_is_refused(listing: Listing, page_size: int) -> None:
    with invalid("page_size"):
        listing(page_size=page_size)


def test_the_page_size_may_change_between_pages(listing: Listing) -> None:
    whole = items(listing(page_size=1000))
    first = listing(page_size=3)
    second = listing(page_size=7, page_token=first.next_page_token)
    third = listing(page_size=1000, page_token=second.next_page_token)
    assert items(first) + items(second) + items(third) == whole


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "AAAA",
        "AAAAAAAAAAAAAAAAAAAAAAAA",
        "é",
        "not base64!",
        "=",
        "====",
        " ",
        "\x00",
        base64.urlsafe_b64encode(bytes(40)).decode(),
        "A" * 10_000,
    ],
    ids=lambda token: repr(token[:24]),
)
def test_a_foreign_token_is_refused(listing: Listing, token: str) -> None:
    with invalid("page_token"):
        listing(page_size=3, page_token=token)


def test_a_truncated_or_extended_token_is_refused(listing: Listing) -> None:
    token = listing(page_size=3).next_page_token
    for changed in (*(token[:length] for length in range(1, len(token))), f"{token}AAAA", f"AAAA{token}", f"{token}x"):
        with invalid("page_token"):
            listing(page_size=3, page_token=changed)


@pytest.mark.parametrize(
    "cursor",
    ["abc", "-1", "1e5", " ", "\x00", "0x1", "1_0", "\xe9", "9" * 5000, "9" * 30],
    ids=lambda cursor: repr(cursor[:9]),
)
def test_a_token_that_a_client_made_up_with_care_is_no_failure(
    memory: MemoryRules, threads: ThreadRules, cursor: str
) -> None:
    """Whoever reads this code can make a token that fits the request: that must not fail the server."""
    scope = memory_pb2.Scope(name="s", type=1)
    listings = [
        (memory_pb2.MemoryListRequest(scope=scope), memory.page),
        (memory_pb2.MemoryListPurgesRequest(scope=scope), memory.purges),
        (state_store_pb2.ListCheckpointsRequest(thread_id="t", branch_id="main"), threads.checkpoints),
        (state_store_pb2.ListBranchesRequest(thread_id="t"), threads.branches),
    ]
    threads.append_next()
    memory.set("k")
    for request, listing in listings:
        page = Page(request, Limits(page=1))
        assert page.take(b"", cursor)
        assert not page.take(b"", "next")
        token = memory_pb2.MemoryListResponse.FromString(page.answer()).next_page_token
        fields = {field.name: value for field, value in request.ListFields()}
        refusal = refusal_of(lambda listing=listing, fields=fields, token=token: listing(**fields, page_token=token))
        assert refusal is None or refusal.field == "page_token"


def test_a_token_of_another_listing_is_refused(listing: Listing, memory: MemoryRules, threads: ThreadRules) -> None:
    token = listing(page_size=3).next_page_token
    other = memory_pb2.Scope(name="s", type=2)
    everything = [
        lambda: memory.page(page_token=token),
        lambda: memory.purges(page_token=token),
        lambda: threads.checkpoints(page_token=token),
        lambda: threads.branches(page_token=token),
        lambda: threads.branches(page_token=token, include_unforked=True),
        lambda: memory.page(page_token=token, scope=other),
        lambda: memory.page(page_token=token, prefix="k"),
        lambda: memory.page(page_token=token, include_values=True),
        lambda: memory.page(page_token=token, include_deleted=True),
        lambda: memory.purges(page_token=token, scope=other),
        lambda: threads.checkpoints(page_token=token, branch_id="b"),
        lambda: threads.checkpoints(page_token=token, labels={"a": "b"}),
        lambda: threads.checkpoints(page_token=token, thread_id="t2"),
        lambda: threads.branches(page_token=token, thread_id="t2"),
    ]
    refusals = [refusal for refusal in map(refusal_of, everything) if refusal]
    assert {refusal.field for refusal in refusals} == {"page_token"}
    assert len(refusals) == len(everything) - 1


@pytest.mark.parametrize("scope", [memory_pb2.Scope(name=" s "), memory_pb2.Scope(name="s", type=1)], ids=str)
def test_a_token_is_of_the_request_however_its_scope_is_written(memory: MemoryRules, scope: memory_pb2.Scope) -> None:
    for key in "abc":
        memory.set(key, scope=SCOPE)
    token = memory.page(page_size=1).next_page_token
    assert memory.keys(scope=scope, page_token=token) == ["b", "c"]


def test_a_tokens_item_may_be_gone_when_the_next_page_is_asked_for(memory: MemoryRules, threads: ThreadRules) -> None:
    for name in "abcd":
        memory.set(name)
        threads.save(name)
    keys, saved = memory.page(page_size=2), threads.checkpoints(page_size=2)
    for name in "abc":
        memory.purge(key=name)
        threads.save(name, 7)
    assert memory.keys(page_token=keys.next_page_token) == ["d"]
    assert threads.checkpoint_ids(page_token=saved.next_page_token) == []


def test_a_token_of_a_page_that_was_cut_by_bytes_leads_on_too(world: World, memory: MemoryRules) -> None:
    world.limits = Limits(record=2000)
    for number in range(25):
        memory.set(f"k{number:02}", "x" * 600)
    with_values = lambda **fields: memory.page(include_values=True, **fields)  # noqa: E731
    assert walk(with_values, 100) == [
        item for number in range(25) for item in items(with_values(prefix=f"k{number:02}"))
    ]


def test_an_empty_listing_has_neither_items_nor_token(memory: MemoryRules, threads: ThreadRules) -> None:
    for answer in (memory.page(), memory.purges(), threads.checkpoints(), threads.branches(include_unforked=True)):
        assert items(answer) == []
        assert answer.next_page_token == ""
