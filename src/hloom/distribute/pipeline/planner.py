"""Finds the best pipeline for a chain of layers on a machine: microbatches, schedule, stages, devices, recomputation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hloom.distribute.pipeline.chain import Chain, layer_runs, merge_layers, min_max_partition
from hloom.distribute.pipeline.machine import Machine
from hloom.distribute.pipeline.plan import InvalidPlan, PipelinePlan, Schedule, Stage
from hloom.distribute.pipeline.refinement import refine_cuts
from hloom.distribute.pipeline.search import StagePlan, best_stages
from hloom.distribute.pipeline.simulation import Simulation, simulate
from hloom.distribute.pipeline.stage_costs import IndivisibleBatch, Pace, StageCosts, StageTimes
from hloom.text import Unattainable

BOUND_SLACK = 1.25
"""The maximum ratio of a plan's bound to the fastest plan's step for the plan to be examined."""
REFINED_SLACK = 1.3
"""The maximum ratio of a plan's step to the fastest one for its cuts to be refined."""
MOST_REFINED = 8
"""The maximum number of plans to refine."""
MERGED_LAYERS = 64
"""To how many layers long chains are merged."""
MICROBATCHES_PER_DEVICE = 16
"""The default maximum of microbatches, as a multiple of the devices: more leave hardly any bubble to fill."""


class DoesNotFit(Unattainable):
    """No pipeline of those searched fits into the devices' memory."""


@dataclass(frozen=True, slots=True)
class PlannedPipeline:
    """A plan with what it is expected to take.

    `bound_seconds` is its `StageCosts.step_seconds`, an upper bound for 1F1B, and for interleaved stages the simulated
    step; `simulation` runs the step as the schedule has it. `peak_bytes` is by group of devices, for each device of it.
    `searched` are the stages of the least bound; None for a plan of one's own and for interleaved stages.
    """

    plan: PipelinePlan
    times: tuple[StageTimes, ...]
    bound_seconds: float
    simulation: Simulation
    peak_bytes: tuple[int, ...]
    searched: StagePlan | None = None
    json_keys = "plan step_seconds bubble peak_bytes stages=times"

    @property
    def step_seconds(self) -> float:
        """Seconds of a step, gradients' all-reduce included, by the simulation."""
        return self.simulation.step_seconds

    @property
    def bubble(self) -> float:
        """The share of the devices' time in which they wait, until the pipeline's end."""
        return self.simulation.bubble


def plan_pipeline(
    chain: Chain,
    machine: Machine,
    batch: int,
    *,
    microbatches: Sequence[int] | None = None,
    schedules: Sequence[Schedule] = (Schedule.ONE_F_ONE_B,),
    stage_counts: Iterable[int] | None = None,
    has_overlap: bool = True,
) -> PlannedPipeline:
    """The pipeline with the shortest step for a global batch of this size that fits in each device's memory.

    For 1F1B, GPipe and ZB-H1 the search minimises a bound and an estimate of the step for each number of microbatches
    (`search.py`); for the interleaved schedule all groups have as many devices, and the cuts make the slowest stage as
    fast as can be. The simulation decides among these, with cuts moved as long as it gets shorter (`refinement.py`).
    Unless given, the numbers of microbatches are the divisors of the batch up to MICROBATCHES_PER_DEVICE times the
    devices, and those of stages all that there are layers and devices for.

    Raises IndivisibleBatch, InvalidPlan for more stages than layers or devices, DoesNotFit, and SearchTooLarge.
    """
    choices = _microbatches(batch, machine, microbatches)
    counts = _stage_counts(chain, machine, stage_counts)
    if not schedules:
        raise InvalidPlan("no schedule to plan for", hint="give one or more of the names in Schedule")
    planned = [
        better
        for schedule in dict.fromkeys(schedules)
        for better in [_planned(chain, machine, batch, choices, counts, schedule, has_overlap)]
        if better is not None
    ]
    if not planned:
        if set(schedules) == {Schedule.INTERLEAVED}:
            _check_interleaved(machine, batch, choices, counts)
        raise _does_not_fit(chain, machine, batch, choices)
    return min(planned, key=lambda pipeline: pipeline.step_seconds)


def plan_merged_pipeline(
    chain: Chain,
    machine: Machine,
    batch: int,
    *,
    most_layers: int = MERGED_LAYERS,
    microbatches: Sequence[int] | None = None,
    schedules: Sequence[Schedule] = (Schedule.ONE_F_ONE_B,),
    stage_counts: Iterable[int] | None = None,
) -> PlannedPipeline:
    """As `plan_pipeline`, of a chain that is merged to `most_layers` layers if it has more; stages are of all layers.

    Stages then end where merged layers do, which are as equal as can be.
    """
    counts = None if stage_counts is None else _stage_counts(chain, machine, stage_counts)
    runs = layer_runs(chain, max([most_layers, *(counts or ())]))
    merged = merge_layers(chain, len(runs))
    planned = plan_pipeline(merged, machine, batch, microbatches=microbatches, schedules=schedules, stage_counts=counts)
    if merged is chain:
        return planned
    stages = [replace(stage, first=runs[stage.first][0], last=runs[stage.last][1]) for stage in planned.plan.stages]
    plan = replace(planned.plan, stages=tuple(stages))
    return replace(planned, plan=plan, simulation=replace(planned.simulation, plan=plan), searched=None)


def evaluate_plan(costs: StageCosts, plan: PipelinePlan) -> PlannedPipeline:
    """The costs of a given plan. Raises IndivisibleBatch if a stage's devices do not divide a microbatch."""
    if plan.stages[-1].last != len(costs.chain.layers) - 1:
        raise InvalidPlan(
            f"the last stage ends with layer {plan.stages[-1].last} of {len(costs.chain.layers)}",
            hint=f"it has to end with layer {len(costs.chain.layers) - 1}",
        )
    highest = max(device for stage in plan.stages for device in stage.devices)
    if highest >= costs.machine.count:
        raise InvalidPlan(
            f"device {highest} is not among the machine's {costs.machine.count}", hint="they are counted from 0"
        )
    times = costs.stage_times(plan)
    simulation = simulate(plan, times)
    is_interleaved = len(plan.stages) > len(plan.device_groups)
    bound = simulation.step_seconds if is_interleaved else costs.step_seconds(plan)
    return PlannedPipeline(plan, times, bound, simulation, costs.peak_bytes(plan))


def _planned(
    chain: Chain,
    machine: Machine,
    batch: int,
    choices: Sequence[int],
    counts: Sequence[int],
    schedule: Schedule,
    has_overlap: bool,
) -> PlannedPipeline | None:
    """The best for one schedule by the simulation, of what is best by formulas for each number of microbatches."""
    least: StagePlan | None = None
    evaluated: list[tuple[PlannedPipeline, StageCosts]] = []
    fastest = math.inf
    for microbatches in choices:
        costs = StageCosts(chain, machine, batch // microbatches, has_overlap=has_overlap)
        if schedule is Schedule.INTERLEAVED:
            plans = list(_interleaved(costs, microbatches, counts, fastest))
        else:
            plans = []
            for pace in Pace:
                limit = BOUND_SLACK * fastest
                searched = best_stages(costs, microbatches, schedule, pace=pace, stage_counts=counts, below=limit)
                if searched is None:
                    continue
                plans += [searched.plan] if searched.plan not in plans else []
                if pace is Pace.WITH_TRANSFERS and (least is None or searched.bound_seconds < least.bound_seconds):
                    least = searched
        evaluated += [(evaluate_plan(costs, plan), costs) for plan in plans]
        fastest = min([fastest, *(pipeline.step_seconds for pipeline, _ in evaluated)])
    near = [pair for pair in evaluated if pair[0].step_seconds <= REFINED_SLACK * fastest]
    near.sort(key=lambda pair: pair[0].step_seconds)
    refined = [evaluate_plan(costs, refine_cuts(costs, pipeline.plan)) for pipeline, costs in near[:MOST_REFINED]]
    if not refined:
        return None
    return replace(min(refined, key=lambda pipeline: pipeline.step_seconds), searched=least)


def _interleaved(costs: StageCosts, microbatches: int, counts: Sequence[int], below: float) -> Iterator[PipelinePlan]:
    """Interleaved stages on each possible number of groups, without recomputation where that fits, or with.

    Left out are those in which a group alone works as long as a limit.
    """
    count = costs.machine.count
    for groups in range(2, count + 1):
        width = count // groups
        if microbatches % groups or costs.microbatch % width:
            continue
        for stages in counts:
            if stages % groups or stages == groups:
                continue
            seconds = costs.seconds(width, False).diagonal().tolist()
            ends = _split_to(min_max_partition(seconds, stages), stages)
            firsts = [0, *(end + 1 for end in ends[:-1])]
            cut = tuple(
                Stage(first, end, tuple(range(number % groups * width, (number % groups + 1) * width)))
                for number, (first, end) in enumerate(zip(firsts, ends, strict=True))
            )
            table = costs.seconds(width, False)
            work = [sum(table[stage.first, stage.last] for stage in cut[group::groups]) for group in range(groups)]
            for recomputes in (False, True) if microbatches * max(work) < below else ():
                plan = PipelinePlan(cut, microbatches, Schedule.INTERLEAVED, (recomputes,) * stages)
                if max(costs.peak_bytes(plan)) <= costs.machine.memory_bytes:
                    yield plan
                    break


def _split_to(ends: Sequence[int], count: int) -> list[int]:
    """As many runs as asked for, by splitting those of several layers; that makes none slower.

    >>> _split_to([2, 3], 3)
    [0, 2, 3]
    """
    result, missing, first = [], count - len(ends), 0
    for end in ends:
        splits = min(missing, end - first)
        result += [*range(first, first + splits), end]
        missing -= splits
        first = end + 1
    return result


def _microbatches(batch: int, machine: Machine, chosen: Sequence[int] | None) -> list[int]:
    """Numbers of microbatches to try, those first that are usual: a few times the devices."""
    if batch < 1:
        raise IndivisibleBatch(f"a batch of {batch} examples", hint="it has one or more")
    if chosen is None:
        most = min(batch, MICROBATCHES_PER_DEVICE * machine.count)
        chosen = [count for count in range(1, most + 1) if batch % count == 0]
    for count in chosen:
        if count < 1 or batch % count:
            near = [other for other in range(1, min(batch, 4096) + 1) if batch % other == 0]
            nearest = sorted(near, key=lambda other: abs(other - count))[:3]
            raise IndivisibleBatch(
                f"a batch of {batch} examples cannot be split into {count} microbatches",
                hint=f"choose a divisor, such as {', '.join(map(str, sorted(nearest)))}",
            )
    return sorted(set(chosen), key=lambda count: abs(math.log(count / (4 * machine.count))))


def _stage_counts(chain: Chain, machine: Machine, chosen: Iterable[int] | None) -> list[int]:
    layers = len(chain.layers)
    if chosen is None:
        return list(range(1, layers + 1))
    counts = sorted(set(chosen))
    for count in counts:
        if not 1 <= count <= layers:
            raise InvalidPlan(
                f"{count} stages of a chain of {layers} layers", hint=f"from 1 to {layers} stages are possible"
            )
    if counts and counts[0] > machine.count:
        raise InvalidPlan(
            f"{counts[0]} stages on {machine.count} devices",
            hint=f"at most {machine.count}: only the interleaved schedule puts several on one",
        )
    return counts


def _check_interleaved(machine: Machine, batch: int, choices: Sequence[int], counts: Sequence[int]) -> None:
    """Raise InvalidPlan where no number of groups of devices may have interleaved stages."""
    for groups in range(2, machine.count + 1):
        width = machine.count // groups
        has_batch = any(m % groups == 0 and batch // m % width == 0 for m in choices)
        if has_batch and any(stages % groups == 0 and stages > groups for stages in counts):
            return
    raise InvalidPlan(
        f"no interleaved stages on {machine.count} devices",
        hint="they are two or more on each of two groups of devices or more, which divide the microbatches",
    )


def _does_not_fit(chain: Chain, machine: Machine, batch: int, choices: Sequence[int]) -> DoesNotFit:
    """The error that names what is too large: one layer alone, or all layers together."""
    costs = StageCosts(chain, machine, batch // max(choices))
    width = max(width for width in range(1, machine.count + 1) if costs.microbatch % width == 0)
    alone = costs.memory_bytes(width, 1, False).diagonal()
    largest = int(alone.argmax())
    shown = f"{machine.memory_bytes:,.0f} bytes of memory on each of {machine.count} devices"
    if alone[largest] > machine.memory_bytes:
        return DoesNotFit(
            f"no pipeline fits into {shown}: layer {chain.layers[largest].name} alone needs {alone[largest]:,.0f}",
            hint="split the layer, or use devices with more memory",
        )
    return DoesNotFit(
        f"no pipeline fits into {shown}: parameters, gradients and the optimizer's state take "
        f"{costs.state[0, -1]:,.0f} bytes in all",
        hint="use more devices, more microbatches, or devices with more memory",
    )
