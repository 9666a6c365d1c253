"""Loads modules from paths, bytes, text, XLA dumps and jax programs, and saves them to files.

Formats are recognised by their first bytes, never by a file's name; a name only selects the format to write. To read
another container, add its guard to `load` or, for bytes, to `_from_bytes`; to write one, add a row to `WRITERS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hloom.formats.hlo import proto
from hloom.formats.hlo.compression import COMPRESSED, LIMITS, Limits, compress, decompress
from hloom.formats.hlo.dump_directory import choose, choose_by_path
from hloom.formats.hlo.file_io import STDIN, read_bytes, write_whole
from hloom.formats.hlo.jax_program import is_lowering, proto_of
from hloom.formats.hlo.module_reader import parse
from hloom.formats.hlo.printer import PrintOptions, print_module
from hloom.ir import Module, ModuleLike, as_module
from hloom.text import HloomError, Location, ParseError, Source, Unsupported, unreadable

_TEXT_LIKE = re.compile(r"\s*(?:HloModule|ENTRY|ROOT)\b|[\n{]|^\s*%?[\w.-]+ *= ")
"""Matches any HLO text and no path."""
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Bytes that occur near the start of every proto (the tags of its fields) and in no text."""
_HEAD = 4096
"""Bytes of a file to look at to recognise its format, which shows at the start, after comments at most."""
MLIR_BYTECODE = b"ML\xefR"
"""The first bytes of MLIR bytecode."""
MLIR = "MLIR"
"""The name of StableHLO's language in errors."""
_FOREIGN = (
    (
        re.compile(
            r"\s*(?:(?://|#)[^\n]*\n\s*)*(?:\"?builtin\.)?\"?(?:module\b(?=\"?\s*(?:[@({]|attributes\b))|func\.func\b)"
        ),
        MLIR,
        "hloom.load reads StableHLO; for a program of jax's, load jax.jit(f).lower(...) itself",
    ),
    (
        re.compile(r"\s*(?:hlo_module|hlo|name|computations)\s*(?:\{|: *\")"),
        "a proto in text form",
        "XLA writes binary protos with --xla_dump_hlo_as_proto",
    ),
    (re.compile(r"\s*digraph\b"), "a drawing for Graphviz", "XLA writes HLO text with --xla_dump_hlo_as_text"),
    (re.compile(r"\s*<(?:!|html|svg|\?xml)", re.IGNORECASE), "a page or a picture", None),
)
"""Other languages people may try to load, checked when a text cannot be read as HLO."""


class ForeignText(ParseError):
    """A text in another language than HLO; `language` is its name."""

    def __init__(self, language: str, text: str, location: Location, hint: str | None) -> None:
        super().__init__(f"this is {language}, not HLO text", location, hint)
        self.language = language
        self.text = text
        self.name = location.source


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A non-HLO format: whether data starts like it, and how named data is read."""

    accepts: Callable[[bytes], bool]
    read: Callable[[bytes, str], Module]


def load(
    source: object,
    *,
    strict: bool = False,
    module: str | None = None,
    stage: str | None = None,
    limits: Limits = LIMITS,
    formats: Sequence[FileFormat] = (),
) -> Module:
    """Read a module from a path, text, bytes, a dump directory or a jax program.

    `source` is one of:

    - a path, as a str or a Path: HLO text or a proto, plain or compressed with gzip or zstd, whatever its suffix;
    - `"-"`: standard input, with the same formats;
    - HLO text, as a str; bytes of text or of a proto, compressed or not;
    - a directory that XLA dumped into (`--xla_dump_to`); if it holds several modules, `module` selects one, and `stage`
      the stage: `"before_optimizations"` (the default), `"after_optimizations"`, or a pass's number;
    - `DIR/jit_f`, if that is not a file: a module of such a directory;
    - a jax program: `jax.jit(f).lower(...)`, its `.compile()`, `jax.jit(f).trace(...)`.

    A str of one line that names an existing file is a path, whatever else it looks like; otherwise a str with a line
    break, a brace, ` = ` or one of HLO's first words is text. A Path is always a path.

    Text and bytes that one of `formats` recognises are read by that format.

    `strict` applies XLA's own rules to text, see `parse`. Raises HloomError, with the place, for anything that cannot
    be read.

    >>> load("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }").entry.root.opcode
    'negate'
    """
    if isinstance(source, Module):
        return source
    if isinstance(source, os.PathLike):
        return _from_path(os.fspath(source), strict, module, stage, limits, formats)
    if isinstance(source, str) and _is_path(source):
        return _from_path(source, strict, module, stage, limits, formats)
    if module is not None or stage is not None:
        raise HloomError("module= and stage= (--module, --stage) choose from a directory, and this is not one")
    if isinstance(source, str):
        if file_format := _format_of(source[:_HEAD].encode("utf-8", "surrogateescape"), formats):
            return file_format.read(source.encode("utf-8", "surrogateescape"), "<text>")
        return _from_text(source, "<text>", strict)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _from_bytes(bytes(source), "<bytes>", strict, limits, formats)
    if is_lowering(source):
        return _from_proto(proto_of(source), f"<{type(source).__name__}>")
    hint = "give a Module, a path, HLO text, bytes, or a program that jax lowered, compiled or exported"
    if callable(source):
        hint = "for a function, load jax.jit(f).lower(...)"
    raise HloomError(f"cannot load a module from {type(source).__name__}", hint=hint)


def save(module: ModuleLike, path: str | os.PathLike[str], options: PrintOptions | None = None) -> Path:
    """Write a module in the format of the suffix: `.hlo` or `.txt` text, `.pb` a proto; `.gz` or `.zst` after it
    compresses.

    The file is written atomically. Returns the path. Raises Unsupported for other suffixes, HloomError if HLO cannot
    express the module or the file cannot be written.
    """
    module = as_module(module)
    target = Path(path)
    packing = target.suffix.lower() if target.suffix.lower() in COMPRESSED else ""
    suffix = Path(target.stem).suffix.lower() if packing else target.suffix.lower()
    writer = WRITERS.get(suffix)
    if writer is None:
        raise Unsupported(
            f"cannot save into '{target.name}': the suffix does not name a format",
            hint=f"the suffixes are {', '.join(WRITERS)}, each also followed by {' or '.join(COMPRESSED)}",
        )
    data = writer(module, options or PrintOptions())
    return write_whole(target, compress(data, packing) if packing else data)


def _text_bytes(module: Module, options: PrintOptions) -> bytes:
    return print_module(module, options).encode("utf-8", "surrogateescape")


def _proto_bytes(module: Module, options: PrintOptions) -> bytes:
    """The smallest message that can hold everything the module carries."""
    del options
    if "arguments" in module.attachments or "result" in module.attachments:
        return proto.write_proto(module, "hlo_snapshot")
    return proto.write_proto(module, "hlo" if "buffer_assignment" in module.attachments else "hlo_module")


WRITERS: dict[str, Callable[[Module, PrintOptions], bytes]] = {
    ".hlo": _text_bytes,
    ".txt": _text_bytes,
    ".pb": _proto_bytes,
}
"""The function that produces a file's bytes, by suffix."""


def _is_path(text: str) -> bool:
    if text == STDIN:
        return True
    if "\n" in text or not text.strip():
        return False
    try:
        exists = os.path.exists(text)
    except ValueError:
        exists = False
    return exists or not _TEXT_LIKE.search(text)


def _from_path(
    path: str,
    strict: bool,
    module: str | None,
    stage: str | None,
    limits: Limits,
    formats: Sequence[FileFormat],
) -> Module:
    if path != STDIN and module is None and (named := choose_by_path(path, stage)):
        path = os.fspath(named.path)
    elif path != STDIN and os.path.isdir(path):
        path = os.fspath(choose(path, module, stage).path)
    elif module is not None or stage is not None:
        problem = NotADirectoryError(
            0, "it is not a directory, so module= and stage= (--module, --stage) have nothing to choose from"
        )
        raise unreadable(path, problem)
    return _from_bytes(read_bytes(path), "<stdin>" if path == STDIN else path, strict, limits, formats)


def _format_of(head: bytes, formats: Sequence[FileFormat]) -> FileFormat | None:
    return next((file_format for file_format in formats if file_format.accepts(head)), None)


def _from_bytes(data: bytes, name: str, strict: bool, limits: Limits, formats: Sequence[FileFormat]) -> Module:
    data = decompress(data, name, limits)
    if file_format := _format_of(data[:_HEAD], formats):
        return file_format.read(data, name)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _from_text(data.decode("utf-16", "replace"), name, strict)
    if data.startswith(MLIR_BYTECODE):
        text = data.decode("utf-8", "surrogateescape")
        raise ForeignText(MLIR, text, Source("", name).location(0), _FOREIGN[0][2])
    head = data[:_HEAD]
    if _CONTROL.search(head) and not head.lstrip().startswith(b"HloModule"):
        return _from_proto(data, name)
    return _from_text(data.decode("utf-8", "surrogateescape"), name, strict)


def _from_text(text: str, name: str, strict: bool) -> Module:
    try:
        return parse(text, strict=strict, name=name)
    except ParseError:
        for pattern, what, hint in _FOREIGN:
            if pattern.match(text[:_HEAD]):
                raise ForeignText(what, text, Source(text, name).location(0), hint) from None
        raise


def _from_proto(data: bytes, name: str) -> Module:
    module = proto.read_proto(data, name=name)
    module.source_name = name
    return module
