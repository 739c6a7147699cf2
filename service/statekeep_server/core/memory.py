"""The rules of Memory: versioned values under keys, in a scope.

A scope is a partition; a key is a log of it, a version a record with its version as number. `revision` counts
every write of the scope. Each public function is one RPC: `(view, request, call)` to what is answered, or to the
`Change` that is to be made.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from statekeep.v1 import memory_pb2 as pb

from statekeep_server.core import clock, values
from statekeep_server.core.errors import Reason, StatekeepError, invalid
from statekeep_server.core.identifiers import (
    SCOPE_CHARACTERS,
    WHITE_SPACE,
    is_scope_name,
    memory_key,
    scope_name,
    version,
    writable_key,
)
from statekeep_server.core.journal import KEY, MAX_NUMBER, PURGES, Call, Change, Record, View
from statekeep_server.core.pages import Page, revision_cursor
from statekeep_server.core.requests import Request
from statekeep_server.core.room import check_scope
from statekeep_server.core.sizes import check_answer, check_batch, check_record
from statekeep_server.core.wire import field, frame, without_tail

PARTITIONS = "m"
"""What the partitions of scopes begin with."""

_SCOPE_TYPES = frozenset(pb.ScopeType.values())
_SCOPE_TAG = b"\x0a"  # MemoryEntry.scope, field 1
_VALUE_TAG = b"\x22"  # MemoryEntry.value, field 4: kept as an entry's last, so that a read may leave it out
_SCOPES = 100  # that were used last: what is made of their names is kept
_KEYS_IN_A_PURGE_RECORD = 2**20  # bytes
_TRIMMED_AT_ONCE = 1_000  # versions of a key, and
_TRIMMED_BYTES = 16 * 2**20  # about so many bytes of them, that one change trims beyond the limit


def partition(scope: pb.Scope, path: str = "scope") -> str:
    """Return the partition of a scope. Partitions sort as scopes do: by name, then namespace, flow, execution."""
    return _scope(scope.type, scope.name, path)[0]


def scope_of(partition: str) -> pb.Scope:
    """Return the scope whose partition this is."""
    name, _, kind = partition[len(PARTITIONS) :].partition("\0")
    return pb.Scope(type=pb.ScopeType.ValueType(int(kind)), name=name)


def _scope(kind: pb.ScopeType.ValueType, name: str, path: str) -> tuple[str, bytes]:
    """Return the partition of a scope, and the scope as an entry holds it."""
    if len(name) <= SCOPE_CHARACTERS and (known := _plain_scope(kind, name)):
        return known
    if kind not in _SCOPE_TYPES:
        raise invalid(f"{path}.type", "is unknown; use namespace (1), flow (2) or execution (3)")
    return _written(kind, scope_name(name, f"{path}.name"))


@lru_cache(_SCOPES)
def _plain_scope(kind: pb.ScopeType.ValueType, name: str) -> tuple[str, bytes] | None:
    """Return the same for a name that is written as it is kept; None for any other."""
    return _written(kind, name) if kind in _SCOPE_TYPES and is_scope_name(name) else None


def _written(kind: pb.ScopeType.ValueType, name: str) -> tuple[str, bytes]:
    scope = pb.Scope(type=kind or pb.SCOPE_TYPE_NAMESPACE, name=name)
    return f"{PARTITIONS}{name}\0{scope.type}", field(_SCOPE_TAG, scope.SerializeToString())


# --- writing


def set_key(view: View, request: pb.MemorySetRequest, call: Call) -> Change[bytes]:
    """Write a new version of a key."""
    sent = Request(request, request.request_id, _normalise_write)
    if (answer := sent.known(view)) is not None:
        return Change(answer)
    records = [_version(view, request, call, view.revision + 1, "")]
    outgrown = _outgrown(view, records, call)
    check_scope(view, records, outgrown, call)
    return _remembered(view, sent, shown(records[0], include_value=False), call, records, outgrown)


def set_keys(view: View, request: pb.MemoryBatchSetRequest, call: Call) -> Change[bytes]:
    """Write several keys of one scope, all or none."""
    sent = Request(request, request.request_id, _normalise_batch)
    if (answer := sent.known(view)) is not None:
        return Change(answer)
    check_batch(len(request.sets), call.limits)
    _check_batch(request)
    records: list[Record] = []
    keys: dict[str, int] = {}
    for index, one in enumerate(request.sets):
        record = _version(view, one, call, view.revision + 1 + index, f"sets[{index}].")
        if record.log in keys:
            raise invalid(
                f"sets[{index}].key",
                "is the same as sets[{first}].key; name each key once",
                first=keys[record.log],
            )
        keys[record.log] = index
        records.append(record)
    answer = b"".join([shown(record, include_value=False) for record in records])
    check_answer(len(answer), call.limits)
    outgrown = _outgrown(view, records, call)
    check_scope(view, records, outgrown, call)
    return _remembered(view, sent, answer, call, records, outgrown)


def delete_key(view: View, request: pb.MemoryDeleteRequest, call: Call) -> Change[bytes]:
    """Hide a key behind a tombstone. A key without a value is left as it is, and its tombstone, if any, answered."""
    sent = Request(request, request.request_id, _normalise_write)
    if (answer := sent.known(view)) is not None:
        return Change(answer)
    key = writable_key(request.key, "key")
    head = _head(view, key, call.now)
    if request.HasField("expected_version"):
        _check_version(head, request.expected_version, key, "")
    if not view.exists:
        return Change(b"")  # nothing is written, not even what a retry would be known by
    if head is None or head.deleted:
        return _remembered(view, sent, head.frame if head else b"", call)
    entry = pb.MemoryEntry(version=_next_version(view, KEY + key, key), deleted=True)
    _sign(entry, request)
    records = [_record(view, request.scope, key, entry, call, view.revision + 1, b"")]
    return _remembered(view, sent, records[0].frame, call, records, _outgrown(view, records, call))


def purge(view: View, request: pb.MemoryPurgeRequest, call: Call) -> Change[bytes]:
    """Remove old versions for good. The highest version of a key stays known, so none comes twice."""
    _check_purge(request)
    if request.HasField("key"):
        logs: Iterator[str] | Sequence[str] = [KEY + writable_key(request.key, "key")]
    else:
        logs = view.logs(KEY)
    trims: list[Record] = []
    keys: list[str] = []
    head_lost = False
    for log in logs:
        gone = _purged(view, log, request, call.now)
        if gone:
            keys.append(log[len(KEY) :])
            trims += gone
            head_lost = head_lost or gone[-1].number == view.number(log)
    answer = pb.MemoryPurgeResponse(versions_deleted=len(trims), keys_affected=len(keys)).SerializeToString()
    if not trims:
        return Change(answer)
    revision = view.revision + 1
    record = _purge_record(request, keys, len(trims), call, revision)
    return Change(answer, [record], trims, oldest=revision if head_lost else 0)


# --- retention


def trim_versions(view: View, log: str, call: Call) -> Change[int]:
    """Remove what a key has beyond its limit of versions, some at a time, and answer how many that were.

    A write does so itself; this is for keys that were written or imported without the limit. It leaves no purge record:
    nobody asked for a purge, and one for each write would outgrow the versions. Cursors stay valid, as the head stays.
    """
    trims = _beyond(view, log, call.limits.max_versions, call.now, _TRIMMED_AT_ONCE, _TRIMMED_BYTES)
    return Change(len(trims), (), trims)


def _outgrown(view: View, records: Sequence[Record], call: Call) -> Sequence[Record]:
    """Return the versions that go when these come: one at least for each key that is full, more to a bound."""
    keep = call.limits.max_versions
    if not keep:
        return ()
    most, room = _TRIMMED_AT_ONCE, _TRIMMED_BYTES
    gone: list[Record] = []
    for record in records:
        beyond = _beyond(view, record.log, keep - 1, call.now, max(1, most), max(1, room))
        most -= len(beyond)
        room -= sum(len(one.frame) for one in beyond)
        gone += beyond
    return gone


def _beyond(view: View, log: str, keep: int, now: int, most: int, room: int) -> Sequence[Record]:
    """Return the oldest versions of a key, but for the `keep` newest: at most so many, of about so many bytes."""
    if view.count(log) <= keep:
        return ()
    surplus = min(view.count(log) - view.expired(log, now) - keep, most)
    gone: list[Record] = []
    for record in view.scan(log):
        if len(gone) >= surplus or room <= 0:
            break
        if visible(record, now):
            gone.append(record)
            room -= len(record.frame)
    return gone


# --- import


def restored_entry(entry: pb.MemoryEntry, scope: pb.Scope, call: Call, path: str) -> Record:
    """Return the record of a version that another server had in this scope, checked."""
    _check_scope(entry.scope, scope, f"{path}.scope")
    if writable_key(entry.key, f"{path}.key") != entry.key:
        raise invalid(f"{path}.key", "has blanks around it; keys are kept without")
    if not 1 <= entry.version <= MAX_NUMBER:
        raise invalid(f"{path}.version", "is {number}; versions count from 1", number=entry.version)
    if entry.deleted == entry.HasField("value"):
        raise invalid(f"{path}.value", "must be set, and must not be on a tombstone")
    value = b""
    if not entry.deleted:
        values.check(entry.value, f"{path}.value", call.limits)
        value = field(_VALUE_TAG, entry.value.SerializeToString())
    clock.check_timestamp(entry.create_time, f"{path}.create_time")
    clock.check_timestamp(entry.expire_time, f"{path}.expire_time")
    bare = pb.MemoryEntry()
    bare.CopyFrom(entry)
    bare.ClearField("value")
    payload = bare.SerializeToString() + value
    check_record(len(payload), call.limits, path)
    expires = entry.expire_time.ToMicroseconds() if entry.HasField("expire_time") else 0
    framed = frame(payload)
    return Record(KEY + entry.key, entry.revision, entry.version, framed, "", len(value), entry.deleted, expires)


def restored_purge(purge: pb.MemoryPurgeRecord, revision: int, scope: pb.Scope, call: Call, path: str) -> Record:
    """Return the record of a purge that another server made in this scope, checked."""
    _check_scope(purge.scope, scope, f"{path}.scope")
    clock.check_timestamp(purge.create_time, f"{path}.create_time")
    payload = purge.SerializeToString()
    check_record(len(payload), call.limits, path)
    return Record(PURGES, revision, revision, frame(payload))


# --- reading


def get_key(view: View, request: pb.MemoryGetRequest, call: Call) -> bytes:
    """Read a key's newest version, or the one asked for."""
    key = memory_key(request.key, "key")
    if request.HasField("version"):
        number = request.version
        if number < 1:
            raise invalid("version", "is {number}; versions count from 1", number=number)
        record = view.upto(KEY + key, number)
        if record is None or record.number != number or not visible(record, call.now):
            return b""
    else:
        record = _head(view, key, call.now)
    if record is None or (record.deleted and not request.include_deleted):
        return b""
    return record.frame


def get_keys(view: View, request: pb.MemoryBatchGetRequest, call: Call) -> bytes:
    """Read several keys from one point in time; each once, in the order they were first named."""
    check_batch(len(request.keys), call.limits)
    frames: list[bytes] = []
    missing: list[bytes] = []
    keys = dict.fromkeys(memory_key(key, f"keys[{index}]") for index, key in enumerate(request.keys))
    for key in keys:
        record = _head(view, key, call.now)
        if record is None or record.deleted:
            missing.append(field(b"\x12", key.encode()))
        else:
            frames.append(record.frame)
    answer = b"".join(frames + missing)
    check_answer(len(answer), call.limits)
    return answer


def list_keys(view: View, request: pb.MemoryListRequest, call: Call) -> bytes:
    """List the keys that have a value, in bytewise order."""
    page = Page(request, call.limits, _normalise_scope)
    for log in view.logs(KEY + request.prefix, KEY + page.cursor if page.cursor else ""):
        key = log[len(KEY) :]
        record = _head(view, key, call.now)
        if record is None or (record.deleted and not request.include_deleted):
            continue
        if not page.take(shown(record, request.include_values), key):
            break
    return page.answer()


def list_purges(view: View, request: pb.MemoryListPurgesRequest, call: Call) -> bytes:
    """List what was purged, newest first."""
    page = Page(request, call.limits, _normalise_scope)
    for record in view.scan(PURGES, before=revision_cursor(page), newest_first=True):
        if not page.take(record.frame, str(record.revision)):
            break
    return page.answer()


def scope_info(view: View, partition: str, call: Call) -> bytes | None:
    """Return a scope's line in ListScopes; None where no key of it has a value."""
    count = view.live(KEY, call.now)
    if not count:
        return None
    return frame(pb.MemoryScopeInfo(scope=scope_of(partition), entry_count=count).SerializeToString())


# --- how


def _check_scope(given: pb.Scope, wanted: pb.Scope, path: str) -> None:
    if (given.type, given.name) != (wanted.type, wanted.name):
        raise invalid(path, "is not the scope that the record comes in")


def _normalise_scope(request: pb.MemoryListRequest | pb.MemoryListPurgesRequest) -> None:
    _normalise(request.scope)


def _normalise_write(request: pb.MemorySetRequest | pb.MemoryDeleteRequest) -> None:
    _normalise(request.scope)
    request.key = request.key.strip(WHITE_SPACE)


def _normalise_batch(request: pb.MemoryBatchSetRequest) -> None:
    for one in request.sets:
        _normalise_write(one)


def _normalise(scope: pb.Scope) -> None:
    scope.name = scope.name.strip(WHITE_SPACE)
    scope.type = scope.type or pb.SCOPE_TYPE_NAMESPACE


def visible(record: Record, now: int) -> bool:
    """Whether a version may be read at all: an expired one is read nowhere any more."""
    return not 0 < record.expires <= now


def _head(view: View, key: str, now: int) -> Record | None:
    record = view.head(KEY + key)
    if record is None or not visible(record, now):
        return None
    return record


def shown(record: Record, include_value: bool) -> bytes:
    """Return a version's frame, with its value or without."""
    return record.frame if include_value else without_tail(record.frame, record.value_size)


def _check_version(head: Record | None, wanted: int, key: str, path: str) -> None:
    version(wanted, f"{path}expected_version")
    current = 0 if head is None or head.deleted else head.number
    if current != wanted:
        raise StatekeepError(
            Reason.VERSION_MISMATCH,
            "Key '{key}' has version {actual}, not {expected} (0: no value); read it and decide again",
            key=key,
            actual=current,
            expected=wanted,
        )


def _next_version(view: View, log: str, key: str) -> int:
    number = view.number(log) + 1
    if number > MAX_NUMBER:
        raise StatekeepError(
            Reason.LIMIT_REACHED,
            "Key '{key}' has no version left below {max}",
            key=key,
            limit="version",
            max=MAX_NUMBER,
        )
    return number


def _version(view: View, request: pb.MemorySetRequest, call: Call, revision: int, path: str) -> Record:
    """Return the record of a new version, `path` being where the request stands in the one that was sent."""
    key = writable_key(request.key, f"{path}key")
    if not request.HasField("value"):
        raise invalid(f"{path}value", "is missing; set json, text or data (JSON null is a value)")
    value = request.value
    kind = values.check(value, f"{path}value", call.limits)
    if request.HasField("expected_version"):
        _check_version(_head(view, key, call.now), request.expected_version, key, path)
    entry = pb.MemoryEntry()
    entry.version = _next_version(view, KEY + key, key)
    entry.value_type = values.value_type(value, kind)
    if request.HasField("ttl"):
        clock.stamp(entry.expire_time, clock.expiry(request.ttl, call.now, f"{path}ttl"))
    if request.labels:
        entry.labels.update(request.labels)
    _sign(entry, request)
    return _record(view, request.scope, key, entry, call, revision, field(_VALUE_TAG, value.SerializeToString()), path)


def _sign(entry: pb.MemoryEntry, request: pb.MemorySetRequest | pb.MemoryDeleteRequest) -> None:
    """Put into an entry who wrote it, where the request says."""
    if request.HasField("execution_id"):
        entry.execution_id = request.execution_id
    if request.HasField("flow_id"):
        entry.flow_id = request.flow_id
    if request.HasField("flow_name"):
        entry.flow_name = request.flow_name


def _record(
    view: View,
    scope: pb.Scope,
    key: str,
    entry: pb.MemoryEntry,
    call: Call,
    revision: int,
    value: bytes,
    path: str = "",
) -> Record:
    entry.key = key
    clock.stamp(entry.create_time, call.now)
    entry.entry_id = f"{view.life:x}-{revision:x}"
    entry.revision = revision
    payload = _scope(scope.type, scope.name, f"{path}scope")[1] + entry.SerializeToString() + value
    check_record(len(payload), call.limits, f"{path}value" if value else "")
    expires = entry.expire_time.ToMicroseconds() if entry.HasField("expire_time") else 0
    return Record(KEY + key, revision, entry.version, frame(payload), "", len(value), entry.deleted, expires)


def _remembered(
    view: View, sent: Request, answer: bytes, call: Call, records: Sequence[Record] = (), trims: Sequence[Record] = ()
) -> Change[bytes]:
    full = call.room is not None and call.room <= 0
    if not sent.id or (full and not records):  # a Delete that finds nothing is answered, and takes no room
        return Change(answer, records, trims)
    kept, forgotten = sent.remember(view, view.revision + len(records) + 1, answer)
    return Change(answer, [*records, *kept], [*trims, *forgotten])


def _check_batch(request: pb.MemoryBatchSetRequest) -> None:
    first = batch_partition(request)
    for index, one in enumerate(request.sets):
        if partition(one.scope, f"sets[{index}].scope") != first:
            raise invalid(f"sets[{index}].scope", "is not the scope of sets[0]; a batch is of one scope")
        if one.request_id:
            raise invalid(f"sets[{index}].request_id", "is set; inside a batch only the batch carries one")


def batch_partition(request: pb.MemoryBatchSetRequest) -> str:
    """Return the partition of a batch: its first set's."""
    if not request.sets:
        raise invalid("sets", "is empty; send at least one")
    return partition(request.sets[0].scope, "sets[0].scope")


def _check_purge(request: pb.MemoryPurgeRequest) -> None:
    if request.HasField("key") == request.all_keys:
        raise invalid("key", "and all_keys: give one of the two, key for one key, all_keys for every key of the scope")
    if request.keep < 0:
        raise invalid("keep", "is {keep}; give how many of the newest versions stay, from 0", keep=request.keep)


def _purged(view: View, log: str, request: pb.MemoryPurgeRequest, now: int) -> Sequence[Record]:
    """Return the versions of one key that go, oldest first."""
    versions = [record for record in view.scan(log) if visible(record, now)]
    if not request.all_keys:
        return versions[: max(0, len(versions) - request.keep)]
    head = view.head(log)
    if head is not None and head.deleted:
        return versions if request.include_deleted else ()
    return versions[: max(0, len(versions) - request.keep)]


def _purge_record(
    request: pb.MemoryPurgeRequest, keys: Sequence[str], deleted: int, call: Call, revision: int
) -> Record:
    purge = pb.MemoryPurgeRecord(versions_deleted=deleted, keep=request.keep, keys_affected=len(keys))
    purge.scope.CopyFrom(scope_of(partition(request.scope)))
    clock.stamp(purge.create_time, call.now)
    room = _KEYS_IN_A_PURGE_RECORD
    for key in keys:
        room -= len(key) + 4  # tag and length
        if room < 0:
            break
        purge.keys.append(key)
    return Record(PURGES, revision, revision, frame(purge.SerializeToString()))
