"""Reads StableHLO as HLO."""

from __future__ import annotations

import os
from typing import Any

from hloom.formats.hlo import decompress, read_bytes, read_proto
from hloom.ir import Module
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.xla_queries import hlo_of_stablehlo
from hloom.text import HloomError


def from_stablehlo(program: Any, name: str | None = None) -> Module:
    """Read a StableHLO module: its text or bytecode, a file of either, a program jax lowers or exports, or jaxlib's
    module.

    `name` is for errors. CHLO and Shardy ops are accepted as well. The conversion runs in the worker, so a program that
    crashes MLIR or XLA is an error here. Raises HloomError if MLIR cannot parse or XLA cannot convert it, and if jax is
    missing.
    """
    if isinstance(program, os.PathLike) or (isinstance(program, str) and os.path.isfile(program)):
        name, program = name or os.fspath(program), decompress(read_bytes(program), os.fspath(program))
    name = name or ("<bytes>" if isinstance(program, (bytes, bytearray, memoryview)) else "<text>")
    module = read_proto(hlo_of_stablehlo(_bytes_of(program), name), name=name)
    module.source_name = name
    return module


def _bytes_of(program: Any) -> bytes:
    if isinstance(program, str):
        return program.encode("utf-8", "surrogateescape")
    if isinstance(program, (bytes, bytearray, memoryview)):
        return bytes(program)
    exported = getattr(program, "mlir_module_serialized", None)
    if isinstance(exported, bytes):
        return exported
    if callable(lowered := getattr(program, "compiler_ir", None)):
        program = lowered("stablehlo")
    if not hasattr(program, "operation"):
        raise HloomError(
            f"expected a StableHLO program, not {type(program).__name__}",
            hint="give its text, its bytecode, a file of either, or what jax lowers or exports",
        )
    return jax_internals().mlir.module_to_bytecode(program)
