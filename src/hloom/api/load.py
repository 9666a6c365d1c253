"""Loads modules: everything `hloom.formats.hlo.load` reads, plus files of dialects, recognised by their first bytes.

To let `hloom.load` read another format, add it to `FORMATS`; its reader is imported on first use.
"""

from __future__ import annotations

import re
from importlib import import_module

from hloom.formats import hlo
from hloom.formats.hlo import LIMITS, MLIR, FileFormat, ForeignText, Limits
from hloom.ir import Module
from hloom.text import Source


def load(
    source: object,
    *,
    strict: bool = False,
    module: str | None = None,
    stage: str | None = None,
    limits: Limits = LIMITS,
) -> Module:
    """Read a module from a path, text, bytes, a dump directory or a jax program.

    `source` and the options are those of `hloom.formats.hlo.load`: a path, text or bytes of HLO or of an HLO proto,
    compressed or not, `"-"` for standard input, a directory that XLA dumped into, or a program that jax lowered,
    compiled or exported. StableHLO (text, bytecode, jaxlib's modules), MindSpore's `.ir` texts and `.mindir` files are
    read as well. Raises HloomError, with the place, for anything that cannot be read.

    >>> load("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }").entry.root.opcode
    'negate'
    """
    if callable(stablehlo := getattr(source, "mlir_module", None)):  # programs of jax.export hold StableHLO, not HLO
        return _from_stablehlo(stablehlo(), f"<{type(source).__name__}>")
    if hasattr(source, "operation") and hasattr(source, "body"):
        return _from_stablehlo(source, "<MLIR module>")
    try:
        return hlo.load(source, strict=strict, module=module, stage=stage, limits=limits, formats=FORMATS)
    except ForeignText as foreign:
        if foreign.language != MLIR:
            raise
        text, name = foreign.text, foreign.name
    return _from_stablehlo(text, name)


def _from_stablehlo(program: object, name: str) -> Module:
    return import_module("hloom.runtime").from_stablehlo(program, name)  # only then: it takes jax


_IR = re.compile(rb"\s*+# ?IR entry ?: ?@|\s*+(?:#[^\n]*+\n\s*+)*+subgraph (?:attr:|instance:|@)")


def _is_mindir_text(head: bytes) -> bool:
    return _IR.match(head) is not None


def _mindir_text(data: bytes, name: str) -> Module:
    return import_module("hloom.dialects.mindir").parse(Source(data.decode("utf-8", "surrogateescape"), name))


_MODEL = re.compile(rb"\n[\x01-\x20][0-9.]+\x12\x09MindSpore")


def _is_mindir_model(head: bytes) -> bool:
    return _MODEL.match(head) is not None


def _mindir_model(data: bytes, name: str) -> Module:
    return import_module("hloom.dialects.mindir").read_model(data, name)


FORMATS = (FileFormat(_is_mindir_text, _mindir_text), FileFormat(_is_mindir_model, _mindir_model))
"""The formats that are not HLO's."""
