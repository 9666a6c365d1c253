"""Peaks of programs from packages, against XLA's own buffer assignment."""

from __future__ import annotations

import pytest

import hloom
from hloom.targets.memory import memory
from tests.analysis.memory_corpus import Compiled
from tests.analysis.package_corpus import PACKAGES, missing, programs_of

MOST_AFTER, MOST_BEFORE = 0.05, 0.10
"""How far off nine tenths of the programs may be, after optimisation and before it."""
WORST_AFTER, WORST_BEFORE = 0.15, 0.25
"""How far off any program may be."""
SHARE = 0.9


def errors(program: Compiled) -> tuple[float, float]:
    """How far off the peak is of a program after optimisation and before it, signed."""
    after, before = (memory(hloom.parse(text)).peak / program.peak - 1 for text in (program.after, program.before))
    return after, before


@pytest.mark.long
@pytest.mark.parametrize("file", PACKAGES)
def test_no_peak_is_far_off(file: str, capsys: pytest.CaptureFixture[str]):
    if missing(file):
        pytest.skip(f"{', '.join(missing(file))}: not installed (pip install -e '.[packages]')")
    rows = {program.name: errors(program) for program in programs_of(file)}
    with capsys.disabled():
        for name, (after, before) in rows.items():
            print(f"\n{file:10} {name:36} after {after:+8.2%} before {before:+8.2%}", end="")  # noqa: T201
    assert {name: row for name, row in rows.items() if abs(row[0]) > WORST_AFTER or abs(row[1]) > WORST_BEFORE} == {}


@pytest.mark.long
def test_nine_tenths_of_the_peaks_are_near():
    absent = sorted({package for file in PACKAGES for package in missing(file)})
    if absent:
        pytest.skip(f"{', '.join(absent)}: not installed (pip install -e '.[packages]')")
    rows = [errors(program) for file in PACKAGES for program in programs_of(file)]
    assert len(rows) >= 60
    assert sum(abs(after) <= MOST_AFTER for after, _ in rows) >= SHARE * len(rows)
    assert sum(abs(before) <= MOST_BEFORE for _, before in rows) >= SHARE * len(rows)
