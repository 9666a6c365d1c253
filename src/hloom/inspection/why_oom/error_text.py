"""Parses XLA's out-of-memory messages into tables: the request, the sums, and the largest allocations.

A TPU's compiler counts an entry `1. Size: 32.00G` with `Operator:`, `Shape:`, `Unpadded size:`, `XLA label:` and
`Allocation type:` under it. What GPUs and CPUs print where an executable's memory cannot be had has `Buffer 1:` with
`Size:`, `Operator:`, `XLA Label:`, and `Shape:` or `Entry Parameter Subshape:`, after sums such as `total allocation:`.
Logs put times and process names in front of lines, which are passed over. K, M and G are powers of 1024.

Source: texts that users of jax, pytorch/xla and TensorFlow have published; xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace

from hloom.analysis import NO_SCOPE, UNKNOWN, scope_of_name
from hloom.formats.hlo import decompress, read_bytes
from hloom.inspection.why_oom.held_buffers import HeldBuffer
from hloom.text import HloomError

MOST_CHARACTERS = 64 << 20
"""How much of a text is read."""
MOST_ALLOCATIONS = 20_000
"""The maximum number of allocations to keep; XLA lists 15 to 20 for each program."""
LONGEST_SIZE = 32
"""The maximum number of characters of a size."""

_IS_ERROR = re.compile(
    r"RESOURCE_EXHAUSTED|Resource exhausted|Ran out of memory (?:in memory space|on \w+,)|"
    r"Out of memory (?:while|allocating)|ran out of memory trying|"
    r"Largest program allocations in|BufferAssignment OOM|Peak buffers:|BufferAssignment stats"
)
_OF_PROGRAMS = re.compile(r"[={}\x00-\x08]|HloModule|ENTRY")
"""Matches programs of every format but no prose: definitions, braces, the bytes of protos."""
_SIZE = r"([0-9][0-9.,]*\s?[KMGTPE]?(?:i?B\b|\b)(?:\s?bytes)?)"
_ENTRY = re.compile(rf"(?:^|\s)[0-9]{{1,6}}\. Size: {_SIZE}")
_BUFFER = re.compile(r"(?:^|\s)Buffer ([0-9]{1,6}):\s*$")
_BUFFER_SIZE = re.compile(rf"(?:^|\s)Size: {_SIZE}")
_UNPADDED = re.compile(rf"Unpadded size: {_SIZE}")
_FIELDS = (
    ("operator", re.compile(r"(?:^|\s)Operator: (.*)")),
    ("parameter", re.compile(r"Entry Parameter Subshape: (\S.*)")),
    ("shape", re.compile(r"(?:^|\s)Shape: (\S.*)")),
    ("label", re.compile(r"XLA [Ll]abel: (.*)")),
    ("role", re.compile(r"Allocation type: (.*)")),
)
_END = re.compile(r"={10,}\s*$")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_OP_TYPE = re.compile(r'op_type="((?:[^"\\]|\\.)*)"')
_FILE = re.compile(r'source_file="((?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"source_line=([0-9]{1,18})")
_NAMED = re.compile(r"^%?([\w.-]+) = ")
_OPCODE = re.compile(r"(?:^|\s)([a-z][a-z0-9-]*)\(")
_SPACE = re.compile(r"memory space (\w+)|Ran out of memory on (\w+),")
_USED = re.compile(rf"Used {_SIZE} of {_SIZE} (\w+)")
_CAPACITY = re.compile(rf"(?:exceeding available bytes:|HBM capacity|exceeds available \w+) \(?{_SIZE}")
_REQUEST = re.compile(
    r"(?:trying to allocate|Out of memory allocating|Attempting to (?:reserve|allocate)|"
    rf"total memory required for HLO temporaries) \(?{_SIZE}"
)
_EXACT = re.compile(r"[0-9,]+(?:\s?bytes)?")
"""A size in bytes, which counts more than one that a log has rounded."""
_FREE = re.compile(rf"There are {_SIZE} free")
_TOTALS = re.compile(rf"(Total (\w+) usage) >=? {_SIZE}")
_PROGRAM = re.compile(rf"(Program (\w+) requirement) {_SIZE}")
_TPU_SUM = re.compile(
    rf"(?:^|\s)(reserved|program|arguments|output|global|scoped|HLO temp|overlays|heap allocations)"
    rf"(?:\s?\([^)]*\))?\s+{_SIZE}"
)
_SUM = re.compile(
    rf"((?:parameter|constant|maybe_live_out|preallocated temp|total) (?:allocation|fragmentation)):\s+{_SIZE}"
)
_ROLES = {"HLO temp": "temporary"}


@dataclass(slots=True)
class OomMessage:
    """The contents of a message: `used` and `capacity` of the memory `space`, the bytes `requested`, sums by XLA's
    names.
    """

    space: str = ""
    used: int | None = None
    capacity: int | None = None
    requested: int | None = None
    free: int | None = None
    sums: dict[str, int] = field(default_factory=dict)
    buffers: list[HeldBuffer] = field(default_factory=list)

    @property
    def peak(self) -> int | None:
        """The bytes the program needs, as far as the message says."""
        total = self.sums.get("total allocation")
        return self.used or total or self.sums.get("total usage") or self.requested


def is_error_text(text: str) -> bool:
    """Whether a text is a message, or a log, about memory that ran out, and no module."""
    return not text[:4096].lstrip().startswith("HloModule") and _IS_ERROR.search(text[:MOST_CHARACTERS]) is not None


def error_text_of(source: object) -> str | None:
    """The error's text that `source` is or whose file it names; None for anything else.

    Raises HloomError for a file of words that are neither such a text nor a program.
    """
    if isinstance(source, str) and is_error_text(source):
        return source
    if isinstance(source, (str, os.PathLike)) and os.path.isfile(source) and os.path.getsize(source) <= MOST_CHARACTERS:
        return error_text_in(read_bytes(source), os.fspath(source))
    return None


def error_text_in(data: bytes, name: str) -> str | None:
    """The same of a file's bytes, packed or not."""
    text = decompress(data, name).decode("utf-8", "replace")
    if is_error_text(text):
        return text
    if text.strip() and _OF_PROGRAMS.search(text) is None:
        raise HloomError(
            f"{name} is neither a module nor the text of an error about memory",
            hint="give a module, a directory that XLA dumped into, or all of the error's text",
        )
    return None


def read_error_text(text: str, name: str = "the text") -> OomMessage:
    """Parse XLA's message; raises HloomError if it contains no number of bytes."""
    message = OomMessage()
    reader = _EntryReader(message)
    for line in text[:MOST_CHARACTERS].splitlines():
        _read_sums(message, line)
        reader.read(line)
    reader.end()
    if not message.buffers and message.peak is None:
        raise HloomError(
            f"{name} says that memory ran out, but no number of bytes",
            hint="give all of the error's text, or a directory that XLA dumped into (XLA_FLAGS=--xla_dump_to=DIR)",
        )
    message.buffers.sort(key=lambda buffer: -buffer.bytes)
    return message


def _read_sums(message: OomMessage, line: str) -> None:
    """Take what a line says of the whole program; what is said twice counts as said first."""
    if match := _SPACE.search(line):
        message.space = message.space or match[1] or match[2]
    if match := _USED.search(line):
        message.used = message.used or read_size(match[1])
        message.capacity = message.capacity or read_size(match[2])
        message.space = message.space or match[3]
    for name, pattern in (("capacity", _CAPACITY), ("requested", _REQUEST), ("free", _FREE)):
        match = pattern.search(line)
        if match and (getattr(message, name) is None or _EXACT.fullmatch(match[1])):
            setattr(message, name, read_size(match[1]))
    for pattern, name in ((_TOTALS, "total usage"), (_PROGRAM, "program requirement")):
        if match := pattern.search(line):
            message.sums.setdefault(name, read_size(match[3]))
            message.space = message.space or match[2]
    if match := _SUM.search(line) or _TPU_SUM.search(line):
        message.sums.setdefault(match[1], read_size(match[2]))


def read_size(text: str) -> int:
    """The bytes that XLA's texts name: K, M, G with or without iB.

    >>> read_size("6.00MiB"), read_size("4.0K"), read_size("554,696,704 bytes"), read_size("0B")
    (6291456, 4096, 554696704, 0)
    """
    match = re.match(r"([0-9][0-9,]*(?:\.[0-9]+)?)\s?([KMGTPE]?)", text[:LONGEST_SIZE])
    if match is None:
        raise HloomError(f"'{text[:LONGEST_SIZE]}' is not a number of bytes")
    return round(float(match[1].replace(",", "")) * 1024 ** " KMGTPE".index(match[2] or " "))


class _EntryReader:
    """Puts the lines of an allocation together."""

    def __init__(self, message: OomMessage) -> None:
        self.message = message
        self.size: int | None = None
        self.unpadded: int | None = None
        self.fields: dict[str, str] = {}
        self.number = ""

    def read(self, line: str) -> None:
        """Take a line; one that begins or ends an allocation ends the one before."""
        if match := _ENTRY.search(line):
            self.end()
            self.number, self.size = str(len(self.message.buffers) + 1), read_size(match[1])
        elif match := _BUFFER.search(line):
            self.end()
            self.number = match[1]
        elif self.number and _END.search(line):
            self.end()
        elif self.number and self.size is None and (match := _BUFFER_SIZE.search(line)):
            self.size = read_size(match[1])
        elif self.number and (match := _UNPADDED.search(line)):
            self.unpadded = read_size(match[1])
        elif self.number:
            for name, pattern in _FIELDS:
                if match := pattern.search(line):
                    self.fields.setdefault(name, match[1].strip())
                    return

    def end(self) -> None:
        """Keep what was read, if it is an allocation."""
        if self.size is not None and len(self.message.buffers) < MOST_ALLOCATIONS:
            self.message.buffers.append(self._buffer(self.size))
        self.size = self.unpadded = None
        self.number, self.fields = "", {}

    def _buffer(self, size: int) -> HeldBuffer:
        operator, label = self.fields.get("operator", ""), self.fields.get("label", "")
        op_name = _first(_OP_NAME, operator) or _first(_OP_NAME, label)
        named = _NAMED.match(label)
        opcode = _OPCODE.search(label, named.end() - 1) if named else None
        file, line = _first(_FILE, operator), _first(_LINE, operator)
        is_parameter = "parameter" in self.fields
        made_by = opcode[1] if opcode else label if label and " " not in label else _first(_OP_TYPE, operator)
        role = self.fields.get("role", "argument" if is_parameter else "temporary")
        held = HeldBuffer(
            name=named[1] if named else f"buffer {self.number}",
            type=self.fields.get("shape") or self.fields.get("parameter", "?"),
            bytes=size,
            unpadded_bytes=min(size, self.unpadded if self.unpadded is not None else size),
            role=_ROLES.get(role, role),
            made_by="parameter" if is_parameter else made_by or "?",
            scope="inputs" if is_parameter else "/".join(scope_of_name(op_name)) or NO_SCOPE,
            source=f"{file}:{line}" if file and line else file or UNKNOWN,
        )
        return replace(held, reason=_reason(held, is_parameter))


def _reason(held: HeldBuffer, is_parameter: bool) -> str:
    """What can be said without the program."""
    if is_parameter:
        return "argument: the caller keeps it"
    if ".remat" in held.name:
        return "computed again by XLA already"
    return f"{held.bytes / held.unpadded_bytes:.1f} times its size by padding" if held.padding else ""


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""
