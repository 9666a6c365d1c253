"""Products of matrices of any dimensions: integers exact, floats within `compare`'s tolerance of their type."""

import ml_dtypes
import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.formats.hlo import parse
from tests.evaluator.xla import agree, plain, program, types

NUMBERS = types("s8 u32 bf16 f32 c64 f8e4m3fn", long="s16 s32 s64 u8 f16 f64 c128 f8e5m2")
DOTS = """
  x = T[3,4] parameter(0)
  y = T[4,5] parameter(1)
  b = T[2,3,4] parameter(2)
  c = T[4,2,6] parameter(3)
  v = T[4] parameter(4)
  matrix = T[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  batched = T[2,3,6] dot(b, c), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0}
  outer = T[4,3,4] dot(v, x), lhs_contracting_dims={}, rhs_contracting_dims={}
  vectors = T[] dot(v, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  turned = T[5,3] dot(y, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  two = T[3] dot(b, c2), lhs_contracting_dims={2,0}, rhs_contracting_dims={0,1}
"""


@pytest.mark.parametrize("dtype", NUMBERS)
def test_dot(dtype):
    lines = DOTS.splitlines()
    lines.insert(-1, "  c1 = T[4,2,1] slice(c), slice={[0:4], [0:2], [0:1]}\n  c2 = T[4,2] reshape(c1)")
    inputs = [plain(dtype, dims, seed) for seed, dims in enumerate([(3, 4), (4, 5), (2, 3, 4), (4, 2, 6), (4,)])]
    agree(program("\n".join(lines), dtype), inputs)


def test_dot_of_other_result_types():
    body = """
  a = s8[3,40] parameter(0)
  b = bf16[3,40] parameter(1)
  c = f32[3,40] parameter(2)
  d = f8e4m3fn[3,40] parameter(3)
  wide = s32[3,3] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  sums = f32[3,3] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  eights = f32[3,3] dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  exact = f32[3,3] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}, algorithm=dot_bf16_bf16_f32
"""
    types = ("s8", "bf16", "f32", "f8e4m3fn")
    agree(program(body), [plain(dtype, (3, 40), seed) for seed, dtype in enumerate(types)], rtol=1e-5)


def test_integers_wrap_around():
    body = """
  x = s8[2,50] parameter(0)
  y = u8[2,50] parameter(1)
  a = s8[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  b = u8[2,2] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
"""
    agree(program(body), [np.full((2, 50), 101, np.int8), np.full((2, 50), 201, np.uint8)])


def test_dot_of_what_is_not_finite_and_of_nothing():
    body = """
  x = f32[2,3] parameter(0)
  e = f32[2,0] parameter(1)
  a = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  b = f32[2,2] dot(e, e), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  c = f32[0,0] dot(e, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
"""
    agree(program(body), [np.array([[1, np.inf, 0], [0, 1, -np.inf]], np.float32), np.zeros((2, 0), np.float32)])


RAGGED = "ENTRY e {{ x = f32{x} parameter(0) w = f32{w} parameter(1) n = s32{n} parameter(2) ROOT y = f32{y} ragged-dot(x, w, n), {how} }}"


def ragged(left: np.ndarray, right: np.ndarray, sizes: np.ndarray, result: str, how: str) -> np.ndarray:
    shapes = {key: str(list(value.shape)) for key, value in (("x", left), ("w", right), ("n", sizes))}
    return evaluate(parse(RAGGED.format(**shapes, y=result, how=how)), [left, right, sizes])[0]


def test_ragged_rows_have_matrices_of_their_own():
    x, w, n = plain("f32", (7, 4)), plain("f32", (3, 4, 5), 1), np.array([2, 0, 4], np.int32)
    how = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"
    expected = np.concatenate([x[:2] @ w[0], x[2:6] @ w[2], np.zeros((1, 5))])
    np.testing.assert_allclose(ragged(x, w, n, "[7,5]", how), expected, rtol=1e-5, atol=1e-6)


def test_ragged_rows_in_batches_of_their_own_sizes():
    x, w, n = plain("f32", (2, 6, 4)), plain("f32", (3, 2, 4, 5), 1), np.array([[2, 0, 4], [1, 1, 1]], np.int32)
    how = ("lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={2}, "
           "lhs_ragged_dims={1}, rhs_group_dims={0}")  # fmt: skip
    expected = np.zeros((2, 6, 5))
    expected[0, :2], expected[0, 2:6] = x[0, :2] @ w[0, 0], x[0, 2:6] @ w[2, 0]
    for row in range(3):
        expected[1, row] = x[1, row] @ w[row, 1]
    np.testing.assert_allclose(ragged(x, w, n, "[2,6,5]", how), expected, rtol=1e-5, atol=1e-6)


def test_a_ragged_sum_gives_a_matrix_per_group():
    x, w, n = plain("f32", (3, 7)), plain("f32", (7, 5), 1), np.array([2, 4], np.int32)
    how = "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}, rhs_group_dims={}"
    expected = np.stack([x[:, :2] @ w[:2], x[:, 2:6] @ w[2:6]])
    np.testing.assert_allclose(ragged(x, w, n, "[2,3,5]", how), expected, rtol=1e-5, atol=1e-6)


def test_scaled_dot_multiplies_blocks_by_their_scales():
    text = """ENTRY e {
      x = f8e4m3fn[3,8] parameter(0)
      y = f8e4m3fn[8,5] parameter(1)
      a = f8e8m0fnu[3,2] parameter(2)
      b = f8e8m0fnu[2,5] parameter(3)
      ROOT z = f32[3,5] scaled-dot(x, y, a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    scale = ml_dtypes.float8_e8m0fnu
    inputs = [
        plain("f8e4m3fn", (3, 8)),
        plain("f8e4m3fn", (8, 5), 1),
        np.array([[1, 2], [4, 0.5], [1, 1]], scale),
        np.full((2, 5), 2, scale),
    ]
    x, y, a, b = (array.astype(np.float64) for array in inputs)
    expected = (x * np.repeat(a, 4, 1)) @ (y * np.repeat(b, 4, 0))
    np.testing.assert_allclose(evaluate(parse(text), inputs)[0], expected, rtol=1e-5)


CONVOLUTIONS = {
    "plain": ("[2,3,6,7]", "[4,3,2,3]", "[2,4,5,5]", "window={size=2x3}, dim_labels=bf01_oi01->bf01"),
    "padded": ("[2,6,7,3]", "[2,3,3,4]", "[2,4,4,4]", "window={size=2x3 stride=2x2 pad=1_1x2_1}, dim_labels=b01f_01io->bf01"),
    "cropped": ("[2,6,7,3]", "[2,3,3,4]", "[2,4,6,4]", "window={size=2x3 pad=-1_0x2_-1}, dim_labels=b01f_01io->b01f"),
    "dilated": ("[1,5,4,3]", "[2,2,3,4]", "[1,7,5,4]", "window={size=2x2 lhs_dilate=2x1 rhs_dilate=3x2 pad=1_0x1_2}, dim_labels=b01f_01io->b01f"),
    "reversed": ("[1,5,4,3]", "[2,3,3,4]", "[1,4,2,4]", "window={size=2x3 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f"),
    "feature_groups": ("[2,5,6]", "[3,2,9]", "[2,3,9]", "window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=3"),
    "depthwise": ("[2,5,6]", "[3,1,6]", "[2,3,6]", "window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=6"),
    "batch_groups": ("[6,5,2]", "[3,2,9]", "[2,3,9]", "window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=3"),
    "one_dimension": ("[2,9,3]", "[3,3,4]", "[4,2,7]", "window={size=3}, dim_labels=b0f_0io->fb0"),
    "three_dimensions": ("[1,4,4,4,2]", "[2,2,2,2,3]", "[1,3,3,3,3]", "window={size=2x2x2}, dim_labels=b012f_012io->b012f"),
    "no_dimension": ("[2,3]", "[3,4]", "[2,4]", "dim_labels=bf_io->bf"),
    "outside": ("[1,2,1]", "[5,1,1]", "[1,0,1]", "window={size=5}, dim_labels=b0f_0io->b0f"),
    "turned": ("[3,6,7,2]", "[4,2,3,3]", "[5,5,2,4]", "window={size=2x3}, dim_labels=f01b_o01i->01bf"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", types("f32 s32", long="f64 bf16 f16 s8 c64"))
def test_convolution(dtype):
    lines, inputs = [], []
    for name, (left, right, result, how) in CONVOLUTIONS.items():
        lines.append(
            f"  l_{name} = T{left} parameter({len(inputs)})\n  r_{name} = T{right} parameter({len(inputs) + 1})"
        )
        lines.append(f"  {name} = T{result} convolution(l_{name}, r_{name}), {how}")
        inputs += [plain(dtype, tuple(map(int, dims[1:-1].split(","))), len(inputs)) for dims in (left, right)]
    agree(program("\n".join(lines), dtype), inputs)


def test_convolution_of_other_result_types():
    body = """
  x = s8[2,9,3] parameter(0)
  w = s8[3,3,4] parameter(1)
  b = bf16[2,9,3] parameter(2)
  k = bf16[3,3,4] parameter(3)
  wide = s32[2,7,4] convolution(x, w), window={size=3}, dim_labels=b0f_0io->b0f
  sums = f32[2,7,4] convolution(b, k), window={size=3}, dim_labels=b0f_0io->b0f
"""
    dims = ((2, 9, 3), (3, 3, 4))
    agree(program(body), [plain(dtype, shape) for dtype in ("s8", "bf16") for shape in dims], rtol=1e-5)
