"""Every pipeline of a chain: all cuts, widths and choices of recomputation, as the search is said to cover them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from hloom.distribute.pipeline.plan import PipelinePlan, Schedule, Stage
from hloom.distribute.pipeline.stage_costs import Pace, StageCosts


def pipelines(costs: StageCosts, microbatches: int, schedule: Schedule) -> Iterator[PipelinePlan]:
    layers, devices = len(costs.chain.layers), costs.machine.count
    widths = [width for width in range(1, devices + 1) if costs.microbatch % width == 0]
    for count in range(1, min(layers, devices) + 1):
        for cuts in combinations(range(1, layers), count - 1):
            firsts, ends = (0, *cuts), (*cuts, layers)
            for chosen in product(widths, repeat=count):
                if sum(chosen) > devices:
                    continue
                stages, offset = [], 0
                for first, end, width in zip(firsts, ends, chosen, strict=True):
                    stages.append(Stage(first, end - 1, tuple(range(offset, offset + width))))
                    offset += width
                for recompute in product((False, True), repeat=count):
                    yield PipelinePlan(tuple(stages), microbatches, schedule, recompute)


def least_bound(costs: StageCosts, microbatches: int, schedule: Schedule, pace: Pace = Pace.WITH_TRANSFERS) -> float | None:
    """The least bound of the pipelines whose devices hold what the schedule makes them hold."""
    bounds = [
        costs.step_seconds(plan, pace)
        for plan in pipelines(costs, microbatches, schedule)
        if max(costs.peak_bytes(plan)) <= costs.machine.memory_bytes
    ]
    return min(bounds, default=None)
