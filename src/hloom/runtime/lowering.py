"""Lowers the primitive: converts its function to a module, changes it, and embeds it in the outer module.

    jaxpr -> StableHLO -> HLO -> Module -> change -> HLO -> StableHLO -> a private function, called

Meshes and shardings that the conversion would lose are moved by `lowered_shardings.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.formats.hlo import read_proto, write_proto
from hloom.ir import Module, Node
from hloom.rewrite import marked_calls
from hloom.runtime import xla
from hloom.runtime.jax_internals import call_function, constant_values, jax_internals, lower_main, with_tokens
from hloom.runtime.library_names import jaxlib_version, numbers
from hloom.runtime.lowered_shardings import drop_result_shardings, insert_sharding_calls, lift_meshes, move_meshes
from hloom.runtime.transformation import RewriteError, apply_transformation
from hloom.sharding import check_reductions
from hloom.text import Unsupported

_NO_TEXTS = (0, 11)
"""The jaxlib from which Shardy does not find the meshes that custom calls name in texts."""
_COUNTS = ("mhlo.num_partitions", "mhlo.num_replicas")


def lower(context: Any, *arguments: Any, jaxpr: Any, rewrite: Any) -> Sequence[Any]:
    """The primitive's lowering rule: the values of the call to the rewritten function."""
    internals = jax_internals()
    outer = context.module_context
    _check(outer, rewrite)
    tokens = context.tokens_in
    effects = list(tokens.effects())
    constants = internals.core.jaxpr_const_args(jaxpr.jaxpr)
    inner = _lowered(outer, jaxpr, effects, constants, context.avals_in, rewrite)
    name = _embed(outer, _changed(outer, inner.module, rewrite), rewrite.name)
    values = constant_values(context, constants)
    outputs = call_function(context, name, [*map(tokens.get, effects), *values, *arguments], len(effects))
    if effects:
        with_tokens(context, dict(zip(effects, outputs[: len(effects)], strict=True)))
    return outputs[len(effects) :]


def call_module(context: Any, module: Module, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
    """Embed a module in the outer one as a private function and call it; the results are a flat tuple."""
    internals, outer = jax_internals(), context.module_context
    if outer.shape_poly_state.dim_vars or len(outer.platforms) > 1:
        raise Unsupported(f"{name}: HLO has no symbolic dimensions and is for one platform, so it cannot be exported")
    try:
        check_reductions(module, jaxlib_version())
        converted = xla.stablehlo_of_proto(write_proto(module, "hlo_module"))
        made = internals.ir.Module.parse(converted, context=outer.context)
    except Exception as error:
        raise RewriteError(f"XLA does not take {name}: {error}") from error
    drop_result_shardings(made)
    symbol = _embed(outer, made, name)
    return call_function(context, symbol, arguments)


def _check(outer: Any, rewrite: Any) -> None:
    if outer.shape_poly_state.dim_vars:
        raise Unsupported(f"{rewrite.name}: HLO has no symbolic dimensions, so it cannot be rewritten for export")
    if len(outer.platforms) > 1:
        raise Unsupported(f"{rewrite.name}: a program for several platforms at once cannot be rewritten")


def _lowered(outer: Any, jaxpr: Any, effects: list[Any], constants: Any, avals: Any, rewrite: Any) -> Any:
    """The function as the main one of a module in the same MLIR context, sharing channels and callbacks."""
    mlir, ir = jax_internals().mlir, jax_internals().ir
    inner = mlir.ModuleContext(
        platforms=outer.platforms,
        backend=outer.backend,
        axis_context=outer.axis_context,
        keepalives=outer.keepalives,
        channel_iterator=outer.channel_iterator,
        host_callbacks=outer.host_callbacks,
        lowering_parameters=outer.lowering_parameters,
        context=outer.context,
        shape_poly_state=outer.shape_poly_state,
        all_default_mem_kind=outer.all_default_mem_kind,
    )
    attributes = inner.module.operation.attributes
    attributes["sym_name"] = ir.StringAttr.get(mlir.sanitize_name(rewrite.name))
    for count in _COUNTS:
        if count in outer.module.operation.attributes:
            attributes[count] = outer.module.operation.attributes[count]
    lower_main(inner, f"jit({rewrite.name})", jaxpr, effects, constants, avals)
    return inner


def _changed(outer: Any, program: Any, rewrite: Any) -> Any:
    """The program after the change, or itself where nothing was changed."""
    module = _hlo_of(program)
    if not apply_transformation(rewrite.transformation, module, rewrite.name):
        return program
    if rewrite.refusal is not None:
        _check_calls(module, rewrite.name, rewrite.refusal)
    insert_sharding_calls(module, rewrite.name)
    _check_constraints(module, rewrite.name)
    try:
        check_reductions(module, jaxlib_version())
        converted = xla.stablehlo_of_proto(write_proto(module, "hlo_module"))
        made = jax_internals().ir.Module.parse(converted, context=outer.context)
    except Exception as error:
        raise RewriteError(f"XLA does not take {rewrite.name} after rewriting: {error}") from error
    drop_result_shardings(made)
    return made


def _check_constraints(module: Module, name: str) -> None:
    """Raise Unsupported where this jaxlib's XLA would die of a constraint: it drops meshes that only texts name."""
    version = jaxlib_version()
    if numbers(version)[:2] >= _NO_TEXTS and any(map(_is_text, module.nodes())):
        raise Unsupported(
            f"{name}: Shardy as of jaxlib {version} dies of the sharding constraints inside a rewritten function",
            hint="constrain outside of it, use GSPMD (jax_use_shardy_partitioner=False), or jaxlib<0.11",
        )


def _is_text(node: Node) -> bool:
    return node.opcode == "custom-call" and "xla.sdy." in str(node.attributes.get("frontend_attributes"))


def _check_calls(module: Module, name: str, refusal: str) -> None:
    """Raise RewriteError where a part of a derivative calls a function whose own derivative it lacks."""
    calls = marked_calls(module)
    if calls:
        raise RewriteError(
            f"{name} calls {next(iter(calls))}, which has a derivative of its own, and cannot be differentiated "
            f"with it: {refusal}",
            hint="differentiate before rewriting: hloom.jit(jax.grad(f), ...)",
        )


def _hlo_of(program: Any) -> Module:
    internals = jax_internals()
    copy = internals.ir.Module.parse(internals.mlir.module_to_bytecode(program), context=program.context)
    lift_meshes(copy)
    return read_proto(xla.proto_of_stablehlo(internals.mlir.module_to_bytecode(copy)))


def _embed(outer: Any, program: Any, name: str) -> str:
    """Move a program's functions and meshes into the outer module; returns the new name of its main function."""
    move_meshes(program, outer)
    return jax_internals().mlir.merge_mlir_modules(outer.module, name, program, dst_symtab=outer.symbol_table)
