"""The names of jax that `hloom.jit`, `function` and others use: the only file that uses jax's private ones.

    jax_internals().core.ClosedJaxpr                jax.extend.core, or jax._src.core

What versions of jax do differently is here too, in functions: their docstrings say since which version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from hloom.runtime import xla
from hloom.runtime.library_names import OLDEST, LibraryNames, installed, numbers
from hloom.text import Unsupported

_MODULES = {
    "ad": ("jax.interpreters.ad", "jax._src.interpreters.ad"),
    "api_util": ("jax.api_util", "jax._src.api_util"),
    "batching": ("jax.interpreters.batching", "jax._src.interpreters.batching"),
    "cache": ("jax.experimental.compilation_cache.compilation_cache", "jax._src.compilation_cache"),
    "config": ("jax._src.config",),
    "core": ("jax.extend.core", "jax.core", "jax._src.core"),
    "dispatch": ("jax._src.dispatch",),
    "effects": ("jax._src.effects",),
    "func": ("jax.extend.mlir.dialects.func", "jaxlib.mlir.dialects.func"),
    "ir": ("jax.extend.mlir.ir", "jaxlib.mlir.ir"),
    "lax_internal": ("jax._src.lax.lax",),
    "linear_util": ("jax.extend.linear_util", "jax._src.linear_util"),
    "mlir": ("jax.interpreters.mlir", "jax._src.interpreters.mlir"),
    "partial_eval": ("jax.interpreters.partial_eval", "jax._src.interpreters.partial_eval"),
    "passes": ("jax.extend.mlir.passmanager", "jaxlib.mlir.passmanager"),
    "references": ("jax._src.state.discharge",),
    "source_info": ("jax.extend.source_info_util", "jax._src.source_info_util"),
    "util": ("jax._src.util",),
    "xla": ("jax.extend.xla",),
}
"""Where the names are, by what we call their module: the public module first."""
_JIT, _DERIVATIVES = "hloom.jit", "a derivative of what hloom.jit rewrites"
_FEATURES = {
    # name: what needs it, and the first version that has it. Private, and without a public name in any version:
    "linearize_jaxpr": (_DERIVATIVES, OLDEST),
    "primitive_linearizations": (_DERIVATIVES, OLDEST),
    "partial_eval_jaxpr_nounits_fwd": (_DERIVATIVES, OLDEST),
    "EffectHandle": (_DERIVATIVES, OLDEST),
    "partial_eval_kept_effects": (_DERIVATIVES, OLDEST),
    "closed_call_partial_eval_custom_rule": ("jax.checkpoint of what hloom.jit rewrites", OLDEST),
    "batch_jaxpr2": ("jax.vmap of what hloom.jit rewrites", OLDEST),
    "AxisData": ("jax.vmap of what hloom differentiates", OLDEST),
    "_cached_closed_call_dce": (_JIT, OLDEST),
    "has_effects": (_JIT, OLDEST),
    "eqn_effects": (_JIT, OLDEST),
    "positional_effects": (_JIT, "0.10.2"),  # before: the jaxpr's effects
    "jaxpr_const_args": (_JIT, OLDEST),
    "separate_consts": (_JIT, OLDEST),
    "sanitize_name": (_JIT, OLDEST),
    "simple_impl": (_JIT, OLDEST),
    "weakref_lru_cache": (_JIT, OLDEST),
    "discharge_state": ("hloom.jit of a function with references", OLDEST),
    "register_discharge_rule": ("hloom.jit of a function with references", OLDEST),
    "AbstractRef": ("hloom.jit of a function with references", OLDEST),
    "use_shardy_partitioner": ("a derivative of jax.shard_map", OLDEST),
    "_convert_element_type": ("hloom.function", OLDEST),
    "resolve_argnums": ("hloom.auto_shard", OLDEST),
    "ordered_effects": ("hloom.auto_shard", OLDEST),
    # private before jax 0.10:
    "subjaxprs": (_JIT, OLDEST),
    # private before jax 0.11:
    "backward_pass": (_DERIVATIVES, OLDEST),
    "jvp_jaxpr": (_DERIVATIVES, OLDEST),
    "new_eqn_recipe": (_DERIVATIVES, OLDEST),
    "batch_jaxpr_axes": ("jax.vmap of what hloom differentiates", OLDEST),
    # public:
    "register_hlo_module_transformation": ("hloom.inside_jit", "0.10.2"),
    "clear_hlo_module_transformation": ("hloom.inside_jit", "0.10.2"),
    "PipelineStage": ("hloom.inside_jit", "0.10.2"),
    "*": ("what hloom does inside jax", OLDEST),
}


class JaxInternals:
    """jax, imported, and the names of its modules by what `_MODULES` calls them."""

    def __init__(self) -> None:
        self.jax = xla.libraries().jax
        self.version = numbers(installed("jax"))
        # or every op's metadata would name our files
        self.source_info.register_exclusion(str(Path(__file__).parent))

    def __getattr__(self, name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(name)
        self.__dict__[name] = made = LibraryNames(_FEATURES, *_MODULES[name])
        return made

    def enable_x64(self) -> Any:
        """Types of 64 bits, as a context; experimental before 0.8."""
        if self.version >= (0, 8):
            return self.jax.enable_x64(True)
        return import_module("jax.experimental").enable_x64()


@lru_cache(1)
def jax_internals() -> JaxInternals:
    """Import jax once; raises HloomError where it is missing, and where a version lacks a name that is used."""
    return JaxInternals()


def trace(function: Callable[..., Any], inputs: Sequence[Any], debug: Any) -> tuple[Any, Sequence[Any]]:
    """The closed jaxpr of a function of a flat list of arrays, and its inputs; first come values that it captures."""
    internals = jax_internals()
    closed = traced(function, tuple(map(internals.jax.typeof, inputs)), debug)
    if any(isinstance(constant, internals.core.Tracer) for constant in closed.consts):
        closed, captured = internals.partial_eval.separate_consts(closed)
        return closed, [*captured, *inputs]
    return closed, inputs


def traced(function: Callable[..., Any], types: Sequence[Any], debug: Any) -> Any:
    """The closed jaxpr of a function of a flat list of arrays of these types."""
    internals = jax_internals()
    wrapped = internals.linear_util.wrap_init(function, debug_info=debug)
    jaxpr, _, constants = internals.partial_eval.trace_to_jaxpr_dynamic(wrapped, types)
    return internals.core.ClosedJaxpr(jaxpr, constants)


def inner_jaxpr(jaxpr: Any) -> Any:
    """What a closed jaxpr holds beside its constants; None of one that is not closed, which since 0.12 none is."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    return None if inner is jaxpr else inner


def positional_effects(jaxpr: Any) -> Any:
    """The effects of a closed jaxpr, those on inputs by position; before 0.10 all are."""
    internals = jax_internals()
    return internals.core.positional_effects(jaxpr) if internals.version >= (0, 10) else jaxpr.effects


def effects_of_call(jaxpr: Any, inputs: Sequence[Any]) -> Any:
    """The effects of an equation that calls a closed jaxpr; since 0.10 they name the equation's inputs."""
    internals = jax_internals()
    arguments = (jaxpr, inputs) if internals.version >= (0, 10) else (jaxpr,)
    return internals.core.eqn_effects(*arguments)


def discharged(jaxpr: Any) -> Any:
    """A closed jaxpr with values in place of references."""
    references = jax_internals().references
    if jax_internals().version < (0, 10):  # there `discharge_state` takes the parts of a closed jaxpr
        return references.discharge_state2(jaxpr)
    return references.discharge_state(jaxpr)


def register_discharge(primitive: Any, rule: Callable[..., Any]) -> None:
    """Register how a primitive is computed on values in place of references: `rule(types of inputs, *inputs)`.

    Since 0.11 the types are in a context; before, those of the results follow.
    """
    internals = jax_internals()
    is_older = internals.version < (0, 11)

    def registered(given: Any, *inputs: Any, **parameters: Any) -> Any:
        return rule(given, *inputs[1:], **parameters) if is_older else rule(given.in_avals, *inputs, **parameters)

    internals.references.register_discharge_rule(primitive)(registered)


def linearized(jaxpr: Any, moves: Any, is_reverse: bool) -> tuple[Any, int, Any, Any, Any, int]:
    """A closed jaxpr's part that computes results and residuals, and the linear one of residuals and tangents.

    They come as: the first, how many residuals it computes, which results move, for each residual its number among the
    inputs (None if it is computed), the second, and how many residuals that takes after the tangents instead of before
    them: since 0.11, those that keep their structure.
    """
    internals = jax_internals()
    keywords = {"is_vjp": is_reverse} if internals.version >= (0, 9) else {}
    first, results, results_move, forwarded, linear = internals.ad.linearize_jaxpr(jaxpr, moves, **keywords)
    if internals.version < (0, 11):
        return first, results, results_move, forwarded, linear, 0
    _, plain, structured = results.unpack()
    last = len(structured)
    return first, len(plain) + last, results_move, [*forwarded, *[None] * last], linear, last


def register_linearization(primitive: Any, rule: Callable[..., Any]) -> None:
    """Register how a primitive is linearized: `rule(is_reverse, moves, *primals)` as of jax 0.9 and 0.10.

    jax 0.8 does not say whether it is for reverse mode; since 0.11 there are residuals that keep their structure.
    """
    internals = jax_internals()

    def without_mode(moves: Any, *primals: Any, **parameters: Any) -> Any:
        return rule(False, moves, *primals, **parameters)

    def with_structured(is_reverse: bool, moves: Any, *primals: Any, **parameters: Any) -> Any:
        results, results_move, residuals, apply = rule(is_reverse, moves, *primals, **parameters)
        return results, results_move, residuals, None, lambda known, _, *tangents: apply(known, *tangents)

    versions = [((0, 11), with_structured), ((0, 9), rule), ((0,), without_mode)]
    registered = next(made for since, made in versions if internals.version >= since)
    internals.ad.primitive_linearizations[primitive] = registered


def register_elimination(primitive: Any, rule: Callable[..., Any]) -> None:
    """Register how a primitive's results that nothing uses are dropped: `rule(used, equation)`.

    Since 0.12 jax also says which inputs are live; to count all as live is what it does by default elsewhere.
    """
    internals = jax_internals()
    is_short = internals.version < (0, 12)
    registered = rule if is_short else lambda used, _, equation: rule(used, equation)
    internals.partial_eval.dce_rules[primitive] = registered


def lower_main(context: Any, name: str, jaxpr: Any, effects: Any, constants: Any, inputs: Sequence[Any]) -> None:
    """Lower a closed jaxpr as the main function of a module; the types of results are given since 0.11."""
    internals = jax_internals()
    results = {"out_avals": jaxpr.out_avals} if internals.version >= (0, 11) else {}
    argument_names = jaxpr.jaxpr.debug_info.safe_arg_names(len(jaxpr.in_avals))
    internals.mlir.lower_jaxpr_to_fun(
        context,
        name,
        jaxpr,
        effects,
        main_function=True,
        num_const_args=len(constants),
        in_avals=[*(aval for _, aval in constants), *inputs],
        arg_names=[*("" for _ in constants), *argument_names],
        **results,
    )


def constant_values(context: Any, constants: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The MLIR values of a jaxpr's constants, given with their types; several each are tuples since 0.10."""
    mlir = jax_internals().mlir
    lower = mlir.ir_constants if jax_internals().version >= (0, 10) else mlir.ir_constant
    return [lower(constant, const_lowering=context.const_lowering, aval=aval) for constant, aval in constants]


def call_function(context: Any, symbol: str, inputs: Sequence[Any], tokens: int = 0) -> Sequence[Any]:
    """Call a function of the module that is lowered, whose results are tokens and then those of the equation.

    Values may be several of MLIR's each. The functions for that are registered types since 0.10.
    """
    internals, outer = jax_internals(), context.module_context
    mlir, is_flat = internals.mlir, internals.version < (0, 10)
    types = [mlir.token_type()] * tokens
    avals = context.avals_out
    types += map(mlir.aval_to_ir_type, avals) if is_flat else [mlir.aval_to_ir_types(outer, aval) for aval in avals]
    target = internals.ir.FlatSymbolRefAttr.get(symbol)
    if is_flat:
        results = internals.func.CallOp(mlir.flatten_ir_types(types), target, mlir.flatten_ir_values(inputs)).results
        return mlir.unflatten_ir_values_like_types(results, types)
    flat_types, tree = mlir.ir_tree_registry.flatten(types)
    flat_inputs, _ = mlir.ir_tree_registry.flatten(list(inputs))
    return tree.unflatten(internals.func.CallOp(flat_types, target, flat_inputs).results)


def with_tokens(context: Any, tokens: dict[Any, Any]) -> None:
    """Note the tokens that an equation leaves behind, by effect."""
    context.set_tokens_out(context.tokens_in.update_tokens(jax_internals().mlir.TokenSet(tokens)))


def refuse_callbacks(jaxpr: Any) -> None:
    """Raise Unsupported where a closed jaxpr calls Python functions: a module has their addresses, and keeps none."""
    core = jax_internals().core
    pending = [jaxpr.jaxpr]
    while pending:
        part = pending.pop()
        for equation in part.eqns:
            if equation.primitive.name.endswith("callback"):
                raise Unsupported(f"it calls back into Python ({equation.primitive.name}), which no module keeps")
        pending += core.subjaxprs(part)


def kept_arguments(lowered: Any) -> frozenset[int] | None:
    """The numbers of the flat arguments that a lowered program has; None where it has all of them."""
    options = getattr(getattr(lowered, "_lowering", None), "compile_args", None) or {}
    kept = options.get("kept_var_idx")
    return frozenset(kept) if kept is not None else None


def implementation_of_key(key_type: Any) -> Any:
    """What makes the random numbers of keys of a type."""
    return key_type._impl
