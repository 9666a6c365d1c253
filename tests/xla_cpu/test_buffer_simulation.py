"""Peaks of memory, beside those of XLA's CPU compiler."""

from __future__ import annotations

import pytest

from hloom.hlo import parse
from hloom.planner import Plan
from hloom.runtime import partition
from hloom.sharding import Mesh
from hloom.xla_cpu import simulate_buffers
from tests.xla_cpu.programs import ATTENTION, CONVOLUTION, LARGEST, SUM


@pytest.mark.parametrize("body", [ATTENTION, CONVOLUTION], ids=["attention", "convolution"])
@pytest.mark.parametrize("alias", ["", ", input_output_alias={ {0}: (1, {}, may-alias) }"], ids=["kept", "donated"])
def test_the_peak_is_that_of_xla(body: str, alias: str):
    text = f"HloModule m{alias}\n{SUM}{LARGEST}\nENTRY main {{{body}}}\n"
    annotated = Plan(Mesh.parse("x=8")).annotate(parse(text))
    compiled = partition(annotated, 8)
    assert simulate_buffers(compiled.module).peak == pytest.approx(compiled.memory, rel=0.01)
