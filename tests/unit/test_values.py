"""The contract's Values: what is accepted, and that it comes back as it was sent."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statekeep.v1.value_pb2 import Value
from statekeep_server.core import values
from statekeep_server.core.errors import Reason
from statekeep_server.core.journal import Limits
from unit.rules_support import (
    MemoryRules,
    ScratchRules,
    ThreadRules,
    World,
    a_set,
    in_batch,
    invalid,
    refusal_of,
    refused,
)

NUMBERS = [
    "0",
    "-0",
    "-0.0",
    "1",
    "1.0",
    "1.00",
    "1E+5",
    "1e-999",
    "1e999",
    "-1e999",
    "1e00001",
    "0e0",
    str(2**53 + 1),
    str(2**64),
    str(-(2**63) - 1),
    "9" * 5000,
    "-" + "9" * 5000,
    "0." + "1" * 5000,
    "1e" + "9" * 400,
]
STRINGS = [
    '""',
    r'"\u0000"',
    r'"\u001f"',
    r'"\ud83d\ude00"',
    r'"\uD83D\uDE00"',
    r'"\ud83d\ude00\ud83d\ude00"',
    r'"x\ud83d\ude00x"',
    r'"\\ud800"',
    r'"\\\\ud800"',
    r'"\\\ud83d\ude00"',
    r'"\\ude00"',
    r'"\ud7ff\ue000"',
    r'"\"\\\/\b\f\n\r\t"',
    '"/"',
    '"\x7f\x80\x9f"',
    '"\u2028\u2029"',
    '"\ufeff"',
    '"\uffff\U0001f4be"',
]
STRUCTURES = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[[],{},[{}]]",
    '{"":0}',
    '{"b":1,"a":2}',
    '{"a":1,"a":2}',
    '{"a":{"a":1},"a":[]}',
    " \t\r\n1 \t\r\n",
    '{ "a" : [ 1 , 2 ] }\n',
]
GOOD = [*NUMBERS, *STRINGS, *STRUCTURES]

LONE_SURROGATES = [
    r'"\ud800"',
    r'"\uDBFF"',
    r'"\udc00"',
    r'"\uDFFF"',
    r'"x\ud800"',
    r'"\ud800x"',
    r'"x\udc00x"',
    r'"\ud800\u0041"',
    r'"\ud800\n"',
    r'"\ud800\\"',
    r'"\ud800\ud800"',
    r'"\ud800\uDBFF"',
    r'"\ud800\ud800\udc00"',
    r'"\ud800\udc00\udc00"',
    r'"\udc00\ud800"',
    r'"\ud83d\\ude00"',
    r'"\ud83dude00"',
    r'"\\\ud800"',
    r'"\\\\\ud800"',
    r'{"\ud800":1}',
    r'[1,["\udfff"]]',
    r'{"a":"\ud83d\ude00","b":"\ud83d"}',
]
BAD = [
    "",
    " ",
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
    "inf",
    "[NaN]",
    '{"a":Infinity}',
    "True",
    "None",
    "undefined",
    "nul",
    "tru",
    "nulll",
    "+1",
    "01",
    "-01",
    "00",
    "1.",
    ".5",
    "-.5",
    "1e",
    "1e+",
    "1.e5",
    "-",
    "--1",
    "0x10",
    "1_000",
    "1f",
    "\u0661",
    "\uff11",
    "1\u0661",
    "'a'",
    '"a',
    'a"',
    '"',
    '"\\"',
    '"\\',
    '"\t"',
    '"\n"',
    '"\x00"',
    '"\x1f"',
    r'"\x41"',
    r'"\u12"',
    r'"\u12G4"',
    r'"\u 123"',
    r'"\u+123"',
    r'"\u0x12"',
    r'"\U0041"',
    r'"\u\uff11234"'.replace(r"\uff11", "\uff11"),
    r'"\a"',
    "[",
    "]",
    "{",
    "}",
    "[}",
    "[1,]",
    "[,1]",
    "[1,,2]",
    "[1 2]",
    "{,}",
    '{"a":1,}',
    '{"a"}',
    '{"a":}',
    '{"a" 1}',
    "{a:1}",
    "{1:1}",
    "{'a':1}",
    "1 2",
    "null null",
    "[] []",
    "1//",
    "/**/1",
    "# \n1",
    "\ufeff1",
    "\x0b1",
    "1\x0b",
    "\x0c1",
    "\xa01",
    "1\x85",
    "\u20281",
    "\x001",
    "1\x00",
    "\x1e1",
    *LONE_SURROGATES,
]
# orjson reads no number beyond a double's range, so beside this one a text is looked at by the other parser too.
BEYOND_DOUBLES = "[1e999,{}]"


def check(text: str) -> None:
    values.check(Value(json=text), "value", Limits())


def shortened(text: str) -> str:
    return repr(text[:24])


@pytest.mark.parametrize("text", GOOD, ids=shortened)
def test_json_of_rfc_8259_is_accepted(text: str) -> None:
    assert check(text) is None


@pytest.mark.parametrize("text", GOOD, ids=shortened)
def test_json_of_rfc_8259_is_accepted_beside_a_number_beyond_doubles(text: str) -> None:
    assert check(BEYOND_DOUBLES.format(text)) is None


@pytest.mark.parametrize("text", BAD, ids=shortened)
def test_what_is_not_rfc_8259_is_refused(text: str) -> None:
    with invalid("value.json"):
        check(text)


@pytest.mark.parametrize("text", BAD, ids=shortened)
def test_what_is_not_rfc_8259_is_refused_beside_a_number_beyond_doubles(text: str) -> None:
    with invalid("value.json"):
        check(BEYOND_DOUBLES.format(text))


@pytest.mark.parametrize("text", GOOD, ids=shortened)
def test_json_comes_back_from_memory_as_it_was_sent(memory: MemoryRules, text: str) -> None:
    memory.set("k", Value(json=text))
    assert memory.get("k").value.json == text


@pytest.mark.parametrize("text", GOOD, ids=shortened)
def test_json_comes_back_from_a_thread_as_it_was_sent(threads: ThreadRules, text: str) -> None:
    threads.append_next("e", data=Value(json=text))
    threads.save("c", state=Value(json=text), metadata=Value(json=text))
    history = threads.history()
    assert history.events[0].data.json == text
    assert history.checkpoints[0].state.json == text
    assert history.checkpoints[0].metadata.json == text


@pytest.mark.parametrize("text", GOOD, ids=shortened)
def test_json_comes_back_from_scratch_as_it_was_sent(scratch: ScratchRules, text: str) -> None:
    scratch.put("a", Value(json=text))
    assert scratch.get("a").json == text


@pytest.mark.parametrize(
    "value",
    [
        Value(text=""),
        Value(text="a\x00b \ud7ff\U0001f4be\r\n"),
        Value(text=r"\u0000"),
        Value(text="NaN"),
        Value(data=b""),
        Value(data=bytes(range(256))),
        Value(json="null"),
        Value(json="1", content_type="application/problem+json"),
        Value(text="x", content_type=" TEXT/markdown; charset=utf-8 "),
        Value(data=b"x", content_type="image/png"),
    ],
    ids=str,
)
def test_every_kind_of_value_comes_back_as_it_was_sent(
    memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules, value: Value
) -> None:
    memory.set("k", value)
    threads.append_next("e", data=value)
    scratch.put("a", value)
    assert memory.get("k").value == value
    assert threads.history().events[0].data == value
    assert scratch.get("a") == value


def test_an_empty_content_type_stays_empty(memory: MemoryRules) -> None:
    memory.set("k", Value(data=b"x"))
    assert memory.get("k").value.content_type == ""


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Value(json="{}"), "object"),
        (Value(json=" \t\r\n {}"), "object"),
        (Value(json="[]"), "array"),
        (Value(json='"x"'), "string"),
        (Value(json="true"), "boolean"),
        (Value(json="false"), "boolean"),
        (Value(json="null"), "null"),
        (Value(json="-1"), "number"),
        (Value(json="0"), "number"),
        (Value(json="1", content_type="application/x"), "number"),
        (Value(text="x"), "text"),
        (Value(text="x", content_type="text/markdown"), "text"),
        (Value(data=b"x"), "application/octet-stream"),
        (Value(data=b"x", content_type="image/png"), "image/png"),
    ],
    ids=str,
)
def test_an_entry_says_what_its_value_is(memory: MemoryRules, value: Value, kind: str) -> None:
    assert memory.set("k", value).value_type == kind
    assert memory.get("k").value_type == kind


@pytest.mark.parametrize("value", [Value(), Value(content_type="application/json")], ids=["empty", "type only"])
def test_a_value_without_a_kind_is_refused_wherever_one_is_required(
    memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules, value: Value
) -> None:
    with invalid("value"):
        memory.set("k", value)
    with invalid("sets[1].value"):
        memory.set_many(a_set("a"), a_set("b", value))
    with invalid("value"):
        scratch.put("a", value)
    with invalid("checkpoint.state"):
        threads.save("c", state=value)
    assert memory.keys() == []


def test_an_unset_value_is_refused_wherever_one_is_required(memory: MemoryRules, threads: ThreadRules) -> None:
    with invalid("value"):
        memory.set("k", value=None)
    with invalid("checkpoint.state"):
        threads.save("c", state=None)


@pytest.mark.parametrize("value", [Value(), Value(json="NaN")], ids=["no kind", "NaN"])
def test_a_value_that_may_be_left_out_is_checked_where_it_is_not(threads: ThreadRules, value: Value) -> None:
    path = ".json" if value.json else ""
    with invalid(f"event.data{path}"):
        threads.append_next("e", data=value)
    with invalid(f"event.data{path}"):
        threads.append(1, "e", data=value)
    with invalid(f"events[1].data{path}"):
        threads.append_batch(in_batch("a"), in_batch("b", data=value))
    with invalid(f"checkpoint.active{path}"):
        threads.save("c", active=value)
    with invalid(f"checkpoint.metadata{path}"):
        threads.save("c", metadata=value)


@pytest.mark.parametrize(
    "value", [Value(json="{}"), Value(json="null"), Value(json='"[]"'), Value(text="[]"), Value(data=b"[]")], ids=str
)
def test_active_is_a_json_list(threads: ThreadRules, value: Value) -> None:
    with invalid("checkpoint.active"):
        threads.save("c", active=value)


def test_active_left_unset_is_an_empty_list(threads: ThreadRules) -> None:
    assert threads.save("c").active.json == "[]"


def test_active_is_kept_byte_for_byte(threads: ThreadRules) -> None:
    assert threads.save("c", active=Value(json=' [ 1.0 , "x" ] ')).active.json == ' [ 1.0 , "x" ] '


DEEPEST = {
    "lists": ("[" * 512, "]" * 512),
    "objects": ('{"a":' * 511 + "{", "}" * 512),
    "both": ('[{"a":' * 256, "1" + "}]" * 256),
    "beside brackets in a string": ('["' + "[{" * 600 + '",' + "[" * 511, "]" * 512),
    "around brackets in a string": ("[" * 512 + '"' + "[{" * 600 + '"', "]" * 512),
    "after an escaped quote": ('["\\"' + "[" * 600 + '",' + "[" * 511, "]" * 512),
    "after an escaped backslash": ('["[[\\\\",' + "[" * 511, "]" * 512),
    "with brackets as a key": ('{"' + "[" * 600 + '":' + "[" * 511, "]" * 511 + "}"),
    "around a number beyond doubles": ("[" * 512 + "1e999", "]" * 512),
    "with blanks": ("[ \n" * 512, " ]" * 512),
}


@pytest.mark.parametrize(("opened", "closed"), DEEPEST.values(), ids=DEEPEST)
def test_json_nested_512_deep_is_accepted(opened: str, closed: str) -> None:
    assert check(opened + closed) is None


@pytest.mark.parametrize(("opened", "closed"), DEEPEST.values(), ids=DEEPEST)
def test_json_nested_513_deep_is_refused(opened: str, closed: str) -> None:
    with invalid("value.json") as refusal:
        check("[" + opened + closed + "]")
    assert refusal.value.metadata["max"] == "512"


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":'])
def test_json_nested_100000_deep_is_refused(opened: str) -> None:
    with invalid("value.json"):
        check(opened * 100_000)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert check("[" + ",".join(["[]", "{}"] * 1000) + "]") is None
    assert check("[" + ",".join(['["[[[["]', '{"}":"{"}'] * 1000) + "]") is None


@pytest.mark.parametrize(
    "text",
    [
        '"' + "x" * 3_000_000 + '"',
        '"' + "\\\\" * 1_000_000 + '"',
        '"' + "\\ud83d\\ude00" * 250_000 + '"',
        "[" + ",".join(map(str, range(400_000))) + "]",
        "[" + ",".join(["1e999"] * 300_000) + "]",
        "[" + ",".join(["[{}]"] * 300_000) + "]",
        "[" + ",".join(['"\\"["'] * 300_000) + "]",
        " " * 3_000_000 + "1",
        "9" * 3_000_000,
    ],
    ids=["string", "backslashes", "pairs", "numbers", "numbers beyond", "lists", "quotes", "blanks", "digits"],
)
def test_a_large_document_is_accepted(text: str) -> None:
    assert check(text) is None


@pytest.mark.timeout(5)  # where each quote is looked at to the end of the text, this takes minutes
def test_a_large_document_whose_string_never_ends_is_refused_in_one_pass() -> None:
    with invalid("value.json"):
        check("[" * 513 + '"' + '\\"' * 400_000)


JSON_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


def has_lone_surrogate(text: str) -> bool:
    try:
        json.loads(text, parse_int=str).__repr__().encode()
        json.dumps(json.loads(text, parse_int=str), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


@given(JSON_DATA, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_whatever_json_dumps_makes_is_accepted(content: Any, ascii_only: bool, indent: Any) -> None:
    text = json.dumps(content, allow_nan=False, ensure_ascii=ascii_only, indent=indent)
    assert check(text) is None
    assert check(BEYOND_DOUBLES.format(text)) is None


@given(st.lists(st.sampled_from([r"\ud800", r"\uDbff", r"\udc00", r"\uDFFF", r"\\", r"\u0041", "u", "d800", r"\n"])))
def test_a_string_is_refused_exactly_where_it_holds_a_lone_surrogate(pieces: list[str]) -> None:
    text = '"' + "".join(pieces) + '"'
    for document in (text, BEYOND_DOUBLES.format(text)):
        refusal = refusal_of(lambda document=document: check(document))
        assert (refusal is not None) == has_lone_surrogate(document)


@given(st.text(alphabet='[]{},:"\\ \n01-.eE+ntu', max_size=30))
def test_a_text_is_judged_as_by_pythons_parser(text: str) -> None:
    try:
        json.loads(text)
        good = not has_lone_surrogate(text)
    except ValueError:
        good = False
    for document in (text, BEYOND_DOUBLES.format(text)) if good else (text,):
        refusal = refusal_of(lambda document=document: check(document))
        assert (refusal is None) == good


def largest(memory: MemoryRules, key: str = "k", **fields: Any) -> Value:
    """Return the largest text that a key of Memory takes with these fields."""
    too_large = memory.world.limits.record + 1
    with refused(Reason.VALUE_TOO_LARGE) as refusal:
        memory.set(key, Value(text="x" * too_large), **fields)
    over = int(refusal.value.metadata["size"]) - memory.world.limits.record
    return Value(text="x" * (too_large - over))


def test_the_default_limit_is_4_mib_less_64_kib() -> None:
    assert Limits().record == 4 * 2**20 - 64 * 2**10


def test_a_record_of_the_largest_size_is_stored_and_fits_a_default_client(memory: MemoryRules) -> None:
    value = largest(memory)
    memory.set("k", value)
    answer = memory.get("k")
    assert answer.value == value
    assert answer.ByteSize() == Limits().record


def test_a_record_one_byte_larger_is_refused_and_nothing_is_stored(memory: MemoryRules) -> None:
    value = largest(memory)
    with refused(Reason.VALUE_TOO_LARGE, "value") as refusal:
        memory.set("k", Value(text=value.text + "x"))
    limit = Limits().record
    assert refusal.value.metadata == {"field": "value", "size": str(limit + 1), "max": str(limit)}
    assert memory.get("k") is None
    assert memory.revision() == 0


def test_the_limit_is_on_the_whole_record(world: World, memory: MemoryRules) -> None:
    world.limits = Limits(record=2000)
    bare = largest(memory)
    labelled = largest(memory, labels={"label": "x" * 500}, flow_name="f" * 100)
    assert len(labelled.text) < len(bare.text) - 600
    with refused(Reason.VALUE_TOO_LARGE):
        memory.set("k", 1, labels={"label": "x" * 2000})


def test_what_is_too_large_in_a_delete_is_no_value(world: World, memory: MemoryRules) -> None:
    world.limits = Limits(record=2000)
    memory.set("k")
    with refused(Reason.VALUE_TOO_LARGE) as refusal:
        memory.delete("k", flow_name="x" * 2000)
    assert refusal.value.field in ("", "key", "flow_name")
    assert memory.get("k").version == 1


def test_the_limit_holds_for_every_record(world: World, threads: ThreadRules, scratch: ScratchRules) -> None:
    world.limits = Limits(record=2000)
    large = Value(text="x" * 2000)
    threads.append_next("e1")
    with refused(Reason.VALUE_TOO_LARGE, "event"):
        threads.append(1, "e", data=large)
    with refused(Reason.VALUE_TOO_LARGE, "event"):
        threads.append_next("e", data=large)
    with refused(Reason.VALUE_TOO_LARGE, "event"):
        threads.append_next("e", message="x" * 2000)
    with refused(Reason.VALUE_TOO_LARGE, "events[1]"):
        threads.append_batch(in_batch("a"), in_batch("b", data=large))
    with refused(Reason.VALUE_TOO_LARGE, "checkpoint"):
        threads.save("c", state=large)
    with refused(Reason.VALUE_TOO_LARGE, "checkpoint"):
        threads.save("c", state=Value(text="x" * 1000), metadata=Value(text="x" * 1000))
    with refused(Reason.VALUE_TOO_LARGE, "value"):
        scratch.put("a", large)
    assert threads.ids() == ["e1"]
    assert threads.checkpoint_ids() == []
    assert scratch.keys() == []


def test_a_batch_with_one_value_too_large_stores_nothing(world: World, memory: MemoryRules) -> None:
    world.limits = Limits(record=2000)
    with refused(Reason.VALUE_TOO_LARGE, "sets[1].value"):
        memory.set_many(a_set("a"), a_set("b", Value(text="x" * 2000)))
    assert memory.keys() == []


def test_a_fork_whose_first_records_are_too_large_stores_nothing(world: World, threads: ThreadRules) -> None:
    world.limits = Limits(record=2000)
    threads.append_next("e1")
    large = Value(text="x" * 2000)
    with refused(Reason.VALUE_TOO_LARGE, "event"):
        threads.fork("e1", "draft", checkpoint={"id": "c", "state": {"json": "1"}}, event=in_batch("e2", data=large))
    with refused(Reason.VALUE_TOO_LARGE, "checkpoint"):
        threads.fork("e1", "draft", checkpoint={"id": "c", "state": large}, event=in_batch("e2"))
    assert threads.branch_ids() == []
    assert threads.checkpoint_ids(branch_id="draft") == []
    assert threads.ids(branch_id="draft") == []


def test_list_pages_are_cut_by_bytes_too(world: World, memory: MemoryRules) -> None:
    world.limits = Limits(record=2000)
    for key in "abcde":
        memory.set(key, Value(text="x" * 700))
    first = memory.page(include_values=True)
    assert [entry.key for entry in first.entries] == ["a", "b"]
    second = memory.page(include_values=True, page_token=first.next_page_token)
    assert [entry.key for entry in second.entries] == ["c", "d"]
    assert [entry.key for entry in memory.page().entries] == list("abcde")


def test_checkpoint_pages_are_cut_by_bytes_too(world: World, threads: ThreadRules) -> None:
    world.limits = Limits(record=2000)
    for name in "abcde":
        threads.save(name, state=Value(text="x" * 700))
    first = threads.checkpoints()
    assert [saved.id for saved in first.checkpoints] == ["e", "d"]
    assert threads.checkpoint_ids(page_token=first.next_page_token) == ["c", "b"]


def test_a_page_holds_one_record_however_large(memory: MemoryRules) -> None:
    memory.set("a", largest(memory, "a"))
    memory.set("b", largest(memory, "b"))
    first = memory.page(include_values=True)
    assert [entry.key for entry in first.entries] == ["a"]
    assert first.ByteSize() < 4 * 2**20
    assert memory.keys(include_values=True, page_token=first.next_page_token) == ["b"]


def test_a_batch_get_that_does_not_fit_is_refused_by_its_limit(world: World, memory: MemoryRules) -> None:
    world.limits = Limits(message=2000)
    for key in "abc":
        memory.set(key, Value(text="x" * 700))
    assert len(memory.get_many("a", "b").entries) == 2
    with refused(Reason.LIMIT_REACHED) as refusal:
        memory.get_many("a", "b", "c")
    assert int(refusal.value.metadata["size"]) > 2000
    assert refusal.value.metadata["max"] == "2000"
    assert refusal.value.metadata["limit"]


def test_a_value_is_frozen_when_it_is_stored(memory: MemoryRules, threads: ThreadRules, scratch: ScratchRules) -> None:
    value = Value(json="1")
    sent = in_batch("e", data=value, labels={"a": "b"})
    memory.set("k", value)
    scratch.put("a", value)
    threads.append_batch(sent)
    value.json = "2"
    sent.data.json = "2"
    sent.labels["a"] = "c"
    assert memory.get("k").value.json == "1"
    assert scratch.get("a").json == "1"
    assert threads.history().events[0].data.json == "1"
    assert threads.history().events[0].labels["a"] == "b"
