"""Our account of memory against XLA's: programs compiled by its CPU client, and the buffers that it assigns."""

import statistics

import pytest

import hloom
from hloom.analysis import memory
from tests.analysis.memory_corpus import QUICK, compiled, every_name

MEGABYTE = 1_000_000
MEDIAN, WORST = 0.03, 0.10
"""The bar: how far off our peak of an optimised module may be."""
MEDIAN_BEFORE, NINE_TENTHS_BEFORE = 0.05, 0.45
"""What was measured of the estimate from the text before optimisation, with some margin (docs/memory.md)."""


def off(ours: int, theirs: int) -> float:
    return abs(ours - theirs) / theirs


@pytest.mark.parametrize("name", QUICK)
def test_peak_after_optimisation(name: str):
    program = compiled(name)
    found = memory(hloom.parse(program.after))
    assert found.schedule == "own"
    assert (found.arguments, found.outputs, found.aliases) == tuple(
        program.sizes[kind] for kind in ("arguments", "outputs", "aliases")
    )
    assert program.peak > MEGABYTE
    assert off(found.peak, program.peak) < MEDIAN


@pytest.mark.parametrize("name", QUICK)
def test_xlas_own_account(name: str):
    program = compiled(name)
    found = memory(hloom.load(program.proto)).xla
    assert found is not None
    assert {kind: getattr(found, kind) for kind in program.sizes} == program.sizes
    assert found.peak == program.peak
    assert sum(each.bytes for each in found.allocations if each.kind != "thread") >= 0.9 * program.peak


def test_what_xla_holds_at_the_peak_is_what_we_say():
    program = compiled("mlp_step")
    found = memory(hloom.load(program.proto))
    assert found.xla is not None
    largest = {value for each in found.xla.allocations for value in each.values}
    assert {each.name for each in found.at_peak[:5]} <= largest


@pytest.mark.long
def test_peak_after_optimisation_of_all():
    programs = [compiled(name) for name in every_name()]
    large = [each for each in programs if each.peak > MEGABYTE]
    errors = {each.name: off(memory(hloom.parse(each.after)).peak, each.peak) for each in large}
    assert len(errors) >= 60
    assert statistics.median(errors.values()) < MEDIAN
    assert max(errors.values()) < WORST, max(errors, key=lambda name: errors[name])


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["list", "text"])
def test_estimate_before_optimisation(schedule: str):
    programs = [compiled(name) for name in every_name()]
    large = [each for each in programs if each.peak > MEGABYTE]
    errors = sorted(off(memory(hloom.parse(each.before), schedule=schedule).peak, each.peak) for each in large)
    assert statistics.median(errors) < MEDIAN_BEFORE
    assert errors[len(errors) * 9 // 10] < NINE_TENTHS_BEFORE
