"""Requests for any method, from its descriptor: good ones, and such as nobody would send."""

import random
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from statekeep.v1 import admin_pb2, memory_pb2, scratch_pb2, state_store_pb2

SERVICES: list[ServiceDescriptor] = [
    module.DESCRIPTOR.services_by_name[name]
    for module, name in (
        (memory_pb2, "Memory"),
        (scratch_pb2, "Scratch"),
        (state_store_pb2, "StateStore"),
        (admin_pb2, "Admin"),
    )
]
METHODS: list[MethodDescriptor] = [method for service in SERVICES for method in service.methods]

_NASTY_TEXT = [
    "", " ", "k", "a/b", "main", "a:b", "\x00", "é" * 128, "\U0001f600" * 64, "x" * 300, "x" * 2000, "{0}", "%s", "{",
    "'", "\u200b", "\ufeff", "_compaction/x", "NaN", "[]", "{}", '"\\ud800"', "1e999", "[" * 600, "\u2028", "AAAA",
]  # fmt: skip
_NASTY_NUMBERS = [0, 1, -1, 2, 5, 100, 1000, 2**31 - 1, -(2**31)]
_NASTY_LONGS = [*_NASTY_NUMBERS, 2**53 - 1, 2**53, 2**63 - 1, -(2**63), 10**15]
_LONG_TYPES = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}


def path_of(method: MethodDescriptor) -> str:
    """Return the path that the method has on the wire."""
    return f"/{method.containing_service.full_name}/{method.name}"


def good_request(method: MethodDescriptor) -> Message:
    """Return a request in which every field is set to something good."""
    return _filled(GetMessageClass(method.input_type)(), method.name)


def without_each_message(message: Message) -> Iterator[Message]:
    """Yield copies that lack one message in it each, however deep."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        copy = type(message)()
        copy.CopyFrom(message)
        copy.ClearField(field.name)
        yield copy
        for inner in without_each_message(value[0] if field.is_repeated else value):
            copy = type(message)()
            copy.CopyFrom(message)
            target = getattr(copy, field.name)
            (target[0] if field.is_repeated else target).CopyFrom(inner)
            yield copy


def nasty_request(method: MethodDescriptor, chance: random.Random) -> Message:
    """Return a request that is well-formed on the wire and otherwise anything."""
    return _nasty(GetMessageClass(method.input_type)(), chance)


_TEXT = {
    "json": "[1]",
    "name": "name",
    "type": "note",
    "page_token": "",
    "from_event_id": "e",
    "request_id": "",
    "thread_id": "thread",
    "branch_id": "",
    "id": "",
    "at_event_id": "e",
    "prefix": "",
}


def _filled(message: Message, method: str) -> Any:
    for field in message.DESCRIPTOR.fields:
        name = field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, name)["label"] = "x"
        elif field.message_type is not None:
            target = getattr(message, name)
            _filled(target.add() if field.is_repeated else target, method)
            if not field.is_repeated:
                target.SetInParent()
        elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING and field.type != FieldDescriptor.TYPE_BYTES:
            text = _TEXT.get(name, "k")
            if field.is_repeated:
                getattr(message, name).append(text)
            elif not (field.containing_oneof and name == "text"):
                setattr(message, name, text)
        elif field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            setattr(message, name, name in ("include_values", "include_deleted"))
        elif name == "seconds":
            setattr(message, name, 100)
        elif name in ("limit", "page_size", "keep", "sequence", "version"):
            setattr(message, name, 1)
    return message


def _nasty(message: Message, chance: random.Random) -> Any:
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.35:
            continue
        name = field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, name)[chance.choice(_NASTY_TEXT)] = chance.choice(_NASTY_TEXT)
        elif field.message_type is not None and field.is_repeated:
            for _ in range(chance.randrange(3)):
                _nasty(getattr(message, name).add(), chance)
        elif field.message_type is not None:
            getattr(message, name).SetInParent()
            _nasty(getattr(message, name), chance)
        elif field.is_repeated:
            getattr(message, name).extend(chance.choice(_NASTY_TEXT) for _ in range(chance.randrange(4)))
        else:
            setattr(message, name, _nasty_scalar(field, chance))
    return message


def _nasty_scalar(field: FieldDescriptor, chance: random.Random) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.randbytes(chance.randrange(64))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return chance.choice(_NASTY_TEXT)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return chance.random() < 0.5
    return chance.choice(_NASTY_LONGS if field.cpp_type in _LONG_TYPES else _NASTY_NUMBERS)
