"""`from statekeep import memory` behaves as Kitaru's: scopes, flows, checkpoints, versions."""

import asyncio
import dataclasses
import pickle
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
import statekeep
from statekeep import checkpoint, flow, memory
from statekeep._scopes import Process
from statekeep.errors import ContextError, StateError, UsageError

OPERATIONS: list[tuple[str, Callable[[], object]]] = [
    ("set", lambda: memory.set("k", 1)),
    ("get", lambda: memory.get("k")),
    ("list", memory.list),
    ("history", lambda: memory.history("k")),
    ("delete", lambda: memory.delete("k")),
]
CALLS = [*OPERATIONS, ("configure", lambda: memory.configure(scope="s"))]


@pytest.fixture(autouse=True)
def fresh(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that configured nothing yet, with the server where the environment says."""
    monkeypatch.setenv("STATEKEEP_ADDRESS", address)
    monkeypatch.setattr(Process, "scope", None)
    yield
    memory.use(None)


def names(found: list[memory.MemoryEntry]) -> list[tuple[str, int]]:
    return [(entry.key, entry.version) for entry in found]


@pytest.mark.parametrize(("call", "operation"), OPERATIONS)
def test_without_any_scope_an_operation_says_to_configure_one(call: str, operation: Any) -> None:
    expected = rf"statekeep\.memory\.{call}\(\).*requires an explicit scope.*memory\.configure\(scope=\.\.\.\)"
    with pytest.raises(StateError, match=expected):
        operation()


@pytest.mark.parametrize(("call", "operation"), CALLS)
def test_inside_a_checkpoint_every_call_is_refused(call: str, operation: Any) -> None:
    expected = rf"statekeep\.memory\.{call}\(\) cannot be called inside a @checkpoint"

    @checkpoint
    def decorated() -> None:
        operation()

    @checkpoint("named")
    async def on_a_coroutine() -> None:
        operation()

    with pytest.raises(ContextError, match=expected), checkpoint():
        operation()
    with pytest.raises(ContextError, match=expected), checkpoint("named"), flow("f"), checkpoint:
        operation()
    with pytest.raises(ContextError, match=expected):
        decorated()
    with pytest.raises(ContextError, match=expected):
        asyncio.run(on_a_coroutine())


def test_after_a_checkpoint_memory_works_again(name: str) -> None:
    memory.configure(scope=name)
    with pytest.raises(ContextError), checkpoint(), checkpoint():
        memory.get("k")
    assert memory.get("k") is None


def test_a_round_trip_outside_a_flow(name: str) -> None:
    memory.configure(scope=name)
    memory.set("prefs", {"theme": "dark", "n": 2**53 + 1})
    assert memory.get("prefs") == {"theme": "dark", "n": 2**53 + 1}
    (entry,) = memory.list()
    assert (entry.key, entry.version, entry.execution_id, entry.is_deleted) == ("prefs", 1, None, False)
    assert (entry.scope, entry.scope_type, entry.value_type) == (name, "namespace", "object")
    assert [entry.version for entry in memory.history("prefs")] == [1]
    deleted = memory.delete("prefs")
    assert deleted is not None
    assert (deleted.version, deleted.is_deleted, deleted.execution_id) == (2, True, None)
    assert memory.get("prefs") is None
    assert memory.list() == []
    assert [(entry.version, entry.is_deleted) for entry in memory.history("prefs")] == [(2, True), (1, False)]


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "text", b"bytes", [1, [2]], {"a": None}])
def test_a_value_comes_back_equal(name: str, value: object) -> None:
    memory.configure(scope=name)
    assert memory.set("k", value) is None  # type: ignore[func-returns-value] # that it returns nothing is the point
    assert memory.get("k") == value


def test_a_version_can_be_read_by_its_number(name: str) -> None:
    memory.configure(scope=name)
    memory.set("k", "old")
    memory.set("k", "new")
    memory.delete("k")
    assert [memory.get("k", version=number) for number in (1, 2, 3, 4)] == ["old", "new", None, None]


def test_set_after_delete_takes_the_next_version(name: str) -> None:
    memory.configure(scope=name)
    memory.set("k", 1)
    memory.delete("k")
    memory.set("k", 1)
    assert [entry.version for entry in memory.history("k")] == [3, 2, 1]
    assert memory.get("k") == 1


def test_delete_of_a_missing_key_is_none_and_writes_nothing(name: str) -> None:
    memory.configure(scope=name)
    assert memory.delete("k") is None
    assert memory.history("k") == []


def test_delete_twice_is_the_same_tombstone(name: str) -> None:
    memory.configure(scope=name)
    memory.set("k", 1)
    first = memory.delete("k")
    assert first is not None
    assert memory.delete("k") == first
    assert len(memory.history("k")) == 2


def test_list_has_the_newest_version_of_each_living_key_sorted(name: str) -> None:
    memory.configure(scope=name)
    for key in ("b", "a", "c", "a", "B"):
        memory.set(key, key)
    memory.delete("c")
    assert names(memory.list()) == [("B", 1), ("a", 2), ("b", 1)]


def test_list_and_history_go_over_all_pages(name: str) -> None:
    memory.configure(scope=name)
    with statekeep.Client() as client:
        for start in range(0, 1200, 300):
            writes = [statekeep.Write(f"k{number:04}", number) for number in range(start, start + 300)]
            client.memory.set_many(writes, scope=name)
    assert [entry.key for entry in memory.list()] == [f"k{number:04}" for number in range(1200)]


@pytest.mark.parametrize("key", ["", " ", "\u2003", "bad:key", "bad key", "ключ"])
def test_a_malformed_key_is_refused(name: str, key: str) -> None:
    memory.configure(scope=name)
    for call in (lambda: memory.set(key, 1), lambda: memory.get(key), lambda: memory.history(key)):
        with pytest.raises(UsageError, match=r"^Memory key"):
            call()
    with pytest.raises(ValueError, match=r"^Memory key"):
        memory.delete(key)


def test_a_reserved_key_is_refused(name: str) -> None:
    memory.configure(scope=name)
    for call in (lambda: memory.set("_compaction/x", 1), lambda: memory.get(" _compaction/x ")):
        with pytest.raises(UsageError, match="reserved for compaction audit logs"):
            call()


def test_keys_and_scopes_are_trimmed(name: str) -> None:
    memory.configure(scope=f"\t{name} ")
    memory.set(" k\u00a0", 1)
    (entry,) = memory.list()
    assert (entry.key, entry.scope) == ("k", name)


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0])
def test_a_version_is_a_positive_integer(name: str, version: Any) -> None:
    memory.configure(scope=name)
    with pytest.raises(UsageError, match="Memory version must be an integer >= 1"):
        memory.get("k", version=version)


def test_what_is_wrong_is_told_in_the_originals_order() -> None:
    with pytest.raises(ContextError), checkpoint():
        memory.get("bad:key", version=0)
    with pytest.raises(StateError):
        memory.get("bad:key", version=0)
    memory.configure(scope="s")
    with pytest.raises(UsageError, match="Memory key"):
        memory.get("bad:key", version=0)


def test_one_name_under_two_types_is_two_scopes(name: str) -> None:
    for number, kind in enumerate(get_args(memory.MemoryScopeType)):
        memory.configure(scope=name, scope_type=kind)
        assert memory.get("k") is None
        memory.set("k", number)
    for number, kind in enumerate(get_args(memory.MemoryScopeType)):
        memory.configure(scope=name, scope_type=kind)
        assert memory.get("k") == number


class TestConfigure:
    def test_needs_a_scope_or_a_type(self) -> None:
        with pytest.raises(UsageError, match=r"memory\.configure\(\) requires `scope=` or `scope_type=`"):
            memory.configure()

    def test_needs_a_name_for_a_namespace(self) -> None:
        with pytest.raises(UsageError, match=r"configure\(scope_type='namespace'\) requires an explicit `scope=`"):
            memory.configure(scope_type="namespace")

    @pytest.mark.parametrize("kind", ["flow", "execution"])
    def test_takes_no_name_outside_a_flow(self, kind: Any) -> None:
        with pytest.raises(ContextError, match="only infer flow or execution scopes inside a @flow"):
            memory.configure(scope_type=kind)

    def test_takes_no_execution_where_the_flow_has_none(self) -> None:
        with pytest.raises(StateError, match=r"configure\(scope_type='execution'\) requires"), flow("f"):
            memory.configure(scope_type="execution")

    def test_refuses_another_type(self) -> None:
        with pytest.raises(UsageError, match="Memory scope_type must be one of"):
            memory.configure(scope="s", scope_type="global")  # type: ignore[arg-type]

    @pytest.mark.parametrize("scope", ["", " ", "bad:scope", "bad scope"])
    def test_refuses_a_malformed_scope(self, scope: str) -> None:
        with pytest.raises(UsageError, match=r"^Memory scope"):
            memory.configure(scope=scope)

    def test_reads_a_type_as_the_original_does(self, name: str) -> None:
        memory.configure(scope=name, scope_type=" Flow ")  # type: ignore[arg-type]
        memory.set("k", 1)
        assert memory.list()[0].scope_type == "flow"

    def test_that_fails_changes_nothing(self, name: str) -> None:
        memory.configure(scope=name)
        with pytest.raises(UsageError):
            memory.configure(scope="bad:scope")
        memory.set("k", 1)
        assert memory.list()[0].scope == name

    def test_again_replaces(self, name: str) -> None:
        memory.configure(scope=f"{name}/a")
        memory.configure(scope=f"{name}/b")
        memory.set("k", 1)
        assert memory.list()[0].scope == f"{name}/b"


def scope_in_use() -> tuple[str, str]:
    memory.set("probe", 1)
    entry = memory.list()[0]
    return entry.scope_type, entry.scope


class TestFlow:
    def test_has_its_own_scope_where_nothing_is_configured(self, name: str) -> None:
        with flow("named", flow_id=name):
            assert scope_in_use() == ("flow", name)
        with flow(f"{name}-flow"):
            assert scope_in_use() == ("flow", f"{name}-flow")

    def test_begins_with_the_processs_default(self, name: str) -> None:
        memory.configure(scope=name)
        with flow("f"):
            assert scope_in_use() == ("namespace", name)

    def test_has_a_configuration_of_its_own(self, name: str) -> None:
        memory.configure(scope=name)
        with flow("f"):
            memory.configure(scope=f"{name}/inside")
            assert scope_in_use() == ("namespace", f"{name}/inside")
        assert scope_in_use() == ("namespace", name)
        with flow("f"):
            assert scope_in_use() == ("namespace", name)

    def test_that_configures_leaves_the_process_without_a_default(self, name: str) -> None:
        with flow("f"):
            memory.configure(scope=name)
        with pytest.raises(StateError, match="requires an explicit scope"):
            memory.list()

    def test_that_runs_does_not_see_a_later_default(self, name: str) -> None:
        with flow("f", flow_id=name):
            outside = threading.Thread(target=memory.configure, args=("elsewhere",))
            outside.start()
            outside.join()
            assert scope_in_use() == ("flow", name)

    def test_gives_its_own_id_and_execution_as_scope(self, name: str) -> None:
        memory.configure(scope="default")
        with flow("f", flow_id=name, execution_id=f"{name}-run"):
            memory.configure(scope_type="flow")
            assert scope_in_use() == ("flow", name)
            memory.configure(scope_type="execution")
            assert scope_in_use() == ("execution", f"{name}-run")
        with flow(name):
            memory.configure(scope_type="flow")
            assert scope_in_use() == ("flow", name)

    def test_tells_flows_of_one_name_apart_by_their_ids(self, name: str) -> None:
        with flow("same", flow_id=f"{name}-1"):
            memory.set("k", 1)
        with flow("same", flow_id=f"{name}-2"):
            assert memory.get("k") is None

    def test_inside_a_flow_has_its_own_scope(self, name: str) -> None:
        with flow("outer", flow_id=f"{name}-outer"):
            memory.configure(scope=name)
            with flow("inner", flow_id=f"{name}-inner"):
                assert scope_in_use() == ("flow", f"{name}-inner")
            assert scope_in_use() == ("namespace", name)

    def test_is_over_when_it_fails(self, name: str) -> None:
        with pytest.raises(ZeroDivisionError), flow(name):
            _ = 1 / 0
        with pytest.raises(StateError):
            memory.list()

    def test_decorates_a_function(self, name: str) -> None:
        @flow("f", flow_id=name)
        def work(key: str) -> object:
            """Works."""
            memory.set(key, "done")
            return memory.get(key)

        assert work("k") == "done"
        assert (work.__name__, work.__doc__) == ("work", "Works.")
        with pytest.raises(StateError):
            memory.list()

    def test_decorates_a_coroutine_function(self, name: str) -> None:
        @flow("f", flow_id=name)
        async def work() -> object:
            memory.set("k", "done")
            await asyncio.sleep(0)
            return memory.get("k")

        async def run() -> object:
            async with flow("outer"):
                return await work()

        assert asyncio.run(run()) == "done"

    def test_refuses_to_decorate_a_generator(self) -> None:
        with pytest.raises(TypeError, match="generator"):

            @flow("f")
            def work() -> Iterator[int]:
                yield 1

    def test_needs_a_name(self) -> None:
        with pytest.raises(TypeError, match="name"):

            @flow  # type: ignore[arg-type]
            def work() -> None: ...

    def test_on_another_thread_is_not_seen(self, name: str) -> None:
        both_inside = threading.Barrier(2, timeout=10)

        def run(number: int) -> tuple[str, str]:
            with flow("f", flow_id=f"{name}-{number}"):
                both_inside.wait()
                memory.configure(scope=f"{name}/{number}")
                both_inside.wait()
                return scope_in_use()

        with flow("f", flow_id=name), ThreadPoolExecutor(2) as threads:
            seen = list(threads.map(run, [1, 2]))
            assert scope_in_use() == ("flow", name)
        assert seen == [("namespace", f"{name}/1"), ("namespace", f"{name}/2")]

    def test_on_another_task_is_not_seen(self, name: str) -> None:
        async def run(number: int, turn: asyncio.Barrier) -> tuple[str, str]:
            async with flow("f", flow_id=f"{name}-{number}"):
                await turn.wait()
                memory.configure(scope=f"{name}/{number}")
                await turn.wait()
                return scope_in_use()

        async def main() -> list[tuple[str, str]]:
            turn = asyncio.Barrier(2)
            return await asyncio.gather(run(1, turn), run(2, turn))

        assert asyncio.run(main()) == [("namespace", f"{name}/1"), ("namespace", f"{name}/2")]

    def test_one_decorator_serves_runs_at_once(self, name: str) -> None:
        both_inside = threading.Barrier(2, timeout=10)

        @flow("f", flow_id=name)
        def work(number: int) -> tuple[str, str]:
            memory.configure(scope=f"{name}/{number}")
            both_inside.wait()
            return scope_in_use()

        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(work, [1, 2])) == [("namespace", f"{name}/1"), ("namespace", f"{name}/2")]


class TestWhoWrote:
    def test_is_the_flow_in_its_own_scope(self, name: str) -> None:
        with flow("writer", flow_id=name, execution_id="run-1"):
            memory.set("k", 1)
            (entry,) = memory.list()
        assert (entry.execution_id, entry.flow_id, entry.flow_name) == ("run-1", name, "writer")

    def test_is_the_flow_in_its_executions_scope(self, name: str) -> None:
        with flow("writer", flow_id="f-1", execution_id=name):
            memory.configure(scope_type="execution")
            memory.set("k", 1)
            (entry,) = memory.list()
        assert (entry.execution_id, entry.flow_id, entry.flow_name) == (name, "f-1", "writer")

    def test_is_only_the_execution_in_a_namespace(self, name: str) -> None:
        with flow("writer", flow_id="f-1", execution_id="run-1"):
            memory.configure(scope=name)
            memory.set("k", 1)
            (entry,) = memory.list()
        assert (entry.execution_id, entry.flow_id, entry.flow_name) == ("run-1", None, None)

    def test_stands_with_a_tombstone_too(self, name: str) -> None:
        with flow("writer", flow_id=name, execution_id="run-1"):
            memory.set("k", 1)
            entry = memory.delete("k")
        assert entry is not None
        assert (entry.execution_id, entry.flow_id, entry.flow_name) == ("run-1", name, "writer")

    def test_is_nobody_outside_a_flow(self, name: str) -> None:
        memory.configure(scope=name, scope_type="flow")
        memory.set("k", 1)
        (entry,) = memory.list()
        assert (entry.execution_id, entry.flow_id, entry.flow_name) == (None, None, None)


class TestMemoryEntry:
    def test_has_the_originals_fields_in_order(self) -> None:
        assert [field.name for field in dataclasses.fields(memory.MemoryEntry)] == [
            "key", "value_type", "version", "scope", "scope_type", "created_at", "is_deleted", "artifact_id",
            "execution_id", "flow_id", "flow_name",
        ]  # fmt: skip

    def test_is_frozen_hashable_and_pickleable(self, name: str) -> None:
        memory.configure(scope=name)
        memory.set("k", 1)
        (entry,) = memory.list()
        with pytest.raises(dataclasses.FrozenInstanceError):
            entry.version = 2  # type: ignore[misc]
        assert hash(entry) == hash(memory.list()[0])
        assert pickle.loads(pickle.dumps(entry)) == entry  # noqa: S301 # its own bytes

    def test_needs_all_but_the_flow(self) -> None:
        with pytest.raises(TypeError, match="execution_id"):
            memory.MemoryEntry(  # type: ignore[call-arg]
                key="k", value_type="null", version=1, scope="s", scope_type="flow", created_at=datetime.now(UTC),
                is_deleted=False, artifact_id="a",
            )  # fmt: skip

    def test_knows_when_and_has_an_id_of_its_own(self, name: str) -> None:
        memory.configure(scope=name)
        memory.set("k", 1)
        memory.set("k", 1)
        newest, oldest = memory.history("k")
        assert newest.artifact_id != oldest.artifact_id
        assert re.fullmatch(r"\S+", newest.artifact_id)
        assert newest.created_at.tzinfo is UTC
        assert abs(datetime.now(UTC) - newest.created_at) < timedelta(minutes=1)


def test_the_module_works_through_a_client_it_was_given(address: str, name: str) -> None:
    memory.configure(scope=name)
    with statekeep.Client(address) as client:
        memory.use(client)
        memory.set("k", 1)
        memory.use(None)
        entry = client.memory.get("k", scope=name)
    assert entry is not None
    memory.use(address)
    assert memory.get("k") == 1


def test_eight_threads_set_one_key_and_no_version_comes_twice(name: str) -> None:
    memory.configure(scope=name)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: memory.set("k", number), range(80)))
    assert [entry.version for entry in memory.history("k")] == list(range(80, 0, -1))
