"""Request ids: a write that is sent again gets its first answer, and writes nothing."""

import pytest
from statekeep.v1 import memory_pb2
from statekeep_server.core import memory as rules
from statekeep_server.core.errors import Reason
from statekeep_server.core.journal import REQUESTS
from unit.rules_support import SCOPE, MemoryRules, ThreadRules, World, a_set, in_batch, invalid, refused, span


def test_a_set_that_is_sent_again_gets_the_first_answer_and_writes_nothing(world: World, memory: MemoryRules) -> None:
    first = memory.set("k", 1, request_id="r")
    revision = memory.revision()
    world.pass_time(100)
    assert memory.set("k", 1, request_id="r") == first
    assert memory.revision() == revision
    assert memory.versions() == [1]


def test_a_batch_that_is_sent_again_gets_the_first_answer_and_writes_nothing(memory: MemoryRules) -> None:
    first = memory.set_many(a_set("a"), a_set("b"), request_id="r")
    revision = memory.revision()
    assert memory.set_many(a_set("a"), a_set("b"), request_id="r") == first
    assert memory.revision() == revision


def test_a_delete_that_is_sent_again_gets_the_first_answer_and_writes_nothing(memory: MemoryRules) -> None:
    memory.set("k")
    first = memory.delete("k", request_id="r")
    memory.set("k")
    assert memory.delete("k", request_id="r") == first
    assert memory.get("k").version == 3


def test_a_delete_of_nothing_is_known_again_too(memory: MemoryRules) -> None:
    memory.set("other")
    assert memory.delete("k", request_id="r") is None
    memory.set("k")
    assert memory.delete("k", request_id="r") is None
    assert memory.get("k").version == 1


def test_a_fork_that_is_sent_again_gets_the_first_answer_and_makes_no_second_branch(threads: ThreadRules) -> None:
    threads.append_next("e1")
    first = threads.fork("e1", request_id="r", event=in_batch("f1"))
    assert threads.fork("e1", request_id="r", event=in_batch("f1")) == first
    assert threads.branch_ids() == [first.branch.id]
    assert threads.ids(branch_id=first.branch.id) == ["f1"]


def test_a_retried_fork_is_known_by_its_request_id_and_not_by_its_name(threads: ThreadRules) -> None:
    threads.append_next("e1")
    first = threads.fork("e1", "draft", request_id="r")
    assert threads.fork("e1", "draft", request_id="r") == first
    with refused(Reason.BRANCH_EXISTS):
        threads.fork("e1", "draft", request_id="other")
    with refused(Reason.BRANCH_EXISTS):
        threads.fork("e1", "draft")


def test_the_same_id_with_another_request_is_refused(memory: MemoryRules) -> None:
    memory.set("k", 1, request_id="r")
    attempts = [
        lambda: memory.set("k", 2, request_id="r"),
        lambda: memory.set("k2", 1, request_id="r"),
        lambda: memory.set("k", 1, request_id="r", expected_version=0),
        lambda: memory.delete("k", request_id="r"),
        lambda: memory.set_many(a_set("k", 1), request_id="r"),
    ]
    for attempt in attempts:
        with refused(Reason.REQUEST_ID_REUSED, "request_id") as refusal:
            attempt()
        assert refusal.value.metadata["request_id"] == "r"
    assert memory.versions() == [1]


def test_a_forks_id_with_another_request_is_refused(threads: ThreadRules) -> None:
    threads.append_next("e1")
    threads.fork("e1", "draft", request_id="r")
    with refused(Reason.REQUEST_ID_REUSED, "request_id"):
        threads.fork("e1", "other", request_id="r")


@pytest.mark.parametrize(
    "fields",
    [{"key": " k\u3000"}, {"scope": memory_pb2.Scope(name=" s ")}, {"scope": memory_pb2.Scope(name="s", type=1)}],
    ids=["key", "scope name", "scope type"],
)
def test_names_are_normalised_before_requests_are_compared(memory: MemoryRules, fields: dict) -> None:
    first = memory.set("k", 1, request_id="r")
    assert memory.set(**{"key": "k", "content": 1, "request_id": "r", **fields}) == first


def test_a_known_id_is_looked_at_before_any_other_check(world: World, memory: MemoryRules) -> None:
    first = memory.set("k", 1, request_id="r", expected_version=0)
    assert memory.set("k", 1, request_id="r", expected_version=0) == first
    with refused(Reason.REQUEST_ID_REUSED):
        memory.set("bad key", request_id="r")
    with refused(Reason.REQUEST_ID_REUSED):
        memory.set("k", None, value=None, request_id="r")
    with refused(Reason.REQUEST_ID_REUSED):
        memory.set("k", request_id="r", ttl=span(0))
    with refused(Reason.REQUEST_ID_REUSED):
        memory.set("k", "x" * (world.limits.record + 1), request_id="r")
    with refused(Reason.REQUEST_ID_REUSED):
        memory.set_many(a_set("k"), a_set("k"), request_id="r")


def test_a_refused_write_is_not_remembered(memory: MemoryRules) -> None:
    with refused(Reason.VERSION_MISMATCH):
        memory.set("k", 1, expected_version=3, request_id="r")
    assert memory.set("k", 2, request_id="r").version == 1


def test_a_request_id_is_known_in_its_scope_only(memory: MemoryRules) -> None:
    memory.set("k", 1, request_id="r")
    other = memory_pb2.Scope(name="other")
    assert memory.set("k", 2, scope=other, request_id="r").version == 1


def test_a_request_id_is_known_in_its_thread_only(threads: ThreadRules) -> None:
    for thread_id in ("one", "two"):
        threads.append_next("e1", thread_id=thread_id)
        assert threads.fork("e1", "draft", thread_id=thread_id, request_id="r").branch.thread_id == thread_id


def test_an_empty_request_id_is_never_known(memory: MemoryRules) -> None:
    assert memory.set("k", 1, request_id="").version == 1
    assert memory.set("k", 1, request_id="").version == 2


@pytest.mark.parametrize("request_id", [" ", " r", "r\n", "r\x00", "r" * 257])
def test_a_request_id_is_an_id(memory: MemoryRules, request_id: str) -> None:
    with invalid("request_id"):
        memory.set("k", request_id=request_id)


def test_inside_a_batch_only_the_batch_carries_a_request_id(memory: MemoryRules) -> None:
    with invalid("sets[1].request_id"):
        memory.set_many(a_set("a"), a_set("b", request_id="r"))
    assert memory.keys() == []


def test_a_request_id_does_not_outlive_a_deleted_thread(threads: ThreadRules) -> None:
    threads.append_next("e1")
    first = threads.fork("e1", "draft", request_id="r")
    threads.drop()
    threads.append_next("e1")
    assert threads.fork("e1", "draft", request_id="r").branch.revision > first.branch.revision
    assert threads.branch_ids() == ["draft"]


def test_the_last_10000_requests_are_known_at_least_whenever_old_ones_are_forgotten(memory: MemoryRules) -> None:
    first_answers = {}
    for number in range(20_010):
        first_answers[number] = memory.set("k", request_id=f"r{number}")
        if number >= 19_990:
            for known in (number - 9_999, number - 9_000, number):
                assert memory.set("k", request_id=f"r{known}") == first_answers[known]
    assert memory.get("k").version == 20_010


def test_what_requests_keep_does_not_grow_for_ever(memory: MemoryRules) -> None:
    memory.set("other")
    for number in range(20_001):
        memory.delete("k", request_id=f"r{number}")
    kept = memory.world.look(rules.partition(SCOPE), lambda view: view.count(REQUESTS))
    assert 10_000 <= kept <= 20_000
    assert memory.purges().purges == []


def test_requests_are_no_keys(memory: MemoryRules) -> None:
    memory.set("other")
    seen = memory.keys(include_deleted=True), memory.scopes(), memory.watched()
    memory.delete("k", request_id="r")
    assert (memory.keys(include_deleted=True), memory.scopes(), memory.watched()) == seen
