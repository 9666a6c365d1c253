"""Matrix factorisations as JAX lowers them: gradients beside JAX's own, run by XLA.

Covers `spectral.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hloom

jax: Any = pytest.importorskip("jax")
linalg: Any = jax.numpy.linalg


def weigh(value: Any) -> Any:
    """A sum that tells all elements apart."""
    return (value * jax.numpy.arange(1.0, value.size + 1).reshape(value.shape)).sum()


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: weigh(linalg.cholesky(x @ x.T + 3 * jax.numpy.eye(3))),
    "lu": lambda x: weigh(linalg.solve(x, jax.numpy.ones((3, 2)))),
    "inverse": lambda x: weigh(linalg.inv(x)),
    "solve twice": lambda x: weigh(jax.grad(lambda y: weigh(linalg.solve(y, jax.numpy.ones(3))))(x)),
    "determinant": linalg.det,
    "qr": lambda x: weigh(linalg.qr(x)[1]),
    "eigh": lambda x: weigh(linalg.eigvalsh(x + x.T)),
    "svd": lambda x: weigh(linalg.svd(x, compute_uv=False)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_jax(name: str):
    x = np.random.default_rng(3).standard_normal((3, 3)) + 2 * np.eye(3)
    with jax.enable_x64(True):
        module = hloom.load(jax.jit(FUNCTIONS[name]).lower(x))
        expected = jax.grad(FUNCTIONS[name])(x)
    result = hloom.run(hloom.grad(module), inputs=[x])
    np.testing.assert_allclose(result.outputs[0], expected, rtol=1e-8, atol=1e-9)


def test_a_solution_needs_no_derivative_of_its_decomposition():
    """A^-T of the cotangent, by two triangular solves, and its product with the solution."""
    x, right = np.eye(3, dtype=np.float32), np.ones((3, 2), np.float32)
    module = hloom.load(jax.jit(linalg.solve).lower(x, right))
    gradient = hloom.vjp(module)
    calls = [node for node in gradient.nodes() if node.opcode == "custom-call"]
    solves = [node for node in calls if "trsm" in node.attributes["custom_call_target"]]
    products = [node for node in gradient.nodes() if node.opcode == "dot"]
    assert (len(solves), len(products)) == (4, 1)
