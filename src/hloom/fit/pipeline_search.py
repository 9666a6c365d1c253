"""Combinations in stages: the best pipelines of a step on the devices, and GPipe as people write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hloom.analysis import Device
from hloom.fit.combination import Combination
from hloom.fit.combination_cost import PipelineCosts
from hloom.ir import Module
from hloom.pipeline import Machine, PlannedPipeline, Schedule, plan_pipeline, step_chain
from hloom.text import HloomError

GPIPE = "GPipe"
MOST_LAYERS = 64
"""Longer chains are planned with neighbouring layers merged."""
SEARCHED = (Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE, Schedule.INTERLEAVED)


def pipelines(
    module: Module,
    device: Device,
    devices: int,
    memory: float | None,
    microbatches: Sequence[int],
    examples: int,
    batch: Mapping[str, int],
) -> tuple[list[Combination], dict[str, str]]:
    """The best pipeline of each schedule within the memory; and why there is none, by what was asked.

    Raises HloomError where the step cannot be cut.
    """
    counts = [count for count in microbatches if examples % count == 0]
    measured_at = next((count for count in counts if count > 1), counts[0])
    chain = step_chain(module, device, microbatches=measured_at, batch=batch)
    if len(chain.layers) > MOST_LAYERS:
        raise HloomError(
            f"{module.name} has {len(chain.layers)} layers: stages of at most {MOST_LAYERS} are searched",
            hint="plan them with hloom.pipeline, layers merged",
        )
    if len(chain.layers) < 2:
        raise HloomError(f"{module.name} has one layer: more stages than layers are not possible")
    machine = Machine.of(device, devices, memory)
    costs = PipelineCosts(module, chain, machine, device, batch)
    most = min(len(chain.layers), devices)
    made: list[Combination] = []
    problems: dict[str, str] = {}
    wide = replace(machine, memory_bytes=float("inf"))
    for schedule in (Schedule.GPIPE, *SEARCHED):
        name = GPIPE if schedule is Schedule.GPIPE else schedule.value
        stages = range(2, (len(chain.layers) if schedule is Schedule.INTERLEAVED else most) + 1)
        for limits in (machine, wide) if schedule is Schedule.GPIPE else (machine,):
            try:
                planned = plan_pipeline(
                    chain, limits, chain.batch * measured_at, microbatches=counts, schedules=(schedule,),
                    stage_counts=stages, has_overlap=False,
                )  # fmt: skip
            except HloomError as problem:
                if schedule is not Schedule.INTERLEAVED:  # which only some numbers of layers and devices allow
                    problems[name] = problem.message
                continue
            made.append(_combination(module, planned, costs, chain.batch * measured_at, name, batch))
            break
    return made, problems


def _combination(
    module: Module, planned: PlannedPipeline, costs: PipelineCosts, examples: int, name: str, batch: Mapping[str, int]
) -> Combination:
    plan = planned.plan
    widths = [len(group) for group in plan.device_groups]
    shown = f"{len(plan.stages)} stages on {'+'.join(map(str, widths[:8]))}{'+...' * (len(widths) > 8)}"
    return Combination(
        f"{name}, {shown}{', recomputing' if any(plan.recompute) else ''}",
        module,
        plan.microbatches,
        0.0 if any(plan.recompute) else 1.0,
        costs.cost(planned, examples),
        pipeline=plan,
        baseline=GPIPE if name == GPIPE else "",
        batch=batch,
    )
