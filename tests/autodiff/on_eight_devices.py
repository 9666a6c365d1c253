"""Gradients of the corpus beside JAX's: a child process compares a family of programs and prints what differs, as JSON.

python -m tests.autodiff.on_eight_devices FAMILY
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import jax
import numpy as np

import hloom
from hloom.ir import TensorType
from tests.corpus.programs import PROGRAMS

OWN_RULES = {
    "control.custom_derivatives": "its derivative is not that of its instructions",
    "control.implicit_solvers": "JAX differentiates the solution, not the iterations",
    "elementwise.complex_complex128": "sign of a complex number: JAX says zero",
    "elementwise.complex_complex64": "sign of a complex number: JAX says zero",
    "elementwise.select_among_many": "JAX's rule for clamp is not the derivative where bounds cross",
    "random.random_rejection": "JAX's rule for the gamma distribution is implicit, not that of the draws with this key",
    "linalg.cholesky": "one triangle of the matrix is read; JAX takes the change to be symmetric",
}
"""Programs whose gradients differ from JAX's; central differences agree with hloom's."""
WITHOUT = {
    "control.mapped_while": "runs without end on random inputs",
    "control.debug_print_ordered": "calls Python",
    "control.debug_print_unordered": "calls Python",
}


def compare(family: str) -> dict[str, str]:
    """What is wrong with the gradients of a family's programs, and why some were not compared."""
    verdicts = {}
    for name, program in PROGRAMS.items():
        if name.startswith(f"{family}.") and not program.platform and name not in {**OWN_RULES, **WITHOUT}:
            try:
                verdicts[name] = check(name)
            except Exception:  # all of a family is compared, whatever one of it raises
                verdicts[name] = traceback.format_exc()
    return verdicts


def check(name: str) -> str:
    """Nothing where the gradients agree; "not compared: " and the reason where JAX has none."""
    program, rng = PROGRAMS[name], np.random.default_rng(0)
    try:
        leaves, tree = jax.tree.flatten(jax.tree.map(lambda shape: argument(shape, rng), program.arguments))
    except TypeError:
        return "not compared: its arguments are not arrays of numbers"
    moving = [number for number, leaf in enumerate(leaves) if is_inexact(leaf)]

    def function(*values: Any) -> list[Any]:
        given = list(leaves)
        for number, value in zip(moving, values, strict=True):
            given[number] = value
        return jax.tree.leaves(program.function(*jax.tree.unflatten(tree, given)))

    if not moving:
        return "not compared: it takes no floating-point number"
    point = [leaves[number] for number in moving]
    try:
        results, pullback = jax.vjp(function, *point)
        cotangents = [
            rng.standard_normal(np.shape(result)).astype(result.dtype)
            if is_inexact(result)
            else np.zeros(np.shape(result), jax.dtypes.float0)
            for result in results
        ]
        expected = pullback(cotangents)
    except Exception as error:  # what JAX says of what it has no derivative for is of many classes
        return f"not compared: JAX does not differentiate it: {error!s:.80}"
    module = hloom.load(jax.jit(function, keep_unused=True).lower(*point))
    gradient = hloom.vjp(module)
    given = [*point, *[value for value in cotangents if value.dtype != jax.dtypes.float0]]
    outputs = hloom.run(gradient, [np.asarray(value) for value in given]).outputs
    tolerance = 1e-7 if all(has_double_precision(node.type) for node in module.nodes()) else 5e-2
    for number, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        wanted = np.asarray(wanted).astype(complex)
        scale = 1 + float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0))
        got = np.where(np.isnan(wanted), wanted, got.astype(complex))
        if not np.allclose(got, wanted, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return f"argument {number}: {got} and not {wanted}"
    return ""


def argument(shape: Any, rng: np.random.Generator) -> Any:
    """Random values of a shape, in double precision for single; other values as they are."""
    if not hasattr(shape, "dtype") or not hasattr(shape, "shape"):
        return shape
    element = {"float32": np.dtype("float64"), "complex64": np.dtype("complex128")}.get(str(shape.dtype))
    element = element or np.dtype(shape.dtype)
    if element.kind in "iu":
        return rng.integers(0, 4, shape.shape).astype(element)
    if element.kind == "b":
        return rng.integers(0, 2, shape.shape).astype(element)
    values = rng.standard_normal(shape.shape)
    if element.kind == "c":
        values = values + 1j * rng.standard_normal(shape.shape)
    if len(shape.shape) >= 2 and shape.shape[-1] == shape.shape[-2] < 20:  # matrices are made definite
        values = values @ np.swapaxes(values.conj(), -1, -2) + np.eye(shape.shape[-1])
    return np.asarray(values).astype(element)


def has_double_precision(value_type: Any) -> bool:
    """Whether a type has no floating-point number of less precision: JAX's attention works in single, for one."""
    leaves = [leaf for leaf in value_type.leaves() if isinstance(leaf, TensorType)]
    return all(leaf.dtype.name in ("f64", "c128") for leaf in leaves if leaf.dtype.is_float or leaf.dtype.is_complex)


def is_inexact(value: Any) -> bool:
    return hasattr(value, "dtype") and jax.numpy.issubdtype(value.dtype, jax.numpy.inexact)


if __name__ == "__main__":
    jax.config.update("jax_use_shardy_partitioner", False)
    print(json.dumps(compare(sys.argv[1])))
