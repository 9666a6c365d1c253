"""Matrix factorisations as JAX lowers them: gradients beside JAX's own, run by XLA."""

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
