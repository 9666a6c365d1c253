"""Where an instruction came from: the fields of `metadata={...}`, parsed on demand, and the stack tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TypeVar, cast

from hloom.text import Cursor, Source, escape, unescape

_FIELD = re.compile(r"([a-z_]+)=")
_STRING = re.compile(r'"((?:[^"\\]++|\\.)*+)"|\'((?:[^\'\\]++|\\.)*+)\'', re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]++")
_PLAIN_FIELD = re.compile(r'([a-z_]++)=(?:"([^"\\]*+)"|([0-9]{1,18}+))(?:, ?| |$)')
"""A field without escapes, lists or signs, and its terminator; nearly all fields match."""
_INTEGERS = re.compile(r"\{([0-9, ]*)\}")

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the framework recorded about an instruction; `op_name` is its scope, with slashes between the levels."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    profile_type: tuple[int, ...] = ()
    deduplicated_name: str = ""
    scheduling_name: str = ""
    stack_frame_id: int = 0
    metadata_payload: str = ""

    def text(self) -> str:
        """The fields that are set, as they stand between the braces of `metadata={...}`."""
        parts: list[str] = []
        for name in METADATA_FIELDS:
            value = getattr(self, name)
            if value:
                parts.append(f"{name}={_print(value)}")
        return " ".join(parts)


METADATA_FIELDS: dict[str, object] = {field.name: field.default for field in fields(Metadata)}
"""The default value of every field, by name."""


@lru_cache(maxsize=4096)
def parse_metadata(text: str) -> Metadata:
    """Read the text between the braces of `metadata={...}`.

    >>> parse_metadata('op_type="Add" source_line=3').source_line
    3

    Raises ParseError with the place inside that text.
    """
    plain = _plain_metadata(text)
    return read_metadata(Cursor(Source(text, "metadata"))) if plain is None else plain


def _plain_metadata(text: str) -> Metadata | None:
    values = plain_fields(text)
    return None if values is None else Metadata(**values)  # type: ignore[arg-type]


def plain_fields(text: str) -> dict[str, str | int] | None:
    """The fields of a metadata text by name if all are plain, else None."""
    values: dict[str, str | int] = {}
    position = 0
    while position < len(text):
        match = _PLAIN_FIELD.match(text, position)
        if match is None:
            return None
        name, string, digits = match.groups()
        value = int(digits) if string is None else string
        if name in values or METADATA_FIELDS.get(name).__class__ is not value.__class__:
            return None
        values[name] = value
        position = match.end()
    return values


def read_metadata(cursor: Cursor) -> Metadata:
    """Read the fields up to the closing brace or the end, leaving the brace."""
    values: dict[str, object] = {}
    while cursor.peek() not in ("", "}"):
        start = cursor.position
        name = cursor.read(_FIELD, "a metadata field and '='")[1]
        if name not in METADATA_FIELDS:
            raise cursor.error(
                f"no metadata field is called '{name}'", start, f"the fields are {', '.join(METADATA_FIELDS)}"
            )
        if name in values:
            raise cursor.error(f"metadata field '{name}' is given twice", start)
        values[name] = _READERS[METADATA_FIELDS[name].__class__](cursor)
        cursor.accept(",")
    return Metadata(**values)  # type: ignore[arg-type]


def _read_string(cursor: Cursor) -> str:
    start = cursor.skip()
    match = cursor.read(_STRING, "a string")
    try:
        return unescape(match[1] if match[1] is not None else match[2])
    except ValueError as problem:
        raise cursor.error(f"bad string: {problem}", start) from None


def _read_integer(cursor: Cursor) -> int:
    start = cursor.skip()
    text = cursor.read(_INTEGER, "an integer")[0]
    value = int(text) if len(text) <= 40 else 2**63
    if not -(2**63) <= value < 2**63:
        raise cursor.error(f"integer {value} does not fit into 64 bits", start)
    return value


def _read_integers(cursor: Cursor) -> tuple[int, ...]:
    start = cursor.skip()
    digits = re.findall(r"[0-9]+", cursor.read(_INTEGERS, "'{' and integers")[1])
    if any(len(part.lstrip("0")) > 19 for part in digits):
        raise cursor.error("an integer here does not fit into 64 bits", start)
    return tuple(int(part.lstrip("0") or "0") for part in digits)


_READERS: dict[type, Callable[[Cursor], object]] = {str: _read_string, int: _read_integer, tuple: _read_integers}


def _print(value: object) -> str:
    if isinstance(value, str):
        return f'"{escape(value)}"'
    if isinstance(value, tuple):
        return "{" + ",".join(map(str, cast("tuple[int, ...]", value))) + "}"
    return str(value)


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A span of a file inside a function; lines and columns count from 1, 0 means unknown."""

    file_name_id: int = 0
    function_name_id: int = 0
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A location and the frame that called it (0: none)."""

    file_location_id: int = 0
    parent_frame_id: int = 0


@dataclass(frozen=True, slots=True)
class StackTraceFrame:
    """One line of a stack trace, its names looked up."""

    file: str
    function: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


class LazyRows(Mapping[int, Row]):
    """The rows of a stack table, parsed when first asked for."""

    __slots__ = ("_parse", "_rows")

    def __init__(self, parse: Callable[[], dict[int, Row]]) -> None:
        self._parse = parse
        self._rows: dict[int, Row] | None = None

    @property
    def _parsed(self) -> dict[int, Row]:
        if self._rows is None:
            self._rows = self._parse()
        return self._rows

    def __getitem__(self, number: int) -> Row:
        return self._parsed[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._parsed)

    def __len__(self) -> int:
        return len(self._parsed)


class PrintedRows(LazyRows[Row]):
    """Rows whose printed form is known: one to a line, the last line ended too."""

    __slots__ = ("text",)
    text: str

    def __init__(self, text: str, parse: Callable[[str], dict[int, Row]]) -> None:
        super().__init__(lambda: parse(text))
        self.text = text


@dataclass(frozen=True, slots=True)
class StackTables:
    """The four tables, keyed by the row numbers used in the text."""

    file_names: Mapping[int, str] = field(default_factory=dict[int, str])
    function_names: Mapping[int, str] = field(default_factory=dict[int, str])
    file_locations: Mapping[int, FileLocation] = field(default_factory=dict[int, FileLocation])
    stack_frames: Mapping[int, StackFrame] = field(default_factory=dict[int, StackFrame])

    def trace(self, stack_frame_id: int) -> list[StackTraceFrame]:
        """The frames from the innermost outwards; stops at an unknown number."""
        frames: list[StackTraceFrame] = []
        seen: set[int] = set()
        while stack_frame_id in self.stack_frames and stack_frame_id not in seen:
            seen.add(stack_frame_id)
            frame = self.stack_frames[stack_frame_id]
            location = self.file_locations.get(frame.file_location_id, FileLocation())
            file = self.file_names.get(location.file_name_id, "?")
            function = self.function_names.get(location.function_name_id, "?")
            frames.append(StackTraceFrame(file, function, location.line))
            stack_frame_id = frame.parent_frame_id
        return frames
