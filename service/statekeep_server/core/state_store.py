"""The rules of StateStore: a thread's events, checkpoints and branches.

A thread is a partition. Each branch has a log of events and one of checkpoints, with the sequence as number; the
forked branches are a log too. `revision` counts every write of the thread. Each public function is one RPC:
`(view, request, call)` to what is answered, or to the `Change` that is to be made. `partition` has checked the thread's
id before.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import merge
from itertools import count

from statekeep.v1 import state_store_pb2 as pb

from statekeep_server.core import clock, values
from statekeep_server.core.errors import Reason, StatekeepError, invalid
from statekeep_server.core.identifiers import identifier, sequence
from statekeep_server.core.journal import (
    BRANCHES,
    CHECKPOINTS,
    EVENTS,
    MAIN,
    MAX_NUMBER,
    Call,
    Change,
    Record,
    View,
)
from statekeep_server.core.pages import Page, revision_cursor
from statekeep_server.core.requests import Request
from statekeep_server.core.room import check_thread
from statekeep_server.core.sizes import check_answer, check_batch, check_record
from statekeep_server.core.wire import RECORD_TAG, body, field, frame, retag

PARTITIONS = "t"
"""What the partitions of threads begin with."""

_MAIN_CAME = "m"  # in a cursor of branches: main came first, without a record, and may have one since
_TAKEN = "x"  # what an id that is made up gets at its end where a client has taken it
_MADE_UP_EVENT = re.compile(r"evt-([0-9a-f]{1,16})")


def partition(thread_id: str, path: str = "thread_id") -> str:
    """Return the partition of a thread."""
    return PARTITIONS + identifier(thread_id, path)


def branch_name(branch_id: str, path: str = "branch_id") -> str:
    """Return a branch's id: "main" where none is given."""
    return identifier(branch_id, path) if branch_id else MAIN


# --- events


def append_event(view: View, request: pb.AppendEventRequest, call: Call) -> Change[bytes]:
    """Store an event with the sequence it brings."""
    event = _checked_event(request, call)
    number = sequence(event.sequence, "event.sequence")
    branch_id = event.branch_id or MAIN
    if event.id and (stored := _known_event(view, event, branch_id, "event", with_sequence=True)):
        return Change(stored.frame)
    return _appended(view, event, branch_id, number, call)


def append_next_event(view: View, request: pb.AppendNextEventRequest, call: Call) -> Change[bytes]:
    """Store an event with the next sequence of its branch."""
    event = _checked_event(request, call)
    branch_id = event.branch_id or MAIN
    if event.id and (stored := _known_event(view, event, branch_id, "event")):
        return Change(stored.frame)
    last = view.number(EVENTS + branch_id)
    if request.HasField("expected_last_sequence"):
        _check_last(last, request.expected_last_sequence, branch_id)
    return _appended(view, event, branch_id, _next(last, 1, branch_id), call)


def append_events(view: View, request: pb.AppendEventsRequest, call: Call) -> Change[bytes]:
    """Store several events with the next sequences of their branch, all or none."""
    thread_id, branch_id = request.thread_id, branch_name(request.branch_id)
    events = list(request.events)
    if not events:
        raise invalid("events", "is empty; send at least one")
    check_batch(len(events), call.limits)
    paths = [f"events[{index}]" for index in range(len(events))]
    for event, path in zip(events, paths, strict=True):
        _check_place(event, thread_id, branch_id, path)
        _check_event(event, path, call)
    given = [event.id for event in events]
    if any(given) and (stored := _known_batch(view, events, branch_id)):
        return Change(_batch_answer(stored, given))
    log, revision = EVENTS + branch_id, view.revision + 1
    last = view.number(log)
    if request.HasField("expected_last_sequence"):
        _check_last(last, request.expected_last_sequence, branch_id)
    first = _next(last, len(events), branch_id)
    made_up = _made_up_ids(view, log, given, revision)
    additions = _Additions(thread_id, branch_id, call)
    records = list(map(additions.record, events, made_up, count(first), count(revision), paths))
    ids = [known or name for known, name in zip(given, made_up, strict=True)]
    answer = _batch_answer(records, ids)
    check_answer(len(answer), call.limits)
    check_thread(view, records, call)
    return Change(answer, records)


def find_event(view: View, branch_id: str, event_id: str) -> Record | None:
    """Return the record of an event that is on a branch."""
    log = EVENTS + branch_id
    record = view.find(log, event_id)
    made_up = _MADE_UP_EVENT.fullmatch(event_id)
    if record or not made_up:
        return record
    # An id that the server made up carries the event's revision, so no engine needs an index of those.
    revision = int(made_up[1], 16)
    for at_revision in view.scan(log, after=revision - 1, before=revision + 1):
        if body(at_revision.frame).startswith(field(RECORD_TAG, event_id.encode())):
            return at_revision
    return None


def get_history(view: View, request: pb.GetHistoryRequest, call: Call) -> bytes:
    """Read a whole branch in one message."""
    thread_id, branch_id = request.thread_id, branch_name(request.branch_id)
    head = pb.History(thread_id=thread_id, branch_id=branch_id).SerializeToString()
    parts = [head]
    room = call.limits.message - len(head) - 8  # the tag and length of the one field they are in
    for log, tag in ((EVENTS + branch_id, b"\x1a"), (CHECKPOINTS + branch_id, b"\x22")):
        for record in view.scan(log):
            room -= len(record.frame)
            if room < 0:
                raise _history_too_large(thread_id, branch_id, call)
            parts.append(retag(tag, record.frame))
    return frame(b"".join(parts))


# --- checkpoints


def save_checkpoint(view: View, request: pb.SaveCheckpointRequest, call: Call) -> Change[bytes]:
    """Store a snapshot of state; what was saved under its id before is replaced."""
    if not request.HasField("checkpoint"):
        raise invalid("checkpoint", "is missing")
    checkpoint = pb.Checkpoint()
    checkpoint.CopyFrom(request.checkpoint)
    branch_id = branch_name(checkpoint.branch_id, "checkpoint.branch_id")
    checkpoint.branch_id = branch_id
    _check_checkpoint(checkpoint, "checkpoint", call)
    replaced = view.find(CHECKPOINTS + branch_id, checkpoint.id) if checkpoint.id else None
    if replaced and _same(checkpoint, pb.Checkpoint.FromString(body(replaced.frame))):
        return Change(replaced.frame)
    record = _checkpoint_record(view, view.revision + 1, checkpoint, call, "checkpoint")
    trims = [replaced] if replaced else []
    check_thread(view, [record], call, trims)
    return Change(record.frame, [record], trims)


def latest_checkpoint(view: View, request: pb.LatestCheckpointRequest, call: Call) -> bytes:
    """Read the checkpoint with the highest sequence, or the highest up to an event's."""
    branch_id = branch_name(request.branch_id)
    number = MAX_NUMBER
    if request.HasField("at_event_id"):
        number = _event_on(view, identifier(request.at_event_id, "at_event_id"), branch_id, request.thread_id).number
    record = view.upto(CHECKPOINTS + branch_id, number)
    return record.frame if record else b""


def list_checkpoints(view: View, request: pb.ListCheckpointsRequest, call: Call) -> bytes:
    """List the checkpoints of a branch by order of saving, newest first."""
    page = Page(request, call.limits, _normalise_branch)
    log = CHECKPOINTS + branch_name(request.branch_id)
    labels = dict(request.labels)
    for record in view.scan(log, before=revision_cursor(page), newest_first=True):
        if _labelled(record, labels) and not page.take(record.frame, str(record.revision)):
            break
    return page.answer()


# --- branches


def fork(view: View, request: pb.ForkRequest, call: Call) -> Change[bytes]:
    """Record a branch that starts at an event, with its first checkpoint and event, all or none."""
    sent = Request(request, request.request_id, _normalise_branch)
    if (answer := sent.known(view)) is not None:
        return Change(answer)
    parent = branch_name(request.branch_id)
    _check_fork(view, request, parent)
    revision = view.revision + 1
    if request.HasField("name"):
        name = identifier(request.name, "name")
        _check_free(view, name, request.thread_id)
    else:
        name = _made_up(f"branch-{revision:x}", partial(_holds, view))
    branch = pb.Branch(
        id=name, thread_id=request.thread_id, parent_branch_id=parent, from_event_id=request.from_event_id
    )
    clock.stamp(branch.create_time, call.now)
    branch.revision = revision
    records = [Record(BRANCHES, revision, revision, frame(branch.SerializeToString()), name)]
    parts = [records[0].frame]
    for record, tag in _first_records(view, request, name, revision + 1, call):
        records.append(record)
        parts.append(retag(tag, record.frame))
    answer = b"".join(parts)
    check_answer(len(answer), call.limits)
    check_thread(view, records, call)
    if not sent.id:
        return Change(answer, records)
    kept, trims = sent.remember(view, revision + len(records), answer)
    return Change(answer, [*records, *kept], trims)


def list_branches(view: View, request: pb.ListBranchesRequest, call: Call) -> bytes:
    """List branches, oldest first."""
    page = Page(request, call.limits)
    after = revision_cursor(page, _MAIN_CAME)
    main_came = page.cursor.endswith(_MAIN_CAME)
    branches: Iterable[tuple[int, bytes]] = (
        (record.revision, record.frame) for record in view.scan(BRANCHES, after=after or 0)
    )
    if request.include_unforked and view.exists:
        branches = merge(branches, sorted(_unforked(view, request.thread_id, after, main_came=main_came)))
    for place, framed in branches:
        main_came = main_came or place == 0
        if not page.take(framed, f"{place}{_MAIN_CAME * main_came}"):
            break
    return page.answer()


# --- threads


def thread(view: View, partition: str, call: Call) -> bytes | None:
    """Return a thread's line in ListThreads; None where it is not there."""
    if not view.exists:
        return None
    line = pb.Thread(
        id=partition[len(PARTITIONS) :],
        uid=f"{view.life:x}",
        event_count=_count(view, EVENTS),
        checkpoint_count=_count(view, CHECKPOINTS),
        branch_count=view.count(BRANCHES),
        revision=view.revision,
    )
    clock.stamp(line.create_time, view.create_time)
    clock.stamp(line.update_time, view.update_time)
    return frame(line.SerializeToString())


def delete_thread(view: View, request: pb.DeleteThreadRequest, call: Call) -> Change[bytes]:
    """Remove a thread with all its branches."""
    answer = pb.DeleteThreadResponse(
        events_deleted=_count(view, EVENTS), checkpoints_deleted=_count(view, CHECKPOINTS)
    ).SerializeToString()
    return Change(answer, drop=view.exists)


def drop_idle(view: View, before: int) -> Change[bool]:
    """Remove a thread whole, as DeleteThread does, where it was written last before a time; answer whether it was."""
    idle = view.exists and view.update_time < before
    return Change(idle, drop=idle)


# --- import


def restored_event(event: pb.Event, thread_id: str, call: Call, path: str) -> Record:
    """Return the record of an event that another server had in this thread, checked."""
    _check_restored(event, thread_id, path)
    _check_event(event, path, call)
    number = sequence(event.sequence, f"{path}.sequence")
    payload = event.SerializeToString()
    check_record(len(payload), call.limits, path)
    plain = event.id == f"evt-{event.revision:x}"
    return Record(EVENTS + event.branch_id, event.revision, number, frame(payload), "" if plain else event.id)


def restored_checkpoint(checkpoint: pb.Checkpoint, thread_id: str, call: Call, path: str) -> Record:
    """Return the record of a checkpoint that another server had in this thread, checked."""
    _check_restored(checkpoint, thread_id, path)
    _check_checkpoint(checkpoint, path, call)
    payload = checkpoint.SerializeToString()
    check_record(len(payload), call.limits, path)
    log = CHECKPOINTS + checkpoint.branch_id
    return Record(log, checkpoint.revision, checkpoint.sequence, frame(payload), checkpoint.id)


def restored_branch(branch: pb.Branch, thread_id: str, call: Call, path: str) -> Record:
    """Return the record of a branch that another server had in this thread, checked."""
    for name in ("id", "parent_branch_id", "from_event_id"):
        identifier(getattr(branch, name), f"{path}.{name}")
    if branch.id == MAIN:
        raise invalid(f"{path}.id", "is main, which is never forked")
    if branch.thread_id != thread_id:
        raise invalid(f"{path}.thread_id", "is not the thread that the record comes in")
    clock.check_timestamp(branch.create_time, f"{path}.create_time")
    payload = branch.SerializeToString()
    check_record(len(payload), call.limits, path)
    return Record(BRANCHES, branch.revision, branch.revision, frame(payload), branch.id)


# --- how


def _check_restored(message: pb.Event | pb.Checkpoint, thread_id: str, path: str) -> None:
    identifier(message.id, f"{path}.id")
    identifier(message.branch_id, f"{path}.branch_id")
    if message.thread_id != thread_id:
        raise invalid(f"{path}.thread_id", "is not the thread that the record comes in")
    if not message.HasField("create_time"):
        raise invalid(f"{path}.create_time", "is missing")


def _normalise_branch(request: pb.ForkRequest | pb.ListCheckpointsRequest) -> None:
    request.branch_id = request.branch_id or MAIN


def _check_place(message: pb.Event | pb.Checkpoint, thread_id: str, branch_id: str, path: str) -> None:
    """Refuse any other thread and branch than the request's in a part of it; it may leave them empty."""
    if message.thread_id not in ("", thread_id):
        raise invalid(f"{path}.thread_id", "is another thread's; leave it empty or give the request's")
    if message.branch_id not in ("", branch_id):
        raise invalid(f"{path}.branch_id", "is another branch's; leave it empty or give the request's")


def _checked_event(request: pb.AppendEventRequest | pb.AppendNextEventRequest, call: Call) -> pb.Event:
    if not request.HasField("event"):
        raise invalid("event", "is missing")
    event = request.event
    if event.branch_id:
        identifier(event.branch_id, "event.branch_id")
    _check_event(event, "event", call)
    return event


def _appended(view: View, event: pb.Event, branch_id: str, number: int, call: Call) -> Change[bytes]:
    revision = view.revision + 1
    made_up = f"evt-{revision:x}"
    if view.named(log := EVENTS + branch_id):
        made_up = _made_up(made_up, partial(view.find, log))
    record = _Additions(event.thread_id, branch_id, call).record(event, made_up, number, revision, "event")
    check_thread(view, [record], call)
    return Change(record.frame, [record])


def _check_event(event: pb.Event, path: str, call: Call) -> None:
    if event.id:
        identifier(event.id, f"{path}.id")
    if not event.type:
        raise invalid(f"{path}.type", "is empty; say what happened, for example node_completed")
    if event.HasField("data"):
        values.check(event.data, f"{path}.data", call.limits)
    if event.HasField("create_time"):
        clock.check_timestamp(event.create_time, f"{path}.create_time")


def _made_up(name: str, taken: Callable[[str], object]) -> str:
    """Return an id for what came without one: `name`, unless a client has taken that."""
    while taken(name):
        name += _TAKEN
    return name


def _made_up_ids(view: View, log: str, given: Sequence[str], revision: int) -> Sequence[str]:
    """Return ids for events that get these revisions on; `given` are those that they came with."""
    made_up = [f"evt-{number:x}" for number in range(revision, revision + len(given))]
    taken = set(given)
    if view.named(log) or not taken.isdisjoint(made_up):
        return [_made_up(name, lambda name: name in taken or view.find(log, name)) for name in made_up]
    return made_up


class _Additions:
    """What the server adds to the events of one request, which all go to one branch.

    It is written behind the bytes of an event as it was sent, and an id that is made up before them: where a field
    stands twice, the last counts. So no event is copied as a message, and its id stays the first field.
    Source: https://protobuf.dev/programming-guides/encoding#last-one-wins
    """

    def __init__(self, thread_id: str, branch_id: str, call: Call) -> None:
        self._thread_id, self._branch_id, self._call = thread_id, branch_id, call
        self._log = EVENTS + branch_id
        self._added = pb.Event()
        self._timed = False  # whether a time is among them

    def record(self, event: pb.Event, made_up: str, number: int, revision: int, path: str) -> Record:
        """Return the record of a checked event; `made_up` is its id where it came without one."""
        added = self._added
        added.thread_id = "" if event.thread_id else self._thread_id
        added.branch_id = "" if event.branch_id else self._branch_id
        added.sequence = number
        added.revision = revision
        if event.HasField("create_time") == self._timed:  # one of the two has a time, and only one
            self._timed = not self._timed
            if self._timed:
                clock.stamp(added.create_time, self._call.now)
            else:
                added.ClearField("create_time")
        payload = event.SerializeToString() + added.SerializeToString()
        event_id = event.id
        if not event_id:
            payload = field(RECORD_TAG, made_up.encode()) + payload
            if made_up.endswith(_TAKEN):  # see find_event: an id that carries the revision needs no index
                event_id = made_up
        check_record(len(payload), self._call.limits, path)
        return Record(self._log, revision, number, frame(payload), event_id)


def _same(one: pb.Event | pb.Checkpoint, other: pb.Event | pb.Checkpoint, *apart: str) -> bool:
    """Whether two messages say the same, apart from the times and places that the server gives."""
    bare = []
    for message in (one, other):
        copy = type(message)()
        copy.CopyFrom(message)  # type: ignore[arg-type]  # a message's own type takes it
        for name in ("create_time", "revision", *apart):
            copy.ClearField(name)  # type: ignore[arg-type]  # the names are both messages'
        bare.append(copy)
    return bare[0] == bare[1]


def _known_event(
    view: View, event: pb.Event, branch_id: str, path: str, *, with_sequence: bool = False
) -> Record | None:
    """Return the record of an event that was sent before, with its id."""
    record = find_event(view, branch_id, event.id)
    if record is None:
        return None
    stored = pb.Event.FromString(body(record.frame))
    apart = ["thread_id", "branch_id"] if with_sequence else ["thread_id", "branch_id", "sequence"]
    if _same(event, stored, *apart):
        return record
    raise _event_exists(stored, path)


def _known_batch(view: View, events: Sequence[pb.Event], branch_id: str) -> Sequence[Record]:
    """Return the records of a batch that was sent before: all of it, in this order, or none."""
    given: dict[str, int] = {}
    known: list[Record] = []
    for index, event in enumerate(events):
        if not event.id:
            continue
        if event.id in given:
            raise invalid(
                f"events[{index}].id",
                "is the same as events[{first}].id; send each once",
                first=given[event.id],
            )
        given[event.id] = index
        record = _known_event(view, event, branch_id, f"events[{index}].id")
        if record:
            known.append(record)
    if not known:
        return ()
    first = known[0].number
    if len(known) == len(events) and all(record.number == first + place for place, record in enumerate(known)):
        return known
    stored = pb.Event.FromString(body(known[0].frame))
    raise _event_exists(stored, f"events[{given[stored.id]}].id")


def _batch_answer(records: Sequence[Record], ids: Iterable[str]) -> bytes:
    return pb.AppendEventsResponse(
        first_sequence=records[0].number,
        last_sequence=records[-1].number,
        ids=ids,
        revision=records[-1].revision,
    ).SerializeToString()


def _next(last: int, count: int, branch_id: str) -> int:
    if last + count > MAX_NUMBER:
        raise StatekeepError(
            Reason.LIMIT_REACHED,
            "Branch '{branch}' has no {limit} left below {max}",
            branch=branch_id,
            limit="sequence",
            max=MAX_NUMBER,
        )
    return last + 1


def _check_last(last: int, wanted: int, branch_id: str) -> None:
    sequence(wanted, "expected_last_sequence")
    if last != wanted:
        raise StatekeepError(
            Reason.SEQUENCE_MISMATCH,
            "The last sequence of branch '{branch}' is {actual}, not {expected}; read what was added and decide again",
            branch=branch_id,
            actual=last,
            expected=wanted,
        )


def _check_checkpoint(checkpoint: pb.Checkpoint, path: str, call: Call) -> None:
    if checkpoint.id:
        identifier(checkpoint.id, f"{path}.id")
    if checkpoint.event_id:
        identifier(checkpoint.event_id, f"{path}.event_id")
    sequence(checkpoint.sequence, f"{path}.sequence")
    if not checkpoint.HasField("state"):
        raise invalid(f"{path}.state", "is missing; set json, text or data (JSON null is a value)")
    values.check(checkpoint.state, f"{path}.state", call.limits)
    if checkpoint.HasField("active"):
        values.check_list(checkpoint.active, f"{path}.active", call.limits)
    else:
        checkpoint.active.json = "[]"
    if checkpoint.HasField("metadata"):
        values.check(checkpoint.metadata, f"{path}.metadata", call.limits)
    if checkpoint.HasField("create_time"):
        clock.check_timestamp(checkpoint.create_time, f"{path}.create_time")
    checkpoint.status = checkpoint.status or "running"


def _checkpoint_record(view: View, revision: int, checkpoint: pb.Checkpoint, call: Call, path: str) -> Record:
    log = CHECKPOINTS + checkpoint.branch_id
    checkpoint.id = checkpoint.id or _made_up(f"cp-{revision:x}", partial(view.find, log))
    checkpoint.revision = revision
    if not checkpoint.HasField("create_time"):
        clock.stamp(checkpoint.create_time, call.now)
    payload = checkpoint.SerializeToString()
    check_record(len(payload), call.limits, path)
    return Record(log, revision, checkpoint.sequence, frame(payload), checkpoint.id)


def _labelled(record: Record, labels: dict[str, str]) -> bool:
    return not labels or labels.items() <= dict(pb.Checkpoint.FromString(body(record.frame)).labels).items()


def _event_on(view: View, event_id: str, branch_id: str, thread_id: str) -> Record:
    record = find_event(view, branch_id, event_id)
    if record is None:
        raise StatekeepError(
            Reason.EVENT_NOT_FOUND,
            "Event '{event}' is not on branch '{branch}' of thread '{thread}'",
            event=event_id,
            branch=branch_id,
            thread=thread_id,
        )
    return record


def _check_fork(view: View, request: pb.ForkRequest, parent: str) -> None:
    identifier(request.from_event_id, "from_event_id")
    if not view.exists:
        raise StatekeepError(Reason.THREAD_NOT_FOUND, "There is no thread '{thread}'", thread=request.thread_id)
    if parent != MAIN and not _holds(view, parent):
        raise StatekeepError(
            Reason.BRANCH_NOT_FOUND,
            "There is no branch '{branch}' of thread '{thread}'",
            branch=parent,
            thread=request.thread_id,
        )
    _event_on(view, request.from_event_id, parent, request.thread_id)


def _check_free(view: View, name: str, thread_id: str) -> None:
    if name == MAIN or _holds(view, name):
        raise StatekeepError(
            Reason.BRANCH_EXISTS,
            "Branch '{branch}' of thread '{thread}' already exists",
            branch=name,
            thread=thread_id,
        )


def _holds(view: View, branch_id: str) -> bool:
    """Whether there is a branch: it was forked, or holds anything."""
    return bool(view.find(BRANCHES, branch_id) or view.born(EVENTS + branch_id) or view.born(CHECKPOINTS + branch_id))


def _first_records(
    view: View, request: pb.ForkRequest, name: str, revision: int, call: Call
) -> Iterable[tuple[Record, bytes]]:
    """Yield what a fork stores besides the branch, each with its tag in ForkResponse."""
    if request.HasField("checkpoint"):
        checkpoint = pb.Checkpoint()
        checkpoint.CopyFrom(request.checkpoint)
        _check_place(checkpoint, request.thread_id, name, "checkpoint")
        checkpoint.thread_id, checkpoint.branch_id = request.thread_id, name
        _check_checkpoint(checkpoint, "checkpoint", call)
        yield _checkpoint_record(view, revision, checkpoint, call, "checkpoint"), b"\x12"
        revision += 1
    if request.HasField("event"):
        event = request.event
        _check_place(event, request.thread_id, name, "event")
        _check_event(event, "event", call)
        made_up = f"evt-{revision:x}"  # nobody has it: there was no such branch before
        yield _Additions(request.thread_id, name, call).record(event, made_up, 1, revision, "event"), b"\x1a"


def _unforked(view: View, thread_id: str, after: int | None, *, main_came: bool) -> Iterable[tuple[int, bytes]]:
    """Yield the branches that were never forked, each with its place: its first record's; 0 for main without any."""
    names = {MAIN} | {log[1:] for kind in (EVENTS, CHECKPOINTS) for log in view.logs(kind)}
    for name in names:
        if view.find(BRANCHES, name) or (main_came and name == MAIN):
            continue
        born = min(filter(None, (view.born(kind + name) for kind in (EVENTS, CHECKPOINTS))), default=0)
        if after is None or born > after:
            yield born, frame(pb.Branch(id=name, thread_id=thread_id, revision=born).SerializeToString())


def _count(view: View, kind: str) -> int:
    return sum(view.count(log) for log in view.logs(kind))


def _event_exists(event: pb.Event, path: str) -> StatekeepError:
    return StatekeepError(
        Reason.EVENT_EXISTS,
        "Event '{event}' is already on branch '{branch}' of thread '{thread}', and says something else",
        field=path,
        event=event.id,
        branch=event.branch_id,
        thread=event.thread_id,
    )


def _history_too_large(thread_id: str, branch_id: str, call: Call) -> StatekeepError:
    return StatekeepError(
        Reason.HISTORY_TOO_LARGE,
        "Branch '{branch}' of thread '{thread}' does not fit a message of {max} bytes; read it with StreamHistory",
        branch=branch_id,
        thread=thread_id,
        max=call.limits.message,
    )
