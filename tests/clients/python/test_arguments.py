"""What a request cannot carry is refused before anything is sent, with one kind of error."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
import statekeep
from statekeep import Client, NewCheckpoint, NewEvent, Write, errors
from statekeep.scratch import MemoryNode

LONE = "\ud800"


@pytest.fixture
def nowhere() -> Iterator[Client]:
    """A client without a server: what is raised by it was raised before anything was sent."""
    with Client("127.0.0.1:1") as client:
        yield client


REFUSED: list[tuple[str, Callable[[Any], object]]] = [
    ("version", lambda client: client.memory.get("k", scope="s", version=2**70)),
    ("version", lambda client: client.memory.get("k", scope="s", version="1")),
    ("key", lambda client: client.memory.get(5, scope="s")),
    ("key", lambda client: client.memory.get(b"\xff", scope="s")),
    ("name", lambda client: client.memory.get("k", scope=LONE)),
    ("keys", lambda client: client.memory.get_many(5, scope="s")),
    ("keys", lambda client: client.memory.get_many(["k", 5], scope="s")),
    ("ttl", lambda client: client.memory.set("k", 1, scope="s", ttl=1e300)),
    ("ttl", lambda client: client.memory.set("k", 1, scope="s", ttl=float("nan"))),
    ("ttl", lambda client: client.memory.set("k", 1, scope="s", ttl="1")),
    ("labels", lambda client: client.memory.set("k", 1, scope="s", labels={"a": 1})),
    ("labels", lambda client: client.memory.set("k", 1, scope="s", labels="abc")),
    ("expected_version", lambda client: client.memory.set_many([Write("k", 1, expected_version=2**63)], scope="s")),
    ("flow_id", lambda client: client.memory.delete("k", scope="s", flow_id=LONE)),
    ("keep", lambda client: client.memory.purge("k", scope="s", keep=2**40)),
    ("page_size", lambda client: next(client.memory.list(scope="s", page_size=2**40))),
    ("page_size", lambda client: next(client.memory.scopes(page_size=1.5))),
    ("limit", lambda client: client.memory.history("k", scope="s", limit=2**70)),
    ("heartbeat", lambda client: client.memory.watch(scope="s", heartbeat=float("inf"))),
    ("idle_ttl", lambda client: client.scratch.open(idle_ttl=float("nan"))),
    ("key", lambda client: client.scratch.put("i", LONE, 1)),
    ("instance_id", lambda client: client.scratch.attach(5)),
    ("thread_id", lambda client: client.state.append_next(LONE, NewEvent("x"))),
    ("sequence", lambda client: client.state.append("t", NewEvent("x"), sequence=2**64)),
    ("type", lambda client: client.state.append_many("t", [NewEvent(5)])),  # type: ignore[arg-type] # the fault
    ("sequence", lambda client: client.state.save_checkpoint("t", NewCheckpoint("e", 2**64, {}))),
    ("after_revision", lambda client: client.state.tail("t", after_revision=2**64)),
    ("thread_id", lambda client: client.state.history(LONE)),
    ("name", lambda client: client.state.fork("t", "e", name=5)),
]


@pytest.mark.parametrize(("field", "call"), REFUSED)
def test_a_bad_argument_is_refused_by_its_field(nowhere: Client, field: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(errors.UsageError, match=rf"^{field} is .*, not ") as raised:
        call(nowhere)
    assert list(raised.value.fields) == [field]
    assert isinstance(raised.value, ValueError)
    assert str(raised.value).isascii()


def test_what_is_allowed_is_said(nowhere: Client) -> None:
    with pytest.raises(errors.UsageError, match=r"^version is a whole number from -2\*\*63 to 2\*\*63 - 1, not 1180"):
        nowhere.memory.get("k", scope="s", version=2**70)
    with pytest.raises(errors.UsageError, match=r"^key is a str without lone surrogates, not 5$"):
        nowhere.memory.get(5, scope="s")  # type: ignore[arg-type] # the fault
    with pytest.raises(errors.UsageError, match=r"^ttl is a timedelta or a finite number of seconds"):
        nowhere.memory.set("k", 1, scope="s", ttl=1e300)


def test_what_was_given_is_not_shown_at_length(nowhere: Client) -> None:
    with pytest.raises(errors.UsageError) as raised:
        nowhere.memory.get(LONE * 10_000, scope="s")
    assert len(str(raised.value)) < 200


def test_a_time_without_a_zone_or_none_at_all_is_refused(nowhere: Client) -> None:
    with pytest.raises(errors.UsageError, match="time zone"):
        nowhere.state.append_next("t", NewEvent("x", create_time=5))  # type: ignore[arg-type] # the fault


def test_a_value_that_cannot_be_kept_is_a_type_error_as_before(nowhere: Client) -> None:
    with pytest.raises(TypeError, match="a value is"):
        nowhere.memory.set("k", object(), scope="s")


def test_an_asynchronous_call_refuses_the_same() -> None:
    async def get() -> None:
        async with statekeep.AsyncClient("127.0.0.1:1") as client:
            await client.memory.get(5, scope="s")  # type: ignore[arg-type] # the fault

    with pytest.raises(errors.UsageError, match=r"^key is"):
        asyncio.run(get())


def test_a_nodes_time_to_live_is_refused_too() -> None:
    with MemoryNode("127.0.0.1:1", idle_ttl=float("nan")) as node, pytest.raises(errors.UsageError, match="idle_ttl"):
        node.beginInstance()


@pytest.mark.parametrize(
    "address", ["nonsense", "host:", ":1", "unix:", "http://host:1", "host:65536", "::1:5", "a b:1"]
)
def test_what_is_no_address_is_refused_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = r"an address is HOST:PORT, \[IPv6\]:PORT or unix:PATH"
    with pytest.raises(errors.UsageError, match=told):
        Client(address)
    monkeypatch.setenv("STATEKEEP_ADDRESS", address)
    with pytest.raises(errors.UsageError, match=told):
        statekeep.AsyncClient()


def test_an_ipv6_address_is_taken() -> None:
    Client("[::1]:65535").close()


@pytest.mark.parametrize("token", ["a\nb", "a\tb", "a\0b", "a\x7fb", "tökén", LONE])
def test_a_token_that_no_metadata_carries_is_refused_at_once(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.UsageError, match="printable ASCII") as raised:
        Client(token=token)
    assert token not in str(raised.value)
    if token.isascii() and "\0" not in token:
        monkeypatch.setenv("STATEKEEP_TOKEN", token)
        with pytest.raises(errors.UsageError, match="STATEKEEP_TOKEN"):
            statekeep.AsyncClient()


def test_white_space_around_a_token_is_no_part_of_it(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def behave(request: Any, context: grpc.ServicerContext) -> Any:
        seen.append(dict(context.invocation_metadata()).get("authorization"))
        context.abort(grpc.StatusCode.NOT_FOUND, "")

    address = play({"Memory.Get": behave})
    monkeypatch.setenv("STATEKEEP_TOKEN", " from there\r\n")
    for token in (None, "secret\n", " \n"):
        with Client(address, token=token) as client, pytest.raises(errors.NotFoundError):
            client.memory.get("k", scope="s")
    assert seen == ["Bearer from there", "Bearer secret", None]
