"""fingerprints.py: what tells one request from another."""

import pytest
from google.protobuf.message import Message
from statekeep.v1 import memory_pb2, state_store_pb2
from statekeep_server.core.fingerprints import fingerprint
from unit.rules_support import a_set


def trimmed(request: memory_pb2.MemorySetRequest) -> None:
    request.key = request.key.strip()


def test_equal_requests_have_one_fingerprint() -> None:
    assert fingerprint(a_set("k")) == fingerprint(a_set("k"))


def test_the_order_of_labels_does_not_matter() -> None:
    labels = [(f"name{number}", str(number)) for number in range(100)]
    assert fingerprint(a_set("k", labels=dict(labels))) == fingerprint(a_set("k", labels=dict(reversed(labels))))


@pytest.mark.parametrize(
    "other",
    [
        a_set("k2"),
        a_set("k", 2),
        a_set("k", scope=memory_pb2.Scope(name="s2")),
        a_set("k", scope=memory_pb2.Scope(name="s", type=2)),
        a_set("k", expected_version=0),
        a_set("k", expected_version=1),
        a_set("k", flow_id=""),
        a_set("k", labels={"a": "b"}),
        a_set("k", ttl={"seconds": 1}),
    ],
    ids=lambda request: str(request)[:40].replace("\n", " "),
)
def test_requests_that_differ_have_two(other: Message) -> None:
    assert fingerprint(a_set("k"), "request_id") != fingerprint(other, "request_id")


def test_names_are_compared_as_they_are_normalised() -> None:
    assert fingerprint(a_set(" k "), normalise=trimmed) == fingerprint(a_set("k"), normalise=trimmed)
    assert fingerprint(a_set(" k ")) != fingerprint(a_set("k"))


def test_a_field_that_is_ignored_makes_no_difference() -> None:
    request = memory_pb2.MemoryListRequest(prefix="a", page_size=1, page_token="x")  # noqa: S106 (no password)
    bare = memory_pb2.MemoryListRequest(prefix="a")
    assert fingerprint(request, "page_size", "page_token") == fingerprint(bare)


def test_requests_of_two_kinds_differ_even_where_their_bytes_are_the_same() -> None:
    assert memory_pb2.MemoryListScopesRequest().SerializeToString() == b""
    scopes, threads = memory_pb2.MemoryListScopesRequest(), state_store_pb2.ListThreadsRequest()
    assert fingerprint(scopes) != fingerprint(threads)


def test_the_request_itself_is_left_alone() -> None:
    request = a_set(" k", request_id="r")
    before = request.SerializeToString()
    assert len(fingerprint(request, "request_id", normalise=trimmed)) == 16
    assert request.SerializeToString() == before
