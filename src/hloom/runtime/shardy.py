"""Makes StableHLO with Shardy's own operations and attributes, in the worker, from a module annotated for Shardy.

HLO carries them in frontend attributes and custom calls; jax and Shardy's tools use `sdy.mesh`, `sdy.sharding` and
`sdy.sharding_constraint`. XLA's own direction of this is xla/service/spmd/shardy/sdy_round_trip.
"""

from __future__ import annotations

from typing import Any

from hloom.runtime import xla
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.lowered_shardings import drop_result_shardings

_IMPORT = "builtin.module(xla-sdy-round-trip-import-shardy-attrs)"
_INLINE = "builtin.module(sdy-inline-meshes)"
_FRONTEND, _SHARDING = "mhlo.frontend_attributes", "xla.sdy.sharding"
_PER_VALUE = "#sdy.sharding_per_value<["


def shardy_text(proto: bytes) -> str:
    """StableHLO of a HloModuleProto with Shardy's own shardings; errors are MLIR's own."""
    program = _with_constraints(proto)
    _run_pass(program, _IMPORT)
    return str(program)


def embeddable_text(proto: bytes) -> str:
    """StableHLO of a HloModuleProto whose constraints include their meshes, so that it can be embedded in another
    module.

    The shardings of the entry's parameters and results are left to that module; errors are MLIR's own.
    """
    program = _with_constraints(proto)
    _run_pass(program, _IMPORT)
    _run_pass(program, _INLINE)
    drop_result_shardings(program)
    return str(program)


def _with_constraints(proto: bytes) -> Any:
    """StableHLO of a proto with Shardy's constraints in it, in a context of its own."""
    internals = jax_internals()
    context = internals.mlir.make_ir_context()
    program = internals.ir.Module.parse(xla.stablehlo_of_proto(proto), context=context)
    for function in program.body.operations:
        for operation in _constraints(function):
            _write_constraint(operation, internals.ir)
    return program


def _run_pass(program: Any, pipeline: str) -> None:
    jax_internals().passes.PassManager.parse(pipeline, context=program.context).run(program.operation)


def _constraints(function: Any) -> list[Any]:
    """The custom calls of a function that constrain an operand's sharding, in loops and branches too."""
    result: list[Any] = []
    pending = list(function.operation.regions)
    while pending:
        for block in pending.pop().blocks:
            for operation in block.operations:
                pending += operation.operation.regions
                attributes = operation.operation.attributes
                if operation.operation.name == "stablehlo.custom_call" and _FRONTEND in attributes:
                    is_constraint = attributes["call_target_name"].value == "Sharding"
                    result += [operation] if is_constraint and _SHARDING in attributes[_FRONTEND] else []
    return result


def _write_constraint(operation: Any, ir: Any) -> None:
    text = operation.operation.attributes[_FRONTEND][_SHARDING].value
    body = text.removeprefix(_PER_VALUE).removesuffix("]>")
    context = operation.operation.context
    attributes = {"sharding": ir.Attribute.parse(f"#sdy.sharding{body}", context=context)}
    (operand,), (result,) = operation.operation.operands, operation.operation.results
    made = ir.Operation.create(
        "sdy.sharding_constraint",
        results=[result.type],
        operands=[operand],
        attributes=attributes,
        ip=ir.InsertionPoint(operation),
        loc=operation.operation.location,
    )
    result.replace_all_uses_with(made.results[0])
    operation.operation.erase()
