"""Shapes made smaller: dimensions that are equal go together, and all that follows from them follows."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hloom.formats.hlo import parse
from hloom.inspection.minimize import minimize
from hloom.ir import Module, TensorType


def shapes(text: str, predicate: Callable[[Module], object]) -> str:
    """The text of what is left."""
    result = minimize(parse(text), predicate)
    assert result.shows
    return result.text


def keeps_all(text: str) -> Callable[[Module], bool]:
    """Whether the opcodes of a text are all there, as often."""
    wanted = sorted(node.opcode for node in parse(text).nodes())
    return lambda module: sorted(node.opcode for node in module.nodes()) == wanted


ATTENTION = """ENTRY e {
  x = f32[8,1024,768] parameter(0)
  heads = f32[8,1024,12,64] reshape(x)
  turned = f32[8,12,1024,64] transpose(heads), dimensions={0,2,1,3}
  scores = f32[8,12,1024,1024] dot(turned, turned), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  start = f32[8,12,1024,1000] slice(scores), slice={[0:8], [0:12], [0:1024], [24:1024]}
  zero = f32[] constant(0)
  padded = f32[8,12,1024,1001] pad(start, zero), padding=0_0x0_0x0_0x1_0
  bias = f32[1001] constant({...})
  both = f32[8,12,2048,1001] concatenate(padded, padded), dimensions={2}
  wide = f32[8,12,2048,1001] broadcast(bias), dimensions={3}
  ROOT sum = f32[8,12,2048,1001] add(both, wide)
}"""


def test_all_follow():
    text = ATTENTION.replace("constant({...})", "parameter(1)")
    left = shapes(text, keeps_all(text))
    assert "f32[1,1,1] parameter(0)" in left and "slice={[0:1], [0:1], [0:1], [0:1]}" in left
    assert "add" in left and max(int(n) for n in re.findall(r"\[(?:\d+,)*(\d+)\]", left)) <= 3


def test_a_dimension_that_the_fault_needs_stays_and_the_others_go():
    def is_wide(module: Module) -> bool:
        types = [node.type for node in module.nodes() if node.opcode == "dot"]
        return any(isinstance(value_type, TensorType) and value_type.dims[1] > 5 for value_type in types)

    left = shapes(
        "ENTRY e { a = f32[64,32] parameter(0) b = f32[32,128] parameter(1) "
        "ROOT d = f32[64,128] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
        is_wide,
    )
    assert "f32[1,8] dot(" in left


def test_constants_keep_their_first_elements():
    text = "ENTRY e { c = s32[4] constant({5, 6, 7, 8}) x = s32[4] parameter(0) ROOT y = s32[4] add(c, x) }"
    assert "s32[1] constant({5})" in shapes(text, keeps_all(text))


def test_gathers_and_dynamic_slices():
    text = """ENTRY e {
      table = f32[50257,768] parameter(0)
      rows = s32[16,1] parameter(1)
      g = f32[16,768] gather(table, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,768}
      i = s32[] parameter(2)
      ROOT d = f32[4,768] dynamic-slice(g, i, i), dynamic_slice_sizes={4,768}
    }"""
    left = shapes(text, keeps_all(text))
    assert "slice_sizes={1,1}" in left and "dynamic_slice_sizes={1,1}" in left and "f32[1,1] parameter(0)" in left


def test_loops_and_their_bodies():
    text = """HloModule m
    c { s = (s32[], f32[9,7]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT p = pred[] compare(i, n), direction=LT }
    b { s = (s32[], f32[9,7]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[9,7] get-tuple-element(s), index=1 t = f32[9,7] tanh(x) ROOT r = (s32[], f32[9,7]) tuple(i, t) }
    ENTRY e { s = (s32[], f32[9,7]) parameter(0) ROOT w = (s32[], f32[9,7]) while(s), condition=c, body=b }"""
    left = shapes(text, keeps_all(text))
    assert "f32[9,7]" not in left and "f32[1,1] tanh" in left


@pytest.mark.parametrize("shape", ["f32[<=8,4]", "b(f32[8,4])", "f32[0,4]"])
def test_what_has_no_size_to_make_smaller(shape: str):
    text = f"ENTRY e {{ x = {shape} parameter(0) ROOT y = ({shape}) tuple(x) }}"
    assert shape.split("[")[0] in shapes(text, keeps_all(text))
