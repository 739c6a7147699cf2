"""The file of an export: JSON Lines that a person can read, exact for every value. See docs/export-format.md.

A line is one part of an export (statekeep.v1.ExportedPart) as JSON; a header line comes before them, and a last line
with counts and a checksum after them.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import orjson
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp

from statekeep.errors import ExportFileError
from statekeep.v1 import admin_pb2

FORMAT = "statekeep-export"
VERSION = 1

_LONGEST_LINE = 64 * 2**20  # bytes; the largest record takes 24 MiB where each character of it is escaped
_SAFE = 2**53 - 1  # the largest number that every JSON parser keeps
_MARKS = frozenset({"partition", "log", "end"})  # parts that are no records


class Writer:
    """Writes the parts of an export to a file. Without `finish` the file is told from a whole one.

    Nothing is written before the first part, or the end: a call that fails at once leaves the file alone.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.partitions = 0
        self.records = 0
        self.size = 0
        """Bytes so far."""

    def write(self, part: admin_pb2.ExportedPart) -> None:
        """Writes one part."""
        kind = part.WhichOneof("part")
        if kind is None:
            raise ExportFileError("the server sent a part that this client does not know; use a newer client")
        self._begin()
        message = getattr(part, kind)
        line: dict[str, Any] = {kind: json_of(message)}
        if kind == "end":
            line["sha256"] = self._digest.hexdigest()
            self.partitions += 1
            self.records += message.records
        elif _has_unknown(message):
            line["message"] = base64.b64encode(message.SerializeToString(deterministic=True)).decode()
        self._append(line)

    def finish(self) -> None:
        """Writes the last line."""
        counts = {"partitions": self.partitions, "records": self.records}
        self._begin()
        self._append({"complete": counts, "sha256": self._digest.hexdigest()})

    def _begin(self) -> None:
        if not self.size:
            self._append({"format": FORMAT, "version": VERSION})

    def _append(self, line: dict[str, Any]) -> None:
        data = orjson.dumps(line) + b"\n"
        self._digest.update(data)
        self._file.write(data)
        self.size += len(data)


class Line(NamedTuple):
    """A part as it was read, and how many bytes its line has."""

    part: admin_pb2.ExportedPart
    size: int


def read(file: BinaryIO) -> Iterator[Line]:
    """Yields the parts in a file, each partition checked before its end is yielded, the file after the last.

    Raises:
        ExportFileError: The file is none, of a newer version, damaged or cut short; ``line`` says where.
    """
    digest = hashlib.sha256()
    partitions = records = 0
    lines = _lines(file)
    number, data = next(lines, (1, b""))
    _check_header(number, data)
    digest.update(data)
    for number, data in lines:
        line = _parsed(number, data)
        if "complete" in line:
            _check_digest(number, line, digest.hexdigest())
            if line["complete"] != {"partitions": partitions, "records": records}:
                raise _wrong(number, f"{partitions} partitions with {records} records came before it, not what it says")
            _check_nothing_follows(lines)
            return
        part = _part(number, line)
        if part.HasField("end"):
            _check_digest(number, line, digest.hexdigest())
            partitions += 1
        elif part.WhichOneof("part") not in _MARKS:
            records += not part.answer.partial
        digest.update(data)
        yield Line(part, len(data))
    raise _wrong(number + 1, "the file ends here, cut short: its last line, with counts and checksum, is missing")


# --- lines


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while data := file.readline(_LONGEST_LINE):
        number += 1
        if not data.endswith(b"\n"):
            if number == 1:
                raise _no_export()
            raise _wrong(number, "the line has no end: the file is cut short, or damaged")
        yield number, data


def _check_header(number: int, data: bytes) -> None:
    try:
        header = orjson.loads(data)
    except orjson.JSONDecodeError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _no_export()
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise _wrong(number, "the format's version is missing")
    if version > VERSION:
        raise _wrong(number, f"the file has format version {version}; this client reads up to {VERSION}")


def _parsed(number: int, data: bytes) -> dict[str, Any]:
    try:
        line = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _wrong(number, f"the line is damaged: {error}") from None
    if not isinstance(line, dict) or not line:
        raise _wrong(number, "the line is no JSON object")
    return line


def _part(number: int, line: dict[str, Any]) -> admin_pb2.ExportedPart:
    kind, content = next(iter(line.items()))
    field = admin_pb2.ExportedPart.DESCRIPTOR.fields_by_name.get(kind)
    if field is None:
        raise _wrong(number, f"the line begins with {kind[:40]!r}, which is no part of an export")
    part = admin_pb2.ExportedPart()
    message = getattr(part, kind)
    message.SetInParent()
    try:
        if "message" in line:
            message.MergeFromString(base64.b64decode(line["message"], validate=True))
        else:
            fill(message, content)
    except (ValueError, TypeError, AttributeError, KeyError, DecodeError, binascii.Error) as error:
        raise _wrong(number, f"the {kind} cannot be read: {error}") from None
    return part


def _check_digest(number: int, line: dict[str, Any], digest: str) -> None:
    if line.get("sha256") != digest:
        raise _wrong(number, "the checksum is not that of the lines before: one was changed, lost or added")


def _check_nothing_follows(lines: Iterator[tuple[int, bytes]]) -> None:
    for number, _ in lines:
        raise _wrong(number, "the export ended with the line before, but the file goes on")


def _wrong(line: int, why: str) -> ExportFileError:
    return ExportFileError(f"line {line}: {why}", metadata={"line": str(line)})


def _no_export() -> ExportFileError:
    return _wrong(1, "this is no Statekeep export: the first line of one names its format")


# --- messages as JSON


def json_of(message: Message) -> dict[str, Any]:
    """Returns a message as JSON: its set fields by name, in order of number.

    Bytes are base64, times RFC 3339, enums their names, and integers of more than 53 bits text.
    """
    members: dict[str, Any] = {}
    for field, value in message.ListFields():
        write = _writer(field)
        if field.message_type and field.message_type.GetOptions().map_entry:
            members[field.name] = {key: value[key] for key in sorted(value)}
        elif field.is_repeated:
            members[field.name] = [write(one) for one in value]
        else:
            members[field.name] = write(value)
    return members


def fill(message: Message, members: dict[str, Any]) -> None:
    """Sets a message's fields from what `json_of` made.

    Raises:
        ValueError, TypeError, AttributeError, KeyError: The members are not those of such a message.
    """
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in members.items():
        if name not in fields:
            raise ValueError(f"{name[:40]!r} is no field of it")
        field = fields[name]
        if field.message_type and field.message_type.GetOptions().map_entry:
            getattr(message, name).update(value)
        elif field.is_repeated:
            getattr(message, name).extend(map(_reader(field), value))
        elif field.message_type is Timestamp.DESCRIPTOR:
            getattr(message, name).FromJsonString(value)
            getattr(message, name).SetInParent()
        elif field.message_type:
            getattr(message, name).SetInParent()
            fill(getattr(message, name), value)
        else:
            setattr(message, name, _reader(field)(value))


def _writer(field: Any) -> Callable[[Any], Any]:
    if field.message_type is Timestamp.DESCRIPTOR:
        return Timestamp.ToJsonString
    if field.message_type:
        return json_of
    if enum := field.enum_type:
        return lambda number: _enum_name(enum, number)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda data: base64.b64encode(data).decode()
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64):
        return lambda number: number if -_SAFE <= number <= _SAFE else str(number)
    return _as_it_is


def _reader(field: Any) -> Callable[[Any], Any]:
    if enum := field.enum_type:
        return lambda name: name if isinstance(name, int) else enum.values_by_name[name].number
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda text: base64.b64decode(text, validate=True)
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64):
        return _whole
    return _as_it_is


def _whole(given: Any) -> int:
    if isinstance(given, float):
        raise ValueError(f"{given} is no whole number")
    return int(given)


def _enum_name(enum: Any, number: int) -> str | int:
    value = enum.values_by_number.get(number)
    return value.name if value else number


def _as_it_is(value: Any) -> Any:
    return value


def _has_unknown(message: Message) -> bool:
    """Whether a message has fields that this client does not know, and JSON would not show."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize()
