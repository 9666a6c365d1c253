"""Converts StableHLO to HLO with XLA's own converter, in the worker: MLIR's parser and XLA's converter crash on some
programs.

Source: jax's own way to HLO, jax/_src/interpreters/xla.py and jaxlib's mlir_module_to_xla_computation.
"""

from __future__ import annotations

import re
from typing import Any

from hloom.runtime import xla
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.lowered_shardings import lift_meshes
from hloom.text import HloomError

MOST_LINES = 3
"""The maximum number of lines of an MLIR error to show."""
MAIN = "main"
"""The function that XLA's converter takes for the program."""
_PORTABLE = re.compile(rb"ML\xefR.StableHLO_v", re.DOTALL)
"""Bytecode of `jax.export`: VHLO, which is brought to this version's StableHLO first."""
_RESHARD, _CONSTRAINT = "sdy.reshard", "sdy.sharding_constraint"


def proto_of_stablehlo(program: bytes) -> bytes:
    """The HloModuleProto of StableHLO in MLIR's text or bytecode, also with CHLO and Shardy in it.

    Raises HloomError if MLIR cannot parse or XLA cannot convert it.
    """
    internals = jax_internals()
    context = internals.mlir.make_ir_context()
    try:
        parsed = _parsed(program, context)
    except Exception as error:
        raise HloomError(f"MLIR does not read this: {_first_lines(error)}") from None
    try:
        _name_main(parsed)
        _replace_reshards(parsed)
        lift_meshes(parsed)
        return xla.proto_of_stablehlo(internals.mlir.module_to_bytecode(parsed))
    except HloomError:
        raise
    except Exception as error:
        raise HloomError(f"XLA does not convert this to HLO: {_first_lines(error)}") from None


def _parsed(program: bytes, context: Any) -> Any:
    if not _PORTABLE.match(program):
        return jax_internals().ir.Module.parse(program, context=context)
    upgraded = xla.upgraded_stablehlo(program, context)
    return jax_internals().ir.Module.parse(upgraded, context=context) if isinstance(upgraded, str) else upgraded


def _name_main(program: Any) -> None:
    """Call the only public function `main`, where none is called so: other frontends use the names of their users."""
    operations = [operation.operation for operation in program.body.operations]
    functions = [operation for operation in operations if operation.name == "func.func"]
    names = [function.attributes["sym_name"].value for function in functions]
    if MAIN in names or not names:
        return
    public = [
        (function, name)
        for function, name in zip(functions, names, strict=True)
        if "sym_visibility" not in function.attributes or function.attributes["sym_visibility"].value == "public"
    ]
    if len(public) != 1:
        listed = ", ".join(name for _, name in public) or "none"
        raise HloomError(f"no function is called main, and not one alone is public: {listed}", hint="call it @main")
    (function, name), symbols = public[0], jax_internals().ir.SymbolTable(program.operation)
    symbols.replace_all_symbol_uses(name, MAIN, program.operation)
    symbols.set_symbol_name(function, MAIN)


def _replace_reshards(program: Any) -> None:
    """Write `sdy.reshard` as the constraint that means the same to a partitioner: XLA converts constraints only."""
    for operation in _operations(program, _RESHARD):
        made = jax_internals().ir.Operation.create(
            _CONSTRAINT,
            results=[operation.results[0].type],
            operands=[operation.operands[0]],
            attributes={"sharding": operation.attributes["sharding"]},
            ip=jax_internals().ir.InsertionPoint(operation),
            loc=operation.location,
        )
        operation.results[0].replace_all_uses_with(made.results[0])
        operation.erase()


def _operations(program: Any, name: str) -> list[Any]:
    """All operations of a name, in regions too."""
    result: list[Any] = []
    pending = list(program.operation.regions)
    while pending:
        for block in pending.pop().blocks:
            for operation in block.operations:
                pending += operation.operation.regions
                result += [operation.operation] if operation.operation.name == name else []
    return result


def _first_lines(error: Exception) -> str:
    lines = [line for line in str(error).split("\n") if line.strip()]
    return "\n".join(lines[:MOST_LINES])
