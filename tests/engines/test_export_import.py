"""Export and Import over every engine, and from each into each: what comes in behaves as what went out."""

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from engines.export_support import SECOND, Kept, Part, answer_or_reason, file_of, part_of, parts_of
from google.protobuf.duration_pb2 import Duration
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statekeep.v1 import admin_pb2 as pb
from statekeep.v1 import memory_pb2, state_store_pb2
from statekeep.v1.value_pb2 import Value
from statekeep_server.core import memory, state_store
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.memory_streams import KeyHistory, ScopeWatch
from statekeep_server.core.thread_streams import BranchHistory
from statekeep_server.engines import Engine

RESTORED, UNCHANGED, SKIPPED = (
    pb.IMPORT_OUTCOME_RESTORED,
    pb.IMPORT_OUTCOME_UNCHANGED,
    pb.IMPORT_OUTCOME_SKIPPED,
)


@pytest.fixture
def kept(engine: Engine, runner: asyncio.Runner) -> Kept:
    return Kept(engine, runner)


@pytest.fixture
def target(other: Engine, runner: asyncio.Runner) -> Kept:
    return Kept(other, runner)


def outcomes(done: list[pb.ImportedPartition]) -> list[tuple[str, Any]]:
    return [(one.scope.name or one.thread_id, one.outcome) for one in done]


def kinds(parts: list[Part]) -> list[str | None]:
    return [part.WhichOneof("part") for part in parts]


def refusal(job: Callable[[], Any]) -> StatekeepError:
    with pytest.raises(StatekeepError) as caught:
        job()
    return caught.value


# --- all that there is travels


def fill(kept: Kept) -> None:
    """Keep something of every kind, in scopes and threads."""
    for number in range(5):
        kept.set("b", json=f"[{number}]", request_id=f"r{number}", labels={"x": "1", "y": "2"})
    kept.purge("b", key="k", keep=2)
    kept.delete("b")
    kept.set("b", "other", "1e999")
    kept.set("a", value=Value(data=b"\x00\xff", content_type="image/png"), type=2)
    kept.set("a", value=Value(text="\x00 \U0001f600"), type=3)
    for number in range(5):
        kept.append("t", f"e{number}", data=Value(json=' {"a": -0.0, "a": 18446744073709551616}\n'))
        kept.save("t", "c", number)
    kept.append("t", branch_id="side")
    fork = state_store_pb2.ForkRequest(thread_id="t", from_event_id="e2", name="draft", request_id="f")
    kept.write(state_store.fork, "tt", fork)


def test_an_export_imported_and_exported_again_is_byte_for_byte_the_same(kept: Kept, target: Kept) -> None:
    fill(kept)
    file = kept.file()
    done = target.bring(file)
    assert outcomes(done) == [("a", RESTORED), ("a", RESTORED), ("b", RESTORED), ("t", RESTORED)]
    assert target.file() == file
    assert kept.file() == file


def test_partitions_come_sorted_scopes_first(kept: Kept) -> None:
    for name in ("z", "a", "m"):
        kept.append(name)
        kept.set(name)
    headers = [part.partition for part in kept.export() if part.HasField("partition")]
    assert [header.scope.name or header.thread_id for header in headers] == ["a", "m", "z", "a", "m", "z"]
    assert [header.WhichOneof("name") for header in headers] == ["scope"] * 3 + ["thread_id"] * 3


def test_records_come_in_order_of_revision_after_what_logs_lost(kept: Kept) -> None:
    fill(kept)
    parts = kept.export(scope=memory_pb2.Scope(name="b"))
    assert kinds(parts)[:2] == ["partition", "log"]
    assert set(kinds(parts)[2:-1]) == {"entry", "purge", "answer"}
    parts = kept.export(thread_id="t")
    found = [getattr(part, str(part.WhichOneof("part"))) for part in parts]
    revisions = [message.revision for message in found[2:-1]]
    assert revisions == sorted(revisions)
    assert len(revisions) == found[-1].records
    assert set(kinds(parts)[2:-1]) == {"event", "checkpoint", "branch", "answer"}


def test_one_thread_or_one_scope_goes_alone(kept: Kept, target: Kept) -> None:
    fill(kept)
    assert outcomes(target.bring(kept.file(thread_id="t"))) == [("t", RESTORED)]
    flow = memory_pb2.Scope(name="a", type=memory_pb2.SCOPE_TYPE_FLOW)
    assert outcomes(target.bring(kept.file(scope=flow))) == [("a", RESTORED)]
    assert target.runner.run(target.engine.partitions("", "", 10)) == ["ma\0" + "2", "tt"]


def test_what_is_not_there_gives_no_part(kept: Kept) -> None:
    assert kept.export() == []
    assert kept.export(thread_id="nobody") == []
    assert kept.export(scope=memory_pb2.Scope(name="nobody")) == []
    assert kept.runner.run(kept.engine.partitions("", "", 10)) == []


@pytest.mark.parametrize(
    "selection", [{"all": False}, {"thread_id": ""}, {"thread_id": " t"}, {"scope": memory_pb2.Scope(name="a:b")}]
)
def test_an_export_of_nothing_in_particular_is_refused(kept: Kept, selection: dict[str, Any]) -> None:
    assert refusal(lambda: kept.export(**selection)).reason is Reason.INVALID_FIELD


def test_many_small_partitions_share_messages(kept: Kept) -> None:
    messages = []
    for number in range(250):
        kept.append(f"t{number:03}")
    parts = kept.export(messages.append)
    assert kinds(parts).count("partition") == 250
    assert messages == [1]


def test_fields_of_messages_that_this_server_does_not_know_travel(kept: Kept, target: Kept) -> None:
    event = state_store_pb2.Event.FromString(b"\x0a\x01e\x12\x01t\x2a\x04note\xf8\x07\x05")
    value = Value.FromString(b"\x0a\x011\xfa\x07\x03abc")
    event.data.CopyFrom(value)
    kept.write(state_store.append_next_event, "tt", state_store_pb2.AppendNextEventRequest(event=event))
    kept.set("s", value=value)
    file = kept.file()
    target.bring(file)
    assert target.file() == file
    assert b"\xfa\x07\x03abc" in target.get("s").SerializeToString()
    read = target.read(state_store.get_history, "tt", state_store_pb2.GetHistoryRequest(thread_id="t"))
    assert b"\xf8\x07\x05" in read
    assert b"\xfa\x07\x03abc" in read


# --- what came in behaves as what went out


def test_versions_sequences_and_revisions_go_on(kept: Kept, target: Kept) -> None:
    fill(kept)
    target.bring(kept.file())
    for where in (kept, target):
        where.purge("b", all_keys=True, include_deleted=True)
    assert target.set("b").version == kept.set("b").version == 7
    assert target.set("b", "new").version == 1
    one, two = kept.append("t"), target.append("t")
    assert (one.id, one.sequence, one.revision) == (two.id, two.sequence, two.revision)


def test_a_retry_with_its_request_id_is_answered_as_before(kept: Kept, target: Kept) -> None:
    first = kept.set("s", request_id="r", labels={"a": "b"})
    kept.set("s", json="2")
    target.bring(kept.file())
    assert target.set("s", request_id="r", labels={"a": "b"}) == first
    assert target.get("s").version == 2
    assert refusal(lambda: target.set("s", json="3", request_id="r")).reason is Reason.REQUEST_ID_REUSED


def test_an_event_that_is_sent_again_is_known(kept: Kept, target: Kept) -> None:
    first = kept.append("t", "e", data=Value(json="1"))
    made_up = kept.append("t")
    target.bring(kept.file())
    assert target.append("t", "e", data=Value(json="1")) == first
    assert target.history("t") == ["e", made_up.id]
    assert refusal(lambda: target.append("t", "e")).reason is Reason.EVENT_EXISTS
    assert refusal(lambda: target.append("t", made_up.id, type="other")).reason is Reason.EVENT_EXISTS


def test_a_cursor_goes_on_and_one_from_before_a_purge_is_refused(kept: Kept, target: Kept) -> None:
    old = kept.set("s").revision
    kept.set("s", "other")
    kept.purge("s", key="k", keep=0)
    newer = kept.set("s", "third").revision
    kept.set("s", "fourth")
    target.bring(kept.file())

    def watched(where: Kept, after: int) -> Any:
        request = memory_pb2.MemoryWatchRequest(scope=memory_pb2.Scope(name="s"), after_revision=after)
        return answer_or_reason(lambda: where.messages(ScopeWatch(request)))

    assert watched(target, old)[0] is Reason.REVISION_GONE
    for after in (0, old, newer, newer + 100):
        assert watched(target, after) == watched(kept, after)
    assert b"fourth" in b"".join(watched(target, newer))


def test_an_import_in_place_of_a_thread_that_was_deleted_refuses_the_cursors_of_that(kept: Kept, target: Kept) -> None:
    before = target.append("t").revision
    target.drop("t")
    kept.append("t")
    target.bring(kept.file())
    request = state_store_pb2.StreamHistoryRequest(thread_id="t", after_revision=before)
    assert refusal(lambda: target.messages(BranchHistory(request))).reason is Reason.REVISION_GONE


def test_a_value_keeps_its_expiry_and_an_expired_one_is_not_exported(kept: Kept, target: Kept) -> None:
    kept.set("s", "soon", ttl=Duration(seconds=10))
    kept.set("s", "late", ttl=Duration(seconds=100))
    kept.set("s", "over", "1")
    kept.set("s", "over", "2", ttl=Duration(seconds=10))
    kept.now += 10 * SECOND
    parts = kept.export()
    assert [(part.entry.key, part.entry.version) for part in parts if part.HasField("entry")] == [
        ("late", 1),
        ("over", 1),
    ]
    target.bring(parts)
    target.now = kept.now
    assert target.get("s", "late").expire_time == kept.get("s", "late").expire_time
    assert not target.get("s", "over").key, "an expired value never uncovers an older one"
    assert target.set("s", "soon").version == 2
    target.now += 90 * SECOND
    assert not target.get("s", "late").key


def test_a_remembered_answer_that_is_as_large_as_a_message_travels_in_pieces(kept: Kept, target: Kept) -> None:
    kept.append("t", "e")
    state = Value(data=b"\x01" * (4 * 2**20 - 65 * 2**10))
    request = state_store_pb2.ForkRequest(
        thread_id="t",
        from_event_id="e",
        name="draft",
        request_id="r" * 256,
        checkpoint=state_store_pb2.Checkpoint(id="c", state=state),
        event=state_store_pb2.Event(type="n", data=Value(text="x" * 64 * 2**10)),
    )
    answer = kept.write(state_store.fork, "tt", request)
    assert len(answer) > 4 * 2**20 - 1500
    file = kept.file()
    target.bring(file, each=1)
    assert target.write(state_store.fork, "tt", request) == answer
    assert target.file() == file
    assert outcomes(target.bring(file, each=1)) == [("t", UNCHANGED)]


# --- each partition is of one moment


def in_a_thread(engine: Engine, jobs: Callable[[Kept], None], now: int) -> None:
    """Do something to an engine on a thread and loop of its own, and wait for it."""

    def work() -> None:
        with asyncio.Runner() as runner:
            jobs(Kept(engine, runner, now))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def test_what_is_written_trimmed_and_dropped_meanwhile_is_not_in_the_export(kept: Kept, target: Kept) -> None:
    for number in range(100):
        kept.set("s", f"k{number % 10}", json=f'"{"x" * 500}"')
        kept.save("t", f"c{number % 10}", number, metadata=Value(text="x" * 500))
        kept.append("t", data=Value(text="x" * 500))
    undisturbed = kept.export(size=4_000)

    def change(sent: int) -> None:
        def jobs(meanwhile: Kept) -> None:
            if sent == 3:  # within the scope
                meanwhile.purge("s", all_keys=True, keep=1)
                meanwhile.set("s", "new")
                meanwhile.drop("u")
            elif sent == 22:  # within the thread
                meanwhile.save("t", "c1", 1000)
                meanwhile.append("t")
                meanwhile.drop("t")
                meanwhile.append("t")

        in_a_thread(kept.engine, jobs, kept.now)

    kept.append("u")
    disturbed = kept.export(change, size=4_000)
    assert disturbed == undisturbed
    assert len(kept.history("t")) == 1
    assert outcomes(target.bring(file_of(disturbed))) == [("s", RESTORED), ("t", RESTORED)]


def test_while_many_write_each_export_is_a_state_that_there_was(kept: Kept, target: Kept) -> None:
    """Each write sets a and b to the same, and takes what was before away: no export may see one without the other."""
    over = threading.Event()

    def write(meanwhile: Kept) -> None:
        number = 0
        while not over.is_set() and number < 20_000:
            number += 1
            where = memory_pb2.Scope(name="s", type=1)
            sets = [memory_pb2.MemorySetRequest(scope=where, key=key, value=Value(json=str(number))) for key in "ab"]
            meanwhile.write(memory.set_keys, "ms\0" + "1", memory_pb2.MemoryBatchSetRequest(sets=sets))
            meanwhile.purge("s", all_keys=True, keep=1)

    kept.set("s", "a", "0")
    kept.set("s", "b", "0")
    writer = threading.Thread(target=in_a_thread, args=(kept.engine, write, kept.now))
    writer.start()
    try:
        for number in range(30):
            parts = kept.export(size=500)
            latest = {part.entry.key: part.entry.value.json for part in parts if part.HasField("entry")}
            assert latest["a"] == latest["b"]
            if number == 29:
                assert outcomes(target.bring(parts)) == [("s", RESTORED)]
    finally:
        over.set()
        writer.join(40)
    assert not writer.is_alive()


# --- an import that breaks off, and one of what is there


def test_an_import_that_is_cut_off_anywhere_leaves_whole_partitions_and_is_completed_by_the_next(
    kept: Kept, target: Kept
) -> None:
    fill(kept)
    file = kept.file()
    parts = parts_of(file)
    ends = [place for place, kind in enumerate(kinds(parts)) if kind == "end"]
    whole: list[str] = []
    for cut in range(1, len(parts)):
        if cut - 1 in ends:
            assert outcomes(target.bring(parts[:cut]))[-1][1] == RESTORED
        else:
            assert refusal(lambda cut=cut: target.bring(parts[:cut])).reason is Reason.INVALID_FIELD
        whole = target.runner.run(target.engine.partitions("", "", 10))
        assert len(whole) == sum(end < cut for end in ends)
    assert outcomes(target.bring(file))[-1] == ("t", RESTORED)
    assert target.file() == file


def test_importing_again_changes_nothing(kept: Kept, target: Kept) -> None:
    fill(kept)
    file = kept.file()
    target.bring(file)
    assert {outcome for _, outcome in outcomes(target.bring(file))} == {UNCHANGED}
    assert {outcome for _, outcome in outcomes(kept.bring(file))} == {UNCHANGED}
    assert target.file() == kept.file() == file


def test_what_was_written_on_since_is_left_as_it_is(kept: Kept, target: Kept) -> None:
    fill(kept)
    file = kept.file()
    target.bring(file)
    for _ in range(3):
        target.append("t")
        target.save("t", "c", 99)
        target.set("b", "k", "9")
    target.purge("b", all_keys=True, keep=1)
    after = target.file()
    assert {outcome for _, outcome in outcomes(target.bring(file))} == {UNCHANGED}
    assert target.file() == after


def test_an_expired_value_that_is_gone_by_now_is_no_difference(kept: Kept, target: Kept) -> None:
    kept.set("s", "soon", ttl=Duration(seconds=10))
    kept.set("s", "other")
    file = kept.file()
    target.bring(file)
    target.now += 20 * SECOND
    assert outcomes(target.bring(file)) == [("s", UNCHANGED)]
    target.runner.run(target.engine.sweep(target.now))
    assert outcomes(target.bring(file)) == [("s", UNCHANGED)]


def test_another_partition_of_the_name_is_refused_by_name_before_anything_of_it_is_changed(
    kept: Kept, target: Kept
) -> None:
    for name in ("a", "b", "c"):
        kept.append(name, "theirs")
    target.append("b", "mine")
    file = kept.file()
    error = refusal(lambda: target.bring(file))
    assert error.reason is Reason.PARTITION_EXISTS
    assert error.metadata["name"] == "Thread b"
    assert target.history("a") == ["theirs"]
    assert target.history("b") == ["mine"]
    assert target.history("c") == []
    assert outcomes(target.bring(file, skip_existing=True)) == [("a", UNCHANGED), ("b", SKIPPED), ("c", RESTORED)]
    assert target.history("b") == ["mine"]


def changed_event(parts: list[Part]) -> list[Part]:
    return [part_of(part, type="other") if part.HasField("event") and part.event.id == "e2" else part for part in parts]


def without_an_event(parts: list[Part]) -> list[Part]:
    rest = [part for part in parts if part.event.id != "e2"]
    return [part_of(part, records=2) if part.HasField("end") else part for part in rest]


def later_revision(parts: list[Part]) -> list[Part]:
    return [
        part_of(part, revision=part.partition.revision + 1) if part.HasField("partition") else part for part in parts
    ]


@pytest.mark.parametrize("change", [changed_event, without_an_event, later_revision])
def test_other_content_in_the_same_life_is_refused(kept: Kept, change: Callable[[list[Part]], list[Part]]) -> None:
    for number in range(3):
        kept.append("t", f"e{number}")
    file = kept.file()
    assert refusal(lambda: kept.bring(change(parts_of(file)))).reason is Reason.PARTITION_EXISTS
    assert outcomes(kept.bring(change(parts_of(file)), skip_existing=True)) == [("t", SKIPPED)]
    assert kept.file() == file


@pytest.mark.parametrize("selection", [{"thread_id": "t"}, {"thread_id": "u"}, {"scope": memory_pb2.Scope(name="s")}])
def test_one_that_lacks_a_record_is_another_also_where_it_went_on(
    kept: Kept, target: Kept, selection: dict[str, Any]
) -> None:
    def write(where: Kept, number: int) -> None:
        if "scope" in selection:
            where.set("s", f"k{number}")
        elif selection["thread_id"] == "t":
            where.append("t", f"e{number}", data=Value(json=str(where.now)))
        else:
            where.save("u", f"c{number}", number, state=Value(json=str(where.now)))

    for number in range(3):
        write(kept, number)
    parts = kept.export(**selection)
    lacking = [*parts[:2], *parts[3:-1], part_of(parts[-1], records=2)]
    assert [outcome for _, outcome in outcomes(target.bring(lacking))] == [RESTORED]
    assert refusal(lambda: target.bring(parts)).reason is Reason.PARTITION_EXISTS
    target.now += SECOND
    write(target, 3)
    if selection != {"thread_id": "t"}:
        write(target, 0)  # a checkpoint that is replaced, a key that has two versions
        target.purge("s", key="k0", keep=1)
    assert refusal(lambda: target.bring(parts)).reason is Reason.PARTITION_EXISTS


def test_two_that_went_on_apart_do_not_mix(kept: Kept, target: Kept) -> None:
    kept.append("t", "common")
    target.bring(kept.file())
    kept.append("t", "here")
    target.append("t", "there")
    target.append("t", "there too")
    assert refusal(lambda: target.bring(kept.file())).reason is Reason.PARTITION_EXISTS
    assert target.history("t") == ["common", "there", "there too"]


def test_a_writer_that_comes_first_keeps_its_partition(kept: Kept, target: Kept) -> None:
    kept.append("t", "theirs")
    parts = kept.export()
    done: list[str] = []

    async def requests() -> Any:
        yield pb.AdminImportRequest(parts=parts[:-1])
        await asyncio.to_thread(in_a_thread, target.engine, lambda writer: writer.append("t", "mine"), target.now)
        done.append("written")
        yield pb.AdminImportRequest(parts=parts[-1:])

    async def send(data: bytes) -> None:
        done.append("answered")

    from statekeep_server.rpc.admin import Import

    importing = Import(target.engine, target.call)
    assert refusal(lambda: target.runner.run(importing.run(requests(), send))).reason is Reason.PARTITION_EXISTS
    assert done == ["answered", "written"]
    assert target.history("t") == ["mine"]


# --- what does not fit


def good(kept: Kept) -> list[Part]:
    kept.set("s", labels={"a": "b"}, request_id="r")
    kept.set("s")
    kept.purge("s", key="k", keep=1)
    kept.append("t", "e")
    kept.append("t", "f")
    kept.save("t", "c")
    kept.save("t", "c", 2)
    fork = state_store_pb2.ForkRequest(thread_id="t", from_event_id="e", name="draft")
    kept.write(state_store.fork, "tt", fork)
    return kept.export()


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "a life of 0": ("partition", {"life": 0}),
    "a revision past what numbers hold": ("partition", {"revision": 2**53}),
    "an oldest above the revision": ("partition", {"oldest": 2**53 - 1}),
    "a log of no kind": ("log", {"kind": 0}),
    "a log of events": ("log", {"kind": pb.LOG_KIND_EVENTS}),
    "a log's name that is no key": ("log", {"name": "\0"}),
    "a negative number": ("log", {"trimmed": -1}),
    "a log born after the partition": ("log", {"born": 2**53}),
    "a version of 0": ("entry", {"version": 0}),
    "a key with blanks": ("entry", {"key": " k"}),
    "a reserved key": ("entry", {"key": "_compaction/x"}),
    "a tombstone with a value": ("entry", {"deleted": True}),
    "an entry of no revision": ("entry", {"revision": 0}),
    "an answer without an id": ("answer", {"request_id": ""}),
    "an answer of no request": ("answer", {"fingerprint": b"x"}),
    "an answer that never ends": ("answer", {"partial": True}),
    "a purge of no revision": ("purge", {"revision": 0}),
    "an event of another thread": ("event", {"thread_id": "u"}),
    "an event without a type": ("event", {"type": ""}),
    "an event without an id": ("event", {"id": ""}),
    "an event without a branch": ("event", {"branch_id": ""}),
    "an event below 0": ("event", {"sequence": -1}),
    "an event out of order": ("event", {"revision": 1}),
    "an event twice": ("event", {"id": "e"}),
    "a checkpoint of another thread": ("checkpoint", {"thread_id": "u"}),
    "a checkpoint with a blank id": ("checkpoint", {"id": " c"}),
    "a branch of another thread": ("branch", {"thread_id": "u"}),
    "a branch named main": ("branch", {"id": "main"}),
    "a wrong count": ("end", {"records": 99}),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_part_that_does_not_fit_is_refused_and_nothing_of_its_partition_comes_in(
    what: str, kept: Kept, target: Kept
) -> None:
    kind, fields = WRONG[what]
    parts = good(kept)
    place = max(place for place, found in enumerate(kinds(parts)) if found == kind)
    parts[place] = part_of(parts[place], **fields)
    error = refusal(lambda: target.bring(parts))
    assert error.reason is Reason.INVALID_FIELD
    assert error.field.startswith("parts")
    scopes = 1 if place > kinds(parts).index("end") else 0
    assert len(target.runner.run(target.engine.partitions("", "", 10))) == scopes


ORDERS: dict[str, Callable[[list[Part]], list[Part]]] = {
    "nothing before the records": lambda parts: parts[1:],
    "an empty part": lambda parts: [parts[0], Part()],
    "a header within a partition": lambda parts: [parts[0], parts[0]],
    "a log after records": lambda parts: [parts[0], parts[2], parts[1]],
    "a log twice": lambda parts: [parts[0], parts[1], parts[1], *parts[2:]],
    "a record of another kind of partition": lambda parts: [parts[0], *(p for p in parts if p.HasField("event"))],
    "an end without a partition": lambda parts: [pb.ExportedPart(end=pb.ExportedEnd())],
    "a partition without a name": lambda parts: [pb.ExportedPart(partition=pb.ExportedPartition(life=1))],
    "a partition without an end": lambda parts: parts[: kinds(parts).index("end")],
}


@pytest.mark.parametrize("what", ORDERS)
def test_parts_in_another_order_are_refused(what: str, kept: Kept, target: Kept) -> None:
    parts = ORDERS[what](good(kept))
    for each in (1, 100):
        assert refusal(lambda each=each: target.bring(parts, each=each)).reason is Reason.INVALID_FIELD
    assert target.runner.run(target.engine.partitions("", "", 10)) == []


def test_values_are_checked_as_in_a_write(kept: Kept, target: Kept) -> None:
    kept.set("s")
    parts = kept.export()
    for value in (Value(json="NaN"), Value(json="{"), Value(json="[" * 513 + "]" * 513), Value(content_type="x")):
        place = kinds(parts).index("entry")
        parts[place].entry.value.CopyFrom(value)
        assert refusal(lambda: target.bring(parts)).reason is Reason.INVALID_FIELD
    parts[place].entry.value.CopyFrom(Value(data=b"x" * (4 * 2**20 - 64 * 2**10)))
    assert refusal(lambda: target.bring(parts)).reason is Reason.VALUE_TOO_LARGE


# --- any history


SET = st.tuples(
    st.just("set"),
    st.sampled_from("abc"),
    st.sampled_from(["1", "-0.0", '"\\u0000"', '{"a":1,"a":2}', str(2**64)]),
    st.sampled_from([0, 0, 0, 5]),
    st.booleans(),
)
STEPS = st.one_of(
    SET,
    SET,
    st.tuples(st.just("delete"), st.sampled_from("abc")),
    st.tuples(st.just("purge"), st.sampled_from("abc*"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("next"), st.sampled_from(["", "e1", "e2", "e3"]), st.sampled_from(["", "b"])),
    st.tuples(st.just("given"), st.integers(0, 9), st.sampled_from(["", "e4", "e5"]), st.sampled_from(["", "b", "d"])),
    st.tuples(st.just("save"), st.sampled_from(["", "c1", "c2"]), st.integers(0, 3), st.sampled_from(["1", "2"])),
    st.tuples(st.just("fork"), st.sampled_from(["e1", "e2", "e4"]), st.sampled_from(["d", "f"]), st.booleans()),
    st.tuples(st.just("pass"), st.integers(1, 9)),
)


class Story:
    """Steps on one scope and one thread of an engine, told the same on any.

    Answers with events are told as messages: the fields of an event that was exported come in another order.
    """

    def __init__(self, kept: Kept, name: str) -> None:
        self.kept = kept
        self.name = name
        self.scope = memory_pb2.Scope(name=name, type=1)
        self.where = f"m{name}\0" + "1"
        self.steps = 0

    def take(self, step: tuple[Any, ...]) -> Any:
        self.steps += 1
        return answer_or_reason(lambda: getattr(self, "do_" + step[0])(*step[1:]))

    def again(self, step: tuple[Any, ...], at: int) -> Any:
        """Take a step as it was taken before: its request id is that of then."""
        before, self.steps = self.steps, at
        answer = answer_or_reason(lambda: getattr(self, "do_" + step[0])(*step[1:]))
        self.steps = before
        return answer

    def do_set(self, key: str, json: str, ttl: int, remembered: bool) -> bytes:
        request = memory_pb2.MemorySetRequest(
            scope=self.scope,
            key=key,
            value=Value(json=json),
            ttl=Duration(seconds=ttl) if ttl else None,
            request_id=f"r{self.steps}" if remembered else "",
            labels={"one": "label"},
        )
        return self.kept.write(memory.set_key, self.where, request)

    def do_delete(self, key: str) -> bytes:
        request = memory_pb2.MemoryDeleteRequest(scope=self.scope, key=key, request_id=f"r{self.steps}")
        return self.kept.write(memory.delete_key, self.where, request)

    def do_purge(self, key: str, keep: int, include_deleted: bool) -> bytes:
        request = memory_pb2.MemoryPurgeRequest(
            scope=self.scope,
            keep=keep,
            **({"all_keys": True, "include_deleted": include_deleted} if key == "*" else {"key": key}),
        )
        return self.kept.write(memory.purge, self.where, request)

    def do_next(self, event_id: str, branch: str) -> state_store_pb2.AppendNextEventResponse:
        event = state_store_pb2.Event(id=event_id, thread_id=self.name, branch_id=branch, type="note")
        request = state_store_pb2.AppendNextEventRequest(event=event)
        answer = self.kept.write(state_store.append_next_event, "t" + self.name, request)
        return state_store_pb2.AppendNextEventResponse.FromString(answer)

    def do_given(self, sequence: int, event_id: str, branch: str) -> state_store_pb2.AppendEventResponse:
        event = state_store_pb2.Event(
            id=event_id, thread_id=self.name, branch_id=branch, type="note", sequence=sequence
        )
        request = state_store_pb2.AppendEventRequest(event=event)
        answer = self.kept.write(state_store.append_event, "t" + self.name, request)
        return state_store_pb2.AppendEventResponse.FromString(answer)

    def do_save(self, checkpoint_id: str, sequence: int, json: str) -> bytes:
        checkpoint = state_store_pb2.Checkpoint(
            id=checkpoint_id, thread_id=self.name, sequence=sequence, state=Value(json=json)
        )
        request = state_store_pb2.SaveCheckpointRequest(checkpoint=checkpoint)
        return self.kept.write(state_store.save_checkpoint, "t" + self.name, request)

    def do_fork(self, event_id: str, name: str, remembered: bool) -> bytes:
        request = state_store_pb2.ForkRequest(
            thread_id=self.name, from_event_id=event_id, name=name, request_id=f"f{self.steps}" if remembered else ""
        )
        return self.kept.write(state_store.fork, "t" + self.name, request)

    def do_pass(self, seconds: int) -> None:
        self.kept.now += seconds * SECOND

    def reads(self, cursors: list[int]) -> list[Any]:
        """Return all that can be read, from these cursors too."""
        kept, scope, thread = self.kept, self.scope, self.name
        found: list[Any] = [
            kept.read(memory.list_keys, self.where, memory_pb2.MemoryListRequest(scope=scope, include_deleted=True)),
            kept.read(memory.list_purges, self.where, memory_pb2.MemoryListPurgesRequest(scope=scope)),
        ]
        for key in "abc":
            found.append(kept.read(memory.get_key, self.where, memory_pb2.MemoryGetRequest(scope=scope, key=key)))
            history = memory_pb2.MemoryHistoryRequest(scope=scope, key=key, include_values=True)
            found.append(kept.messages(KeyHistory(history)))
        listed = state_store_pb2.ListBranchesRequest(thread_id=thread, include_unforked=True)
        found.append(kept.read(state_store.list_branches, "t" + thread, listed))
        for branch in ("", "b", "d", "f"):
            of = {"thread_id": thread, "branch_id": branch}
            found += [
                kept.read(state_store.latest_checkpoint, "t" + thread, state_store_pb2.LatestCheckpointRequest(**of)),
                kept.read(state_store.list_checkpoints, "t" + thread, state_store_pb2.ListCheckpointsRequest(**of)),
            ]
        for after in cursors:
            watch = memory_pb2.MemoryWatchRequest(scope=scope, after_revision=after, include_values=True)
            stream = state_store_pb2.StreamHistoryRequest(
                thread_id=thread, after_revision=after, include_checkpoints=True, include_ancestors=True
            )
            found.append(answer_or_reason(lambda watch=watch: kept.messages(ScopeWatch(watch))))
            found.append(answer_or_reason(lambda stream=stream: self._history(stream)))
        return found

    def _history(self, request: state_store_pb2.StreamHistoryRequest) -> list[state_store_pb2.StreamHistoryResponse]:
        sent = self.kept.messages(BranchHistory(request))
        return [state_store_pb2.StreamHistoryResponse.FromString(message) for message in sent]


def everything(kept: Kept, name: str) -> list[Part]:
    """Return what is kept under a name, but for when it was changed last."""
    parts = [*kept.export(scope=memory_pb2.Scope(name=name)), *kept.export(thread_id=name)]
    for part in parts:
        part.partition.ClearField("update_time") if part.HasField("partition") else None
    return parts


_examples = iter(range(10**9))


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=False)
@given(before=st.lists(STEPS, max_size=40), after=st.lists(STEPS, max_size=15), seed=st.integers(0, 2**32))
def test_whatever_happened_what_came_in_answers_all_that_follows_as_what_went_out(
    kept: Kept, target: Kept, before: list[tuple[Any, ...]], after: list[tuple[Any, ...]], seed: int
) -> None:
    name = f"n{next(_examples)}"
    story = Story(kept, name)
    for step in before:
        story.take(step)
    exported = [*kept.export(scope=memory_pb2.Scope(name=name)), *kept.export(thread_id=name)]
    file = file_of(exported)
    assert parts_of(file) == exported
    target.bring(file, each=1 + seed % 9)
    target.now = kept.now
    copy = Story(target, name)
    copy.steps = story.steps
    again = [*target.export(scope=memory_pb2.Scope(name=name)), *target.export(thread_id=name)]
    assert file_of(again) == file
    newest = [part.partition.revision for part in exported if part.HasField("partition")]
    cursors = [0, *(revision - back for revision in newest for back in range(-1, 6))]
    assert copy.reads(cursors) == story.reads(cursors)
    if not newest or len(newest) < 2:
        return  # what begins only now begins at each engine's own clock
    chance = random.Random(seed)
    for step in after:
        if before and chance.random() < 0.3:
            at = chance.randrange(len(before))
            assert copy.again(before[at], at + 1) == story.again(before[at], at + 1)
        assert copy.take(step) == story.take(step)
    assert copy.reads(cursors) == story.reads(cursors)
    assert everything(target, name) == everything(kept, name)
