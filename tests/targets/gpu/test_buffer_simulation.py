"""Peaks of programs before optimisation beside those of the modules that the compilers of GPUs made."""

from __future__ import annotations

import pytest

import hloom
from tests.targets.test_dumps import DUMPS, NAMES, PARALLEL

TINY = ("branches",)
"""Programs of a few kilobytes, in which scalars and tables count."""


@pytest.mark.parametrize("target", ["h100", "a100"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*PARALLEL, *TINY)])
def test_peaks_are_near_those_of_the_compiler(name: str, target: str):
    before = hloom.load(DUMPS / f"{name}.before.hlo.gz")
    after = hloom.load(DUMPS / f"{name}.{target}.hlo.gz")
    assert hloom.memory(before, target=target).peak == pytest.approx(hloom.memory(after).peak, rel=0.25)
