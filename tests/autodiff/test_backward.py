"""Cotangents behind a select: infinities of the branch not taken never reach a gradient; sums of slices' cotangents.

Covers `slice_sums.py`.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom
from tests.autodiff.check import assert_derivatives, entry, module, run

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


TAKEN = """
  x = f64[5,2] parameter(0)
  i = s32[3] parameter(1)
  indices = s32[3,1] reshape(i)
  z = s32[] constant(0)
  low = s32[3,1] broadcast(z), dimensions={}
  m = s32[] constant(LAST)
  high = s32[3,1] broadcast(m), dimensions={}
  ge = pred[3,1] compare(indices, low), direction=GE
  le = pred[3,1] compare(indices, high), direction=LE
  both = pred[3,1] and(ge, le)
  inside = pred[3] reshape(both)
  wide = pred[3,2] broadcast(inside), dimensions={0}
  rows = f64[3,2] gather(x, indices), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}
  nan = f64[] constant(nan)
  missing = f64[3,2] broadcast(nan), dimensions={}
  ROOT r = f64[3,2] select(wide, rows, missing)
"""


@pytest.mark.parametrize(("last", "is_clamped"), [("4", False), ("3", True)])
def test_slices_that_a_mask_says_are_inside_are_not_clamped(last: str, is_clamped: bool):
    """A scatter drops the others, so that neither the mask nor clamped indices are needed."""
    gradient = hloom.vjp(entry(TAKEN.replace("LAST", last)))
    opcodes = {node.opcode for node in gradient.entry.nodes}
    assert ("clamp" in opcodes) == ("select" in opcodes) == is_clamped
    (result,) = run(gradient, [np.zeros((5, 2)), np.array([-1, 3, 7], np.int32), np.ones((3, 2))])
    np.testing.assert_array_equal(result[:, 0], [0, 0, 0, 1, 0])


def test_signs_become_subtractions():
    program = entry("x = f64[3] parameter(0) y = f64[3] parameter(1) n = f64[3] negate(x) a = f64[3] multiply(n, y) "
                    "s = f64[3] sine(x) ROOT r = f64[3] subtract(s, a)")  # fmt: skip
    gradient = hloom.vjp(program, wrt=["x"])
    assert "negate" not in {node.opcode for node in gradient.entry.nodes}
    (result,) = run(gradient, [np.array([0.5, 1.0, 2.0]), np.array([2.0, 3.0, 4.0]), np.ones(3)])
    np.testing.assert_allclose(result, np.cos([0.5, 1.0, 2.0]) + np.array([2.0, 3.0, 4.0]))


def test_one_branch_within_another():
    """Three branches of two selects: one select for each cotangent, and one that two of them share."""
    program = entry("p = pred[3] parameter(0) q = pred[3] parameter(1) x = f64[3] parameter(2) y = f64[3] parameter(3) "
                    "z = f64[3] parameter(4) i = f64[3] select(q, y, z) ROOT r = f64[3] select(p, x, i)")  # fmt: skip
    gradient = hloom.vjp(program)
    opcodes = [node.opcode for node in gradient.entry.nodes]
    assert opcodes.count("select") == 4
    assert "and" not in opcodes
    given = [np.array([True, False, False]), np.array([True, True, False]), *[np.zeros(3)] * 3, np.array([1.0, 2, 3])]
    np.testing.assert_array_equal(np.array(run(gradient, given)), [[1, 0, 0], [0, 2, 0], [0, 0, 3]])


def test_the_same_triangle_counts_once():
    """What is masked by a triangle twice is masked by it once, though its rows are counted twice."""
    numbers = "r{n} = s32[3,3] iota(), iota_dimension=0 c{n} = s32[3,3] iota(), iota_dimension=1 t{n} = pred[3,3] compare({pair}), direction={d} "
    program = entry("x = f64[3,3] parameter(0) z = f64[] constant(0) zero = f64[3,3] broadcast(z), dimensions={} "
                    + numbers.format(n=1, pair="r1, c1", d="GE") + numbers.format(n=2, pair="c2, r2", d="LE")
                    + "a = f64[3,3] select(t1, x, zero) ROOT b = f64[3,3] select(t2, a, zero)")  # fmt: skip
    gradient = hloom.vjp(program)
    assert [node.opcode for node in gradient.entry.nodes].count("select") == 1
    np.testing.assert_array_equal(run(gradient, [np.zeros((3, 3)), np.ones((3, 3))])[0], np.tri(3))


SLICED = "x = f64[5,6] parameter(0) {parts}"
PARTS = {
    "apart": (["[0:1], [0:6]", "[1:3], [0:6]", "[3:5], [0:6]"], ["concatenate"]),
    "with gaps": (["[0:2], [0:6]", "[3:5], [0:6]"], ["broadcast", "concatenate"]),
    "overlapping": (["[0:4], [0:6]", "[1:5], [0:6]"], ["pad", "pad", "add"]),
    "a small one": (["[0:5], [0:6]", "[2:3], [1:4]"], ["slice", "add", "dynamic-update-slice"]),
    "strided": (["[0:5:2], [0:6]", "[1:5:2], [0:6]"], ["pad", "pad", "add"]),
    "of no elements": (["[2:2], [0:6]", "[0:5], [0:3]"], ["pad"]),
}


@pytest.mark.parametrize("name", PARTS)
def test_cotangents_of_slices(name: str):
    """Those that do not overlap are concatenated, large ones padded and added, small ones added in place."""
    limits, opcodes = PARTS[name]
    rows = [[int(end) for end in re.findall(r"[0-9]+", part)] for limit in limits for part in limit.split(", ")]
    sizes = [len(range(*row)) for row in rows]
    lines = [
        f"s{n} = f64[{sizes[2 * n]},{sizes[2 * n + 1]}] slice(x), slice={{{limit}}}" for n, limit in enumerate(limits)
    ]
    types = [line.split()[2] for line in lines]
    root = f"ROOT t = ({', '.join(types)}) tuple({', '.join(f's{n}' for n in range(len(lines)))})"
    program = entry(SLICED.format(parts="\n".join([*lines, root])))
    made = [node.opcode for node in hloom.vjp(program).entry.nodes if node.opcode not in ("parameter", "constant")]
    assert made[:-1] == opcodes
    assert_derivatives(program)


def test_cotangents_of_both_parts_of_a_complex_number_are_joined_without_arithmetic():
    program = entry("""
      z = c128[3] parameter(0)
      x = f64[3] real(z)
      y = f64[3] imag(z)
      t = f64[3] tanh(x)
      n = f64[3] negate(y)
      ROOT w = c128[3] complex(t, n)
    """)
    assert_derivatives(program)
    assert {str(node.type).partition("[")[0] for node in hloom.vjp(program).entry.nodes if node.opcode in ("add", "subtract")} <= {"f64"}
