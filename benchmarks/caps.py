"""Figures of planning within a memory budget: time over memory between the least that is found and the free plan's."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.figures import AtMost, Figure
from benchmarks.programs import Plan, training_step
from hloom.distribute.planner import search_plans
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.sharding import Mesh

LAYERS = 4
"""Layers of the program: a plan within a budget takes most of a minute."""
POINTS = 5
"""How many budgets there are between the least memory and the free plan's."""
SECONDS = 60.0
"""What a plan within a budget may take, in seconds of the processor."""
LITTLE = 1e-6
"""The share of the free plan's memory that nothing fits in: the search then gives the least that it finds."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """The seconds of a step, the bytes at the peak, the least time that is known, and the seconds of planning."""

    step: float
    memory: float
    bound: float
    seconds: float


def caps(plan: Plan) -> Iterator[Figure]:
    """The curve at some budgets beside its bound; whether it falls; the longest that a plan took."""
    program = training_step(replace(plan.small, layers=min(LAYERS, plan.small.layers)), metadata=False)
    module, mesh = parse(program.text), Mesh.parse("x=8")
    free = _planned(module, mesh, None)
    least = _planned(module, mesh, LITTLE * free.memory)
    span = free.memory - least.memory
    budgets = [least.memory + span * (point + 0.5) / POINTS for point in range(POINTS)]
    curve = [_planned(module, mesh, budget) for budget in budgets]
    for budget, point in zip(budgets, curve, strict=True):
        ratio = point.step / min(point.step, max(point.bound, free.step))
        yield Figure(
            f"{program.name} on 8 in {budget / 1e6:,.0f} MB",
            f"{1e3 * point.step:.3f} ms",
            "least time of the changes simulated",
            f"{1e3 * max(point.bound, free.step):.3f} ms",
            ratio,
            ratio,
            AtMost(1.05),
        )
    rises = max((later.step / before.step for before, later in itertools.pairwise(curve)), default=1.0)
    yield Figure("the curve over memory", "largest rise", "none", "1", rises, rises, AtMost(1.001))
    slowest = max(point.seconds for point in (least, *curve))
    share = slowest / SECONDS
    yield Figure("the slowest plan", f"{slowest:.1f} s", "bar", f"{SECONDS:g} s", share, share, AtMost(1))


def _planned(module: Module, mesh: Mesh, budget: float | None) -> _Planned:
    start = time.process_time()
    result = search_plans(module, mesh, budget=budget)
    best = result.best
    best.predict_memory()
    return _Planned(best.step(result.rates), best.memory or 0.0, best.bound_with_memory, time.process_time() - start)
