"""How a partition travels in an export: as parts, each of them a log's state or a record, between a header and an end.

What is stored is put into a part as it is; what comes back from one is checked as a write would be.
"""

from collections.abc import Callable, Iterator, Sequence

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from statekeep.v1 import admin_pb2 as pb
from statekeep.v1 import memory_pb2, state_store_pb2

from statekeep_server.core import clock, memory, requests, state_store
from statekeep_server.core.errors import StatekeepError, invalid
from statekeep_server.core.identifiers import identifier, memory_key
from statekeep_server.core.journal import (
    APPEND_ONLY,
    BRANCHES,
    CHECKPOINTS,
    EVENTS,
    KEY,
    MAX_NUMBER,
    PURGES,
    REQUESTS,
    Call,
    LogState,
    PartitionState,
    Record,
    View,
)
from statekeep_server.core.wire import RECORD_TAG, body, field, retag, varint

PIECE = 2 * 2**20
"""Bytes of an answer in one part, so that a message stays below 4 MiB also where an answer had that size."""

_AS_STORED = {KEY: b"\x1a", EVENTS: b"\x32", CHECKPOINTS: b"\x3a", BRANCHES: b"\x42"}  # their fields of ExportedPart
_PURGE = b"\x22"  # ExportedPart.purge
_REVISION, _PURGE_RECORD = b"\x08", b"\x12"  # ExportedPurge.revision, ExportedPurge.purge
_KINDS = {
    KEY: pb.LOG_KIND_KEY,
    PURGES: pb.LOG_KIND_PURGES,
    REQUESTS: pb.LOG_KIND_ANSWERS,
    EVENTS: pb.LOG_KIND_EVENTS,
    CHECKPOINTS: pb.LOG_KIND_CHECKPOINTS,
    BRANCHES: pb.LOG_KIND_BRANCHES,
}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}
_MESSAGES: dict[str, type[Message]] = {
    KEY: memory_pb2.MemoryEntry,
    PURGES: memory_pb2.MemoryPurgeRecord,
    EVENTS: state_store_pb2.Event,
    CHECKPOINTS: state_store_pb2.Checkpoint,
    BRANCHES: state_store_pb2.Branch,
}
_OF_SCOPES = frozenset({KEY, PURGES, REQUESTS})
_OF_THREADS = frozenset({EVENTS, CHECKPOINTS, BRANCHES, REQUESTS})

# --- out


def partition_part(partition: str, state: PartitionState) -> bytes:
    """Return the part that a partition begins with, framed as it travels in a message."""
    header = pb.ExportedPartition(life=state.life, revision=state.revision, oldest=state.oldest)
    name_partition(header, partition)
    clock.stamp(header.create_time, state.create_time)
    clock.stamp(header.update_time, state.update_time)
    return _framed(pb.ExportedPart(partition=header))


def log_part(state: LogState) -> bytes:
    """Return the part of a log's state."""
    log = pb.ExportedLog(
        kind=_KINDS[state.log[0]],
        name=state.log[1:],
        trimmed=state.trimmed,
        born=state.born,
    )
    return _framed(pb.ExportedPart(log=log))


def record_parts(record: Record) -> Sequence[bytes]:
    """Return the parts of a record: one, but for a large answer."""
    kind = record.log[0]
    if kind in _AS_STORED:
        return [field(RECORD_TAG, retag(_AS_STORED[kind], record.frame))]
    if kind == PURGES:
        purge = _REVISION + varint(record.revision) + retag(_PURGE_RECORD, record.frame)
        return [field(RECORD_TAG, field(_PURGE, purge))]
    return list(_answer_parts(record))


def end_part(records: int) -> bytes:
    """Return the part that a partition ends with."""
    return _framed(pb.ExportedPart(end=pb.ExportedEnd(records=records)))


def name_partition(message: pb.ExportedPartition | pb.ImportedPartition, partition: str) -> None:
    """Set the name of a partition in a message."""
    if partition.startswith(memory.PARTITIONS):
        message.scope.CopyFrom(memory.scope_of(partition))
    else:
        message.thread_id = partition[len(state_store.PARTITIONS) :]


def same_record(one: Record, other: Record) -> bool:
    """Whether two records say the same. A map's entries have no order, so that bytes may differ."""
    if (one.log, one.revision, one.number) != (other.log, other.revision, other.number):
        return False
    if one.frame == other.frame or one.log[0] == REQUESTS:
        return one.frame == other.frame and (one.log[0] != REQUESTS or one.id == other.id)
    read = _MESSAGES[one.log[0]].FromString
    return read(body(one.frame)) == read(body(other.frame))


def _framed(part: pb.ExportedPart) -> bytes:
    return field(RECORD_TAG, part.SerializeToString())


def _answer_parts(record: Record) -> Iterator[bytes]:
    fingerprint, response = requests.parted(record)
    for start in range(0, len(response) or 1, PIECE):
        answer = pb.ExportedAnswer(
            revision=record.revision,
            request_id=record.id,
            fingerprint=fingerprint,
            response=response[start : start + PIECE],
            partial=start + PIECE < len(response),
        )
        yield _framed(pb.ExportedPart(answer=answer))


# --- in


class Arrival:
    """One partition as its parts come in, each checked."""

    def __init__(self, header: pb.ExportedPartition, path: str, call: Call) -> None:
        self.partition = _partition(header, path)
        """Its name here."""
        self.state = _state(header, path)
        self._name = header.scope if header.HasField("scope") else header.thread_id
        self._kinds = _OF_SCOPES if header.HasField("scope") else _OF_THREADS
        self._call = call
        self._records = 0
        self._revision = 0
        self._logs_over = False
        self._answer: pb.ExportedAnswer | None = None  # one whose rest is still to come

    @property
    def records(self) -> int:
        """How many records came."""
        return self._records

    def log(self, log: pb.ExportedLog, path: str) -> LogState:
        """Return a log's state."""
        letter = _LETTERS.get(log.kind)
        if letter is None or letter not in self._kinds or letter in APPEND_ONLY:
            raise invalid(f"{path}.kind", "is no kind of log that loses records here")
        if self._logs_over:
            raise invalid(path, "comes after records; the logs come before them")
        if letter == KEY:
            if memory_key(log.name, f"{path}.name") != log.name:
                raise invalid(f"{path}.name", "has blanks around it; keys are kept without")
        elif letter == CHECKPOINTS:
            identifier(log.name, f"{path}.name")
        elif log.name:
            raise invalid(f"{path}.name", "is set; there is one log of this kind")
        if not 0 <= log.trimmed <= MAX_NUMBER:
            raise invalid(f"{path}.trimmed", "is {number}; give 0 to {max}", number=log.trimmed, max=MAX_NUMBER)
        self._check_revision(log.born, f"{path}.born")
        return LogState(letter + log.name, log.trimmed, log.born)

    def record(self, kind: str, part: pb.ExportedPart, path: str) -> Record | None:
        """Return the record in a part; None where the rest of it is still to come."""
        self._logs_over = True
        if self._answer and kind != "answer":
            raise invalid(path, "comes within an answer")
        record = self._read(kind, part, path)
        if record is None:
            return None
        self._check_revision(record.revision, f"{path}.revision")
        if record.revision <= self._revision:
            raise invalid(f"{path}.revision", "is not above the one before it; records come in order")
        self._revision = record.revision
        self._records += 1
        return record

    def end(self, end: pb.ExportedEnd, path: str) -> None:
        """Check that all came."""
        if self._answer:
            raise invalid(path, "comes within an answer")
        if end.records != self._records:
            raise invalid(
                f"{path}.records",
                "is {expected}, but {actual} records came; some are missing or too many",
                expected=end.records,
                actual=self._records,
            )

    def _check_revision(self, revision: int, path: str) -> None:
        if not 1 <= revision <= self.state.revision:
            raise invalid(path, "is not within the partition's revisions")

    def _read(self, kind: str, part: pb.ExportedPart, path: str) -> Record | None:
        readers = _SCOPE_READERS if self._kinds is _OF_SCOPES else _THREAD_READERS
        if kind == "answer":
            return self._read_answer(part.answer, path)
        if kind not in readers:
            raise invalid(path, "is no record of this kind of partition")
        return readers[kind](getattr(part, kind), self._name, self._call, path)

    def _read_answer(self, answer: pb.ExportedAnswer, path: str) -> Record | None:
        whole = self._answer
        if whole is None:
            whole = pb.ExportedAnswer()
            whole.CopyFrom(answer)
            identifier(whole.request_id, f"{path}.request_id")
        elif (answer.revision, answer.request_id) != (whole.revision, whole.request_id):
            raise invalid(path, "is not the rest of the answer before it")
        else:
            whole.response += answer.response
        if len(whole.response) > self._call.limits.message:
            raise invalid(f"{path}.response", "is over {max} bytes", max=self._call.limits.message)
        self._answer = whole if answer.partial else None
        return None if answer.partial else requests.restored(whole, path)


def settle(view: View, logs: Sequence[LogState], records: Sequence[Record]) -> None:
    """Refuse logs' states and records that do not fit what was restored before them, or each other."""
    for state in logs:
        if view.born(state.log):
            raise _unfit(state.log, state.born, "whose state came before")
    if len({state.log for state in logs}) < len(logs):
        raise _unfit(logs[-1].log, logs[-1].born, "whose state comes twice")
    numbers: dict[str, int] = {}
    ids: set[tuple[str, str]] = set()
    for record in records:
        if record.id and ((record.log, record.id) in ids or view.find(record.log, record.id)):
            raise _unfit(record.log, record.revision, "of an id that its log holds already")
        ids.add((record.log, record.id))
        if record.log[0] == KEY:
            last = numbers.get(record.log)
            if last is None:
                before = view.upto(record.log, MAX_NUMBER)
                last = before.number if before else 0
            if record.number <= last:
                raise _unfit(record.log, record.revision, "whose version is not above the one before it")
            numbers[record.log] = record.number


def _unfit(log: str, revision: int, why: str) -> StatekeepError:
    return invalid("parts", "hold a record (log '{log}', revision {revision}) " + why, log=log[1:], revision=revision)


def _partition(header: pb.ExportedPartition, path: str) -> str:
    kind = header.WhichOneof("name")
    if kind is None:
        raise invalid(f"{path}.name", "is missing; set scope or thread_id")
    if kind == "thread_id":
        return state_store.partition(header.thread_id, f"{path}.thread_id")
    partition = memory.partition(header.scope, f"{path}.scope")
    if memory.scope_of(partition) != header.scope:
        raise invalid(f"{path}.scope", "is not written as it is kept: with its type, and without blanks")
    return partition


def _state(header: pb.ExportedPartition, path: str) -> PartitionState:
    times = []
    for name in ("create_time", "update_time"):
        timestamp: Timestamp = getattr(header, name)
        clock.check_timestamp(timestamp, f"{path}.{name}")
        times.append(timestamp.ToMicroseconds())
    if times[0] <= 0:
        raise invalid(f"{path}.create_time", "is missing, or before 1970")
    for name in ("life", "oldest", "revision"):
        number = getattr(header, name)
        if not 1 <= number <= MAX_NUMBER:
            raise invalid(f"{path}.{name}", "is {number}; give 1 to {max}", number=number, max=MAX_NUMBER)
    if header.oldest > header.revision:
        raise invalid(f"{path}.oldest", "is above the partition's revision")
    return PartitionState(header.life, header.revision, header.oldest, *times)


def _purge_of(purge: pb.ExportedPurge, scope: memory_pb2.Scope, call: Call, path: str) -> Record:
    return memory.restored_purge(purge.purge, purge.revision, scope, call, f"{path}.purge")


_Reader = Callable[..., Record]
_SCOPE_READERS: dict[str, _Reader] = {"entry": memory.restored_entry, "purge": _purge_of}
_THREAD_READERS: dict[str, _Reader] = {
    "event": state_store.restored_event,
    "checkpoint": state_store.restored_checkpoint,
    "branch": state_store.restored_branch,
}
