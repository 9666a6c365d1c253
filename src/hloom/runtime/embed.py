"""Lowering the primitive: its function as a module of its own, changed, then put into the module around it.

    jaxpr -> StableHLO -> HLO -> Module -> change -> HLO -> StableHLO -> a private function, called

What must not be lost between a function and the module around it, `boundary.py` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.hlo import read_proto, write_proto
from hloom.ir import Module
from hloom.runtime import xla
from hloom.runtime.boundary import drop_result_shardings, lift_meshes, move_meshes, settle_shardings
from hloom.runtime.change import RewriteError, apply_change
from hloom.runtime.jax_names import names
from hloom.text import Unsupported

_COUNTS = ("mhlo.num_partitions", "mhlo.num_replicas")


def lower(context: Any, *arguments: Any, jaxpr: Any, rewrite: Any) -> Sequence[Any]:
    """The primitive's lowering rule: the values of the call to the rewritten function."""
    found = names()
    outer = context.module_context
    _check(outer, rewrite)
    tokens = context.tokens_in
    effects = list(tokens.effects())
    constants = found.core.jaxpr_const_args(jaxpr.jaxpr)
    inner = _lowered(outer, jaxpr, effects, constants, context.avals_in, rewrite)
    name = _embed(outer, _changed(outer, inner.module, rewrite), rewrite.name)
    values = [
        found.mlir.ir_constants(each, const_lowering=context.const_lowering, aval=kind) for each, kind in constants
    ]
    inputs = [*(tokens.get(effect) for effect in effects), *values, *arguments]
    flat_inputs, _ = found.mlir.ir_tree_registry.flatten(inputs)
    types = [found.mlir.token_type()] * len(effects)
    types += [found.mlir.aval_to_ir_types(outer, kind) for kind in context.avals_out]
    flat_types, tree = found.mlir.ir_tree_registry.flatten(types)
    results = found.func.CallOp(flat_types, found.ir.FlatSymbolRefAttr.get(name), flat_inputs).results
    outputs = tree.unflatten(results)
    if effects:
        later = dict(zip(effects, outputs[: len(effects)], strict=True))
        context.set_tokens_out(tokens.update_tokens(found.mlir.TokenSet(later)))
    return outputs[len(effects) :]


def _check(outer: Any, rewrite: Any) -> None:
    if outer.shape_poly_state.dim_vars:
        raise Unsupported(f"{rewrite.name}: HLO has no symbolic dimensions, so it cannot be rewritten for export")
    if len(outer.platforms) > 1:
        raise Unsupported(f"{rewrite.name}: a program for several platforms at once cannot be rewritten")


def _lowered(outer: Any, jaxpr: Any, effects: list[Any], constants: Any, kinds: Any, rewrite: Any) -> Any:
    """The function as the main one of a module in the same MLIR context, sharing channels and callbacks."""
    mlir, ir = names().mlir, names().ir
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
    for each in _COUNTS:
        if each in outer.module.operation.attributes:
            attributes[each] = outer.module.operation.attributes[each]
    argument_names = jaxpr.jaxpr.debug_info.safe_arg_names(len(jaxpr.in_avals))
    mlir.lower_jaxpr_to_fun(
        inner,
        f"jit({rewrite.name})",
        jaxpr,
        effects,
        main_function=True,
        num_const_args=len(constants),
        in_avals=[*(kind for _, kind in constants), *kinds],
        arg_names=[*("" for _ in constants), *argument_names],
    )
    return inner


def _changed(outer: Any, program: Any, rewrite: Any) -> Any:
    """The program after the change, or itself where nothing was changed."""
    module = _hlo_of(program)
    if not apply_change(rewrite.change, module, rewrite.name):
        return program
    settle_shardings(module, rewrite.name)
    try:
        converted = xla.stablehlo_of_proto(write_proto(module, "hlo_module"))
        made = names().ir.Module.parse(converted, context=outer.context)
    except Exception as error:
        raise RewriteError(f"XLA does not take {rewrite.name} after rewriting: {error}") from error
    drop_result_shardings(made)
    return made


def _hlo_of(program: Any) -> Module:
    found = names()
    copy = found.ir.Module.parse(found.mlir.module_to_bytecode(program), context=program.context)
    lift_meshes(copy)
    return read_proto(xla.proto_of_stablehlo(found.mlir.module_to_bytecode(copy)))


def _embed(outer: Any, program: Any, name: str) -> str:
    """Move a program's functions and meshes into the module around; its main function's name there."""
    move_meshes(program, outer)
    return names().mlir.merge_mlir_modules(outer.module, name, program, dst_symtab=outer.symbol_table)
