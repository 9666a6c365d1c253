"""StableHLO read as HLO, by XLA's own converter."""

from __future__ import annotations

from typing import Any

from hloom.hlo import read_proto
from hloom.ir import Module
from hloom.runtime import xla
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.lowered_shardings import lift_meshes
from hloom.text import HloomError

MOST_LINES = 3
"""How many lines of an error of MLIR's are shown."""


def from_stablehlo(program: Any, name: str = "<text>") -> Module:
    """Read a module of StableHLO: its text, its bytecode, or jaxlib's own module; `name` is for errors.

    CHLO and Shardy among it are read, too. The conversion is in this process, as jax does it. Raises HloomError for
    what MLIR does not parse or XLA does not convert, and where jax is missing.

    Source: jax's own way to HLO, jax/_src/interpreters/xla.py and jaxlib's mlir_module_to_xla_computation.
    """
    internals = jax_internals()
    context = internals.mlir.make_ir_context()
    try:
        text = program if isinstance(program, (str, bytes)) else internals.mlir.module_to_bytecode(program)
        parsed = internals.ir.Module.parse(text, context=context)
    except Exception as error:
        raise HloomError(f"{name}: MLIR does not read this: {_first_lines(error)}") from None
    try:
        lift_meshes(parsed)
        proto = xla.proto_of_stablehlo(internals.mlir.module_to_bytecode(parsed))
    except Exception as error:
        raise HloomError(f"{name}: XLA does not convert this to HLO: {_first_lines(error)}") from None
    module = read_proto(proto, name=name)
    module.source_name = name
    return module


def _first_lines(error: Exception) -> str:
    lines = [line for line in str(error).split("\n") if line.strip()]
    return "\n".join(lines[:MOST_LINES])
