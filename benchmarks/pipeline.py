"""Figures of pipelines: plans against all plans of small chains, the bound against the step, and how planning grows."""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.clock import Job, Times, take_turns
from benchmarks.figures import AtMost, Figure, milliseconds
from benchmarks.programs import Plan
from hloom.analysis import Interconnect
from hloom.distribute.pipeline import (
    Chain,
    LayerCost,
    Machine,
    Schedule,
    StageCosts,
    best_stages,
    plan_pipeline,
    simulate,
)
from tests.distribute.pipeline.brute_force import least_bound

CHAINS = 40
"""How many small chains are planned in all ways."""
MICROBATCHES = 32
OPTIMAL = AtMost(1 + 1e-9)
UPPER_BOUND = AtMost(1 + 1e-9)
QUADRATIC, SQUARED_WIDTHS = AtMost(1.5), AtMost(8)
NEAR = Interconnect("near", "NVLink", "switch", 300e9, 2e-6, 8)
FAR = Interconnect("far", "InfiniBand", "switch", 25e9, 1e-5)


def pipelines(plan: Plan) -> Iterator[Figure]:
    """Quality on random chains, and the time of the dynamic program over layers and over devices."""
    yield from _quality()
    counts = plan.layers[0], plan.layers[-1]
    jobs = [Job(_search, lambda count=count: (count, 16)) for count in counts]
    less, more = take_turns(jobs, plan.seconds)
    squared = (counts[1] / counts[0]) ** 2
    subject = f"stages of {counts[1]} layers against {counts[0]}, by layers squared"
    yield _growth(subject, less, more, squared, QUADRATIC)
    jobs = [Job(_search, lambda devices=devices: (counts[0], devices)) for devices in (8, 32)]
    less, more = take_turns(jobs, plan.seconds)
    yield _growth("stages on 32 devices against 8, by devices", less, more, 4.0, SQUARED_WIDTHS)
    (whole,) = take_turns([Job(_plan, lambda: counts[0])], plan.seconds)
    yield Figure(
        f"a pipeline of {counts[0]} layers on 16 devices, all microbatches", milliseconds(whole.best), "limit", "10 s",
        whole.best / 10, whole.median / 10, AtMost(1),
    )  # fmt: skip


def _quality() -> Iterator[Figure]:
    """The worst of the plans against the best of all plans, and of simulated steps against their bounds."""
    draw = random.Random(0)
    worst, longest, planned = 1.0, 0.0, 0
    for _ in range(CHAINS):
        costs, microbatches = _small(draw), draw.choice([1, 2, 4, 8])
        best = best_stages(costs, microbatches)
        if best is None:
            continue
        planned += 1
        worst = max(worst, best.bound_seconds / (least_bound(costs, microbatches, Schedule.ONE_F_ONE_B) or 1.0))
        step = simulate(best.plan, costs.stage_times(best.plan)).step_seconds
        longest = max(longest, step / best.bound_seconds)
    yield Figure(f"plans of {planned} chains", "the worst", "best of all plans", "1", worst, worst, OPTIMAL)
    yield Figure("their simulated steps", "the longest", "bound", "1", longest, longest, UPPER_BOUND)


def _small(draw: random.Random) -> StageCosts:
    layers = []
    for number in range(draw.randint(2, 5)):
        forward, inputs, activations, outputs, parameters = (draw.uniform(0.1, 2) for _ in range(5))
        layers.append(
            LayerCost(str(number), forward, inputs + 0.5, 4 * activations, outputs, parameters, parameters, 0.5, 0.1)
        )
    links = (Interconnect("near", "near", "ring", 20.0, 0.0, 2), Interconnect("far", "far", "ring", 2.0, 0.01))
    machine = Machine(draw.choice([2, 4]), draw.choice([20.0, 40.0]), links)
    return StageCosts(Chain(tuple(layers), 4), machine, draw.choice([2, 4]))


def _search(size: tuple[int, int]) -> object:
    layers, devices = size
    return best_stages(StageCosts(_chain(layers), Machine(devices, 40e9, (NEAR, FAR)), 8), MICROBATCHES)


def _plan(layers: int) -> object:
    return plan_pipeline(_chain(layers), Machine(16, 40e9, (NEAR, FAR)), 256)


def _chain(count: int) -> Chain:
    """Layers that take between two and three times as long as the fastest, as a model's do."""
    draw = random.Random(count)
    factors = [draw.uniform(1, 3) for _ in range(count)]
    return Chain(tuple(_layer(str(number), factor) for number, factor in enumerate(factors)), 8)


def _layer(name: str, factor: float) -> LayerCost:
    return LayerCost(
        name, 0.01 * factor, 0.02 * factor, 6e8 * factor, 16e6, 2e8 * factor, 4e8 * factor, 0.01 * factor
    )


def _growth(subject: str, less: Times, more: Times, expected: float, bar: AtMost) -> Figure:
    return Figure(
        subject,
        milliseconds(more.best),
        "itself",
        milliseconds(less.best),
        more.best / less.best / expected,
        more.median / less.median / expected,
        bar,
    )
