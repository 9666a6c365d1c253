"""A program on one device and on several: where they agree, where they do not, and where there is no room to see."""

from __future__ import annotations

import pytest

from hloom.hlo import parse
from hloom.runtime import host_memory
from hloom.runtime.side_by_side import run_side_by_side
from hloom.text import Unsupported

TEXT = """HloModule sums

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[10,6] parameter(0), sharding={devices=[4,1]<=[4]}
  zero = f32[] constant(0)
  s = f32[6] reduce(x, zero), dimensions={0}, to_apply=add
  y = f32[10,6] exponential(x)
  ROOT t = (f32[6], f32[10,6]) tuple(s, y), sharding={{replicated}, {devices=[2,2]<=[4]}}
}
"""


def test_uneven_parameters_and_results_agree():
    found = run_side_by_side(parse(TEXT), parse(TEXT), 4)
    assert (found.outputs, found.differences, found.not_finite) == (2, (), 0)
    assert found.worst < 1e-6


def test_another_program_differs():
    found = run_side_by_side(parse(TEXT), parse(TEXT.replace("exponential(x)", "negate(x)")), 4)
    assert [each.output for each in found.differences] == [1]
    assert found.worst > 0.1


def test_results_that_are_no_numbers_are_counted():
    text = TEXT.replace("y = f32[10,6] exponential(x)", "n = f32[10,6] subtract(x, x)\n  y = f32[10,6] divide(n, n)")
    found = run_side_by_side(parse(text), parse(text), 4)
    assert (found.differences, found.not_finite) == ((), 1)


@pytest.mark.parametrize(("free", "where"), [(100, "on one device"), (2500, "on 4 virtual devices")])
def test_what_memory_does_not_suffice_for_is_said(monkeypatch: pytest.MonkeyPatch, free: int, where: str):
    monkeypatch.setattr(host_memory, "available", lambda: free)
    with pytest.raises(Unsupported, match=f"running {where} takes about"):
        run_side_by_side(parse(TEXT), parse(TEXT), 4)


def test_this_machine_has_memory():
    assert (host_memory.available() or 1) > 0
