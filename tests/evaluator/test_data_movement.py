"""Moving elements about gives XLA's bits."""

import numpy as np
import pytest

from hloom.evaluator import evaluate, evaluate_node
from hloom.formats.hlo import parse
from tests.evaluator.xla import ALL, agree_in_every_bit, odd, program

MOVES = """
  x = T[3,4,2] parameter(0)
  v = T[] parameter(1)
  row = T[4] parameter(2)
  broadcast_scalar = T[2,3] broadcast(v), dimensions={}
  broadcast_row = T[5,4,2] broadcast(row), dimensions={1}
  broadcast_turned = T[2,4,5,3] broadcast(x), dimensions={3,1,0}
  reshape_it = T[6,4] reshape(x)
  reshape_ones = T[1,24,1] reshape(x)
  transpose_it = T[2,3,4] transpose(x), dimensions={2,0,1}
  slice_it = T[2,2,1] slice(x), slice={[0:3:2], [1:4:2], [1:2]}
  slice_nothing = T[3,0,2] slice(x), slice={[0:3], [2:2], [0:2]}
  pad_it = T[6,4,2] pad(x, v), padding=1_2x0_0x0_0
  pad_interior = T[5,10,2] pad(x, v), padding=0_0_1x0_0_2x0_0
  pad_negative = T[1,3,2] pad(x, v), padding=-1_-1x1_-2x0_0
  pad_mixed = T[3,5,5] pad(x, v), padding=-1_-1_1x2_-7_2x-1_3_1
  pad_cropped_away = T[2,4,2] pad(x, v), padding=-4_3x0_0x0_0
  pad_cropped_to_padding = T[2,4,2] pad(x, v), padding=4_-5x0_0x0_0
  slice_three = T[3,1,2] slice(x), slice={[0:3], [3:4], [0:2]}
  concatenate_it = T[3,9,2] concatenate(x, x, slice_three), dimensions={1}
  reverse_it = T[3,4,2] reverse(x), dimensions={2,0}
  bitcast_same = T[4,6] bitcast(x)
"""
IOTA_TYPES = [
    "s4",
    "s8",
    "s32",
    "s64",
    "u4",
    "u8",
    "u16",
    "u64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
    "f8e4m3fn",
    "f8e5m2",
    "f8e4m3fnuz",
]


@pytest.mark.parametrize("dtype", ALL)
def test_moves(dtype):
    agree_in_every_bit(program(MOVES, dtype), [odd(dtype, (3, 4, 2)), odd(dtype, ()), odd(dtype, (4,))])


def test_empty_arrays():
    body = """
  x = f32[0,3] parameter(0)
  v = f32[] parameter(1)
  broadcast_it = f32[2,0,3] broadcast(x), dimensions={1,2}
  reshape_it = f32[3,0,7] reshape(x)
  transpose_it = f32[3,0] transpose(x), dimensions={1,0}
  pad_it = f32[2,3] pad(x, v), padding=1_1_3x0_0
  concatenate_it = f32[0,6] concatenate(x, x), dimensions={1}
  reverse_it = f32[0,3] reverse(x), dimensions={0}
"""
    agree_in_every_bit(program(body), [np.zeros((0, 3), np.float32), np.float32(2)])


def test_iota():
    lines = [
        f"  a_{t} = {t}[2,300] iota(), iota_dimension=1\n  b_{t} = {t}[3,2] iota(), iota_dimension=0"
        for t in IOTA_TYPES
    ]
    wide = [line.replace("300", "7") if "4[" in line else line for line in lines]
    agree_in_every_bit(program("\n".join(wide)), [])


def test_bitcast_reads_memory_in_the_order_of_layouts():
    body = """
  x = f32[2,3]{0,1} parameter(0)
  turned = f32[3,2]{1,0} bitcast(x)
  flat = f32[6]{0} bitcast(x)
  back = f32[3,2]{0,1} bitcast(flat)
  padded_dims = f32[1,6]{1,0} bitcast(x)
  bits = s32[2,3]{0,1} bitcast(x)
  tiled = f32[4,2]{1,0:T(2,2)} parameter(1)
  untiled = f32[2,1,2,2]{3,2,1,0} bitcast(tiled)
"""
    agree_in_every_bit(program(body), [odd("f32", (2, 3)), odd("f32", (4, 2))])


def test_bitcast_between_widths():
    module = parse("ENTRY e { x = u32[3] parameter(0) ROOT y = u16[3,2] bitcast(x) }")
    (output,) = evaluate(module, [np.array([0x00010002, 3, 0xFFFF0000], np.uint32)])
    assert output.tolist() == [[2, 1], [3, 0], [0, 0xFFFF]]


def test_dynamic_dimensions_have_their_present_size():
    module = parse("""ENTRY e {
      x = f32[4] parameter(0)
      n = s32[] parameter(1)
      some = f32[<=4] set-dimension-size(x, n), dimensions={0}
      size = s32[] get-dimension-size(some), dimensions={0}
      matrix = f32[2,<=4] broadcast(some), dimensions={1}
      two = s32[] constant(2)
      flat = f32[<=8] reshape(matrix)
      folded = f32[<=2,<=4] dynamic-reshape(flat, two, n)
      ROOT all = (f32[<=4], s32[], f32[2,<=4], f32[<=8], f32[<=2,<=4]) tuple(some, size, matrix, flat, folded)
    }""")
    some, size, matrix, flat, folded = evaluate(module, [np.array([1, 2, 3, 4], np.float32), np.int32(3)])
    assert some.tolist() == [1, 2, 3] and size == 3
    assert matrix.tolist() == [[1, 2, 3], [1, 2, 3]] == folded.tolist()
    assert flat.tolist() == [1, 2, 3, 1, 2, 3]


def test_operands_are_not_copied():
    module = parse("ENTRY e { x = f32[3] parameter(0) ROOT y = f32[1000000,3] broadcast(x), dimensions={1} }")
    assert evaluate_node(module.entry.root, [np.array([1, 2, 3], np.float32)]).strides[0] == 0  # type: ignore


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("ROOT b = s32[]{:T(128)} bitcast(x)", 5),
        ("ROOT b = s32[1,6]{1,0:T(1,128)} bitcast(x)", [[5, 6, 7, 8, 9, 10]]),
        ("ROOT b = s32[8]{0:T(128)} bitcast(x)", [5, 6, 7, 8, 9, 10, 0, 0]),
    ],
)
def test_a_bitcast_of_whole_tiles_reads_what_is_in_the_same_place(line: str, result: object):
    """What pads a tile is not defined; it is 0 here."""
    module = parse(f"ENTRY e {{\n x = s32[6]{{0:T(128)}} parameter(0)\n {line}\n}}")
    (value,) = evaluate(module, [np.arange(5, 11, dtype=np.int32)])
    np.testing.assert_array_equal(value, result)


def test_floats_of_tiled_types_are_rounded_to_the_precision_written():
    module = parse(
        "ENTRY e {\n x = f32[2]{0:T(128)} parameter(0)\n ROOT c = bf16[2]{0:T(256)(128)(2,1)} copy(x)\n}"
    )
    (value,) = evaluate(module, [np.array([1.0, 1.001953125], np.float32)])
    assert str(value.dtype) == "bfloat16"
    assert value.astype(np.float32).tolist() == [1.0, 1.0]
