"""Cotangents behind a select: infinities of the branch not taken never reach a gradient."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from tests.autodiff.check import entry, module, run

SAFE_ROOT = """
ENTRY e {
  x = f64[3] parameter(0)
  zero = f64[] constant(0)
  zeros = f64[3] broadcast(zero), dimensions={}
  is_positive = pred[3] compare(x, zeros), direction=GT
  root = f64[3] sqrt(x)
  negative = f64[3] negate(root)
  SELECT
  ROOT total = f64[] reduce(chosen, zero), dimensions={0}, to_apply=add_f64
}
"""


def gradient(select: str, x: list[float]) -> np.ndarray:
    return run(hloom.grad(module(SAFE_ROOT.replace("SELECT", select))), [np.array(x)])[0]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("chosen = f64[3] select(is_positive, root, zeros)", [0.0, 0.25, 0.0]),
        ("chosen = f64[3] select(is_positive, negative, x)", [1.0, -0.25, 1.0]),
        (
            "inner = f64[3] select(is_positive, negative, zeros)\n  chosen = f64[3] select(is_positive, inner, zeros)",
            [0.0, -0.25, 0.0],
        ),
    ],
    ids=["the other branch is constant", "both branches", "nested"],
)
def test_the_branch_not_taken(select: str, expected: list[float]):
    """sqrt has an infinite derivative at 0 and none below."""
    np.testing.assert_allclose(gradient(select, [0.0, 4.0, -1.0]), expected)


def test_branches_of_one_select_share_one_select_in_the_gradient():
    select = "other = f64[3] multiply(x, x)\n  chosen = f64[3] select(is_positive, root, other)"
    program = module(SAFE_ROOT.replace("SELECT", select))
    opcodes = [node.opcode for node in hloom.grad(program).entry.nodes]
    assert opcodes.count("select") == 1
    np.testing.assert_allclose(gradient(select, [0.5, 4.0, -1.0]), [0.5 / np.sqrt(0.5), 0.25, -2.0])


def test_a_masked_cotangent_counts_as_often_as_it_is_given():
    """x + x behind a select: twice the same cotangent under the same mask."""
    program = entry("x = f64[3] parameter(0) p = pred[3] parameter(1) a = f64[3] add(x, x) z = f64[3] sine(x) "
                    "ROOT r = f64[3] select(p, a, z)")  # fmt: skip
    result = run(hloom.vjp(program), [np.zeros(3), np.array([True, False, True]), np.array([1.0, 10.0, 100.0])])
    np.testing.assert_array_equal(result[0], [2, 10, 200])


def test_masks_pass_what_moves_elements():
    """The zeros are put in behind the square root, whose derivative is infinite where the branch is not taken."""
    program = entry("x = f64[2,3] parameter(0) z = f64[] constant(0) s = f64[2,3] sqrt(x) t = f64[3,2] transpose(s), dimensions={1,0} "
                    "u = f64[3,2] reverse(t), dimensions={0} v = f64[6] reshape(u) w = f64[6] add(v, v) b = f64[6] broadcast(z), dimensions={} "
                    "p = pred[6] compare(w, b), direction=GT ROOT r = f64[6] select(p, w, b)")  # fmt: skip
    x = np.array([[0.0, 1.0, 4.0], [0.25, 0.0, 16.0]])
    (result,) = run(hloom.vjp(program), [x, np.ones(6)])
    np.testing.assert_array_equal(result, [[0, 1, 0.5], [2, 0, 0.25]])
