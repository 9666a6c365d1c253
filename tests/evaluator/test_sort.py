"""Sorting gives XLA's order: total orders of floats, equal elements, several operands, any comparator."""

import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.evaluator.sort import network
from hloom.formats.hlo import parse
from hloom.text import HloomError
from tests.evaluator.xla import agree, agree_in_every_bit, odd, plain, program, types

ORDERED = types(
    "s4 u32 f32 bf16 f8e4m3fnuz",
    long="pred s8 s16 s32 s64 u4 u8 u16 u64 f16 f64 f8e4m3fn f8e5m2 f8e4m3b11fnuz f8e5m2fnuz f8e3m4 f8e4m3",
)
COMPARATORS = """
rising_T { a = T[] parameter(0) b = T[] parameter(1) ROOT c = pred[] compare(a, b), direction=LTKIND }
falling_T { a = T[] parameter(0) b = T[] parameter(1) ROOT c = pred[] compare(a, b), direction=GTKIND }
turned_T { a = T[] parameter(0) b = T[] parameter(1) ROOT c = pred[] compare(b, a), direction=LTKIND }
"""
SORTS = """
  x = T[5,40] parameter(0)
  rising = T[5,40] sort(x), dimensions={1}, to_apply=rising_T
  falling = T[5,40] sort(x), dimensions={0}, is_stable=true, to_apply=falling_T
  turned = T[5,40] sort(x), dimensions={1}, is_stable=true, to_apply=turned_T
"""


@pytest.mark.parametrize("dtype", ORDERED)
def test_total_order(dtype):
    comparison_type = ", type=TOTALORDER" if dtype[0] in "fb" else ""
    text = program(SORTS, dtype, COMPARATORS.replace("KIND", comparison_type))
    agree_in_every_bit(text, [odd(dtype, (5, 40))])


@pytest.mark.parametrize("dtype", types("f32", long="bf16 f64"))
def test_plain_order_of_floats_is_stable_about_signs_of_zero(dtype):
    x = odd(dtype, (5, 40))
    x = np.where(np.isnan(x), np.zeros((), x.dtype), x)
    stable = SORTS.replace("={1}, to_apply=rising", "={1}, is_stable=true, to_apply=rising")
    agree_in_every_bit(program(stable, dtype, COMPARATORS.replace("KIND", "")), [x])


@pytest.mark.parametrize("size", [0, 1, 3, 17, 100])
def test_several_operands_by_two_keys(size):
    graphs = """
less { a = s32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3) e = s32[] parameter(4) f = s32[] parameter(5)
  below = pred[] compare(a, b), direction=LT
  same = pred[] compare(a, b), direction=EQ
  more = pred[] compare(c, d), direction=GT
  second = pred[] and(same, more)
  ROOT r = pred[] or(below, second) }
"""
    body = f"""
  x = s32[{size},3] parameter(0)
  y = f32[{size},3] parameter(1)
  n = s32[{size},3] iota(), iota_dimension=0
  sorted = (s32[{size},3], f32[{size},3], s32[{size},3]) sort(x, y, n), dimensions={{0}}, is_stable=true, to_apply=less
  a = s32[{size},3] get-tuple-element(sorted), index=0
  b = f32[{size},3] get-tuple-element(sorted), index=1
  c = s32[{size},3] get-tuple-element(sorted), index=2
"""
    generator = np.random.default_rng(size)
    inputs = [
        generator.integers(0, 4, (size, 3)).astype(np.int32),
        generator.integers(0, 3, (size, 3)).astype(np.float32),
    ]
    agree(program(body, graphs=graphs).replace("tuple(n, sorted, ", "tuple("), inputs)


def test_by_the_second_operand():
    graphs = """
later { a = s32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3) ROOT r = pred[] compare(c, d), direction=GT }
"""
    body = """
  x = s32[50] iota(), iota_dimension=0
  y = f32[50] parameter(0)
  sorted = (s32[50], f32[50]) sort(x, y), dimensions={0}, is_stable=true, to_apply=later
  a = s32[50] get-tuple-element(sorted), index=0
"""
    agree(program(body, graphs=graphs).replace("tuple(x, sorted, ", "tuple("), [np.round(plain("f32", (50,)))])


@pytest.mark.parametrize("count", range(20))
def test_the_network_sorts(count):
    generator = np.random.default_rng(count)
    values = generator.integers(0, 9, (count, 50))
    for low, high in network(count):
        assert len({*low, *high}) == 2 * len(low)
        values[low], values[high] = np.minimum(values[low], values[high]), np.maximum(values[low], values[high])
    assert (np.diff(values, axis=0) >= 0).all()


@pytest.mark.parametrize("dtype", types("f32 bf16", long="f16 f64 s32 u8"))
def test_topk(dtype):
    body = """
  x = T[3,20] parameter(0)
  great = (T[3,5], s32[3,5]) topk(x), k=5, largest=true
  a = T[3,5] get-tuple-element(great), index=0
  b = s32[3,5] get-tuple-element(great), index=1
"""
    agree_in_every_bit(program(body, dtype).replace("tuple(great, ", "tuple("), [odd(dtype, (3, 20))])


@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_complex_numbers_have_no_greatest(dtype):
    body = f"x = {dtype}[3,4] parameter(0)\nROOT great = ({dtype}[3,2], s32[3,2]) topk(x), k=2, largest=true"
    with pytest.raises(HloomError, match=r"^great: cannot evaluate topk: complex numbers have no order$"):
        evaluate(parse(f"HloModule m\nENTRY e {{ {body} }}"), [plain(dtype, (3, 4))])


def test_comparators_with_bitcasts_of_scalars_run_on_whole_arrays():
    graphs = """
by_bits { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] bitcast(a) d = s32[] bitcast(b) ROOT r = pred[] compare(c, d), direction=LT }
"""
    body = """
  x = f32[20000] parameter(0)
  ROOT sorted = f32[20000] sort(x), dimensions={0}, to_apply=by_bits
"""
    given = plain("f32", (20000,))
    (output,) = evaluate(parse(f"HloModule m\n{graphs}\nENTRY e {{{body}}}"), [given])
    np.testing.assert_array_equal(output.view(np.int32), np.sort(given.view(np.int32)))
