"""Gradients of jax's functions as modules: which functions bring one along, residuals, types, refusals.

Covers `function_gradients.py`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.ir import DTYPES, TensorType
from hloom.runtime import JaxGradients
from hloom.text import HloomError

VECTOR = TensorType(DTYPES["f32"], (3,))
COUNT = TensorType(DTYPES["s32"], ())


@jax.custom_vjp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defvjp(lambda x: (2 * x, x), lambda x, cotangent: (7 * cotangent * x,))


def in_a_loop(x: Any, count: Any) -> Any:
    return jax.lax.scan(lambda carry, _: (doubled(carry), None), x, length=2)[0], count + 1


@pytest.mark.parametrize(
    ("function", "has_own"),
    [(doubled, True), (jnp.tanh, False), (jax.nn.relu, True), (lambda x: jax.jit(doubled)(x) + 1, True)],
)
def test_which_functions_have_their_own(function: Any, has_own: bool):
    assert JaxGradients().has_own(function, [VECTOR], {}) is has_own


def test_the_parts():
    parts = JaxGradients().parts(in_a_loop, [VECTOR, COUNT], {})
    assert (parts.results, parts.moving) == (2, (0,))
    x = np.array([1, 2, 3], np.float32)
    (*results,) = evaluate(parts.forward, [x, np.int32(4)])
    assert results[0].tolist() == [4, 8, 12] and results[1] == 5 and len(results) == 2 + parts.residuals
    (of_x,) = evaluate(parts.backward, [*results[2:], np.ones(3, np.float32)])
    np.testing.assert_allclose(of_x, 7 * 7 * 2 * x * x)


def test_types_of_64_bits():
    wide = TensorType(DTYPES["f64"], (2,))
    parts = JaxGradients().parts(doubled, [wide], {})
    assert str(parts.backward.entry.parameters[-1].type).startswith("f64[2]")


def test_what_has_none():
    def refuses(x: Any) -> Any:
        return jax.lax.while_loop(lambda s: s.sum() < 10, lambda s: s * 2, doubled(x))

    with pytest.raises(HloomError, match=r"refuses of f32\[3\] has no derivative: Reverse-mode differentiation"):
        JaxGradients().parts(refuses, [VECTOR], {})
    with pytest.raises(HloomError, match=r"doubled of f32\[3\] has no derivative: can't apply forward"):
        JaxGradients().forward(doubled, [VECTOR], {})
