"""Reductions, windows, scans and normalisation beside XLA: integers exact, floats to `compare`'s tolerances.

Covers `windows.py`, `scalar_graphs.py`.
"""

import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.formats.hlo import parse
from tests.evaluator.xla import FLOATS, NUMBERS, REDUCERS, agree, agree_in_every_bit, odd, plain, program, types

NAMES = ("add", "maximum", "minimum", "multiply")
REDUCTIONS = """
  x = T[3,4,5] parameter(0)
  v = T[] parameter(1)
  middle_NAME = T[3,5] reduce(x, v), dimensions={1}, to_apply=NAME_T
  outer_NAME = T[4] reduce(x, v), dimensions={2,0}, to_apply=NAME_T
  whole_NAME = T[] reduce(x, v), dimensions={0,1,2}, to_apply=NAME_T
"""


def each_name(body: str, names: tuple[str, ...] = NAMES) -> str:
    """The lines that say NAME, once for each name."""
    lines = (line for line in body.splitlines() if line)
    return "\n".join(line.replace("NAME", name) for line in lines for name in (names if "NAME" in line else ("",)))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_reduce(dtype):
    agree(program(each_name(REDUCTIONS), dtype, REDUCERS), [plain(dtype, (3, 4, 5)), plain(dtype, (), 1)])


@pytest.mark.parametrize("dtype", [*FLOATS, *types("s8", long="u8")])
def test_greatest_and_least_of_odd_values(dtype):
    body = each_name(REDUCTIONS, ("maximum", "minimum"))
    agree(program(body, dtype, REDUCERS), [odd(dtype, (3, 4, 5)), odd(dtype, (), 1)])


def test_reduce_bits_and_predicates():
    graphs = "".join(f"{op}_{t} {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}\n"
                     for op in ("and", "or", "xor") for t in ("pred", "s32"))  # fmt: skip
    for dtype in ("pred", "s32"):
        body = each_name(REDUCTIONS, ("and", "or", "xor"))
        agree(program(body, dtype, graphs), [odd(dtype, (3, 4, 5)), odd(dtype, (), 1)])


ARGMAX = """
greatest { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  same = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  first = pred[] and(same, before)
  stays = pred[] or(more, first)
  v = f32[] select(stays, a, b)
  k = s32[] select(stays, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k) }
"""


@pytest.mark.parametrize("size", [0, 5, 300])
def test_reduce_of_several_operands(size):
    body = f"""
  x = f32[{size},6] parameter(0)
  n = s32[{size},6] iota(), iota_dimension=0
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  both = (f32[6], s32[6]) reduce(x, n, low, zero), dimensions={{0}}, to_apply=greatest
  a = f32[6] get-tuple-element(both), index=0
  b = s32[6] get-tuple-element(both), index=1
"""
    x = np.random.default_rng(0).integers(0, 9, (size, 6)).astype(np.float32)
    agree(program(body, graphs=ARGMAX).replace("tuple(n, both, ", "tuple("), [x])


@pytest.mark.parametrize("size", [7, 1000])
def test_reduce_by_a_graph_with_a_call(size):
    graphs = """
twice { a = f32[] parameter(0) ROOT b = f32[] add(a, a) }
norm { a = f32[] parameter(0) b = f32[] parameter(1) a2 = f32[] multiply(a, a) b2 = f32[] multiply(b, b) s = f32[] add(a2, b2)
  d = f32[] call(s), to_apply=twice
  half = f32[] constant(0.5)
  h = f32[] multiply(d, half)
  ROOT r = f32[] sqrt(h) }
"""
    body = f"""
  x = f32[{size},3] parameter(0)
  z = f32[] constant(0)
  a = f32[3] reduce(x, z), dimensions={{0}}, to_apply=norm
"""
    agree(program(body, graphs=graphs), [plain("f32", (size, 3))])


def test_a_reducer_that_branches_runs_element_by_element():
    graphs = """
one { p = (f32[], f32[]) parameter(0) ROOT a = f32[] get-tuple-element(p), index=0 }
two { p = (f32[], f32[]) parameter(0) ROOT a = f32[] get-tuple-element(p), index=1 }
greater { a = f32[] parameter(0) b = f32[] parameter(1) p = pred[] compare(a, b), direction=GT
  t = (f32[], f32[]) tuple(a, b)
  ROOT r = f32[] conditional(p, t, t), true_computation=one, false_computation=two }
"""
    body = """
  x = f32[4,3] parameter(0)
  low = f32[] constant(-inf)
  a = f32[3] reduce(x, low), dimensions={0}, to_apply=greater
"""
    x = plain("f32", (4, 3))
    (output,) = evaluate(parse(program(body, graphs=graphs)), [x])
    assert output.tolist() == x.max(0).tolist()


WINDOWS = """
  x = T[2,6,7] parameter(0)
  v = T[] parameter(1)
  plain_NAME = T[2,5,5] reduce-window(x, v), window={size=1x2x3}, to_apply=NAME_T
  padded_NAME = T[2,4,4] reduce-window(x, v), window={size=1x2x3 stride=1x2x2 pad=0_0x1_1x2_1}, to_apply=NAME_T
  dilated_NAME = T[2,9,4] reduce-window(x, v), window={size=1x2x2 stride=1x1x2 pad=0_0x1_0x1_0 lhs_dilate=1x2x1 rhs_dilate=1x3x1}, to_apply=NAME_T
  running_NAME = T[2,6,7] reduce-window(x, v), window={size=1x6x1 pad=0_0x5_0x0_0}, to_apply=NAME_T
"""


@pytest.mark.parametrize("dtype", types("s32 f32 bf16", long="u8 s64 f16 f64"))
def test_reduce_window(dtype):
    inputs = [plain(dtype, (2, 6, 7)), plain(dtype, (), 2)]
    agree(program(each_name(WINDOWS), dtype, REDUCERS), inputs)


def test_reduce_window_of_several_operands():
    body = """
  x = f32[4,6] parameter(0)
  n = s32[4,6] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  both = (f32[4,4], s32[4,4]) reduce-window(x, n, low, zero), window={size=1x4 stride=1x2 pad=0_0x2_2}, to_apply=greatest
  a = f32[4,4] get-tuple-element(both), index=0
  b = s32[4,4] get-tuple-element(both), index=1
"""
    x = np.random.default_rng(0).integers(0, 3, (4, 6)).astype(np.float32)
    agree(program(body, graphs=ARGMAX).replace("tuple(n, both, ", "tuple("), [x])


@pytest.mark.parametrize("dtype", types("f32", long="f64 s32 bf16"))
def test_select_and_scatter(dtype):
    graphs = (
        REDUCERS
        + """
ge { a = T[] parameter(0) b = T[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
le { a = T[] parameter(0) b = T[] parameter(1) ROOT c = pred[] compare(a, b), direction=LE }
"""
    )
    body = """
  x = T[6,6] parameter(0)
  s = T[3,3] parameter(1)
  t = T[4,3] parameter(2)
  v = T[] parameter(3)
  a = T[6,6] select-and-scatter(x, s, v), window={size=2x2 stride=2x2}, select=ge, scatter=add_T
  b = T[6,6] select-and-scatter(x, t, v), window={size=3x2 stride=2x2 pad=2_1x0_0}, select=le, scatter=add_T
  c = T[6,6] select-and-scatter(x, t, v), window={size=3x4 stride=1x1}, select=ge, scatter=maximum_T
"""
    x = np.random.default_rng(0).integers(0, 4, (6, 6))
    inputs = [x.astype(plain(dtype, ()).dtype), plain(dtype, (3, 3)), plain(dtype, (4, 3)), plain(dtype, ())]
    agree(program(body, dtype, graphs), inputs)


def test_scan():
    text = """
step { row = f32[2] parameter(0) carry = f32[2] parameter(1) sum = f32[2] add(row, carry) both = f32[2] multiply(row, sum)
  ROOT r = (f32[2], f32[2]) tuple(both, sum) }
ENTRY e { x = f32[2,3] parameter(0) v = f32[2] parameter(1)
  a = (f32[2,3], f32[2]) scan(x, v), dimensions={1}, num_carries=1, to_apply=step
  b = (f32[2,3], f32[2]) scan(x, v), dimensions={1}, num_carries=1, is_reverse=true, to_apply=step
  ROOT all = ((f32[2,3], f32[2]), (f32[2,3], f32[2])) tuple(a, b) }
"""
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    forward, last, backward, first = evaluate(parse(text), [x, np.array([1, 0], np.float32)])
    assert forward.tolist() == [[2, 8, 21], [16, 45, 90]] and last.tolist() == [7, 15]
    nothing = text.replace("[2,3]", "[2,0]")
    assert [output.shape for output in evaluate(parse(nothing), [x[:, :0], np.array([1, 0], np.float32)])] == [
        (2, 0),
        (2,),
    ] * 2
    assert backward.tolist() == [[7, 12, 12], [60, 55, 36]] and first.tolist() == [7, 15]


@pytest.mark.parametrize("dtype", types("f32", long="f64"))
def test_batch_normalisation(dtype):
    body = """
  x = T[4,3,5] parameter(0)
  g = T[4,3,5] parameter(1)
  s = T[3] parameter(2)
  o = T[3] parameter(3)
  m = T[3] parameter(4)
  p = T[3] parameter(5)
  training = (T[4,3,5], T[3], T[3]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=1
  a = T[4,3,5] get-tuple-element(training), index=0
  b = T[3] get-tuple-element(training), index=1
  c = T[3] get-tuple-element(training), index=2
  inference = T[4,3,5] batch-norm-inference(x, s, o, m, v), epsilon=0.001, feature_index=1
  gradient = (T[4,3,5], T[3], T[3]) batch-norm-grad(x, s, m, v, g), epsilon=0.001, feature_index=1
  d = T[4,3,5] get-tuple-element(gradient), index=0
  e = T[3] get-tuple-element(gradient), index=1
  f = T[3] get-tuple-element(gradient), index=2
""".replace("  training =", "  v = T[3] multiply(p, p)\n  training =")
    inputs = [plain(dtype, dims, seed) for seed, dims in enumerate([(4, 3, 5), (4, 3, 5), (3,), (3,), (3,), (3,)])]
    text = program(body, dtype).replace(
        "tuple(v, training, a, b, c, inference, gradient, ", "tuple(a, b, c, inference, "
    )
    agree(text, inputs)


@pytest.mark.parametrize("dtype", types("f32 bf16", long="f16 f64"))
def test_the_greatest_and_least_of_signed_zeros(dtype):
    body = """
  x = T[2,3] parameter(0)
  i = s32[4,1] parameter(1)
  u = T[4] parameter(2)
  v = T[] parameter(3)
  a_NAME = T[2] reduce(x, v), dimensions={1}, to_apply=NAME_T
  b_NAME = T[3] reduce(x, v), dimensions={0}, to_apply=NAME_T
  c_NAME = T[2,2] reduce-window(x, v), window={size=1x2}, to_apply=NAME_T
  d_NAME = T[4] scatter(u, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=NAME_T
"""
    text = program(each_name(body, ("maximum", "minimum")), dtype, REDUCERS)
    element_dtype = odd(dtype, (1,)).dtype
    for start in (0.0, -0.0):
        x = np.array([[0.0, -0.0, -0.0], [-0.0, 0.0, -0.0]]).astype(element_dtype)
        u = np.array([-0.0, 0.0, 0.0, -0.0]).astype(element_dtype)
        agree_in_every_bit(
            text, [x, np.array([[1], [0], [3], [1]], np.int32), u, np.array(start).astype(element_dtype)]
        )
