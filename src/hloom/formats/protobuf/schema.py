"""The messages of one foreign format, in a descriptor pool of their own, and fields in them that no schema names."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet


class Schema:
    """Message classes and enums by name, read from the compiled `<name>.desc` when the first one is asked for.

    The pool is not protobuf's default one, so that TensorFlow, torch_xla or Paddle may register their own copies of
    these messages in the same process.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.package = f"hloom.protobuf.{name}"  # as the .proto files have it
        self._types: dict[str, Any] = {}

    @property
    def compiled(self) -> Path:
        """The file that `scripts/compile_protos.py` writes."""
        return Path(__file__).with_name(f"{self.name}.desc")

    @cached_property
    def _descriptors(self) -> dict[str, Any]:
        pool = descriptor_pool.DescriptorPool()
        names = []
        for file in FileDescriptorSet.FromString(self.compiled.read_bytes()).file:
            pool.AddSerializedFile(file.SerializeToString())
            if file.package == self.package:
                names.append(file.name)
        files = [pool.FindFileByName(name) for name in names]
        return {
            name: descriptor
            for file in files
            for table in (file.message_types_by_name, file.enum_types_by_name)
            for name, descriptor in table.items()
        }

    @property
    def names(self) -> list[str]:
        """The names of all messages and enums, without those nested in a message."""
        return sorted(self._descriptors)

    def __getitem__(self, name: str) -> Any:
        """Return the message class or the enum of this name; KeyError where there is none."""
        if name not in self._types:
            self._types[name] = _python_type(self._descriptors[name])
        return self._types[name]

    def narrowed(self, fields: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Message classes that name these fields only, by message, in a pool of their own.

        Fields that are messages without an entry here are bytes, as they stand on the wire. What is not named is kept
        as unknown fields, so that nothing is lost: such classes read and write the same bytes, and need no object for
        what is only passed on.
        """
        package = f"{self.package}.narrowed"
        file = FileDescriptorProto(name="narrowed.proto", package=package, syntax="proto3")
        for name, kept in fields.items():
            whole = DescriptorProto()
            self._descriptors[name].CopyToProto(whole)
            message = file.message_type.add(name=name)
            for field in whole.field:
                if field.name not in kept:
                    continue
                own = message.field.add(name=field.name, number=field.number, label=field.label, type=field.type)
                inner = field.type_name.rpartition(".")[2]
                if inner in fields:
                    own.type_name = f".{package}.{inner}"
                elif field.type == FieldDescriptorProto.TYPE_MESSAGE:
                    own.type = FieldDescriptorProto.TYPE_BYTES
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(file.SerializeToString())
        return {
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in fields
        }


def _python_type(descriptor: Any) -> Any:
    if hasattr(descriptor, "values_by_name"):
        return EnumTypeWrapper(descriptor)
    return message_factory.GetMessageClass(descriptor)


@dataclass(frozen=True, slots=True)
class UnknownField:
    """One field that the schema does not name, in the message at `path` (`computations[0].instructions[3]`)."""

    path: str
    message: str
    number: int
    data: Any

    @property
    def root(self) -> str:
        """The name of the outermost message's field that it is in; empty if it is that message's own."""
        return self.path.partition(".")[0].partition("[")[0]

    @property
    def description(self) -> str:
        """What notes call it."""
        return f"field number {self.number} of {self.message}"


def unknown_fields(message: Message) -> list[UnknownField]:
    """Return every unknown field of a message and of all messages inside it, outermost first.

    Serialising the message again keeps them, so they are lost only by who builds a new message.
    """
    if not _has_unknown_field(message):
        return []
    fields: list[UnknownField] = []
    waiting = deque([("", message)])
    while waiting:
        path, part = waiting.popleft()
        name = part.DESCRIPTOR.name
        fields.extend(UnknownField(path, name, field.field_number, field.data) for field in UnknownFieldSet(part))
        waiting.extend(_messages_inside(path, part))
    return fields


def _has_unknown_field(message: Message) -> bool:
    """Whether there is any: looked for without saying where, as there hardly ever is one."""
    waiting: list[Any] = [message]
    while waiting:
        part = waiting.pop()
        if len(UnknownFieldSet(part)):
            return True
        for field, value in part.ListFields():
            if field.message_type is None:
                continue
            if isinstance(value, Message):
                waiting.append(value)
            elif field.message_type.GetOptions().map_entry:
                waiting += [entry for entry in value.values() if isinstance(entry, Message)]
            else:
                waiting += value
    return False


def _messages_inside(path: str, message: Message) -> Iterator[tuple[str, Message]]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        field_path = f"{path}.{field.name}" if path else field.name
        if isinstance(value, Message):
            yield field_path, value
            continue
        entries = value.items() if field.message_type.GetOptions().map_entry else enumerate(value)
        yield from ((f"{field_path}[{key}]", entry) for key, entry in entries if isinstance(entry, Message))
