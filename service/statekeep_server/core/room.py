"""Whether there is room for what a rule wants to store: in its partition, and in memory.

What takes something away is never refused: a Delete, a Purge, a Clear. A tombstone is counted as a version, so a scope
may get over its limit by one for each key it has.
"""

from collections.abc import Sequence

from statekeep_server.core.errors import limit_reached
from statekeep_server.core.journal import EVENTS, KEY, Call, Record, View

_MORE = "or have the server started with a higher "


def check_scope(view: View, records: Sequence[Record], trims: Sequence[Record], call: Call) -> None:
    """Refuse versions, all of them, that a scope or the memory has no room for; `trims` go when they come."""
    _check_size(records, trims, call)
    limits = call.limits
    if limits.scope_versions:
        _check_count(view, records, KEY, limits.scope_versions, len(trims))
    if limits.scope_keys and view.alive + len(records) > limits.scope_keys:
        new = sum(_takes_a_key(view, record) for record in records)
        if new and view.alive + new > limits.scope_keys:
            raise limit_reached("keys of a scope", limits.scope_keys, f"delete some first, {_MORE}--max-scope-keys")


def check_thread(view: View, records: Sequence[Record], call: Call, trims: Sequence[Record] = ()) -> None:
    """Refuse events and checkpoints, all of them, that a thread or the memory has no room for; `trims` go with that."""
    _check_size(records, trims, call)
    if call.limits.thread_events:
        _check_count(view, records, EVENTS, call.limits.thread_events)


def check_restored(view: View, records: Sequence[Record], call: Call) -> None:
    """Refuse records that a scope or thread which is put together, or the memory, has no room for."""
    check_thread(view, records, call)
    if call.limits.scope_versions:
        _check_count(view, records, KEY, call.limits.scope_versions)


def check_whole(view: View, call: Call) -> None:
    """Refuse a scope that was put together and has too many keys: how many shows only at the end."""
    if 0 < call.limits.scope_keys < view.alive:
        raise limit_reached("keys of a scope", call.limits.scope_keys, f"export fewer, {_MORE}--max-scope-keys")


def check_memory(size: int, call: Call) -> None:
    """Refuse what takes so many bytes more than memory may still take."""
    if call.room is not None and size > call.room:
        raise limit_reached(
            "memory bytes", call.limits.memory, f"delete or purge what is not needed, {_MORE}--max-memory"
        )


def _check_size(records: Sequence[Record], trims: Sequence[Record], call: Call) -> None:
    if call.room is None:
        return
    growth = sum(len(record.frame) for record in records) - sum(len(record.frame) for record in trims)
    if growth > 0:
        check_memory(growth, call)


def _check_count(view: View, records: Sequence[Record], kind: str, most: int, fewer: int = 0) -> None:
    # Other records come along, so this is looked at closely only where it may matter.
    if view.kept + len(records) - fewer <= most:
        return
    more = sum(record.log[0] == kind for record in records)
    if not more or view.kept + more - fewer <= most:
        return
    if kind == EVENTS:
        raise limit_reached("events of a thread", most, f"begin another thread, {_MORE}--max-thread-events")
    raise limit_reached("versions of a scope", most, f"purge old ones first, {_MORE}--max-scope-versions")


def _takes_a_key(view: View, record: Record) -> bool:
    head = view.head(record.log)
    return head is None or head.deleted
