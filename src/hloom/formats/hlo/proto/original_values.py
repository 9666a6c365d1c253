"""Converts original values, which say what array of the unoptimised program a value is and how to recover it.

The text of `origin=` is an OriginalValueProto, the header's origin_recovery_table an OriginalValueRecoveryTableProto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.module_reader import parse
from hloom.formats.hlo.printer import print_module
from hloom.formats.hlo.tokens import read_integers, read_string
from hloom.ir import Module
from hloom.text import Cursor, HloomError, Source, escape

SYNTHETIC = "{[synthetic_call]}"
DEEPEST = 200
"""The maximum nesting depth of tuples of arrays."""

Path = tuple[int, ...]


def write_origin(proto: Any, text: str) -> None:
    """Fill an OriginalValueProto from `{{"name" {0}}}`, `{({"a"}, {})}` or `{[synthetic_call]}`."""
    if text == SYNTHETIC:
        proto.is_synthetic_call = True
        return
    cursor = Cursor(Source(text, "origin"))
    cursor.expect("{")
    _write_tree(cursor, proto.elements, ())
    cursor.expect("}")


def _write_tree(cursor: Cursor, elements: Any, path: Path) -> None:
    if len(path) > DEEPEST:
        raise cursor.error(f"an origin nests deeper than {DEEPEST}")
    if not cursor.accept("("):
        element = elements.add(shape_index=path)
        array = read_array(cursor)
        if array is not None:
            element.original_array.CopyFrom(array)
        return
    position = 0
    while not cursor.accept(")"):
        if position:
            cursor.expect(",")
        _write_tree(cursor, elements, (*path, position))
        position += 1


def read_array(cursor: Cursor) -> Any:
    """`{"name" {0,1}}` as OriginalArrayProto; None for `{}`."""
    cursor.expect("{")
    if cursor.accept("}"):
        return None
    proto = protobuf.OriginalArrayProto(instruction_name=read_string(cursor))
    if cursor.at("{"):
        proto.shape_index.extend(read_integers(cursor))
    cursor.expect("}")
    return proto


def read_origin(proto: Any) -> str | None:
    """An OriginalValueProto as text; None if it is empty. HloomError if its indices do not form a tree."""
    if proto.is_synthetic_call:
        return SYNTHETIC
    if not proto.elements:
        return None
    return "{" + _tree_text([tuple(element.shape_index) for element in proto.elements], proto.elements) + "}"


def _tree_text(paths: Sequence[Path], elements: Iterable[Any]) -> str:
    """The nested tuples whose leaves, in order, are at these paths."""
    pieces: list[str] = []
    previous: Path | None = None
    for path, element in zip(paths, elements, strict=True):
        if len(path) > DEEPEST:
            raise HloomError(f"an original value nests deeper than {DEEPEST}")
        pieces.append(_step(previous, path))
        pieces.append(array_text(element.original_array) if element.HasField("original_array") else "{}")
        previous = path
    return "".join(pieces) + ")" * len(previous or ())


def _step(previous: Path | None, path: Path) -> str:
    """The brackets and the comma between two leaves; HloomError if the second cannot follow the first."""
    if previous is None:
        if any(path):
            raise HloomError(f"the first place of an original value is {list(path)}")
        return "(" * len(path)
    shared = 0
    while shared < min(len(previous), len(path)) and previous[shared] == path[shared]:
        shared += 1
    if shared >= min(len(previous), len(path)) or path[shared] != previous[shared] + 1 or any(path[shared + 1 :]):
        raise HloomError(f"the place {list(path)} of an original value does not follow {list(previous)}")
    return ")" * (len(previous) - shared - 1) + ", " + "(" * (len(path) - shared - 1)


def array_text(proto: Any) -> str:
    """`{"name" {0,1}}`."""
    index = f" {{{','.join(map(str, proto.shape_index))}}}" if proto.shape_index else ""
    return f'{{"{escape(proto.instruction_name)}"{index}}}'


INDENT = "    "


def write_recovery(proto: Any, text: str, write: Callable[[Module], Any]) -> None:
    """Fill the table from its text: `{ {"a" {0}} : {"b"}, "HloModule ..." ... }`; `write` encodes the modules in it."""
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
    """The table as XLA prints it; None if it has no entries."""
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
