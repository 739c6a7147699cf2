"""Scratch: instances, their keys, and how they end."""

from collections.abc import Callable

import pytest
from google.protobuf.duration_pb2 import Duration
from rpc_support import Stubs, call_many, connected, refused, until
from server_process import ServerProcess
from statekeep.v1 import scratch_pb2 as scratch
from statekeep.v1.value_pb2 import Value


def put(stubs: Stubs, name: str, *keys: str) -> None:
    for key in keys:
        stubs.scratch.Put(scratch.ScratchPutRequest(instance_id=name, key=key, value=Value(json="1")))


def keys_in(stubs: Stubs, name: str) -> list[str]:
    return list(stubs.scratch.List(scratch.ScratchListRequest(instance_id=name)).keys)


def cleared(stubs: Stubs, name: str, **fields: str) -> list[str]:
    return list(stubs.scratch.Clear(scratch.ScratchClearRequest(instance_id=name, **fields)).cleared)


def opened(stubs: Stubs, name: str, **fields: object) -> scratch.ScratchOpenResponse:
    return stubs.scratch.Open(scratch.ScratchOpenRequest(instance_id=name, **fields))  # type: ignore[arg-type]


def closed(stubs: Stubs, name: str) -> list[str]:
    return list(stubs.scratch.Close(scratch.ScratchCloseRequest(instance_id=name)).cleared)


def test_open_begins_an_instance_or_empties_it(stubs: Stubs, name: str) -> None:
    assert list(opened(stubs, name).cleared) == []
    put(stubs, name, "b", "a")
    assert list(opened(stubs, name).cleared) == ["a", "b"]
    assert keys_in(stubs, name) == []


def test_open_makes_up_an_instance_id_where_none_is_given(stubs: Stubs) -> None:
    one, other = opened(stubs, "").instance_id, opened(stubs, "").instance_id
    assert one
    assert other not in ("", one)
    put(stubs, one, "k")
    assert closed(stubs, one) == ["k"]


def test_put_begins_an_instance_that_is_not_there(stubs: Stubs, name: str) -> None:
    put(stubs, name, "k")
    assert keys_in(stubs, name) == ["k"]


def test_put_replaces_a_value(stubs: Stubs, name: str) -> None:
    for json in ("1", "2"):
        stubs.scratch.Put(scratch.ScratchPutRequest(instance_id=name, key="k", value=Value(json=json)))
    assert stubs.scratch.Get(scratch.ScratchGetRequest(instance_id=name, key="k")).value.json == "2"
    assert keys_in(stubs, name) == ["k"]


def test_an_instance_that_is_not_there_answers_as_an_empty_one(stubs: Stubs, name: str) -> None:
    got = stubs.scratch.Get(scratch.ScratchGetRequest(instance_id=name, key=" k "))
    assert got == scratch.ScratchGetResponse(key="k")
    assert keys_in(stubs, name) == []
    assert cleared(stubs, name) == []
    assert cleared(stubs, name, key="k") == []
    assert closed(stubs, name) == []


def test_keys_are_listed_sorted_bytewise(stubs: Stubs, name: str) -> None:
    keys = ["b", "a b", "a", "\U0001f600", "\uffee", "é", "B", "10", "9"]
    put(stubs, name, *keys)
    assert keys_in(stubs, name) == sorted(keys, key=str.encode)


@pytest.mark.parametrize("fields", [{}, {"key": ""}, {"key": " \t"}, {"key": "\u3000"}], ids=str)
def test_clear_without_a_key_removes_every_key(fields: dict[str, str], stubs: Stubs, name: str) -> None:
    put(stubs, name, "b", "a")
    assert cleared(stubs, name, **fields) == ["a", "b"]
    assert keys_in(stubs, name) == []


def test_clear_with_a_key_removes_that_one(stubs: Stubs, name: str) -> None:
    put(stubs, name, "a", "ab")
    assert cleared(stubs, name, key=" a ") == ["a"]
    assert cleared(stubs, name, key="a") == []
    assert keys_in(stubs, name) == ["ab"]


def test_close_ends_an_instance(stubs: Stubs, name: str) -> None:
    put(stubs, name, "b", "a")
    assert closed(stubs, name) == ["a", "b"]
    assert closed(stubs, name) == []
    assert keys_in(stubs, name) == []


def test_an_instance_lives_an_hour_unused_where_nothing_else_is_said(stubs: Stubs, name: str) -> None:
    expire = opened(stubs, name).expire_time
    now = opened(stubs, name, idle_ttl=Duration(seconds=1)).expire_time
    assert 3590 < expire.ToSeconds() - now.ToSeconds() < 3610


def test_an_unused_instance_ends(stubs: Stubs, name: str) -> None:
    opened(stubs, name, idle_ttl=Duration(nanos=300_000_000))
    put(stubs, name, "k")
    ended = scratch.ScratchGetRequest(instance_id=name, key="k")
    # Looking at it is using it, so another one's end says when to look.
    opened(stubs, f"{name}-probe", idle_ttl=Duration(nanos=600_000_000))
    put(stubs, f"{name}-probe", "k")
    never_used = scratch.ScratchOpenRequest(instance_id=f"{name}-clock", idle_ttl=Duration(nanos=500_000_000))
    deadline = stubs.scratch.Open(never_used).expire_time.ToMicroseconds()
    clock = scratch.ScratchOpenRequest(instance_id=f"{name}-now", idle_ttl=Duration(nanos=1000))
    until("half a second is over", lambda: stubs.scratch.Open(clock).expire_time.ToMicroseconds() > deadline)
    assert not stubs.scratch.Get(ended).HasField("value")
    assert keys_in(stubs, f"{name}-probe") == ["k"]


def test_every_use_puts_the_end_off(stubs: Stubs, name: str) -> None:
    opened(stubs, name, idle_ttl=Duration(nanos=300_000_000))
    put(stubs, name, "k")
    get = scratch.ScratchGetRequest(instance_id=name, key="k")
    clock = scratch.ScratchOpenRequest(instance_id=f"{name}-now", idle_ttl=Duration(nanos=1000))
    start = stubs.scratch.Open(clock).expire_time.ToMicroseconds()

    def used_for_a_second() -> bool:
        assert stubs.scratch.Get(get).HasField("value")
        return stubs.scratch.Open(clock).expire_time.ToMicroseconds() > start + 1_000_000

    until("it was used for a second", used_for_a_second)


@pytest.mark.parametrize("bad", [Duration(seconds=-1), Duration(nanos=10**9), Duration(seconds=2**63 - 1)], ids=str)
def test_an_idle_ttl_is_refused_that_is_none(bad: Duration, stubs: Stubs, name: str) -> None:
    request = scratch.ScratchOpenRequest(instance_id=name, idle_ttl=bad)
    refused("INVALID_FIELD", stubs.scratch.Open, request, at="idle_ttl")


def test_the_default_of_the_server_may_be_never(start_server: Callable[..., ServerProcess], name: str) -> None:
    with connected(start_server("--scratch-idle-ttl", "0").address) as own:
        assert not opened(own, name).HasField("expire_time")


def test_the_default_of_the_server_ends_instances_that_were_put_to(
    start_server: Callable[..., ServerProcess], name: str
) -> None:
    with connected(start_server("--scratch-idle-ttl", "200ms").address) as own:
        put(own, name, "k")
        clock = scratch.ScratchOpenRequest(instance_id=f"{name}-now", idle_ttl=Duration(nanos=1000))
        start = own.scratch.Open(clock).expire_time.ToMicroseconds()
        until("it is over", lambda: own.scratch.Open(clock).expire_time.ToMicroseconds() > start + 250_000)
        assert keys_in(own, name) == []


def test_a_key_with_which_the_list_would_not_fit_a_message_is_refused(server: ServerProcess, name: str) -> None:
    """8,208 keys of 500 bytes are what a client with the default limit of 4 MiB can surely read."""
    with connected(server.address) as own:
        keys = [f"{number:05}".ljust(500, "k") for number in range(8_208)]
        value = Value(json="1")
        call_many(own.scratch.Put, (scratch.ScratchPutRequest(instance_id=name, key=key, value=value) for key in keys))
        refused(
            "LIMIT_REACHED", own.scratch.Put, scratch.ScratchPutRequest(instance_id=name, key="m" * 500, value=value)
        )
        assert own.scratch.List(scratch.ScratchListRequest(instance_id=name)).keys == keys
        own.scratch.Put(scratch.ScratchPutRequest(instance_id=name, key=keys[0], value=value))
        own.scratch.Clear(scratch.ScratchClearRequest(instance_id=name, key=keys[0]))
        own.scratch.Put(scratch.ScratchPutRequest(instance_id=name, key="m" * 500, value=value))
