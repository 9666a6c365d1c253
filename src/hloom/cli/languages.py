"""The texts that `hloom opt` reads and writes: HLO in all its containers, and MLIR in the dialects of this package."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from hloom.api.opt import dialect_ops
from hloom.cli.input import is_mindir, read_module
from hloom.cli.options import ModuleSource
from hloom.cli.output import write_text
from hloom.formats.hlo import LIMITS, MLIR_BYTECODE, STDIN, decompress, read_bytes, save, to_text
from hloom.ir import Module
from hloom.text import HloomError, Source

_MLIR_NAMES = (".mlir", ".mlir.gz", ".mlir.zst")
_PACKED = (".pb", ".gz", ".zst")
_HEAD = 4096
"""How many bytes of a file say in which language it is: a comment and a module's name come first, and are shorter."""
_MLIR = re.compile(
    rb"\s*(?://[^\n]*\n\s*)*(?:(?:builtin\.)?module\s*(?:@[^\s{]*\s*)?(?:attributes\b|\{)|\"builtin\.module\""
    rb"|(?:func\.func|oneflow\.job)\b)"
)

_STABLEHLO = re.compile(rb"\b(?:(?:stablehlo|chlo|mhlo|sdy)\.|jax\.uses_shape_polymorphism|func\.func public @main\b)")
"""What tells StableHLO, as jax writes it, among MLIR."""


@dataclass(frozen=True, slots=True)
class Language:
    """How modules of a language are printed, in full and for people, and lowered to HLO, which XLA runs."""

    name: str
    to_text: Callable[[Module], str]
    to_short_text: Callable[[Module], str]
    to_hlo: Callable[[Module], Module]


def _mlir_text(module: Module) -> str:
    from hloom.dialects import oneflow

    return oneflow.to_text(module)


def _lowered(module: Module) -> Module:
    from hloom.dialects import oneflow

    return oneflow.lower(module)


HLO = Language("HLO", to_text, lambda module: to_text(module, "short"), lambda module: module)
MLIR = Language("MLIR", _mlir_text, _mlir_text, _lowered)
MINDIR = Language(
    "MindIR",
    lambda module: mindir_text(module) if is_mindir(module) else to_text(module),
    lambda module: mindir_text(module) if is_mindir(module) else to_text(module, "short"),
    lambda module: _lowered_mindir(module) if is_mindir(module) else module,
)
"""MindSpore's graphs; the pass `lower-mindir` makes HLO of them."""


def mindir_text(module: Module) -> str:
    """MindSpore's graphs as its `.ir` text."""
    from hloom.dialects import mindir

    return mindir.to_text(module)


def _lowered_mindir(module: Module) -> Module:
    from hloom.dialects import mindir

    return mindir.lower(module)


def read_any(source: ModuleSource) -> tuple[Module, Language]:
    """The module that a command line names, and its language, which the file's name or its first characters say."""
    if source.file == STDIN:
        with _standard_input() as data:
            return (_read_mlir(source, data), MLIR) if _is_ours(data) else _read_other(source)
    path = Path(source.file)
    if path.is_file() and _is_mlir(path):
        if source.module is not None or source.stage is not None:
            raise HloomError(f"cannot read {path}: --module and --stage need a dump directory")
        return _read_mlir(source, read_bytes(path)), MLIR
    return _read_other(source)


def _read_other(source: ModuleSource) -> tuple[Module, Language]:
    module = read_module(source)
    return module, MINDIR if is_mindir(module) else HLO


def write_any(module: Module, language: Language, output: Path | None) -> None:
    """Write a module to the standard output, or into a file, all or nothing, in the form its suffix names."""
    if language is HLO and output is not None and output.suffix.lower() in _PACKED:
        save(module, output)
        return
    write_text(language.to_text(module), output)


def check_name(output: Path, language: Language) -> None:
    """Raise UsageError where a file's name asks for what a language is not written as."""
    if language is MLIR and output.suffix.lower() in _PACKED:
        raise click.UsageError(f"MLIR is written as plain text; it cannot be written to '{output.name}'")


def _is_mlir(path: Path) -> bool:
    is_named = path.name.lower().endswith(_MLIR_NAMES)
    if is_named and path.suffix.lower() in _PACKED:
        return _is_ours(decompress(read_bytes(path), str(path)), is_named)
    with path.open("rb") as file:
        return _is_ours(file.read(_HEAD), is_named)


def _is_ours(data: bytes, is_named: bool = False) -> bool:
    """Whether a text is MLIR in the dialects of this package; StableHLO, which jax writes, is read as HLO."""
    head = data[:_HEAD]
    if head.startswith(MLIR_BYTECODE):  # XLA alone reads it
        return False
    return (is_named or _MLIR.match(head) is not None) and _STABLEHLO.search(head) is None


def _read_mlir(source: ModuleSource, data: bytes) -> Module:
    name = "<stdin>" if source.file == STDIN else source.file
    text = decompress(data, name, LIMITS).decode("utf-8", "surrogateescape")
    from hloom.formats import mlir

    return mlir.parse(Source(text, name), dialect_ops())


@contextmanager
def _standard_input() -> Iterator[bytes]:
    """All of the standard input, which may be read once more in the block."""
    kept, data = sys.stdin, read_bytes(STDIN)
    sys.stdin = io.TextIOWrapper(io.BytesIO(data))
    try:
        yield data
    finally:
        sys.stdin = kept
