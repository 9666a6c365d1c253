"""Cotangents behind a select: infinities of the branch not taken never reach a gradient."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from tests.autodiff.check import module, run

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
