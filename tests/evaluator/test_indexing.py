"""Computed places: clamped in gathers and slices, dropped in scatters, as XLA does it.

Covers `scatter.py`.
"""

import numpy as np
import pytest

from tests.evaluator.xla import ALL, FLOATS, NUMBERS, REDUCERS, agree, agree_in_every_bit, odd, plain, program, types

INDICES = types("s8 u32 u64", long="s32 s64 u8")
ROWS = np.array([[0, 1], [2, 3], [1, 0], [-1, 2], [7, 1], [2, 4]])
SLICES = """
  x = T[4,5] parameter(0)
  i = {index}[] parameter(1)
  j = {index}[] parameter(2)
  u = T[2,3] parameter(3)
  a = T[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={{2,3}}
  b = T[4,0] dynamic-slice(x, i, j), dynamic_slice_sizes={{4,0}}
  c = T[4,5] dynamic-update-slice(x, u, i, j)
"""


@pytest.mark.parametrize("dtype", ALL)
def test_dynamic_slices(dtype):
    text = program(SLICES.format(index="s32"), dtype)
    agree_in_every_bit(text, [odd(dtype, (4, 5)), np.int32(1), np.int32(4), odd(dtype, (2, 3), 1)])


@pytest.mark.parametrize("index", INDICES)
def test_dynamic_slices_are_moved_inside(index):
    text = program(SLICES.format(index=index))
    index_dtype = np.dtype(f"{'i' if index[0] == 's' else 'u'}{int(index[1:]) // 8}")
    for i, j in ((0, 0), (3, 4), (np.iinfo(index_dtype).max, np.iinfo(index_dtype).min)):
        agree_in_every_bit(text, [odd("f32", (4, 5)), index_dtype.type(i), index_dtype.type(j), odd("f32", (2, 3), 1)])


def test_a_vector_of_indices():
    body = """
  x = f32[4,5] parameter(0)
  i = s32[2] parameter(1)
  u = f32[2,3] parameter(2)
  a = f32[2,3] dynamic-slice(x, i), dynamic_slice_sizes={2,3}
  c = f32[4,5] dynamic-update-slice(x, u, i)
"""
    agree_in_every_bit(program(body), [odd("f32", (4, 5)), np.array([1, 9], np.int32), odd("f32", (2, 3))])


GATHERS = """
  x = T[4,5] parameter(0)
  i = {index}[6,2] parameter(1)
  rows = T[6,5] gather(x, r), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,5}}
  points = T[6] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1}}
  windows = T[2,6,3] gather(x, i), offset_dims={{0,2}}, collapsed_slice_dims={{}}, start_index_map={{1,0}}, index_vector_dim=1, slice_sizes={{2,3}}
  turned = T[3,6] gather(x, ti), offset_dims={{0}}, collapsed_slice_dims={{0}}, start_index_map={{0,1}}, index_vector_dim=0, slice_sizes={{1,3}}
  none = T[6,0] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,0}}
"""


def gathers(index: str) -> str:
    first, second, third, *rest = GATHERS.format(index=index).splitlines()
    more = (f"  r = {index}[6] reshape(half)", f"  ti = {index}[2,6] transpose(i), dimensions={{1,0}}")
    half = f"  half = {index}[6,1] slice(i), slice={{[0:6], [0:1]}}"
    return "\n".join([first, second, third, half, *more, *rest])


@pytest.mark.parametrize("dtype", ALL)
def test_gather(dtype):
    agree_in_every_bit(program(gathers("s32"), dtype), [odd(dtype, (4, 5)), ROWS.astype(np.int32)])


@pytest.mark.parametrize("index", INDICES)
def test_gather_by_any_index_type(index):
    index_dtype = np.dtype(f"{'i' if index[0] == 's' else 'u'}{int(index[1:]) // 8}")
    agree_in_every_bit(program(gathers(index)), [odd("f32", (4, 5)), ROWS.astype(index_dtype)])


def test_gather_and_scatter_with_batching_dimensions():
    body = """
  x = f32[3,2,5] parameter(0)
  i = s32[2,4,3] parameter(1)
  u = f32[2,4,3] parameter(2)
  points = f32[2,4,3] gather(x, i), offset_dims={}, collapsed_slice_dims={2}, start_index_map={2}, operand_batching_dims={0,1}, start_indices_batching_dims={2,0}, index_vector_dim=3, slice_sizes={1,1,1}
  pairs = f32[2,2,4,3] gather(x, i), offset_dims={0}, collapsed_slice_dims={}, start_index_map={2}, operand_batching_dims={0,1}, start_indices_batching_dims={2,0}, index_vector_dim=3, slice_sizes={1,1,2}
  sums = f32[3,2,5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={2}, scatter_dims_to_operand_dims={2}, input_batching_dims={0,1}, scatter_indices_batching_dims={2,0}, index_vector_dim=3, to_apply=add_T
"""
    inputs = [
        plain("f32", (3, 2, 5)),
        np.random.default_rng(0).integers(-2, 7, (2, 4, 3)).astype(np.int32),
        plain("f32", (2, 4, 3)),
    ]
    agree(program(body, graphs=REDUCERS), inputs)


SCATTERS = """
  x = T[4,5] parameter(0)
  i = s32[6,2] parameter(1)
  u = T[6] parameter(2)
  w = T[6,2,3] parameter(3)
  points_NAME = T[4,5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=NAME_T
  windows_NAME = T[4,5] scatter(x, i, w), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=NAME_T
"""


def scatters(names: tuple[str, ...]) -> str:
    lines = SCATTERS.splitlines()
    return "\n".join([*lines[:5], *(line.replace("NAME", name) for line in lines[5:] for name in names)])


def scatter_inputs(dtype: str) -> list[np.ndarray]:
    rows = np.array([[0, 1], [2, 3], [0, 1], [-1, 2], [2, 2], [0, 1]], np.int32)
    return [plain(dtype, (4, 5)), rows, plain(dtype, (6,), 1), plain(dtype, (6, 2, 3), 2)]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_scatter(dtype):
    text = program(scatters(("add", "maximum", "minimum", "multiply", "second")), dtype, REDUCERS)
    agree(text, scatter_inputs(dtype))


def test_scatter_of_rounded_sums_where_every_window_is_out_of_bounds():
    text = program(scatters(("add", "maximum")), "bf16", REDUCERS)
    x, _, points, windows = scatter_inputs("bf16")
    agree(text, [x, np.full((6, 2), 9, np.int32), points, windows])


@pytest.mark.parametrize("dtype", ["pred", "s4", "u4", "c64", "f8e5m2"])
def test_scatter_of_what_has_no_order(dtype):
    agree_in_every_bit(program(scatters(("second",)), dtype, REDUCERS), scatter_inputs(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_scatter_by_a_graph_that_is_no_single_operation(dtype):
    graph = "odd_T { a = T[] parameter(0) b = T[] parameter(1) n = T[] negate(a) ROOT c = T[] subtract(b, n) }"
    agree(program(scatters(("odd",)), dtype, graph), scatter_inputs(dtype))


def test_scatter_of_several_operands():
    graph = """
both { a = f32[] parameter(0) m = s32[] parameter(1) b = f32[] parameter(2) n = s32[] parameter(3)
  less = pred[] compare(a, b), direction=LT
  x = f32[] select(less, b, a)
  y = s32[] select(less, n, m)
  ROOT z = (f32[], s32[]) tuple(x, y) }
"""
    body = """
  x = f32[4] parameter(0)
  m = s32[4] parameter(1)
  i = s32[6,1] parameter(2)
  u = f32[6] parameter(3)
  n = s32[6] parameter(4)
  all_of = (f32[4], s32[4]) scatter(x, m, i, u, n), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both
  one = f32[4] get-tuple-element(all_of), index=0
  other = s32[4] get-tuple-element(all_of), index=1
"""
    text = program(body, graphs=graph).replace("tuple(all_of, ", "tuple(")
    inputs = [
        plain("f32", (4,)),
        plain("s32", (4,)),
        np.array([[0], [2], [0], [9], [2], [0]], np.int32),
        plain("f32", (6,), 1),
        plain("s32", (6,), 1),
    ]
    agree(text, inputs)
