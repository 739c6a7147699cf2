"""The file of the SQLite engine: who may have it, whether it is sound, its schema, and how that is brought up to date.

Whatever is wrong is told before a byte of the file is changed.
"""

import fcntl
import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import apsw

from statekeep_server.engines.interface import StoreError

APPLICATION_ID = 0x53744B70  # "StKp"; says in the file's header whose it is

PAGES_TO_WRITE, PAGES_TO_READ = 32 * 2**10, 8 * 2**10
"""KiB of the file that a connection keeps in memory at most: the one that writes, and each that reads."""

BUSY = 5_000  # milliseconds that a connection waits for another's lock at most

_VERSION_1 = """\
CREATE TABLE partitions (
    id INTEGER PRIMARY KEY,
    name BLOB NOT NULL UNIQUE, -- UTF-8; it may hold a zero byte, which text in SQLite should not
    life INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    create_time INTEGER NOT NULL,
    update_time INTEGER NOT NULL,
    alive INTEGER NOT NULL, -- keys whose head is not deleted
    changes INTEGER NOT NULL -- what tells one state of a partition from another, sweeps included
) STRICT;
CREATE TABLE logs (
    id INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL, -- the highest ever
    trimmed INTEGER NOT NULL, -- the highest that was trimmed
    born INTEGER NOT NULL, -- the first record's revision
    newest INTEGER NOT NULL, -- the last record's revision
    count INTEGER NOT NULL,
    named INTEGER NOT NULL, -- whether a record ever had an id
    head INTEGER NOT NULL, -- the head's revision, 0 where there is none
    expires INTEGER NOT NULL, -- of a key whose head is not deleted; else 0
    segment INTEGER NOT NULL, -- of events: the one that is being filled,
    filled INTEGER NOT NULL, -- how many records it holds,
    size INTEGER NOT NULL, -- and how many bytes their frames are
    UNIQUE (partition, name)
) STRICT;
CREATE INDEX logs_expiring ON logs (partition, expires) WHERE expires > 0;
CREATE TABLE segments ( -- of events: records that one message of a stream carries, about 256 KiB
    id INTEGER PRIMARY KEY,
    log INTEGER NOT NULL,
    first INTEGER NOT NULL, -- the revision of its first record
    before INTEGER NOT NULL, -- how many records the log holds before it
    UNIQUE (log, first)
) STRICT;
CREATE TABLE events (
    place INTEGER PRIMARY KEY, -- segment * 8192 + place in it: a segment's records lie beside each other
    revision INTEGER NOT NULL,
    number INTEGER NOT NULL,
    frame BLOB NOT NULL
) STRICT;
CREATE TABLE event_ids (
    log INTEGER NOT NULL,
    id TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (log, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE records ( -- all but events
    place INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    kind TEXT NOT NULL, -- the first character of the log's name
    log INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    value_size INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    frame BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX records_by_revision ON records (log, revision);
CREATE INDEX records_by_number ON records (log, number, revision);
CREATE INDEX records_by_kind ON records (partition, kind, revision);
CREATE INDEX records_by_id ON records (log, id) WHERE id <> '';
CREATE INDEX records_expiring ON records (expires) WHERE expires > 0;
CREATE TABLE dropped (partition INTEGER PRIMARY KEY) STRICT; -- partitions whose rows are still to be removed
CREATE TABLE file (highest INTEGER NOT NULL) STRICT; -- one row: what every new life lies above
INSERT INTO file VALUES (0);
"""

# What a partition holds is counted in it, so that a write knows that without looking at each of its logs.
_VERSION_2 = """\
ALTER TABLE partitions ADD COLUMN kept INTEGER NOT NULL DEFAULT 0; -- a scope's versions, a thread's events
UPDATE partitions SET kept = (
    SELECT coalesce(sum(count), 0) FROM logs WHERE partition = partitions.id AND substr(logs.name, 1, 1) IN ('k', 'e')
);
"""

MIGRATIONS: Sequence[str] = (_VERSION_1, _VERSION_2)
"""The SQL that leads from each version of the schema to the next: the first from nothing to version 1."""

_MAGIC = b"SQLite format 3\0"
_HEADER = struct.Struct(">16sH10xI28xI4xI24x")  # magic, page size, pages, user_version, application_id
_WRITE_MODE = 18  # where the header says by which journal mode the file is written
_LOCK, _COPY = ".lock", ".backup-under-way"
BESIDE = ("-wal", "-shm", "-journal", _LOCK, _COPY)
"""What the names of files end in that stand beside a store's and are a part of it."""
_HOLDER_PATIENCE = 1.0  # seconds in which one who has the lock has written who it is
_FAULTS = {13: "the disk is full", 10: "the disk failed", 8: "it may not be written to", 14: "it cannot be opened"}


class Lock:
    """The right to write a file, held through a second file beside it. The kernel ends it with the process."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + _LOCK)
        self._descriptor = self._take(database)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Give the right up, and remove the second file."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1

    def _take(self, database: Path) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The one who had it may have removed the file since it was opened here: then this locks nothing.
                if self._path.exists() and os.path.samestat(os.fstat(descriptor), self._path.stat()):
                    return descriptor
                os.close(descriptor)
            except BlockingIOError:
                try:
                    holder = _holder(descriptor)
                finally:
                    os.close(descriptor)
                raise StoreError(f"{database} is held by {holder}; end that first, or use another file") from None
            except BaseException:
                os.close(descriptor)
                raise


def _holder(descriptor: int) -> str:
    ends = time.monotonic() + _HOLDER_PATIENCE
    while time.monotonic() < ends:
        said = os.pread(descriptor, 1024, 0).decode(errors="replace")
        if said.endswith("\n"):
            pid, _, host = said.strip().partition(" ")
            return f"process {pid} on {host}"
        time.sleep(0.01)
    return "another process"


class StoreFile:
    """A file that this process alone may write, of the newest schema.

    A copy of it is marked by its header: no write-ahead log belongs to it (journal mode DELETE), while the file that
    is served from is in WAL mode. So a copy that was put in the place of a file whose log is still there is told
    apart, before SQLite would take the one for the log of the other, and mix both.
    """

    def __init__(self, path: str) -> None:
        given = Path(path)
        self.path = Path(os.path.realpath(path))
        try:
            _check_place(self.path, given)
            self._lock = Lock(self.path)
        except OSError as error:
            raise StoreError(f"{given} cannot be used: {error.strerror}") from error
        self._copy = self.path.with_name(self.path.name + _COPY)
        try:
            self._prepare()
            self.remove_copy()  # of a backup that a crash cut short
        except OSError as error:
            self._lock.release()
            raise StoreError(f"{given} cannot be used: {error.strerror}") from error
        except apsw.Error as error:
            self._lock.release()
            raise StoreError(f"{given} cannot be used: {why(error)}") from error
        except BaseException:
            self._lock.release()
            raise

    def connect(self, *, writing: bool) -> apsw.Connection:
        """Return a connection: the one that writes, or one that reads."""
        return _connect(self.path, writing=writing)

    def create_copy(self) -> apsw.Connection:
        """Return a connection to an empty file beside this one, to be filled by SQLite's backup."""
        self.remove_copy()
        os.close(os.open(self._copy, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))  # nobody else may read it
        connection = apsw.Connection(str(self._copy), statementcachesize=0)
        # It is thrown away unless it gets whole: it needs no journal, no sync, and no lock that others would see.
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection

    def open_copy(self) -> BinaryIO:
        """Open the copy, whole, to be read."""
        return self._copy.open("rb")

    def remove_copy(self) -> None:
        """Remove the copy's name, and what SQLite may have put beside it."""
        for end in ("", "-wal", "-shm", "-journal"):
            self._copy.with_name(self._copy.name + end).unlink(missing_ok=True)

    def size(self) -> int:
        """Return how many bytes the file has, with its log of what was written last."""
        size = self.path.stat().st_size
        with suppress(FileNotFoundError):
            size += self.path.with_name(self.path.name + "-wal").stat().st_size
        return size

    def close(self) -> None:
        """Let the file go. Every connection must be closed before."""
        self._lock.release()

    def _prepare(self) -> None:
        beside = [self.path.with_name(self.path.name + end) for end in ("-wal", "-journal")]
        unfinished = [other for other in beside if other.exists() and other.stat().st_size]
        if not self.path.exists() or not self.path.stat().st_size:
            if unfinished:
                raise StoreError(
                    f"{self.path} is empty or not there, but {unfinished[0]} is; restore it, or remove that"
                )
            _create(self.path)
            return
        version = _check_header(self.path, complete=not unfinished)
        _check_log(self.path, beside[0])
        if not unfinished:
            _check_content(self.path, version)
        with _closing(_connect(self.path, writing=True)) as connection:
            connection.pragma("journal_mode", "wal")  # a copy that is opened for the first time is not
            version = _check_version(connection.pragma("user_version"), self.path)
            _check_schema(connection, version, self.path)
            migrate(connection, version)


class _closing:  # noqa: N801 (as contextlib.closing, for what is closed by force)
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> apsw.Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close(True)


def _connect(path: Path, *, writing: bool) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX  # a connection is used by one thread at a time
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=500)
    connection.set_busy_timeout(BUSY)
    connection.execute(f"PRAGMA cache_size = -{PAGES_TO_WRITE if writing else PAGES_TO_READ}")
    connection.execute("PRAGMA synchronous = FULL")  # in WAL mode this syncs the log at every commit
    if writing:
        connection.execute("PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864").fetchall()
    else:
        connection.execute("PRAGMA query_only = ON")
    return connection


def _check_place(path: Path, given: Path) -> None:
    if path.is_dir():
        raise StoreError(f"{given} is a directory; give the path of a file in it, such as {given}/state.db")
    if not path.parent.is_dir():
        raise StoreError(f"{given} cannot be used: there is no directory {path.parent}; make it first")
    if path.exists() and not path.is_file():
        raise StoreError(f"{given} is no regular file")
    if path.name.endswith(BESIDE):
        raise StoreError(f"{given} has the name of what stands beside a store; give another path, such as state.db")


def _check_log(path: Path, log: Path) -> None:
    """Refuse a copy beside another file's log. Mode 2 in the header is WAL, 1 is any other."""
    with path.open("rb") as file:
        file.seek(_WRITE_MODE)
        in_wal_mode = file.read(1) == b"\2"
    if not in_wal_mode and log.exists() and log.stat().st_size:
        raise StoreError(
            f"{path} is a backup, and {log} beside it belongs to the file that was there before; "
            f"remove {log.name} and {path.name}-shm first"
        )


class _Header(NamedTuple):
    magic: bytes
    page_size: int
    pages: int
    version: int
    application: int


def _check_header(path: Path, *, complete: bool) -> int:
    """Return the schema's version; StoreError where the file is none of ours, or too new."""
    with path.open("r+b") as file:  # it must be writable
        raw = file.read(_HEADER.size)
    header = _Header(*_HEADER.unpack(raw)) if len(raw) == _HEADER.size else None
    if header is None or header.magic != _MAGIC:
        raise StoreError(f"{path} is of another program, or damaged: it is no SQLite file; give another path")
    if header.application != APPLICATION_ID:
        raise StoreError(f"{path} is a SQLite file of another program; give another path")
    version = _check_version(header.version, path)
    page_size = 65536 if header.page_size == 1 else header.page_size
    if complete and path.stat().st_size != page_size * header.pages:
        raise _damaged(path, "its size is not what its header says")
    return version


def _check_version(version: int, path: Path) -> int:
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} has schema version {version}, newer than this server's {len(MIGRATIONS)}; use a newer statekeep"
        )
    if version < 1:
        raise _damaged(path, "its schema has no version")
    return version


def _check_content(path: Path, version: int) -> None:
    """Look at the file without leaving a trace in it or beside it. To be used where no log of it waits to be read."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with _closing(apsw.Connection(f"{path.as_uri()}?immutable=1", flags=flags)) as connection:
        _check_schema(connection, version, path)


def _check_schema(connection: apsw.Connection, version: int, path: Path) -> None:
    """Compare the schema with what it must be, and look at both ends of each table: not at all, for that takes long."""
    try:
        if _schema(connection) != schema_of(version):
            raise _damaged(path, "its tables are not those of its version")
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            for end in ("ASC", "DESC"):
                connection.execute(f"SELECT * FROM {table} ORDER BY 1 {end} LIMIT 1").fetchall()  # noqa: S608
        if connection.execute("SELECT count(*) FROM file").fetchone() != (1,):
            raise _damaged(path, "its table file has not one row")
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
        raise _damaged(path, str(error)) from error


def _schema(connection: apsw.Connection) -> set[tuple[object, ...]]:
    return set(connection.execute("SELECT type, name, sql FROM sqlite_schema"))


def schema_of(version: int) -> set[tuple[object, ...]]:
    """Return what the schema of a version consists of."""
    with _closing(apsw.Connection(":memory:")) as connection:
        for step in MIGRATIONS[:version]:
            connection.execute(step)
        return _schema(connection)


def _damaged(path: Path, how: str) -> StoreError:
    return StoreError(f"{path} is damaged: {how}; restore a copy")


def _create(path: Path) -> None:
    """Make a new file aside, and put it in its place as a whole."""
    aside = path.with_name(path.name + ".new")
    aside.unlink(missing_ok=True)
    try:
        # Nobody else may read it, nor what SQLite puts beside it later, which gets the mode of the file.
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with _closing(apsw.Connection(str(aside), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            migrate(connection, 0)
        os.replace(aside, path)
        _sync_directory(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def migrate(connection: apsw.Connection, version: int) -> None:
    """Bring the schema from a version to the newest, all or nothing."""
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[version:]:
            connection.execute(step)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    # The header must say the new version even if the log beside the file gets lost.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def why(error: apsw.Error) -> str:
    """Return what went wrong, without what a client sent."""
    code = getattr(error, "result", 0)
    return _FAULTS.get(code, f"{type(error).__name__}: {error}")
