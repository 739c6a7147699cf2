"""A plain model of one scope of Memory, written from the contract: what each call must answer."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from statekeep.v1 import memory_pb2 as pb


class RefusedError(Exception):
    """The reason for which a call must be refused."""


@dataclass
class Version:
    """One version as the server answered it, with its value, and whether it has expired."""

    entry: pb.MemoryEntry
    expired: bool = False


@dataclass
class Key:
    """All versions of a key that are still there, and the highest it ever had."""

    versions: list[Version] = field(default_factory=list)
    highest: int = 0

    def readable(self) -> list[pb.MemoryEntry]:
        return [version.entry for version in self.versions if not version.expired]

    def newest(self) -> pb.MemoryEntry | None:
        """Return the newest version, tombstone or not; None where it was purged or has expired."""
        if not self.versions or self.versions[-1].expired or self.versions[-1].entry.version != self.highest:
            return None
        return self.versions[-1].entry

    def current(self) -> int:
        newest = self.newest()
        return 0 if newest is None or newest.deleted else newest.version


class MemoryModel:
    """One scope."""

    def __init__(self, max_versions: int = 0) -> None:
        self.max_versions = max_versions
        self.keys: dict[str, Key] = {}
        self.purges: list[tuple[tuple[str, ...], int, int]] = []
        self.revisions: list[int] = []
        self.valid_after = 0
        """Cursors up to here, but for 0, are gone."""

    def check_expected(self, key: str, expected: int | None) -> None:
        if expected is not None and self.key(key).current() != expected:
            raise RefusedError("VERSION_MISMATCH")

    def key(self, name: str) -> Key:
        return self.keys.get(name, Key())

    def next_version(self, key: str) -> int:
        return self.key(key).highest + 1

    def write(self, entry: pb.MemoryEntry, *, expired: bool = False) -> None:
        assert not self.revisions or entry.revision > self.revisions[-1]
        self.revisions.append(entry.revision)
        key = self.keys.setdefault(entry.key, Key())
        assert entry.version == key.highest + 1
        key.highest = entry.version
        if self.max_versions:
            readable = key.readable()
            gone = readable[: max(0, len(readable) + 1 - self.max_versions)]
            key.versions = [version for version in key.versions if version.entry not in gone]
        key.versions.append(Version(entry, expired))

    def delete(self, key: str, expected: int | None) -> pb.MemoryEntry | None:
        """Return the tombstone that must be answered, None where there is none; KeyError where one must be written."""
        self.check_expected(key, expected)
        newest = self.key(key).newest()
        if newest is None or newest.deleted:
            return newest
        raise KeyError(key)

    def purge(self, key: str | None, keep: int, include_deleted: bool) -> tuple[int, int]:
        lost: dict[str, int] = {}
        for name in sorted(self.keys) if key is None else [key] if key in self.keys else []:
            known = self.keys[name]
            readable = known.readable()
            stays = readable[max(0, len(readable) - keep) :]
            is_tombstone = bool(known.versions) and known.versions[-1].entry.deleted
            if key is None and is_tombstone and known.versions[-1].entry.version == known.highest:
                stays = [] if include_deleted else readable
            gone = [entry for entry in readable if entry not in stays]
            if gone:
                lost[name] = len(gone)
                if gone[-1].version == known.highest:
                    self.valid_after = self.revisions[-1]
                known.versions = [version for version in known.versions if version.entry not in gone]
        if lost:
            self.purges.append((tuple(lost), sum(lost.values()), keep))
        return sum(lost.values()), len(lost)

    def listed(self, prefix: str, include_deleted: bool) -> list[pb.MemoryEntry]:
        heads = ((name, known.newest()) for name, known in sorted(self.keys.items()))
        return [
            newest
            for name, newest in heads
            if newest is not None and name.startswith(prefix) and (include_deleted or not newest.deleted)
        ]

    def watched(self, after: int, prefix: str) -> Iterator[pb.MemoryEntry]:
        entries = [entry for name, known in self.keys.items() if name.startswith(prefix) for entry in known.readable()]
        return iter(sorted((one for one in entries if one.revision > after), key=lambda entry: entry.revision))
