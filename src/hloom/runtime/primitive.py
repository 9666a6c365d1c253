"""A primitive of jax's that holds a function and how it is to be rewritten before XLA sees it.

    rewritten[jaxpr, rewrite](*inputs)

It computes what the jaxpr computes. Each transformation of jax's gives the primitive again, around the transformed
jaxpr: what belongs to a derivative is rewritten like the function itself. `embed.py` says how it is lowered.

To follow another jax version, compare the rules with those of `compute_on_p` in jax/_src/compute_on.py, which are
like these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from hloom.runtime.change import Change
from hloom.runtime.embed import lower
from hloom.runtime.jax_names import names


@dataclass(frozen=True, slots=True, eq=False)
class Rewrite:
    """A change and the name of the function that it is for; two are equal only where they are one."""

    change: Change
    name: str

    def __repr__(self) -> str:
        return self.name


@lru_cache(1)
def primitive() -> Any:
    """The primitive with all its rules, made once."""
    found = names()
    made = found.core.Primitive("rewritten")
    made.multiple_results = True
    found.dispatch.simple_impl(made)
    made.def_effectful_abstract_eval(_types)
    found.mlir.register_lowering(made, lower)
    found.batching.fancy_primitive_batchers[made] = _batch
    found.ad.primitive_jvps[made] = _forward
    found.ad.primitive_linearizations[made] = _linearize
    found.ad.primitive_transposes[made] = _transpose
    pe = found.partial_eval
    pe.custom_partial_eval_rules[made] = _partial_eval
    pe.partial_eval_jaxpr_custom_rules[made] = partial(pe.closed_call_partial_eval_custom_rule, "jaxpr", _keep_rewrite)
    pe.dce_rules[made] = _eliminate
    found.references.register_discharge_rule(made)(_discharge)
    return made


def call(function: Callable[..., Any], inputs: Sequence[Any], rewrite: Rewrite, debug: Any) -> Any:
    """Trace a function of a flat list of arrays and apply the primitive; the function's results, flat."""
    found = names()
    wrapped = found.linear_util.wrap_init(function, debug_info=debug)
    jaxpr, _, constants = found.partial_eval.trace_to_jaxpr_dynamic(wrapped, tuple(map(found.core.typeof, inputs)))
    closed = found.core.ClosedJaxpr(jaxpr, constants)
    if any(isinstance(each, found.core.Tracer) for each in constants):
        closed, captured = found.partial_eval.separate_consts(closed)
        inputs = [*captured, *inputs]
    return _bind(inputs, closed, rewrite)


def _bind(inputs: Iterable[Any], jaxpr: Any, rewrite: Rewrite) -> Any:
    return primitive().bind(*inputs, jaxpr=jaxpr, rewrite=rewrite)


def _types(*inputs: Any, jaxpr: Any, rewrite: Rewrite) -> Any:
    del inputs, rewrite
    return jaxpr.out_avals, names().core.positional_effects(jaxpr)


def _batch(axis: Any, inputs: Any, dims: Any, *, jaxpr: Any, rewrite: Rewrite) -> Any:
    batched, result_dims = names().batching.batch_jaxpr2(jaxpr, axis, dims)
    return _bind(inputs, batched, rewrite), result_dims


def _forward(primals: Any, tangents: Any, *, jaxpr: Any, rewrite: Rewrite) -> Any:
    ad = names().ad
    moves = [not isinstance(each, ad.Zero) for each in tangents]
    both, results_move = ad.jvp_jaxpr(jaxpr, moves, False)
    outputs = _bind([*primals, *_kept(tangents, moves)], both, rewrite)
    count = len(results_move)
    return outputs[:count], _with_zeros(outputs[count:], results_move, jaxpr)


def _linearize(is_reverse: Any, moves: Any, *primals: Any, jaxpr: Any, rewrite: Rewrite) -> Any:
    """The function with residuals, and the linear function of residuals and tangents: each rewritten by itself."""
    first, count, results_move, forwarded, linear = names().ad.linearize_jaxpr(jaxpr, moves, is_vjp=is_reverse)

    def apply_linear(residuals: Any, *tangents: Any) -> Any:
        return _with_zeros(_bind([*residuals, *_kept(tangents, moves)], linear, rewrite), results_move, jaxpr)

    outputs = _bind(primals, first, rewrite)
    results = outputs[: len(outputs) - count]
    residuals = _filled(forwarded, [*jaxpr.consts, *primals], outputs[len(outputs) - count :])
    return results, results_move, residuals, apply_linear


def _transpose(cotangents: Any, *inputs: Any, jaxpr: Any, rewrite: Rewrite) -> Any:
    found = names()
    flat, tree = found.jax.tree.flatten((inputs, cotangents))
    transposed, result_tree = _transposing()(jaxpr, tree, tuple(map(found.core.typeof, flat)))
    return found.jax.tree.unflatten(result_tree, _bind(flat, transposed, rewrite))


@lru_cache(1)
def _transposing() -> Callable[..., Any]:
    """`_transposed`, remembered for as long as the jaxpr lives."""
    return names().util.weakref_lru_cache(_transposed)


def _transposed(jaxpr: Any, tree: Any, kinds: tuple[Any, ...]) -> tuple[Any, Any]:
    """The jaxpr that yields the cotangents of a linear one's undefined inputs, and the tree of what it yields."""
    found = names()
    ad, trees = found.ad, []

    def backward(*flat: Any) -> Any:
        inputs, cotangents = found.jax.tree.unflatten(tree, flat)
        results = ad.backward_pass(jaxpr.jaxpr, False, jaxpr.consts, inputs, cotangents)
        leaves, structure = found.jax.tree.flatten([None if isinstance(each, ad.Zero) else each for each in results])
        trees.append(structure)
        return leaves

    wrapped = found.linear_util.wrap_init(backward, debug_info=jaxpr.jaxpr.debug_info.with_unknown_names())
    made, _, constants = found.partial_eval.trace_to_jaxpr_dynamic(wrapped, kinds)
    return found.core.ClosedJaxpr(made, constants), trees[-1]


def _partial_eval(trace: Any, *tracers: Any, jaxpr: Any, rewrite: Rewrite) -> Any:
    """Compute what follows from the known inputs now, and leave the rest as an equation."""
    found = names()
    pe = found.partial_eval
    unknown = tuple(not tracer.pval.is_known() for tracer in tracers)
    known_part, unknown_part, unknown_results, residual_types, forwarded = pe.partial_eval_jaxpr_nounits_fwd(
        jaxpr, unknown, instantiate=False
    )
    known_inputs = [tracer.pval.get_known() for tracer in tracers if tracer.pval.is_known()]
    outputs = _bind(known_inputs, known_part, rewrite)
    count = len(outputs) - len(residual_types)
    residuals = _filled(forwarded, [*jaxpr.consts, *known_inputs], outputs[count:])
    later_inputs = [*map(trace.new_instantiated_const, residuals), *_kept(tracers, unknown)]
    later = [pe.JaxprTracer(trace, pe.PartialVal.unknown(kind), None) for kind in unknown_part.out_avals]
    equation = pe.new_eqn_recipe(
        trace,
        later_inputs,
        later,
        primitive(),
        {"jaxpr": unknown_part, "rewrite": rewrite},
        found.core.positional_effects(unknown_part),
        found.source_info.current(),
    )
    for tracer in later:
        tracer.recipe = equation
    if found.effects.partial_eval_kept_effects.filter_in(unknown_part.effects):
        trace.effect_handles.append(pe.EffectHandle(later_inputs, equation))
    known, unknown_iterator = iter(outputs[:count]), iter(later)
    return [next(unknown_iterator if is_unknown else known) for is_unknown in unknown_results]


def _keep_rewrite(*arguments: Any) -> tuple[Any, Any]:
    """The parameters of both parts of a checkpointed call: the jaxprs are put there already."""
    return arguments[-2], arguments[-1]


def _discharge(kinds: Sequence[Any], _: Any, *inputs: Any, jaxpr: Any, rewrite: Rewrite) -> tuple[list[Any], Any]:
    """Turn references into values: the new values of those that are inputs, and the results."""
    references = names().references
    outputs = _bind(inputs, references.discharge_state(jaxpr), rewrite)
    count = len(jaxpr.out_avals)
    values = iter(outputs[count:])
    return [next(values) if isinstance(kind, references.AbstractRef) else None for kind in kinds], outputs[:count]


def _eliminate(used: list[bool], equation: Any) -> tuple[list[bool], Any]:
    """Drop results that nothing uses, and the inputs that only they need."""
    pe, core = names().partial_eval, names().core
    if not any(used) and not pe.has_effects(equation):
        return [False] * len(equation.invars), None
    jaxpr, used_inputs = pe._cached_closed_call_dce(equation.params["jaxpr"], tuple(used))
    inputs = list(_kept(equation.invars, used_inputs))
    kept = pe.new_jaxpr_eqn(
        inputs,
        list(_kept(equation.outvars, used)),
        equation.primitive,
        dict(equation.params, jaxpr=jaxpr),
        core.eqn_effects(jaxpr, inputs),
        equation.source_info,
        equation.ctx,
    )
    return used_inputs, kept


def _kept(values: Iterable[Any], keep: Iterable[bool]) -> Iterator[Any]:
    return (value for value, is_kept in zip(values, keep, strict=True) if is_kept)


def _with_zeros(tangents: Sequence[Any], move: Sequence[bool], jaxpr: Any) -> list[Any]:
    """A tangent for every result: symbolic zeros for those that do not move."""
    remaining = iter(tangents)
    zero = names().ad.Zero
    return [
        next(remaining) if moves else zero(kind.to_tangent_aval())
        for moves, kind in zip(move, jaxpr.out_avals, strict=True)
    ]


def _filled(forwarded: Sequence[int | None], inputs: Sequence[Any], computed: Sequence[Any]) -> list[Any]:
    """The residuals: those that are inputs, by number, and those that were computed."""
    remaining = iter(computed)
    return [next(remaining) if number is None else inputs[number] for number in forwarded]
