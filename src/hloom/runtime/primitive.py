"""A jax primitive that holds a function and the transformation of its program before XLA sees it.

    rewritten[jaxpr, rewrite](*inputs)

It computes what the jaxpr computes. Each jax transformation returns the primitive again, around the transformed jaxpr,
so derivatives are rewritten like the function itself. `lowering.py` has its lowering rule.

If the rewritten function calls one with its own derivative, that derivative is used: then the rewritten program is
differentiated (`differentiation.py`), with the other rules of the jaxpr (`derivative_rules.py`).

To follow another jax version, compare the rules with those of `compute_on_p` in jax/_src/compute_on.py, which are
like these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from hloom.runtime.differentiation import Derivatives
from hloom.runtime.jax_internals import (
    discharged,
    effects_of_call,
    jax_internals,
    linearized,
    positional_effects,
    register_discharge,
    register_elimination,
    register_linearization,
    trace,
    traced,
)
from hloom.runtime.lowering import lower
from hloom.runtime.rewritten_derivatives import Differentiated, rewritten_first
from hloom.runtime.transformation import Transformation


@dataclass(frozen=True, slots=True, eq=False)
class Rewrite:
    """A change and the name of the function that it is for; two are equal only where they are one."""

    transformation: Transformation
    name: str
    derivatives: Derivatives | None = None
    """How modules are differentiated; None if nothing in them has its own derivative."""
    trial: Transformation | None = None
    """The change used to find out what it would do; None if it is the same one."""
    refusal: str | None = None
    """For a part of a derivative: why its function could not be rewritten before differentiation."""

    def __repr__(self) -> str:
        return self.name


@lru_cache(1)
def primitive() -> Any:
    """The primitive with all its rules, made once."""
    internals = jax_internals()
    made = internals.core.Primitive("rewritten")
    made.multiple_results = True
    internals.dispatch.simple_impl(made)
    made.def_effectful_abstract_eval(_types)
    internals.mlir.register_lowering(made, lower)
    internals.batching.fancy_primitive_batchers[made] = _batch
    internals.ad.primitive_jvps[made] = _forward
    register_linearization(made, _linearize)
    internals.ad.primitive_transposes[made] = _transpose
    pe = internals.partial_eval
    pe.custom_partial_eval_rules[made] = _partial_eval
    pe.partial_eval_jaxpr_custom_rules[made] = partial(pe.closed_call_partial_eval_custom_rule, "jaxpr", _keep_rewrite)
    register_elimination(made, _eliminate)
    register_discharge(made, _discharge)
    return made


def call(function: Callable[..., Any], inputs: Sequence[Any], rewrite: Rewrite, debug: Any) -> Any:
    """Trace a function of a flat list of arrays and apply the primitive; the function's results, flat."""
    closed, inputs = trace(function, inputs, debug)
    return _bind(inputs, closed, rewrite)


def _bind(inputs: Iterable[Any], jaxpr: Any, rewrite: Rewrite | None) -> Any:
    """The primitive, or, where nothing is to be rewritten any more, the jaxpr itself."""
    if rewrite is None:
        return jax_internals().core.jaxpr_as_fun(jaxpr)(*inputs)
    return primitive().bind(*inputs, jaxpr=jaxpr, rewrite=rewrite)


def _types(*inputs: Any, jaxpr: Any, rewrite: Rewrite) -> Any:
    del inputs, rewrite
    return jaxpr.out_avals, positional_effects(jaxpr)


def _batch(axis: Any, inputs: Any, dims: Any, *, jaxpr: Any, rewrite: Rewrite) -> Any:
    batched, result_dims = jax_internals().batching.batch_jaxpr2(jaxpr, axis, dims)
    return _bind(inputs, batched, rewrite), result_dims


def _differentiated(jaxpr: Any, rewrite: Rewrite | None) -> tuple[Any, Rewrite | None]:
    """What to differentiate: the jaxpr, or that of its rewritten program, which is not rewritten again."""
    if rewrite is None or rewrite.derivatives is None:
        return jaxpr, rewrite
    differentiated = _remembered()(jaxpr, rewrite)
    if differentiated.is_rewritten:
        return differentiated.jaxpr, None
    return jaxpr, rewrite if differentiated.refusal is None else replace(rewrite, refusal=differentiated.refusal)


@lru_cache(1)
def _remembered() -> Callable[..., Any]:
    """`_rewritten_first`, remembered for as long as the jaxpr lives."""
    return jax_internals().util.weakref_lru_cache(_rewritten_first)


def _rewritten_first(jaxpr: Any, rewrite: Rewrite) -> Differentiated:
    assert rewrite.derivatives is not None, "it was looked at"
    return rewritten_first(jaxpr, rewrite.trial or rewrite.transformation, rewrite.derivatives, rewrite.name)


def _forward(primals: Any, tangents: Any, *, jaxpr: Any, rewrite: Rewrite | None) -> Any:
    ad = jax_internals().ad
    jaxpr, rewrite = _differentiated(jaxpr, rewrite)
    moves = [not isinstance(tangent, ad.Zero) for tangent in tangents]
    both, results_move = ad.jvp_jaxpr(jaxpr, moves, False)
    outputs = _bind([*primals, *_kept(tangents, moves)], both, rewrite)
    count = len(results_move)
    return outputs[:count], _with_zeros(outputs[count:], results_move, jaxpr)


def _linearize(is_reverse: Any, moves: Any, *primals: Any, jaxpr: Any, rewrite: Rewrite | None) -> Any:
    """The function with residuals, and the linear function of residuals and tangents: each rewritten by itself."""
    jaxpr, rewrite = _differentiated(jaxpr, rewrite)
    first, count, results_move, forwarded, linear, last = linearized(jaxpr, moves, is_reverse)

    def apply_linear(residuals: Any, *tangents: Any) -> Any:
        before, behind = residuals[: len(residuals) - last], residuals[len(residuals) - last :]
        return _with_zeros(_bind([*before, *_kept(tangents, moves), *behind], linear, rewrite), results_move, jaxpr)

    outputs = _bind(primals, first, rewrite)
    results = outputs[: len(outputs) - count]
    residuals = _filled(forwarded, [*jaxpr.consts, *primals], outputs[len(outputs) - count :])
    return results, results_move, residuals, apply_linear


def _transpose(cotangents: Any, *inputs: Any, jaxpr: Any, rewrite: Rewrite) -> Any:
    jax = jax_internals().jax
    flat, tree = jax.tree.flatten((inputs, cotangents))
    transposed, result_tree = _transposing()(jaxpr, tree, tuple(map(jax.typeof, flat)))
    return jax.tree.unflatten(result_tree, _bind(flat, transposed, rewrite))


@lru_cache(1)
def _transposing() -> Callable[..., Any]:
    """`_transposed`, remembered for as long as the jaxpr lives."""
    return jax_internals().util.weakref_lru_cache(_transposed)


def _transposed(jaxpr: Any, tree: Any, avals: tuple[Any, ...]) -> tuple[Any, Any]:
    """The jaxpr that yields the cotangents of a linear one's undefined inputs, and the tree of what it yields."""
    internals = jax_internals()
    ad, trees = internals.ad, []

    def backward(*flat: Any) -> Any:
        inputs, cotangents = internals.jax.tree.unflatten(tree, flat)
        results = ad.backward_pass(jaxpr.jaxpr, False, jaxpr.consts, inputs, cotangents)
        leaves, structure = internals.jax.tree.flatten(
            [None if isinstance(result, ad.Zero) else result for result in results]
        )
        trees.append(structure)
        return leaves

    made = traced(backward, avals, jaxpr.jaxpr.debug_info.with_unknown_names())
    return made, trees[-1]


def _partial_eval(trace: Any, *tracers: Any, jaxpr: Any, rewrite: Rewrite) -> Any:
    """Evaluate what depends on known inputs only, and leave the rest as an equation."""
    internals = jax_internals()
    pe = internals.partial_eval
    unknown = tuple(not tracer.pval.is_known() for tracer in tracers)
    known_part, unknown_part, unknown_results, residual_types, forwarded = pe.partial_eval_jaxpr_nounits_fwd(
        jaxpr, unknown, instantiate=False
    )
    known_inputs = [tracer.pval.get_known() for tracer in tracers if tracer.pval.is_known()]
    outputs = _bind(known_inputs, known_part, rewrite)
    count = len(outputs) - len(residual_types)
    residuals = _filled(forwarded, [*jaxpr.consts, *known_inputs], outputs[count:])
    later_inputs = [*map(trace.new_instantiated_const, residuals), *_kept(tracers, unknown)]
    later = [pe.JaxprTracer(trace, pe.PartialVal.unknown(aval), None) for aval in unknown_part.out_avals]
    equation = pe.new_eqn_recipe(
        trace,
        later_inputs,
        later,
        primitive(),
        {"jaxpr": unknown_part, "rewrite": rewrite},
        positional_effects(unknown_part),
        internals.source_info.current(),
    )
    for tracer in later:
        tracer.recipe = equation
    if internals.effects.partial_eval_kept_effects.filter_in(unknown_part.effects):
        trace.effect_handles.append(pe.EffectHandle(later_inputs, equation))
    known, unknown_iterator = iter(outputs[:count]), iter(later)
    return [next(unknown_iterator if is_unknown else known) for is_unknown in unknown_results]


def _keep_rewrite(*arguments: Any) -> tuple[Any, Any]:
    """The parameters of both parts of a checkpointed call: the jaxprs are put there already."""
    return arguments[-2], arguments[-1]


def _discharge(avals: Sequence[Any], *inputs: Any, jaxpr: Any, rewrite: Rewrite) -> tuple[list[Any], Any]:
    """Turn references into values: the new values of those that are inputs, and the results."""
    references = jax_internals().references
    outputs = _bind(inputs, discharged(jaxpr), rewrite)
    count = len(jaxpr.out_avals)
    values = iter(outputs[count:])
    return [next(values) if isinstance(aval, references.AbstractRef) else None for aval in avals], outputs[:count]


def _eliminate(used: list[bool], equation: Any) -> tuple[list[bool], Any]:
    """Drop results that nothing uses, and the inputs that only they need."""
    pe = jax_internals().partial_eval
    if not any(used) and not pe.has_effects(equation):
        return [False] * len(equation.invars), None
    jaxpr, used_inputs = pe._cached_closed_call_dce(equation.params["jaxpr"], tuple(used))
    inputs = list(_kept(equation.invars, used_inputs))
    kept = jax_internals().core.new_jaxpr_eqn(
        inputs,
        list(_kept(equation.outvars, used)),
        equation.primitive,
        dict(equation.params, jaxpr=jaxpr),
        effects_of_call(jaxpr, inputs),
        equation.source_info,
        equation.ctx,
    )
    return used_inputs, kept


def _kept(values: Iterable[Any], keep: Iterable[bool]) -> Iterator[Any]:
    return (value for value, is_kept in zip(values, keep, strict=True) if is_kept)


def _with_zeros(tangents: Sequence[Any], move: Sequence[bool], jaxpr: Any) -> list[Any]:
    """A tangent for every result: symbolic zeros for those that do not move."""
    remaining = iter(tangents)
    zero = jax_internals().ad.Zero
    return [
        next(remaining) if moves else zero(aval.to_tangent_aval())
        for moves, aval in zip(move, jaxpr.out_avals, strict=True)
    ]


def _filled(forwarded: Sequence[int | None], inputs: Sequence[Any], computed: Sequence[Any]) -> list[Any]:
    """The residuals: those that are inputs, by number, and those that were computed."""
    remaining = iter(computed)
    return [next(remaining) if number is None else inputs[number] for number in forwarded]
