"""Loops and branches in totals: a transformer scanned with rematerialisation, and conditionals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from random import Random

import pytest

from hloom.analysis import Cost, CostReport, cost
from hloom.analysis.rules import contraction
from hloom.formats.hlo import parse
from hloom.ir import WindowDimension
from hloom.runtime import cost as ask_xla
from tests.helpers.xla_flags import fusion_emitters

LAYERS = 12
CHILD = Path(__file__).with_name("lower_layers.py")


@cache
def texts() -> dict[str, list[str]]:
    """The training step with its layers scanned, before and after XLA's optimisations, and unrolled, before them."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {fusion_emitters(True)}"  # without them loops gain fusions
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", "XLA_FLAGS": flags.strip()}
    run = subprocess.run([sys.executable, str(CHILD)], env=environment, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def report(layers: str, stage: int = 0) -> CostReport:
    return cost(parse(texts()[layers][stage]))


def flops_of(cost_report: CostReport, opcode: str) -> int:
    return next(row["flops"] for row in cost_report.by("opcode") if row["opcode"] == opcode)


@pytest.mark.parametrize("stage", [0, 1])
def test_a_scan_with_remat_costs_almost_ten_times_what_xla_says(stage: int):
    cost_report = report("scanned", stage)
    xla = ask_xla(texts()["scanned"][stage])["flops"]
    assert [loop.trips for loop in cost_report.loops] == [LAYERS, LAYERS]
    assert cost_report.total_once.flops == pytest.approx(xla, rel=1e-4)
    assert cost_report.total.flops / xla == pytest.approx(9.8, abs=0.1)


def test_a_scan_costs_what_its_layers_cost_unrolled():
    scanned, unrolled = report("scanned"), report("unrolled")
    assert not unrolled.loops
    assert flops_of(scanned, "dot") == flops_of(unrolled, "dot")
    assert scanned.total.transcendentals == unrolled.total.transcendentals
    assert scanned.total.flops == pytest.approx(unrolled.total.flops, rel=0.05)


def test_trip_counts_are_derived_before_xla_writes_them_and_the_same_after():
    before, after = report("scanned", 0), report("scanned", 1)
    assert {loop.source for loop in before.loops} == {"derived"}
    assert {loop.source for loop in after.loops} == {"known_trip_count"}
    assert flops_of(before, "dot") == flops_of(after, "dot")


BRANCHES = """
many {
  x = f32[8] parameter(0)
  a = f32[8] negate(x)
  b = f32[8] negate(a)
  ROOT c = f32[8] negate(b)
}
few {
  x = f32[8] parameter(0)
  ROOT a = f32[8] tanh(x)
}
none {
  ROOT x = f32[8] parameter(0)
}
ENTRY main {
  i = s32[] parameter(0)
  x = f32[8] parameter(1)
  ROOT r = f32[8] conditional(i, x, x, x), branch_computations={many, few, none}
}
"""


def test_conditionals_cost_their_costliest_branch_property_by_property():
    cost_report = cost(parse(BRANCHES))
    assert cost_report.total == cost_report.total_once == Cost(24, 8, 192)
    assert cost_report.minimum == Cost(0, 0, 0)
    (conditional,) = cost_report.conditionals
    assert conditional.branches == (("many", Cost(24, 0, 192)), ("few", Cost(0, 8, 64)), ("none", Cost()))


def test_of_a_conditional_each_property_stands_at_its_branch():
    cost_report = cost(parse(BRANCHES))
    by_computation = {row["computation"]: row for row in cost_report.by("computation")}
    assert by_computation["many"]["flops"] == 24
    assert by_computation["few"]["transcendentals"] == 8
    assert sum((node_cost.total for node_cost in cost_report.per_node), Cost()) == cost_report.total


def test_true_and_false_branches():
    text = BRANCHES.replace("i = s32[]", "i = pred[]").replace(
        "conditional(i, x, x, x), branch_computations={many, few, none}",
        "conditional(i, x, x), true_computation=few, false_computation=none",
    )
    (conditional,) = cost(parse(text)).conditionals
    assert [name for name, _ in conditional.branches] == ["few", "none"]


@pytest.mark.parametrize("most", [0, 2, 1 << 20])
def test_pairs_of_window_and_result_positions(monkeypatch: pytest.MonkeyPatch, most: int):
    """Counted by windows, by results, or from above: the first two are what going through all pairs gives."""
    random = Random(most)
    monkeypatch.setattr(contraction, "MOST_POSITIONS", most)
    contraction.positions.cache_clear()
    for _ in range(400):
        base, kernel, result = (random.randint(1, 6) for _ in range(3))
        stride, hole, dilation = (random.randint(1, 3) for _ in range(3))
        low = random.randint(-2, 4)
        window = WindowDimension(kernel, stride, low, 0, hole, dilation)
        met = sum(
            (position := o * stride - low + k * dilation) % hole == 0 and 0 <= position // hole < base
            for o in range(result)
            for k in range(kernel)
        )
        counted = contraction.positions(base, kernel, result, window)
        assert counted == met if most > 6 or result < most else counted >= met
    contraction.positions.cache_clear()


def test_a_window_of_a_billion_is_counted_soon():
    window = WindowDimension(10**9, padding_low=10**9 - 1)
    assert contraction.positions(4, 10**9, 4, window) == 10
    assert contraction.positions(10**9, 10**9, 4, window) == 10
