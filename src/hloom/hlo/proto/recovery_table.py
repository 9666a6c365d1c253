"""The header's origin_recovery_table, as OriginalValueRecoveryTableProto, both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.hlo.module_reader import parse
from hloom.hlo.printer import print_module
from hloom.hlo.proto.original_values import array_text, read_array
from hloom.hlo.tokens import read_string
from hloom.ir import Module
from hloom.text import Cursor, HloomError, Source

INDENT = "    "


def write_recovery(proto: Any, text: str, write: Callable[[Module], Any]) -> None:
    """Fill the table from its text: `{ {"a" {0}} : {"b"}, "HloModule ..." ... }`; `write` gives modules' messages."""
    cursor = Cursor(Source(text, "origin_recovery_table"))
    cursor.expect("{")
    while not cursor.accept("}"):
        entry = proto.entries.add()
        for name in ("old_original_array", "new_original_array"):
            array = read_array(cursor)
            if array is not None:
                getattr(entry, name).CopyFrom(array)
            if name == "old_original_array":
                cursor.expect(":")
        cursor.accept(",")
        if cursor.at('"') or cursor.at("'"):
            module = parse(read_string(cursor), name="origin_recovery_table")
            entry.recovery_module.CopyFrom(write(module))
            cursor.accept(",")


def read_recovery(proto: Any, read: Callable[[Any], Module]) -> str | None:
    """The table as XLA prints it; None where it has no entries."""
    if not proto.entries:
        return None
    lines = ["{"]
    for entry in proto.entries:
        if entry.recovery_module.original_value_recovery_table.entries:
            raise HloomError("a module that recovers values has such modules itself")
        arrow = f"  {array_text(entry.old_original_array)} : {array_text(entry.new_original_array)}"
        if not entry.HasField("recovery_module"):
            lines.append(arrow)
            continue
        lines += [arrow + ",", '  "', *_module_lines(read(entry.recovery_module)), '  "']
    return "\n".join([*lines, "}"])


def _module_lines(module: Module) -> list[str]:
    text = print_module(module).replace("\\", "\\\\").replace('"', '\\"')
    return [INDENT + line if line else line for line in text.split("\n")]
