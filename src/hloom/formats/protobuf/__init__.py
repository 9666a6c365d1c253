"""Protobuf messages of foreign formats: the contents of an `.hlo.pb`, field by field.

    module = protobuf.HloModuleProto.FromString(data)
    protobuf.PrimitiveType.Name(module.computations[0].instructions[0].shape.element_type)      # "F32"

This package handles bytes and field names, independent of the IR. All names are XLA's own; `names()` lists them.

To add a field or a message, edit `xla/*.proto` and run `scripts/compile_protos.py`; `tests/formats/protobuf` compares
the result with the schema inside jaxlib. To add a format, write its .proto files in a folder beside `xla/` (package
`hloom.formats.protobuf.<folder>`) and give it a `Schema` here.
"""

from __future__ import annotations

from typing import Any

from hloom.formats.protobuf.schema import Schema, UnknownField, unknown_fields

__all__ = ["Schema", "UnknownField", "names", "unknown_fields", "xla"]

xla = Schema("xla")


def names() -> list[str]:
    """Return the names of XLA's messages and enums, each an attribute of this module."""
    return xla.names


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return globals().setdefault(name, xla[name])
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no message or enum {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *xla.names})
