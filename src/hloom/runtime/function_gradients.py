"""Derivatives that jax functions define themselves (`jax.custom_vjp`, `jax.custom_jvp`), as HLO modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from hloom.ir import Module, TensorType
from hloom.rewrite import GradientParts, provide_gradients
from hloom.runtime.derivative_rules import lowered_with_rules
from hloom.runtime.function_lowering import without_stack_frames
from hloom.runtime.jax_internals import jax_internals
from hloom.text import HloomError, Unsupported

KEPT_PROGRAMS = 256
"""The maximum number of cached gradients."""
OWN = ("custom_vjp_call", "custom_jvp_call", "custom_lin")
"""How the names of primitives begin that hold a derivative of their own."""

Demand = tuple[Callable[..., Any], tuple[TensorType, ...], tuple[tuple[str, Any], ...], tuple[int, ...]]
"""A function, the types of its operands, its keywords, and which operands move."""


class JaxGradients:
    """Gradients as jax makes them of a function, its own among them; raises HloomError where jax refuses."""

    def has_own(self, function: Callable[..., Any], types: Sequence[TensorType], keywords: Mapping[str, Any]) -> bool:
        """Whether a function's program holds a derivative of its own, at any depth."""
        return _kept(_has_own, _demand(function, types, keywords))

    def parts(
        self,
        function: Callable[..., Any],
        types: Sequence[TensorType],
        keywords: Mapping[str, Any],
        moving: Sequence[int] | None = None,
    ) -> GradientParts:
        """The forward part and the backward part."""
        return _kept(_parts, _demand(function, types, keywords, moving))

    def forward(
        self,
        function: Callable[..., Any],
        types: Sequence[TensorType],
        keywords: Mapping[str, Any],
        moving: Sequence[int] | None = None,
    ) -> Module:
        """Of arrays, and tangents of those that move: the results, and the tangents of those of floating point."""
        return _kept(_forward, _demand(function, types, keywords, moving))


def _demand(
    function: Callable[..., Any],
    types: Sequence[TensorType],
    keywords: Mapping[str, Any],
    moving: Sequence[int] | None = None,
) -> Demand:
    chosen = [number for number, value_type in enumerate(types) if _moves(value_type)] if moving is None else moving
    return function, tuple(types), tuple(keywords.items()), tuple(chosen)


def _kept(make: Callable[[Demand], Any], demand: Demand) -> Any:
    try:
        hash(demand)
    except TypeError:
        return make(demand)
    return _remembered(make, demand)


@lru_cache(KEPT_PROGRAMS)
def _remembered(make: Callable[[Demand], Any], demand: Demand) -> Any:
    return make(demand)


def _has_own(demand: Demand) -> bool:
    jax = jax_internals().jax
    function, types, _, _ = demand
    with _as_traced(function, types):
        jaxpr = _asked(function, types, lambda: jax.make_jaxpr(_leaves(demand))(*_arrays(types)))
    return any(equation.primitive.name.startswith(OWN) for equation in _equations(jaxpr.jaxpr))


def _equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr and of those that they hold."""
    pending, seen = [jaxpr], set()
    while pending:
        inner = pending.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        for equation in inner.eqns:
            yield equation
            values = [
                part
                for value in equation.params.values()
                for part in (value if isinstance(value, (tuple, list)) else (value,))
            ]
            held = [getattr(value, "jaxpr", value) for value in values]
            pending += [value for value in held if hasattr(value, "eqns")]


def _parts(demand: Demand) -> GradientParts:
    jax = jax_internals().jax
    function, types, _, moving = demand
    structure: list[Any] = []

    def forward(*arrays: Any) -> tuple[Any, ...]:
        results, pull = jax.vjp(_of_moving(demand, arrays), *[arrays[number] for number in moving])
        residuals, tree = jax.tree.flatten(pull)
        structure[:] = [tree, [(result.shape, result.dtype) for result in results], residuals]
        return (*results, *residuals)

    def backward(*values: Any) -> tuple[Any, ...]:
        tree, results, residuals = structure
        count = len(residuals)
        given = iter(values[count:])
        cotangents = tuple(
            next(given) if jax.numpy.issubdtype(dtype, np.inexact) else np.zeros(shape, jax.dtypes.float0)
            for shape, dtype in results
        )
        return tuple(jax.tree.unflatten(tree, values[:count])(cotangents))

    with _as_traced(function, types):
        arrays = _arrays(types)
        made = _asked(function, types, lambda: _lowered(forward, arrays))
        _, results, residuals = structure
        kept = [jax.ShapeDtypeStruct(residual.shape, residual.dtype) for residual in residuals]
        moved = [jax.ShapeDtypeStruct(*result) for result in results if jax.numpy.issubdtype(result[1], np.inexact)]
        back = _asked(function, types, lambda: _lowered(backward, [*kept, *moved]))
    return GradientParts(made, back, len(results), len(kept), moving)


def _forward(demand: Demand) -> Module:
    jax = jax_internals().jax
    function, types, _, moving = demand

    def forward(*values: Any) -> tuple[Any, ...]:
        primals, tangents = values[: len(types)], values[len(types) :]
        at = [primals[number] for number in moving]
        results, moved = jax.jvp(_of_moving(demand, primals), at, list(tangents))
        pairs = zip(results, moved, strict=True)
        return (*results, *[tangent for result, tangent in pairs if jax.numpy.issubdtype(result.dtype, np.inexact)])

    with _as_traced(function, types):
        arrays = _arrays(types)
        return _asked(function, types, lambda: _lowered(forward, [*arrays, *[arrays[number] for number in moving]]))


def _of_moving(demand: Demand, arrays: Sequence[Any]) -> Callable[..., Any]:
    """The function of the operands that move, the others as given."""

    def apply(*moved: Any) -> Any:
        given = dict(zip(demand[-1], moved, strict=True))
        return _leaves(demand)(*[given.get(number, array) for number, array in enumerate(arrays)])

    return apply


def _leaves(demand: Demand) -> Callable[..., tuple[Any, ...]]:
    function, _, keywords, _ = demand
    return lambda *arrays: tuple(jax_internals().jax.tree.leaves(function(*arrays, **dict(keywords))))


def _lowered(function: Callable[..., Any], arrays: Sequence[Any]) -> Module:
    module = without_stack_frames(lowered_with_rules(jax_internals().jax.make_jaxpr(function)(*arrays)))
    if len(module.entry.parameters) != len(arrays):  # a tracer that a rule closes over is a further one
        raise Unsupported(
            "its rule uses a value of the program around it that is not an argument",
            hint="give the rule all that it uses as arguments, nondiff_argnums only what is known when it is traced",
        )
    return module


def _asked(function: Callable[..., Any], types: Sequence[TensorType], ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        name, shown = getattr(function, "__name__", "function"), ", ".join(map(str, types))
        raise HloomError(f"{name} of {shown} has no derivative: {text}") from error


def _arrays(types: Sequence[TensorType]) -> list[Any]:
    jax = jax_internals().jax
    return [jax.ShapeDtypeStruct(value_type.dims, value_type.dtype.numpy) for value_type in types]


def _moves(value_type: TensorType) -> bool:
    return value_type.dtype.is_float or value_type.dtype.is_complex


def _as_traced(function: Callable[..., Any], types: Sequence[TensorType]) -> Any:
    """Types of 64 bits where the function was traced with them, or is given some, as a context."""
    jax = jax_internals().jax
    is_wide = any(np.dtype(value_type.dtype.numpy).itemsize == 8 for value_type in types)
    return jax.enable_x64(getattr(function, "has_64_bits", is_wide or jax.config.jax_enable_x64))


provide_gradients(JaxGradients)
