"""Derivatives of rewritten functions, if rules inserted calls of functions with their own derivatives.

    rewritten[jaxpr, rewrite]   ->   program_call[the rewritten module], whose derivative is hloom's

For other functions jax differentiates the jaxpr, and the parts are rewritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hloom.ir import Module, Node, TensorType
from hloom.rewrite import marked_calls
from hloom.runtime.derivative_rules import arrays_or_keys, is_key, lowered_with_rules, plain_arrays, rules_of
from hloom.runtime.differentiation import Derivatives, Program, mesh_by_hand, on_mesh, program_call
from hloom.runtime.jax_internals import implementation_of_key, jax_internals, refuse_callbacks, traced
from hloom.runtime.replay import replayed
from hloom.runtime.transformation import RewriteError, Transformation, apply_transformation
from hloom.text import HloomError, Unsupported

MOST_TRIED = 16
"""The maximum number of rules to try individually to find out which one hides a pattern."""


@dataclass(frozen=True, slots=True)
class Differentiated:
    """The jaxpr to differentiate, and why it is not that of the rewritten program, if so."""

    jaxpr: Any
    is_rewritten: bool
    refusal: str | None = None


def rewritten_first(jaxpr: Any, transformation: Transformation, derivatives: Derivatives, name: str) -> Differentiated:
    """The jaxpr that calls the rewritten program, where that calls functions with derivatives of their own.

    Raises RewriteError if a derivative rule of the jaxpr is part of what such a function would replace: the rule would
    be lost.
    """
    plain = Program(name, _raw(jaxpr.in_avals), _raw(jaxpr.out_avals), derivatives, jaxpr=_of_raw(jaxpr))
    try:
        _check(jaxpr)
        module = plain.module
    except (HloomError, NameError, NotImplementedError, ValueError, TypeError) as error:
        text = str(error).strip().partition("\n")[0]
        if isinstance(error, HloomError):
            text = f"{error.message}{f' ({error.hint})' if error.hint else ''}"
        return Differentiated(jaxpr, False, text or type(error).__name__)
    wanted = _calls_of(module, transformation, name)
    if not wanted:
        return Differentiated(jaxpr, False)
    if rules := rules_of(jaxpr):
        module = Program(name, plain.inputs, plain.outputs, derivatives, jaxpr=plain.jaxpr, keeps_rules=True).module
        given = _calls_of(module, transformation, name)
        if missing := wanted - given:
            raise _hidden(plain.jaxpr, transformation, name, missing, given, rules)
    rewritten = Program(
        name, plain.inputs, plain.outputs, derivatives, module=module, replay=replayed(module), keeps_rules=True,
        has_64_bits=any(_is_wide(node) for node in module.nodes()),
    )  # fmt: skip
    return Differentiated(_calling(rewritten, jaxpr), True)


def _check(jaxpr: Any) -> None:
    if jaxpr.effects:
        raise Unsupported(f"it has effects ({', '.join(sorted(map(str, jaxpr.effects)))}), which derivatives lack")
    refuse_callbacks(jaxpr)


def _calls_of(module: Module, transformation: Transformation, name: str) -> Counter[str]:
    """Rewrite a module, and count its calls of functions with derivatives of their own."""
    apply_transformation(transformation, module, name)
    return marked_calls(module)


def _hidden(
    jaxpr: Any,
    transformation: Transformation,
    name: str,
    missing: Counter[str],
    given: Counter[str],
    rules: Sequence[str],
) -> RewriteError:
    def shows(rule: str) -> bool:
        return bool(_calls_of(lowered_with_rules(jaxpr, [rule]), transformation, name) - given)

    hiding = [rule for rule in rules[:MOST_TRIED] if shows(rule)] or list(rules[:1])
    return RewriteError(
        f"{name} cannot be differentiated with the derivative of {next(iter(missing))}: in what that replaces stands a "
        f"derivative rule of its own, {hiding[0]}",
        hint="let the replaced part be without such a rule, or differentiate before rewriting: "
        "hloom.jit(jax.grad(f), ...)",
    )


def _is_wide(node: Node) -> bool:
    """Whether a value's elements have 64 bits: those of jax's random numbers have inside, also where jax has none."""
    return isinstance(node.type, TensorType) and node.type.dtype.bits == 64 and not node.type.dtype.is_complex


def _calling(program: Program, jaxpr: Any) -> Any:
    """A jaxpr that calls a program, of the same types as another."""
    mesh = mesh_by_hand(jaxpr.jaxpr)

    def apply(*values: Any) -> list[Any]:
        arrays = plain_arrays(values)
        arrays = arrays if mesh is None else [on_mesh(array, mesh) for array in arrays]
        return arrays_or_keys(program_call().bind(*arrays, program=program), jaxpr.out_avals)

    debug = jaxpr.jaxpr.debug_info.with_unknown_names()
    return traced(apply, tuple(jaxpr.in_avals), debug)


def _of_raw(jaxpr: Any) -> Any:
    """The jaxpr of arrays alone: keys of random numbers as the arrays that they are of."""
    internals = jax_internals()
    if not any(map(is_key, (*jaxpr.in_avals, *jaxpr.out_avals))):
        return jaxpr
    function = internals.core.jaxpr_as_fun(jaxpr)

    def of_arrays(*arrays: Any) -> list[Any]:
        return plain_arrays(function(*arrays_or_keys(arrays, jaxpr.in_avals)))

    types = [internals.jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in _raw(jaxpr.in_avals)]
    return internals.jax.make_jaxpr(of_arrays)(*types)


def _raw(avals: Iterable[Any]) -> list[Any]:
    internals = jax_internals()
    raw: list[Any] = []
    for aval in avals:
        if is_key(aval):
            shape = implementation_of_key(aval.dtype).key_shape
            aval = internals.core.ShapedArray((*aval.shape, *shape), internals.jax.numpy.uint32.dtype)
        raw.append(aval)
    return raw
