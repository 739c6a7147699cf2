"""The contract's Streams, as Watch keeps them."""

import pytest
from google.protobuf.duration_pb2 import Duration
from statekeep.v1 import memory_pb2
from statekeep.v1.value_pb2 import Value
from statekeep_server.core.errors import Reason
from unit.rules_support import MemoryRules, Stream, World, a_set, invalid, refused, span

LARGE = Value(text="x" * 100_000)


def shown(messages: list[memory_pb2.MemoryWatchResponse]) -> list[tuple[str, int]]:
    return [(entry.key, entry.version) for message in messages for entry in message.entries]


def test_a_watch_from_0_sends_all_there_is_in_the_order_written(memory: MemoryRules) -> None:
    memory.set("b")
    memory.set("a")
    memory.delete("b")
    memory.set("b")
    messages = memory.watch(after_revision=0).rest()
    assert shown(messages) == [("b", 1), ("a", 1), ("b", 2), ("b", 3)]
    assert [entry.deleted for message in messages for entry in message.entries] == [False, False, True, False]


def test_a_watch_without_a_revision_sends_only_what_is_written_from_now_on(memory: MemoryRules) -> None:
    memory.set("old")
    watch = memory.watch()
    assert watch.rest() == [memory_pb2.MemoryWatchResponse(caught_up=True, revision=memory.revision())]
    memory.set("new")
    assert shown(watch.rest()) == [("new", 1)]


def test_a_watch_after_a_revision_sends_what_is_greater(memory: MemoryRules) -> None:
    memory.set("a")
    revision = memory.set("b").revision
    memory.set("c")
    assert shown(memory.watch(after_revision=revision).rest()) == [("c", 1)]


def test_a_watch_shows_only_keys_with_its_prefix(memory: MemoryRules) -> None:
    for key in ("fo", "foo", "foobar", "g"):
        memory.set(key)
    assert shown(memory.watch(after_revision=0, prefix="foo").rest()) == [("foo", 1), ("foobar", 1)]


def test_a_watch_carries_no_values_unless_asked_to(memory: MemoryRules) -> None:
    memory.set("k", Value(text="v"))
    assert not memory.watch(after_revision=0).step().entries[0].HasField("value")
    assert memory.watch(after_revision=0, include_values=True).step().entries[0].value.text == "v"


def test_a_watch_is_of_one_scope(memory: MemoryRules) -> None:
    memory.set("k", scope=memory_pb2.Scope(name="s", type=2))
    memory.set("k", scope=memory_pb2.Scope(name="s2"))
    assert memory.watched() == []


def test_a_watch_stays(memory: MemoryRules) -> None:
    watch = memory.watch(after_revision=0)
    watch.rest()
    assert watch.reader.follows
    assert not watch.done


@pytest.mark.parametrize("there", [0, 1, 20])
def test_caught_up_comes_exactly_once_after_everything_before(memory: MemoryRules, there: int) -> None:
    for number in range(there):
        memory.set(f"k{number}", LARGE)
    watch = memory.watch(after_revision=0, include_values=True)
    messages = watch.rest()
    assert [message.caught_up for message in messages] == [False] * (len(messages) - 1) + [True]
    assert len(shown(messages)) == there
    memory.set("more", LARGE)
    assert not any(message.caught_up for message in watch.rest())


def test_caught_up_comes_though_the_prefix_matches_nothing(memory: MemoryRules) -> None:
    memory.set("k")
    messages = memory.watch(after_revision=0, prefix="x").rest()
    assert messages == [memory_pb2.MemoryWatchResponse(caught_up=True, revision=memory.revision())]


def test_messages_are_cut_by_bytes_with_a_large_record_alone(memory: MemoryRules) -> None:
    for key, size in zip("abcdefg", (100_000, 100_000, 100_000, 1_000_000, 10, 10, 10), strict=True):
        memory.set(key, Value(text="x" * size))
    messages = memory.watch(after_revision=0, include_values=True).rest()
    assert [[entry.key for entry in message.entries] for message in messages] == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e", "f", "g"],
    ]
    assert len(memory.watch(after_revision=0).rest()) == 1


def test_a_watch_can_be_resumed_at_every_messages_revision(memory: MemoryRules) -> None:
    for number in range(30):
        memory.set(f"k{number % 7}", LARGE)
    messages = memory.watch(after_revision=0, include_values=True).rest()
    whole = shown(messages)
    assert len(messages) > 10
    for count, message in enumerate(messages, 1):
        rest = memory.watch(after_revision=message.revision).rest()
        assert shown(messages[:count]) + shown(rest) == whole


def test_the_revision_is_of_everything_that_was_looked_at(memory: MemoryRules) -> None:
    memory.set("a")
    memory.set("other")
    memory.purge(key="other")
    message = memory.watch(after_revision=0, prefix="a").step()
    assert message.revision == memory.revision()


@pytest.mark.parametrize("other_writes", [0, 6_000])
def test_a_rare_prefix_is_found_and_caught_up_with(memory: MemoryRules, other_writes: int) -> None:
    memory.set("x1")
    for _ in range(other_writes // 1000):
        memory.set_many(*(a_set(f"k{number}") for number in range(1000)))
    memory.set("x2")
    messages = memory.watch(after_revision=0, prefix="x").rest()
    assert shown(messages) == [("x1", 1), ("x2", 1)]
    assert [message.caught_up for message in messages].count(True) == 1
    assert messages[-1].caught_up


def test_a_long_search_is_made_in_steps_so_that_others_go_first(memory: MemoryRules) -> None:
    for _ in range(11):
        memory.set_many(*(a_set(f"k{number}") for number in range(1000)))
    reader = memory.watch(after_revision=0, prefix="x").reader
    place, steps = None, 0
    while place is None or not place.caught_up:
        query = lambda view, place=place: reader.step(view, memory.world.call, place)  # noqa: E731
        step = memory.world.look(reader.partition, query)
        assert step.messages or not step.quiet
        place = step.place
        steps += 1
    assert steps >= 3


def test_following_sends_every_write_once_in_order(memory: MemoryRules) -> None:
    watch = memory.watch(after_revision=0)
    seen = shown(watch.rest())
    for number in range(200):
        memory.set(f"k{number % 3}")
        if number % 7 == 0:
            seen += shown(watch.rest())
    seen += shown(watch.rest())
    assert seen == memory.watched()
    assert len(seen) == 200


def test_a_write_of_another_prefix_moves_the_heartbeats_revision(memory: MemoryRules) -> None:
    watch = memory.watch(after_revision=0, prefix="x")
    watch.rest()
    memory.set("other")
    assert watch.step() is None
    assert watch.beat() == memory_pb2.MemoryWatchResponse(revision=memory.revision())


def test_a_batch_may_be_cut_and_is_never_skipped(memory: MemoryRules) -> None:
    watch = memory.watch(after_revision=0, include_values=True)
    watch.rest()
    memory.set_many(*(a_set(f"k{number}", LARGE) for number in range(10)))
    messages = watch.rest()
    assert len(messages) == 5
    assert shown(messages) == [(f"k{number}", 1) for number in range(10)]


@pytest.mark.parametrize("micros", [1, 1_000, 99_999])
def test_a_heartbeat_below_100_ms_is_refused(memory: MemoryRules, micros: int) -> None:
    with invalid("heartbeat"):
        memory.watch(heartbeat=span(micros / 1e6))
    with invalid("heartbeat"):
        memory.watch(heartbeat=Duration(nanos=1))


def test_a_heartbeat_of_100_ms_or_more_or_none_is_taken(memory: MemoryRules) -> None:
    assert memory.watch(heartbeat=span(0.1)).reader.heartbeat == 0.1
    assert memory.watch(heartbeat=span(3600)).reader.heartbeat == 3600
    assert memory.watch().reader.heartbeat == 0


def test_a_negative_revision_is_refused(memory: MemoryRules) -> None:
    for revision in (-1, -(2**63)):
        with invalid("after_revision"):
            memory.watch(after_revision=revision)


# --- which cursors are valid


def test_a_scope_that_is_not_there_gives_one_message_and_revision_0(memory: MemoryRules) -> None:
    expected = [memory_pb2.MemoryWatchResponse(caught_up=True, revision=0)]
    assert memory.watch().rest() == expected
    assert memory.watch(after_revision=0).rest() == expected


@pytest.mark.parametrize("revision", [1, 2**53, 2**63 - 1])
def test_a_cursor_of_a_scope_that_is_not_there_is_gone(memory: MemoryRules, revision: int) -> None:
    with refused(Reason.REVISION_GONE) as refusal:
        memory.watch(after_revision=revision).step()
    assert refusal.value.metadata["oldest"] == "0"


def test_a_watch_of_a_scope_that_is_not_there_hears_of_its_beginning(memory: MemoryRules) -> None:
    watch = memory.watch(after_revision=0)
    watch.rest()
    memory.set("k")
    assert shown(watch.rest()) == [("k", 1)]


def test_a_cursor_ahead_of_everything_is_ahead(memory: MemoryRules) -> None:
    newest = memory.set("k").revision
    for revision in (newest + 1, 2**63 - 1):
        with refused(Reason.REVISION_AHEAD) as refusal:
            memory.watch(after_revision=revision).step()
        assert refusal.value.metadata["newest"] == str(newest)
    assert memory.watch(after_revision=newest).step().caught_up


def test_a_cursor_below_the_scopes_first_revision_is_gone(memory: MemoryRules) -> None:
    first = memory.set("k").revision
    assert shown(memory.watch(after_revision=first).rest()) == []
    for revision in (1, first - 1):
        with refused(Reason.REVISION_GONE) as refusal:
            memory.watch(after_revision=revision).step()
        assert refusal.value.metadata["oldest"] == str(first)


def test_a_cursor_from_before_a_purge_of_a_newest_version_is_gone(memory: MemoryRules) -> None:
    memory.set("a")
    before = memory.set("b").revision
    memory.purge(key="a")
    purged = memory.revision()
    with refused(Reason.REVISION_GONE) as refusal:
        memory.watch(after_revision=before).step()
    assert refusal.value.metadata["oldest"] == str(purged)
    assert memory.watch(after_revision=purged).step().caught_up
    assert memory.watched() == [("b", 1)]


def test_a_purge_under_all_keys_and_of_tombstones_does_so_too(memory: MemoryRules) -> None:
    for fields in ({"all_keys": True}, {"all_keys": True, "keep": 5, "include_deleted": True}):
        memory.set("a")
        memory.set("b")
        before = memory.delete("b").revision
        memory.purge(**fields)
        with refused(Reason.REVISION_GONE):
            memory.watch(after_revision=before).step()


def test_a_purge_of_older_versions_makes_no_cursor_invalid(memory: MemoryRules) -> None:
    first = memory.set("a").revision
    memory.set("a")
    memory.set("a")
    memory.purge(key="a", keep=1)
    assert shown(memory.watch(after_revision=first).rest()) == [("a", 3)]
    assert memory.watched() == [("a", 3)]


def test_0_is_always_valid(world: World, memory: MemoryRules) -> None:
    memory.set("a")
    memory.purge(all_keys=True)
    memory.set("b", ttl=span(1))
    world.pass_time(1)
    world.sweep()
    assert memory.watch(after_revision=0).step().caught_up


def under_way(memory: MemoryRules) -> Stream:
    """Return a watch that has sent one message of many."""
    for number in range(10):
        memory.set(f"k{number}", LARGE)
    watch = memory.watch(after_revision=0, include_values=True)
    assert len(watch.step().entries) == 2
    return watch


def test_a_watch_under_way_is_ended_by_a_purge_that_came_after_it_began(memory: MemoryRules) -> None:
    watch = under_way(memory)
    memory.purge(key="k9")
    with refused(Reason.REVISION_GONE):
        watch.rest()


def test_a_watch_that_caught_up_is_ended_by_a_purge_too(memory: MemoryRules) -> None:
    memory.set("k")
    watch = memory.watch()
    watch.rest()
    memory.purge(key="k")
    with refused(Reason.REVISION_GONE) as refusal:
        watch.rest()
    assert refusal.value.metadata["oldest"] == str(memory.revision())


def test_a_watch_is_not_ended_by_a_purge_that_came_before_it_began(memory: MemoryRules) -> None:
    memory.set("k")
    memory.purge(key="k")
    watch = under_way(memory)
    assert len(shown(watch.rest())) == 8


def test_a_watch_is_not_ended_by_a_purge_of_older_versions(memory: MemoryRules) -> None:
    watch = under_way(memory)
    memory.set("k9", LARGE)
    memory.purge(key="k9", keep=1)
    seen = shown(watch.rest())
    assert seen == [*((f"k{number}", 1) for number in range(2, 9)), ("k9", 2)]


def test_a_watch_of_a_scope_that_began_after_it_is_ended_by_a_purge_too(memory: MemoryRules) -> None:
    watch = memory.watch(after_revision=0)
    watch.rest()
    memory.set("k")
    watch.rest()
    memory.purge(key="k")
    with refused(Reason.REVISION_GONE):
        watch.rest()


def test_the_place_of_a_watch_is_a_few_numbers_however_much_there_is(memory: MemoryRules) -> None:
    watch = under_way(memory)
    assert all(isinstance(part, int) for part in watch.place)
    assert len(watch.place) < 10
