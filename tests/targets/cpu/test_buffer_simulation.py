"""Peaks of memory, beside those of XLA's CPU compiler."""

from __future__ import annotations

import pytest

from hloom.distribute.planner import Plan
from hloom.formats.hlo import parse
from hloom.runtime import partition
from hloom.sharding import Mesh
from hloom.targets.cpu import simulate_buffers
from tests.targets.cpu.programs import ATTENTION, CONVOLUTION, LARGEST, SUM


@pytest.mark.parametrize("body", [ATTENTION, CONVOLUTION], ids=["attention", "convolution"])
@pytest.mark.parametrize("alias", ["", ", input_output_alias={ {0}: (1, {}, may-alias) }"], ids=["kept", "donated"])
def test_the_peak_is_that_of_xla(body: str, alias: str):
    text = f"HloModule m{alias}\n{SUM}{LARGEST}\nENTRY main {{{body}}}\n"
    annotated = Plan(Mesh.parse("x=8")).annotate(parse(text))
    compiled = partition(annotated, 8)
    assert simulate_buffers(compiled.module).peak == pytest.approx(compiled.memory, rel=0.01)


def test_an_update_goes_into_what_it_is_added_to():
    text = f"""HloModule m
{SUM}
ENTRY main {{
  x = f32[1024,1024] parameter(0)
  i = s32[1024,1] parameter(1)
  u = f32[1024,1024] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[1024,1024] broadcast(zero), dimensions={{}}
  update = f32[1024,1024] scatter(zeros, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
  square = f32[1024,1024] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  sum = f32[1024,1024] add(square, update)
  ROOT out = f32[1024,1024] dot(sum, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
    compiled = partition(Plan(Mesh.parse("x=8")).annotate(parse(text)), 8)
    assert simulate_buffers(compiled.module).peak == pytest.approx(compiled.memory, rel=0.01)
