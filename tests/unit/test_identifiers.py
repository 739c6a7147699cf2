"""The contract's Identifiers: how names are normalised, and which are refused."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statekeep.v1 import memory_pb2
from statekeep_server.core import identifiers
from statekeep_server.core.errors import Reason
from statekeep_server.core.memory import partition, scope_of
from unit.rules_support import (
    MAX_NUMBER,
    SCOPE,
    MemoryRules,
    ThreadRules,
    World,
    a_set,
    in_batch,
    invalid,
    refusal_of,
    refused,
)

# PropList.txt of Unicode 15, property White_Space.
WHITE_SPACE = [
    *range(0x09, 0x0E),
    0x20,
    0x85,
    0xA0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x3000,
]
BLANKS = [chr(code) for code in WHITE_SPACE]
NOT_BLANK = ["\x1c", "\x1d", "\x1e", "\x1f", "\u180e", "\u200b", "\u2060", "\ufeff"]
CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]


def test_white_space_is_unicodes() -> None:
    assert sorted(identifiers.WHITE_SPACE) == BLANKS
    separators = {chr(code) for code in range(sys.maxunicode) if unicodedata.category(chr(code)) in ("Zs", "Zl", "Zp")}
    assert separators < set(identifiers.WHITE_SPACE)


@pytest.mark.parametrize("blank", BLANKS, ids=lambda blank: f"U+{ord(blank):04X}")
@pytest.mark.parametrize(
    "normalise", [identifiers.scope_name, identifiers.memory_key, identifiers.writable_key, identifiers.scratch_key]
)
def test_a_name_is_trimmed_of_every_blank(normalise, blank: str) -> None:
    assert normalise(f"{blank}{blank}a{blank}", "key") == "a"


@pytest.mark.parametrize("other", NOT_BLANK, ids=lambda other: f"U+{ord(other):04X}")
@pytest.mark.parametrize("normalise", [identifiers.scope_name, identifiers.memory_key])
def test_what_is_no_blank_is_not_trimmed_but_refused(normalise, other: str) -> None:
    with invalid("key"):
        normalise(f"{other}a", "key")
    with invalid("key"):
        normalise(f"a{other}", "key")


@pytest.mark.parametrize("blank", BLANKS, ids=lambda blank: f"U+{ord(blank):04X}")
@pytest.mark.parametrize(
    "normalise", [identifiers.scope_name, identifiers.memory_key, identifiers.writable_key, identifiers.scratch_key]
)
def test_a_blank_name_is_refused(normalise, blank: str) -> None:
    with invalid("key"):
        normalise(blank * 3, "key")


@pytest.mark.parametrize("normalise", [identifiers.scope_name, identifiers.memory_key, identifiers.scratch_key])
def test_an_empty_name_is_refused(normalise) -> None:
    with invalid("key"):
        normalise("", "key")


@pytest.mark.parametrize("normalise", [identifiers.scope_name, identifiers.memory_key])
def test_every_allowed_character_is_taken(normalise) -> None:
    allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/"
    assert normalise(allowed, "key") == allowed


@pytest.mark.parametrize("normalise", [identifiers.scope_name, identifiers.memory_key])
def test_every_other_ascii_character_is_refused(normalise) -> None:
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/")
    for character in set(map(chr, range(128))) - allowed:
        with invalid("key"):
            normalise(f"a{character}b", "key")


@pytest.mark.parametrize(
    "name", ["a:b", "a b", "a\tb", "\xe9", "\u0663", "\uff21", "\u017f", "\u212a", "a\x00", "a\nb", "\U0001f4be"]
)
@pytest.mark.parametrize("normalise", [identifiers.scope_name, identifiers.memory_key])
def test_colons_inner_blanks_and_non_ascii_are_refused(normalise, name: str) -> None:
    with invalid("key"):
        normalise(name, "key")


@pytest.mark.parametrize(("normalise", "longest"), [(identifiers.scope_name, 256), (identifiers.memory_key, 512)])
def test_a_name_may_be_as_long_as_the_contract_says(normalise, longest: int) -> None:
    assert normalise("a" * longest, "key") == "a" * longest
    with invalid("key") as refusal:
        normalise("a" * (longest + 1), "key")
    assert refusal.value.metadata == {"field": "key", "length": str(longest + 1), "max": str(longest)}


@pytest.mark.parametrize(("normalise", "longest"), [(identifiers.scope_name, 256), (identifiers.memory_key, 512)])
def test_length_is_measured_after_trimming(normalise, longest: int) -> None:
    assert normalise("\u3000" * 400 + "a" * longest + " " * 400, "key") == "a" * longest


@pytest.mark.parametrize("key", ["_compaction/", "_compaction/x", " _compaction/x", "\u2003_compaction/a/b "])
def test_a_key_under_compaction_is_refused_on_every_write(memory: MemoryRules, key: str) -> None:
    with invalid("key"):
        memory.set(key)
    with invalid("key"):
        memory.delete(key)
    with invalid("key"):
        memory.purge(key=key)
    with invalid("sets[1].key"):
        memory.set_many(a_set("a"), a_set(key))


def test_a_key_under_compaction_may_be_read(memory: MemoryRules) -> None:
    assert memory.get("_compaction/x") is None
    assert list(memory.get_many("_compaction/x").missing_keys) == ["_compaction/x"]
    assert memory.history("_compaction/x") == []


@pytest.mark.parametrize("key", ["_compaction", "_compactionx", "a/_compaction/x", "_Compaction/x"])
def test_only_what_is_under_compaction_is_reserved(memory: MemoryRules, key: str) -> None:
    assert memory.set(key).key == key


@pytest.mark.parametrize("key", ["a:b", "é", "a b", "💾", "a\u2028b", "{x}", "%s", "\ufeffa", "a" * 512, "é" * 256])
def test_a_scratch_key_may_be_any_text_without_controls(key: str) -> None:
    assert identifiers.scratch_key(key) == key


@pytest.mark.parametrize("key", ["a" * 513, "é" * 257, "💾" * 129])
def test_a_scratch_key_is_at_most_512_bytes_of_utf8(key: str) -> None:
    with invalid("key"):
        identifiers.scratch_key(key)


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: f"U+{ord(control):04X}")
def test_a_scratch_key_holds_no_control_character(control: str) -> None:
    with invalid("key"):
        identifiers.scratch_key(f"a{control}b")


@pytest.mark.parametrize("control", ["\x1c", "\x1d", "\x1e", "\x1f"], ids=lambda control: f"U+{ord(control):04X}")
def test_a_separator_control_at_an_end_of_a_scratch_key_is_not_trimmed(control: str) -> None:
    with invalid("key"):
        identifiers.scratch_key(f"a{control}")


@pytest.mark.parametrize(
    "given_id",
    ["a", "a b", "t:x", "é", "💾", "a\u3000b", "a\u2028b", "{x}", "%", "a" * 256, "é" * 128, "💾" * 64, "~!"],
)
def test_an_id_may_be_any_text_without_controls_or_blank_ends(given_id: str) -> None:
    assert identifiers.identifier(given_id, "id") == given_id


@pytest.mark.parametrize("given_id", ["a" * 257, "é" * 129, "💾" * 65, "a" * 255 + "é"])
def test_an_id_is_at_most_256_bytes_of_utf8(given_id: str) -> None:
    with invalid("id"):
        identifiers.identifier(given_id, "id")


def test_an_empty_id_is_refused() -> None:
    with invalid("id"):
        identifiers.identifier("", "id")


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: f"U+{ord(control):04X}")
def test_an_id_holds_no_control_character(control: str) -> None:
    for given_id in (f"a{control}b", f"{control}a", f"a{control}", f"é{control}b", control):
        with invalid("id"):
            identifiers.identifier(given_id, "id")


@pytest.mark.parametrize("blank", BLANKS, ids=lambda blank: f"U+{ord(blank):04X}")
def test_an_id_with_a_blank_end_is_refused_and_never_trimmed(blank: str) -> None:
    for given_id in (f"{blank}s1", f"s1{blank}", f"{blank}s1{blank}", blank):
        with invalid("id"):
            identifiers.identifier(given_id, "id")


@given(st.text())
def test_an_id_is_taken_as_it_is_or_refused(text: str) -> None:
    controls = any(unicodedata.category(character) == "Cc" for character in text)
    good = 1 <= len(text.encode()) <= 256 and not {text[0], text[-1]} & set(BLANKS) and not controls
    refusal = refusal_of(lambda: identifiers.identifier(text, "id"))
    assert (refusal.reason if refusal else None) == (None if good else Reason.INVALID_FIELD)
    assert not good or identifiers.identifier(text, "id") == text


@given(st.text(alphabet=[*"ab\xe9\u200b", *BLANKS]))
def test_normalising_a_key_again_changes_nothing(text: str) -> None:
    refusal = refusal_of(lambda: identifiers.scratch_key(text))
    if refusal is None:
        key = identifiers.scratch_key(text)
        assert identifiers.scratch_key(key) == key
        assert key in text
    else:
        assert refusal.reason == Reason.INVALID_FIELD


@pytest.mark.parametrize("given_id", [" s1 ", "", "a\x00b", "a\n", "\u3000x", "x" * 257])
def test_every_id_of_a_thread_is_checked(threads: ThreadRules, given_id: str) -> None:
    threads.append_next("e1")
    with invalid("thread_id"):
        threads.history(thread_id=given_id)
    with invalid("from_event_id"):
        threads.fork(given_id, "draft")
    with invalid("name"):
        threads.fork("e1", given_id)
    with invalid("at_event_id"):
        threads.latest(at_event_id=given_id)


@pytest.mark.parametrize("given_id", [" s1 ", "a\x00b", "a\n", "\u3000x", "x" * 257])
def test_every_id_that_may_be_left_empty_is_checked_where_it_is_not(threads: ThreadRules, given_id: str) -> None:
    threads.append_next("e1")
    with invalid("branch_id"):
        threads.history(branch_id=given_id)
    with invalid("event.id"):
        threads.append_next(given_id)
    with invalid("event.branch_id"):
        threads.append_next(branch_id=given_id)
    with invalid("events[0].id"):
        threads.append_batch(in_batch(given_id))
    with invalid("checkpoint.id"):
        threads.save(given_id)
    with invalid("checkpoint.branch_id"):
        threads.save(branch_id=given_id)
    with invalid("checkpoint.event_id"):
        threads.save(event_id=given_id)
    with invalid("branch_id"):
        threads.fork("e1", "draft", branch_id=given_id)
    with invalid("branch_id"):
        threads.stream(branch_id=given_id)
    assert threads.ids() == ["e1"]


def test_scope_a_b_with_key_c_is_not_scope_a_with_key_b_c(memory: MemoryRules) -> None:
    memory.set("c", 1, scope=memory_pb2.Scope(name="a/b"))
    memory.set("b/c", 2, scope=memory_pb2.Scope(name="a"))
    assert memory.get("c", scope=memory_pb2.Scope(name="a/b")).value.json == "1"
    assert memory.get("b/c", scope=memory_pb2.Scope(name="a")).value.json == "2"


def test_thread_t_x_branch_y_is_not_thread_t_branch_x_y(threads: ThreadRules) -> None:
    threads.append_next("one", thread_id="t:x", branch_id="y")
    threads.append_next("two", thread_id="t", branch_id="x:y")
    assert threads.ids(thread_id="t:x", branch_id="y") == ["one"]
    assert threads.ids(thread_id="t", branch_id="x:y") == ["two"]


def test_a_branch_named_like_a_kind_of_log_shares_nothing(threads: ThreadRules) -> None:
    threads.append_next("one", branch_id="c")
    threads.save("two", branch_id="e")
    assert threads.ids(branch_id="e") == []
    assert threads.checkpoint_ids(branch_id="c") == []


@pytest.mark.parametrize("kind", [memory_pb2.SCOPE_TYPE_FLOW, memory_pb2.SCOPE_TYPE_EXECUTION])
def test_one_name_under_two_scope_types_is_two_scopes(memory: MemoryRules, kind: int) -> None:
    memory.set("k", 1, scope=memory_pb2.Scope(name="s"))
    assert memory.get("k", scope=memory_pb2.Scope(name="s", type=kind)) is None


def test_an_unspecified_scope_type_is_namespace(memory: MemoryRules) -> None:
    entry = memory.set("k", 1, scope=memory_pb2.Scope(name="s"))
    assert entry.scope.type == memory_pb2.SCOPE_TYPE_NAMESPACE
    assert memory.get("k", scope=memory_pb2.Scope(name="s", type=memory_pb2.SCOPE_TYPE_NAMESPACE)).version == 1


@pytest.mark.parametrize("kind", [-1, 4, 2**31 - 1, -(2**31)])
def test_an_unknown_scope_type_is_refused(memory: MemoryRules, kind: int) -> None:
    with invalid("scope.type"):
        memory.get("k", scope=memory_pb2.Scope(name="s", type=kind))


def test_an_unset_scope_is_refused(memory: MemoryRules) -> None:
    with invalid("scope.name"):
        memory.set("k", scope=None)


def test_a_scope_survives_the_way_into_a_partition_and_back() -> None:
    for kind in (1, 2, 3):
        scope = memory_pb2.Scope(name="a/b-c.d_e", type=kind)
        assert scope_of(partition(scope)) == scope


@pytest.mark.parametrize(
    "prefix", ["_", "%", "*", "?", "[", "\\", "foo_", "foo%", "f*", "[f]oo", "foo\\", "(?:foo)", "."]
)
def test_a_prefix_is_literal_in_list(memory: MemoryRules, prefix: str) -> None:
    keys = ["foo", "foo_bar", "foo-bar", "foobar", "_x", "x", ".y"]
    for key in keys:
        memory.set(key)
    assert memory.keys(prefix=prefix) == sorted(key for key in keys if key.startswith(prefix))


@pytest.mark.parametrize("prefix", ["_", "%", "*", "?", "[", "\\", "foo_", "f*", "."])
def test_a_prefix_is_literal_in_a_watch(memory: MemoryRules, prefix: str) -> None:
    keys = ["foo", "foo_bar", "foo-bar", "foobar", "_x", "x", ".y"]
    for key in keys:
        memory.set(key)
    assert [key for key, _ in memory.watched(prefix=prefix)] == [key for key in keys if key.startswith(prefix)]


@pytest.mark.parametrize("prefix", ["_", "%", "*", "[", "\\", "john_", "é", "\U0001f4be"])
def test_a_prefix_of_thread_ids_is_literal(world: World, threads: ThreadRules, prefix: str) -> None:
    ids = ["john-doe", "john_doe", "[x", "[y]", "100%", "%", "*", "\\n", "é1", "e\u0301", "\U0001f4bea", "_"]
    for thread_id in ids:
        threads.append_next(thread_id=thread_id)
    found = [name[1:] for name in world.partitions(f"t{prefix}")]
    assert found == sorted((name for name in ids if name.startswith(prefix)), key=str.encode)


def test_a_check_sees_the_name_that_is_kept(memory: MemoryRules) -> None:
    first = memory.set(" k ", 1, scope=memory_pb2.Scope(name="\u3000s "))
    assert (first.key, first.scope.name) == ("k", "s")
    with refused(Reason.VERSION_MISMATCH):
        memory.set("k ", 2, expected_version=0)
    assert memory.set("\tk", 2, expected_version=1).version == 2


@pytest.mark.parametrize("number", [0, 1, 2**53 - 2, 2**53 - 1])
def test_a_sequence_number_up_to_2_53_less_1_is_taken(number: int) -> None:
    assert identifiers.sequence(number, "sequence") == number


@pytest.mark.parametrize("number", [-1, -(2**63), 2**53, 2**53 + 1, 2**63 - 1])
def test_any_other_sequence_number_is_refused(threads: ThreadRules, number: int) -> None:
    with invalid("event.sequence"):
        threads.append(number, "e1")
    with invalid("checkpoint.sequence"):
        threads.save("c1", number)
    assert threads.ids() == []


@pytest.mark.parametrize("number", [-1, -(2**63), 2**53, 2**63 - 1])
def test_any_other_sequence_number_is_refused_where_it_is_expected(threads: ThreadRules, number: int) -> None:
    with invalid("expected_last_sequence"):
        threads.append_next("e1", number)
    with invalid("expected_last_sequence"):
        threads.append_batch(in_batch("e1"), expected_last_sequence=number)
    assert threads.ids() == []


def test_a_branch_that_reached_the_highest_number_takes_no_next_one(threads: ThreadRules) -> None:
    threads.append(MAX_NUMBER, "last")
    with refused(Reason.LIMIT_REACHED) as refusal:
        threads.append_next()
    assert refusal.value.metadata == {"branch": "main", "limit": "sequence", "max": str(MAX_NUMBER)}
    assert threads.sequences() == [MAX_NUMBER]


def test_a_batch_that_would_pass_the_highest_number_is_refused_whole(threads: ThreadRules) -> None:
    threads.append(MAX_NUMBER - 1, "e1")
    with refused(Reason.LIMIT_REACHED):
        threads.append_batch(in_batch(), in_batch())
    assert threads.append_batch(in_batch()).last_sequence == MAX_NUMBER


def test_two_spellings_of_a_letter_are_two_threads(threads: ThreadRules) -> None:
    threads.append_next("composed", thread_id="é")
    threads.append_next("decomposed", thread_id="e\u0301")
    assert threads.ids(thread_id="é") == ["composed"]


def test_a_scope_name_with_every_kind_of_blank_around_is_one_scope(memory: MemoryRules) -> None:
    memory.set("k", 1, scope=SCOPE)
    for blank in BLANKS:
        assert memory.get("k", scope=memory_pb2.Scope(name=f"{blank}s{blank}")).version == 1
