"""Reads the module's header and the stack tables after it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from hloom.formats.hlo.reserved_words import check_word
from hloom.formats.hlo.tokens import (
    ATTRIBUTE_NAME,
    IDENTIFIER,
    NAME,
    read_boolean,
    read_braced,
    read_inside,
    read_integer,
    read_integers,
    read_list,
    read_natural,
    read_string,
)
from hloom.formats.hlo.type_reader import read_signature_type
from hloom.formats.hlo.value_reader import read_booleans, read_frontend, read_verbatim
from hloom.ir import (
    Attributes,
    BufferDonor,
    FileLocation,
    InputOutputAlias,
    PrintedRows,
    StackFrame,
    StackTables,
    Verbatim,
)
from hloom.text import Cursor

_ALIAS_KIND = re.compile(r"may-alias|must-alias")
_PLAIN_ALIAS = re.compile(r",?+ ?\{([0-9]{1,9})\}: \(([0-9]{1,9}), \{\}, (may-alias|must-alias)\)")
_LAYOUT = "entry_computation_layout"
_BEFORE_LAYOUT = f", {_LAYOUT}={{"
_PLAIN_FIELD = re.compile(
    r", (?:(is_scheduled|alias_passthrough_params)=(true|false)"
    r"|(allow_spmd_sharding_propagation_to_(?:parameters|output))=\{((?:true|false)(?:,(?:true|false))*+)\}"
    r"|(replica_count|num_partitions)=([0-9]{1,9}))(?=[,\n])"
)
"""A header attribute in printed form: a word, words in braces, or a number."""
_NEWER = frozenset(("debug_attributes",))
"""Header attributes that the current XLA parser does not know yet."""
_NUMBER = r"(0|[1-9][0-9]{0,8})"
_PRINTED_NAME = re.compile(rf'^{_NUMBER} "([ !#-&(-\[\]-~]*+)"$', re.MULTILINE)
_PRINTED_LOCATION, _PRINTED_FRAME = (
    re.compile(
        rf"^{_NUMBER} \{{" + " ".join(rf"{field.name}={_NUMBER}" for field in fields(row)) + r"\}$", re.MULTILINE
    )
    for row in (FileLocation, StackFrame)
)
"""Rows of the stack tables in exactly the printed form."""
_NUMBERED_LINES = re.compile(r"(?:[0-9][^\n]*+\n)*+")
_FIELD = re.compile(r"([a-z_]+)\s*=")


def read_header(cursor: Cursor, strict: bool, note: Callable[[str, int], None]) -> tuple[str, Attributes]:
    """`HloModule name, key=value, ...` after its first word: the name and the attributes, in XLA's order."""
    text = cursor.text
    start = cursor.skip()
    name = cursor.read(NAME, "the module's name")[1]
    if strict:
        check_word(cursor, name, start)
    values: dict[str, Any] = {}
    while True:
        if text.startswith(_BEFORE_LAYOUT, cursor.position) and _LAYOUT not in values:
            cursor.position += len(_BEFORE_LAYOUT)
            values[_LAYOUT] = read_signature_type(cursor)
            cursor.expect("}")
            continue
        plain = _PLAIN_FIELD.match(text, cursor.position)
        if plain and not values.keys() & plain.groups():
            word, value, words, several, number, digits = plain.groups()
            if word:
                values[word] = value == "true"
            elif words:
                values[words] = tuple([value == "true" for value in several.split(",")])
            else:
                values[number] = int(digits)
            cursor.position = plain.end()
            continue
        if not cursor.accept(","):
            break
        start = cursor.skip()
        key = cursor.read(ATTRIBUTE_NAME, "a header attribute and '='")[1]
        if key in values:
            raise cursor.error(f"header attribute '{key}' is given twice", start)
        if key in _READERS and not (strict and key in _NEWER):
            values[key] = _READERS[key](cursor)
            continue
        if strict:
            raise cursor.error(f"no header attribute is called '{key}'", start, f"there are {', '.join(_READERS)}")
        note(f"no header attribute is called '{key}': kept as it is", start)
        values[key] = Verbatim(read_verbatim(cursor))
    if len(values) > 1:
        values = dict(sorted(values.items(), key=lambda item: _RANKS.get(item[0], len(_RANKS))))
    return name, Attributes(values)


def read_stack_tables(cursor: Cursor, strict: bool) -> StackTables | None:
    """The sections FileNames, FunctionNames, FileLocations and StackFrames; None where there are none."""
    tables: dict[str, Mapping[int, Any]] = {}
    start = cursor.skip()
    if not _TITLE.match(cursor.text, start):
        return None
    for title, (name, read) in _SECTIONS.items():
        if cursor.at(title) and IDENTIFIER.match(cursor.text, cursor.position)[0] == title:  # type: ignore[index]
            cursor.accept(title)
            position = cursor.skip()
            tables[name] = read(cursor)
            if strict:
                _check_rows(cursor, title, tables[name], position)
        elif strict:
            raise cursor.error(f"the stack tables that begin here lack '{title}'", start)
    return StackTables(**tables) if tables else None


def _check_rows(cursor: Cursor, title: str, rows: Mapping[int, Any], position: int) -> None:
    """Reject rows with a missing number (the text has fewer names than the row has fields) or one out of range."""
    numbered = [row for row in rows.values() if not isinstance(row, str)]
    names = [field.name for field in fields(numbered[0])] if numbered else []
    text = cursor.text[position : cursor.position]
    for name in names:
        if len(re.findall(rf"\b{name}=", text)) != len(numbered):
            raise cursor.error(f"a row of {title} lacks '{name}'", position)
        if wide := [row for row in numbered if not -(1 << 31) <= getattr(row, name) < 1 << 31]:
            raise cursor.error(f"{name}={getattr(wide[0], name)} of {title} does not fit into 32 bits", position)


def _read_rows(
    cursor: Cursor, row: re.Pattern[str], parse: Callable[[str], dict[int, Any]], read_row: Callable[[Cursor], Any]
) -> Mapping[int, Any]:
    """A table's rows; if all are in printed form, they are parsed lazily."""
    block = _NUMBERED_LINES.match(cursor.text, cursor.skip(), cursor.end)
    if block and len(row.findall(block[0])) == block[0].count("\n"):
        cursor.position = block.end()
        printed = PrintedRows(block[0], parse)
        if not cursor.peek().isdecimal():
            return printed
    rows: dict[int, Any] = {}
    while cursor.peek().isdecimal():
        number = read_natural(cursor)
        rows[number] = read_row(cursor)
    return rows


def _read_names(cursor: Cursor) -> Mapping[int, str]:
    return _read_rows(cursor, _PRINTED_NAME, _parse_names, read_string)


def _parse_names(text: str) -> dict[int, str]:
    return {int(number): name for number, name in _PRINTED_NAME.findall(text)}


def _read_locations(cursor: Cursor) -> Mapping[int, FileLocation]:
    return _read_rows(
        cursor, _PRINTED_LOCATION, _parse_locations, lambda inner: FileLocation(**_fields(inner, FileLocation))
    )


def _parse_locations(text: str) -> dict[int, FileLocation]:
    return {int(number): FileLocation(*map(int, values)) for number, *values in _PRINTED_LOCATION.findall(text)}


def _read_frames(cursor: Cursor) -> Mapping[int, StackFrame]:
    """The frames; the text numbers parents from one more than everything else, so that 1 means none."""
    return _read_rows(cursor, _PRINTED_FRAME, _parse_frames, _read_frame)


def _parse_frames(text: str) -> dict[int, StackFrame]:
    rows = _PRINTED_FRAME.findall(text)
    return {int(number): StackFrame(int(location), int(parent) - 1) for number, location, parent in rows}


def _read_frame(cursor: Cursor) -> StackFrame:
    given = _fields(cursor, StackFrame)
    return StackFrame(given.get("file_location_id", 0), given.get("parent_frame_id", 1) - 1)


def _fields(cursor: Cursor, row: type) -> dict[str, int]:
    cursor.expect("{")
    values: dict[str, int] = {}
    while not cursor.accept("}"):
        start = cursor.skip()
        name = cursor.read(_FIELD, "a field and '='")[1]
        if name not in row.__dataclass_fields__ or name in values:
            raise cursor.error(
                f"field '{name}' cannot stand here", start, f"fields: {', '.join(row.__dataclass_fields__)}"
            )
        values[name] = read_integer(cursor)
        cursor.accept(",")
    return values


def _read_aliases(cursor: Cursor) -> tuple[InputOutputAlias, ...]:
    """`{ {0}: (0, {}, may-alias), ... }`; there may be one per parameter, so plain entries have a fast path."""
    cursor.expect("{")
    aliases: list[InputOutputAlias] = []
    while match := _PLAIN_ALIAS.match(cursor.text, cursor.position):
        aliases.append(InputOutputAlias((int(match[1]),), int(match[2]), (), match[3]))
        cursor.position = match.end()
    while not cursor.accept("}"):
        if aliases:
            cursor.expect(",")
        aliases.append(_read_alias(cursor))
    return tuple(aliases)


def _read_alias(cursor: Cursor) -> InputOutputAlias:
    output_index = read_integers(cursor)
    cursor.expect(":")
    cursor.expect("(")
    parameter, parameter_index = _read_place(cursor)
    alias_kind = "may-alias"
    if cursor.accept(","):
        alias_kind = cursor.read(_ALIAS_KIND, "may-alias or must-alias")[0]
    cursor.expect(")")
    return InputOutputAlias(output_index, parameter, parameter_index, alias_kind)


def _read_place(cursor: Cursor) -> tuple[int, tuple[int, ...]]:
    """`0, {1}`: a parameter and an index into its tuple."""
    parameter = read_natural(cursor, "a parameter's number")
    cursor.expect(",")
    return parameter, read_integers(cursor)


def _read_donor(cursor: Cursor) -> BufferDonor:
    return BufferDonor(*read_inside(cursor, _read_place))


def _read_boolean_or_list(cursor: Cursor) -> bool | tuple[bool, ...]:
    return read_booleans(cursor) if cursor.at("{") else read_boolean(cursor)


_READERS: dict[str, Callable[[Cursor], Any]] = {
    "is_scheduled": read_boolean,
    "input_output_alias": _read_aliases,
    "buffer_donor": lambda cursor: read_list(cursor, _read_donor),
    "alias_passthrough_params": read_boolean,
    _LAYOUT: lambda cursor: read_inside(cursor, read_signature_type, "{", "}"),
    "allow_spmd_sharding_propagation_to_parameters": _read_boolean_or_list,
    "allow_spmd_sharding_propagation_to_output": _read_boolean_or_list,
    "replica_count": read_integer,
    "num_partitions": read_integer,
    "frontend_attributes": read_frontend,
    "origin_recovery_table": read_braced,
    "debug_attributes": read_braced,
}
_RANKS = {key: rank for rank, key in enumerate(_READERS)}
_TITLE = re.compile(r"(?:FileNames|FunctionNames|FileLocations|StackFrames)(?![A-Za-z0-9_.-])")
_SECTIONS: dict[str, tuple[str, Callable[[Cursor], Mapping[int, Any]]]] = {
    "FileNames": ("file_names", _read_names),
    "FunctionNames": ("function_names", _read_names),
    "FileLocations": ("file_locations", _read_locations),
    "StackFrames": ("stack_frames", _read_frames),
}
"""The field and the reader of each stack table, by section title."""
