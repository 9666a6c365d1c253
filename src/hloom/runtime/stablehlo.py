"""StableHLO read as HLO."""

from __future__ import annotations

from typing import Any

from hloom.hlo import read_proto
from hloom.ir import Module
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.xla_queries import hlo_of_stablehlo
from hloom.text import HloomError


def from_stablehlo(program: Any, name: str = "<text>") -> Module:
    """Read a module of StableHLO: its text, its bytecode, jaxlib's own module or a `jax.export.Exported`.

    `name` is for errors. CHLO and Shardy among it are read, too. The conversion is in the worker, so that a program
    of which MLIR or XLA dies is an error here. Raises HloomError for what MLIR does not parse or XLA does not
    convert, and where jax is missing.
    """
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
    if not hasattr(program, "operation"):
        raise HloomError(
            f"a {type(program).__name__} is no program of StableHLO",
            hint="give its text, its bytecode, jaxlib's module or a jax.export.Exported",
        )
    return jax_internals().mlir.module_to_bytecode(program)
