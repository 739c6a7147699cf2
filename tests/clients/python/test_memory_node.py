"""`statekeep.scratch.MemoryNode` answers as RocketRide's node does."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import statekeep
from statekeep.errors import StateError
from statekeep.scratch import MemoryNode


@pytest.fixture
def node(address: str) -> Iterator[MemoryNode]:
    with MemoryNode(address) as node:
        node.beginInstance()
        yield node


def test_put_get_list_clear_answer_the_originals_dictionaries(node: MemoryNode) -> None:
    assert node.get({"key": "a"}) == {"ok": False, "key": "a", "value": None}
    assert node.list({}) == {"ok": True, "keys": []}
    assert node.put({"key": "b", "value": {"x": [1]}, "more": "ignored"}) == {"ok": True, "key": "b"}
    assert node.put({"key": "a", "value": "text"}) == {"ok": True, "key": "a"}
    assert node.get({"key": "b"}) == {"ok": True, "key": "b", "value": {"x": [1]}}
    assert node.list({}) == {"ok": True, "keys": ["a", "b"]}
    assert node.clear({"key": "b"}) == {"ok": True, "cleared": ["b"]}
    assert node.clear({"key": "b"}) == {"ok": True, "cleared": []}
    assert node.list({}) == {"ok": True, "keys": ["a"]}


def test_the_answers_have_their_keys_in_the_originals_order(node: MemoryNode) -> None:
    assert list(node.put({"key": "a", "value": 1})) == ["ok", "key"]
    assert list(node.get({"key": "a"})) == ["ok", "key", "value"]
    assert list(node.get({"key": "b"})) == ["ok", "key", "value"]


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "", "x", b"\x00", [], {}, {"a": [None]}])
def test_a_value_comes_back_equal(node: MemoryNode, value: object) -> None:
    node.put({"key": "k", "value": value})
    assert node.get({"key": "k"}) == {"ok": True, "key": "k", "value": value}


def test_put_overwrites(node: MemoryNode) -> None:
    node.put({"key": "k", "value": 1})
    node.put({"key": "k", "value": 2})
    assert node.get({"key": "k"})["value"] == 2


def test_keys_are_trimmed_everywhere(node: MemoryNode) -> None:
    assert node.put({"key": " a\t", "value": 1}) == {"ok": True, "key": "a"}
    assert node.get({"key": "\n a "}) == {"ok": True, "key": "a", "value": 1}
    assert node.get({"key": " missing "}) == {"ok": False, "key": "missing", "value": None}
    assert node.clear({"key": " a "}) == {"ok": True, "cleared": ["a"]}


@pytest.mark.parametrize("args", [{}, {"key": None}, {"key": ""}, {"key": " \t\n"}])
def test_clear_without_a_key_removes_all_and_tells_them_sorted(node: MemoryNode, args: dict[str, Any]) -> None:
    for key in ("b", "c", "a"):
        node.put({"key": key, "value": 1})
    assert node.clear(args) == {"ok": True, "cleared": ["a", "b", "c"]}
    assert node.list({}) == {"ok": True, "keys": []}


@pytest.fixture
def nowhere() -> Iterator[MemoryNode]:
    """A node without a server: what is raised by it was raised before anything was sent."""
    with MemoryNode("127.0.0.1:1") as node:
        yield node


@pytest.mark.parametrize("args", [None, [], "key", 1, ("key", "a")])
@pytest.mark.parametrize("call", ["put", "get", "list", "clear"])
def test_arguments_that_are_no_dict_are_refused(nowhere: MemoryNode, call: str, args: Any) -> None:
    with pytest.raises(ValueError, match=r"^args must be a dict$"):
        getattr(nowhere, call)(args)


@pytest.mark.parametrize("args", [{}, {"key": None}, {"key": 1}, {"key": b"k"}, {"key": ""}, {"key": " \t "}])
@pytest.mark.parametrize("call", ["put", "get"])
def test_a_key_that_is_missing_blank_or_no_string_is_refused(nowhere: MemoryNode, call: str, args: Any) -> None:
    with pytest.raises(ValueError, match=r'^"key" is required and must be a non-empty string$'):
        getattr(nowhere, call)(args)


def test_a_missing_value_is_refused(nowhere: MemoryNode) -> None:
    with pytest.raises(ValueError, match=r'^"value" is required$'):
        nowhere.put({"key": "k"})


@pytest.mark.parametrize("key", [1, b"k", ["k"], 0, False])
def test_clear_of_a_key_that_is_no_string_is_refused(nowhere: MemoryNode, key: object) -> None:
    with pytest.raises(ValueError, match=r'^"key" must be a string if provided$'):
        nowhere.clear({"key": key})


def test_before_its_instance_begins_a_node_says_so(nowhere: MemoryNode) -> None:
    for call in (
        lambda: nowhere.put({"key": "k", "value": 1}),
        lambda: nowhere.get({"key": "k"}),
        lambda: nowhere.list({}),
        lambda: nowhere.clear({}),
        lambda: nowhere.open(object()),
    ):
        with pytest.raises(StateError, match=r"beginInstance\(\)"):
            call()


def test_open_empties_the_instance(node: MemoryNode) -> None:
    node.put({"key": "k", "value": 1})
    assert node.open({"any": "object"}) is None  # type: ignore[func-returns-value] # that it returns nothing
    assert node.list({}) == {"ok": True, "keys": []}


def test_begin_instance_begins_a_new_and_empty_one(node: MemoryNode) -> None:
    node.put({"key": "k", "value": 1})
    node.beginInstance()
    assert node.list({}) == {"ok": True, "keys": []}


def test_two_nodes_do_not_see_each_other(node: MemoryNode, client: statekeep.Client) -> None:
    other = MemoryNode(client)
    other.beginInstance()
    node.put({"key": "k", "value": 1})
    assert other.get({"key": "k"})["ok"] is False
    other.close()


def test_a_node_leaves_the_client_open_that_it_was_given(client: statekeep.Client, name: str) -> None:
    node = MemoryNode(client)
    node.beginInstance()
    node.close()
    node.close()
    assert client.memory.get("k", scope=name) is None


def test_a_node_without_a_client_goes_where_the_environment_says(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEKEEP_ADDRESS", address)
    with MemoryNode() as node:
        node.beginInstance()
        assert node.list({}) == {"ok": True, "keys": []}


def test_a_closed_node_leaves_no_instance_behind(client: statekeep.Client) -> None:
    node = MemoryNode(client)
    node.beginInstance()
    node.put({"key": "k", "value": 1})
    instance_id = node._instance
    assert client.scratch.list(instance_id) == ["k"]
    node.close()
    del node
    gc.collect()
    assert client.scratch.list(instance_id) == []
