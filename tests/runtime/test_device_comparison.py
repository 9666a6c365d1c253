"""A program on one device and on several: results that agree, that differ, and that would not fit into memory."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.runtime import device_comparison
from hloom.runtime.device_comparison import compare_with_one_device
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
    comparison = compare_with_one_device(parse(TEXT), parse(TEXT), 4)
    assert (comparison.outputs, comparison.differences, comparison.not_finite) == (2, (), 0)
    assert comparison.worst < 1e-6


def test_another_program_differs():
    comparison = compare_with_one_device(parse(TEXT), parse(TEXT.replace("exponential(x)", "negate(x)")), 4)
    assert [difference.output for difference in comparison.differences] == [1]
    assert comparison.worst > 0.1


def test_results_that_are_no_numbers_are_counted():
    text = TEXT.replace("y = f32[10,6] exponential(x)", "n = f32[10,6] subtract(x, x)\n  y = f32[10,6] divide(n, n)")
    comparison = compare_with_one_device(parse(text), parse(text), 4)
    assert (comparison.differences, comparison.not_finite) == ((), 1)


@pytest.mark.parametrize(("free", "where"), [(100, "on one device"), (2500, "on 4 virtual devices")])
def test_what_memory_does_not_suffice_for_is_said(monkeypatch: pytest.MonkeyPatch, free: int, where: str):
    monkeypatch.setattr(device_comparison, "_available_memory", lambda: free)
    with pytest.raises(Unsupported, match=f"running {where} takes about"):
        compare_with_one_device(parse(TEXT), parse(TEXT), 4)


def test_this_machine_has_memory():
    assert (device_comparison._available_memory() or 1) > 0
