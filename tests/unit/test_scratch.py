"""The contract's Scratch: values for as long as an instance lives."""

import threading
from dataclasses import replace

import pytest
from google.protobuf.duration_pb2 import Duration
from statekeep.v1.value_pb2 import Value
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.journal import Limits
from unit.rules_support import START, ScratchRules, World, invalid, micros, refusal_of, refused, span

BLANKS = ["", " ", "  ", "\t\n", "\u3000", "\x85\u2028"]


def test_open_begins_an_instance(scratch: ScratchRules) -> None:
    answer = scratch.open("i")
    assert answer.instance_id == "i"
    assert answer.cleared == []
    assert micros(answer.expire_time) == START + 3600 * 1_000_000


def test_open_empties_an_instance_and_tells_what_was_there_sorted(scratch: ScratchRules) -> None:
    for key in ("b", "a", "\U0001f4be", "\uffff", "B"):
        scratch.put(key)
    assert list(scratch.open("i").cleared) == ["B", "a", "b", "\uffff", "\U0001f4be"]
    assert scratch.keys() == []
    assert scratch.get("a") is None


def test_open_without_an_id_makes_one_up(scratch: ScratchRules) -> None:
    made_up = {scratch.open("").instance_id for _ in range(100)}
    assert len(made_up) == 100
    assert "" not in made_up


def test_put_to_an_instance_that_is_not_there_begins_it(scratch: ScratchRules) -> None:
    scratch.put("a", 1, "new")
    assert scratch.get("a", "new").json == "1"


def test_put_answers_the_key_as_it_is_kept(scratch: ScratchRules) -> None:
    assert scratch.put("\u3000a b ") == "a b"
    assert scratch.keys() == ["a b"]
    assert scratch.get(" a b").json == "1"


def test_put_again_replaces_the_value(scratch: ScratchRules) -> None:
    scratch.put("a", 1)
    scratch.put(" a ", 2)
    assert scratch.get("a").json == "2"
    assert scratch.keys() == ["a"]


def test_json_null_is_a_value(scratch: ScratchRules) -> None:
    scratch.put("a", Value(json="null"))
    assert scratch.get("a") == Value(json="null")


def test_keys_are_listed_sorted(scratch: ScratchRules) -> None:
    for key in ("b", "\U0001f4be", "a", "\uffff", "B", "é"):
        scratch.put(key)
    assert scratch.keys() == ["B", "a", "b", "é", "\uffff", "\U0001f4be"]


def test_instances_share_nothing(scratch: ScratchRules) -> None:
    scratch.put("a", 1, "one")
    scratch.put("a", 2, "two")
    scratch.clear(instance_id="one")
    assert scratch.get("a", "two").json == "2"


def test_an_instance_that_is_not_there_answers_as_an_empty_one(scratch: ScratchRules) -> None:
    assert scratch.get("a", "none") is None
    assert scratch.keys("none") == []
    assert scratch.clear(instance_id="none") == []
    assert scratch.clear("a", "none") == []
    assert scratch.close("none") == []


def test_clear_of_one_key_removes_that(scratch: ScratchRules) -> None:
    scratch.put("a")
    scratch.put("b")
    assert scratch.clear(" a ") == ["a"]
    assert scratch.clear("a") == []
    assert scratch.keys() == ["b"]


@pytest.mark.parametrize("key", [None, *BLANKS], ids=ascii)
def test_clear_without_a_key_removes_every_key_and_returns_them_sorted(scratch: ScratchRules, key: str | None) -> None:
    for name in ("b", "a", "\U0001f4be", "\uffff"):
        scratch.put(name)
    assert scratch.clear(key) == ["a", "b", "\uffff", "\U0001f4be"]
    assert scratch.keys() == []


@pytest.mark.parametrize("key", ["\x00", "\x1f", " \x1c ", "a\x00", "\x1e"], ids=ascii)
def test_clear_with_a_control_character_wipes_nothing(scratch: ScratchRules, key: str) -> None:
    scratch.put("a")
    with invalid("key"):
        scratch.clear(key)
    assert scratch.keys() == ["a"]


@pytest.mark.parametrize("key", BLANKS, ids=ascii)
def test_put_and_get_need_a_key(scratch: ScratchRules, key: str) -> None:
    with invalid("key"):
        scratch.put(key)
    with invalid("key"):
        scratch.get(key)


@pytest.mark.parametrize("instance_id", [" i", "i ", "i\n", "\x00", "x" * 257, " "], ids=ascii)
def test_an_instance_id_is_never_trimmed(scratch: ScratchRules, instance_id: str) -> None:
    attempts = [
        lambda: scratch.open(instance_id),
        lambda: scratch.put("a", 1, instance_id),
        lambda: scratch.get("a", instance_id),
        lambda: scratch.keys(instance_id),
        lambda: scratch.clear(None, instance_id),
        lambda: scratch.close(instance_id),
        lambda: scratch.attach(instance_id),
    ]
    for attempt in attempts:
        with invalid("instance_id"):
            attempt()


def test_an_empty_instance_id_is_refused_where_none_is_made_up(scratch: ScratchRules) -> None:
    for attempt in (scratch.keys, scratch.close):
        with invalid("instance_id"):
            attempt("")
    with invalid("instance_id"):
        scratch.put("a", 1, "")
    with invalid("instance_id"):
        scratch.get("a", "")
    with invalid("instance_id"):
        scratch.clear(None, "")


def test_close_ends_an_instance_and_tells_what_was_there(scratch: ScratchRules) -> None:
    scratch.put("b")
    scratch.put("a")
    assert scratch.close() == ["a", "b"]
    assert scratch.keys() == []
    assert scratch.close() == []


def test_a_refused_put_begins_nothing(world: World, scratch: ScratchRules) -> None:
    with invalid("value.json"):
        scratch.put("a", Value(json="NaN"))
    world.pass_time(10_000)
    assert scratch.rules.sweep(world.now) == 0


# --- attach


def test_attach_opens_and_empties_the_instance(scratch: ScratchRules) -> None:
    scratch.put("a")
    assert scratch.attach("i").id == "i"
    assert scratch.keys() == []


def test_attach_without_an_id_makes_one_up(scratch: ScratchRules) -> None:
    assert scratch.attach("").id != scratch.attach("").id


def test_an_attached_instance_is_not_attached_again(scratch: ScratchRules) -> None:
    scratch.attach()
    scratch.put("a")
    with refused(Reason.INSTANCE_ATTACHED) as refusal:
        scratch.attach()
    assert refusal.value.metadata == {"instance": "i"}
    assert scratch.keys() == ["a"]


def test_an_instance_ends_with_its_stream(scratch: ScratchRules) -> None:
    attached = scratch.attach()
    scratch.put("a")
    scratch.rules.detach(attached)
    assert scratch.keys() == []
    assert scratch.attach().id == "i"


def test_an_instance_that_was_closed_meanwhile_leaves_the_new_one_alone(scratch: ScratchRules) -> None:
    attached = scratch.attach()
    scratch.close()
    scratch.put("a")
    scratch.rules.detach(attached)
    assert scratch.keys() == ["a"]


def test_opening_an_attached_instance_empties_it_and_leaves_it_attached(world: World, scratch: ScratchRules) -> None:
    scratch.attach()
    scratch.put("a")
    answer = scratch.open("i", idle_ttl=span(1))
    assert list(answer.cleared) == ["a"]
    assert not answer.HasField("expire_time")
    with refused(Reason.INSTANCE_ATTACHED):
        scratch.attach()
    scratch.put("b")
    world.pass_time(10_000)
    assert scratch.keys() == ["b"]


def test_an_attached_instance_does_not_idle_away(world: World, scratch: ScratchRules) -> None:
    scratch.open("i", idle_ttl=span(1))
    scratch.attach()
    scratch.put("a")
    world.pass_time(10**8)
    assert scratch.rules.sweep(world.now) == 0
    assert scratch.keys() == ["a"]


# --- idle


def test_an_instance_unused_for_its_idle_ttl_ends(world: World, scratch: ScratchRules) -> None:
    scratch.open("i", idle_ttl=span(10))
    scratch.put("a")
    world.pass_time(9.999_999)
    assert scratch.keys() == ["a"]
    world.pass_time(10)
    assert scratch.keys() == []
    assert scratch.get("a") is None
    assert scratch.clear() == []
    assert scratch.close() == []


def test_the_default_is_an_hour(world: World, scratch: ScratchRules) -> None:
    scratch.put("a")
    world.pass_time(3599)
    assert scratch.keys() == ["a"]
    world.pass_time(3600)
    assert scratch.keys() == []


def test_the_server_may_have_another_default(world: World) -> None:
    scratch = ScratchRules(world, idle_ttl=0.5)
    assert micros(scratch.open("i").expire_time) == START + 500_000
    scratch.put("a")
    world.pass_time(0.5)
    assert scratch.keys() == []


@pytest.mark.parametrize("use", ["put", "get", "list", "clear", "open"])
def test_every_use_lets_it_live_on(world: World, scratch: ScratchRules, use: str) -> None:
    scratch.open("i", idle_ttl=span(10))
    scratch.put("a")
    for _ in range(3):
        world.pass_time(9)
        {
            "put": lambda: scratch.put("b"),
            "get": lambda: scratch.get("none"),
            "list": scratch.keys,
            "clear": lambda: scratch.clear("none"),
            "open": lambda: scratch.open("i", idle_ttl=span(10)),
        }[use]()
    scratch.put("b")
    assert scratch.get("b") is not None


def test_what_ended_is_not_there_for_the_next_who_opens_it(world: World, scratch: ScratchRules) -> None:
    scratch.put("a")
    world.pass_time(3600)
    assert list(scratch.open("i").cleared) == []
    scratch.put("b", 1, "other")
    world.pass_time(3600)
    scratch.put("c", 1, "other")
    assert scratch.keys("other") == ["c"]


def test_a_put_to_what_ended_begins_it_with_the_servers_idle_ttl(world: World, scratch: ScratchRules) -> None:
    scratch.open("i", idle_ttl=span(1))
    world.pass_time(1)
    scratch.put("a")
    world.pass_time(3599)
    assert scratch.keys() == ["a"]


def test_0_is_never(world: World) -> None:
    scratch = ScratchRules(world, idle_ttl=0)
    assert not scratch.open("i").HasField("expire_time")
    scratch.put("a")
    world.pass_time(10**8)
    assert scratch.rules.sweep(world.now) == 0
    assert scratch.keys() == ["a"]


def test_opening_again_without_an_idle_ttl_takes_the_servers_default(world: World, scratch: ScratchRules) -> None:
    scratch.open("i", idle_ttl=span(1))
    assert micros(scratch.open("i").expire_time) == START + 3600 * 1_000_000


def test_opening_again_without_an_idle_ttl_takes_the_servers_default_also_where_that_is_never(world: World) -> None:
    scratch = ScratchRules(world, idle_ttl=0)
    scratch.open("i", idle_ttl=span(1))
    assert not scratch.open("i").HasField("expire_time")
    scratch.put("a")
    world.pass_time(10)
    assert scratch.keys() == ["a"]


@pytest.mark.parametrize(
    "idle_ttl",
    [Duration(), Duration(seconds=-1), Duration(nanos=-1), Duration(seconds=2**63 - 1), Duration(nanos=10**9)],
)
def test_an_idle_ttl_that_is_none_is_refused(scratch: ScratchRules, idle_ttl: Duration) -> None:
    with invalid("idle_ttl"):
        scratch.open("i", idle_ttl=idle_ttl)


def test_a_sweep_removes_what_ended_and_nothing_else(world: World, scratch: ScratchRules) -> None:
    for number in range(5):
        scratch.open(f"i{number}", idle_ttl=span(number + 1))
    world.pass_time(3)
    assert scratch.rules.sweep(world.now) == 3
    assert scratch.rules.sweep(world.now) == 0


def test_a_clock_that_goes_back_ends_nothing(world: World, scratch: ScratchRules) -> None:
    scratch.put("a")
    world.pass_time(-(10**6))
    assert scratch.keys() == ["a"]
    assert scratch.rules.sweep(world.now) == 0


def test_the_limit_is_on_key_and_value(world: World, scratch: ScratchRules) -> None:
    world.limits = Limits(record=1000)
    scratch.put("a", Value(text="x" * 990))
    with refused(Reason.VALUE_TOO_LARGE, "value") as refusal:
        scratch.put("a" * 100, Value(text="x" * 990))
    assert refusal.value.metadata["max"] == "1000"
    assert scratch.keys() == ["a"]


def test_many_threads_at_once_lose_nothing(scratch: ScratchRules) -> None:
    def work(number: int) -> None:
        for count in range(200):
            scratch.put(f"{number}-{count}", count)
            scratch.put("shared", count)
            scratch.keys()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(scratch.keys()) == 8 * 200 + 1


def test_of_many_threads_that_attach_one_instance_one_wins(scratch: ScratchRules) -> None:
    refusals: list[StatekeepError | None] = []

    def work() -> None:
        refusals.append(refusal_of(scratch.attach))

    workers = [threading.Thread(target=work) for _ in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(refusal.reason if refusal else "" for refusal in refusals) == ["", *[Reason.INSTANCE_ATTACHED] * 15]


def test_a_put_that_is_refused_begins_no_instance(world: World, scratch: ScratchRules) -> None:
    world.limits = replace(world.limits, scratch_bytes=10)
    with refused(Reason.LIMIT_REACHED):
        scratch.put("k", "x" * 100)
    assert len(scratch.rules) == 0
    scratch.put("k", "x")
    assert len(scratch.rules) == 1
