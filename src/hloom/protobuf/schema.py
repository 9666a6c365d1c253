"""The messages of one foreign format, in a descriptor pool of their own."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper


class Schema:
    """Message classes and enums by name, read from the compiled `<name>.desc` when the first one is asked for.

    The pool is not protobuf's default one, so that TensorFlow, torch_xla or Paddle may register their own copies of
    these messages in the same process.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.package = f"hloom.protobuf.{name}"
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


def _python_type(descriptor: Any) -> Any:
    if hasattr(descriptor, "values_by_name"):
        return EnumTypeWrapper(descriptor)
    return message_factory.GetMessageClass(descriptor)
