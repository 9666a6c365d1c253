"""Pipeline combinations: the best pipelines of a step on the devices, GPipe, and stages on meshes.

Stages of devices that share the batch are planned for each schedule by the dynamic program of `hloom.pipeline`, from
layers priced once. The best of each schedule is priced as its programs run, unless it is expected to take longer than
the best that is known. Stages on meshes are equal cuts, priced where their work alone does not take longer than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hloom.analysis import Device
from hloom.distribute.fit.combination import Combination
from hloom.distribute.fit.combination_cost import PipelineCosts
from hloom.distribute.pipeline import (
    Chain,
    Machine,
    PipelinePlan,
    PlannedPipeline,
    Schedule,
    Stage,
    StageCosts,
    StageTimes,
    min_max_partition,
    plan_pipeline,
    simulate,
    step_chain,
)
from hloom.ir import Module, paused_collection
from hloom.text import HloomError

GPIPE = "GPipe"
MOST_LAYERS = 64
"""Longer chains are planned with neighbouring layers merged."""
SEARCHED = (Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE, Schedule.INTERLEAVED)
RETRIES = 2
"""How often a pipeline that does not fit with its temporaries is planned again, for so much less memory."""
MOST_ON_MESHES = 6
"""The maximum number of pipelines with stages on meshes to price."""


@dataclass
class PipelineResults:
    """The pipelines that were priced; why there is none, by what was asked; how many a bound ruled out."""

    combinations: list[Combination] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    pruned: int = 0

    def best_seconds(self, memory: float, known: float) -> float:
        """The step time of the fastest that fits, what is `known` already included."""
        return min([known, *(made.cost.step_seconds for made in self.combinations if made.fits(memory))])


@paused_collection()
def pipelines(
    module: Module,
    device: Device,
    devices: int,
    memory: float,
    microbatches: Sequence[int],
    examples: int,
    batch: Mapping[str, int],
    known: float = math.inf,
) -> PipelineResults:
    """Pipelines within the memory that may take less than the `known` seconds, and GPipe.

    Raises HloomError where the step cannot be cut.
    """
    counts = [count for count in microbatches if examples % count == 0]
    measured_at = next((count for count in counts if count > 1), counts[0])
    chain = step_chain(module, device, microbatches=measured_at, batch=batch, fewest=2)
    if len(chain.layers) > MOST_LAYERS:
        raise HloomError(
            f"{module.name} has {len(chain.layers)} layers: stages of at most {MOST_LAYERS} are searched",
            hint="plan them with hloom.pipeline, layers merged",
        )
    machine = Machine.of(device, devices, memory)
    costs = PipelineCosts(module, chain, machine, device, batch)
    search = _PipelineSearch(module, chain, machine, costs, counts, chain.batch * measured_at, batch, known)
    search.shared_batch()
    search.on_meshes()
    return search.results


class _PipelineSearch:
    """The pipelines of one chain on one machine."""

    def __init__(
        self,
        module: Module,
        chain: Chain,
        machine: Machine,
        costs: PipelineCosts,
        counts: Sequence[int],
        examples: int,
        batch: Mapping[str, int],
        known: float,
    ) -> None:
        self.module, self.chain, self.machine, self.costs = module, chain, machine, costs
        self.counts, self.examples, self.batch, self.known = counts, examples, batch, known
        self.results = PipelineResults()

    @property
    def best_seconds(self) -> float:
        """The step time of the fastest that fits, sharded ones included."""
        return self.results.best_seconds(self.machine.memory_bytes, self.known)

    def shared_batch(self) -> None:
        """Price the best of each schedule, the fastest first; GPipe always, also where it does not fit."""
        planned: dict[Schedule, PlannedPipeline] = {}
        for schedule in (Schedule.GPIPE, *SEARCHED):
            try:
                planned[schedule] = self._planned(schedule, self.machine)
            except HloomError as problem:
                if schedule is Schedule.GPIPE:
                    self._price_wide(problem)
                elif schedule is not Schedule.INTERLEAVED:  # which only some numbers of layers and devices allow
                    self.results.problems[schedule.value] = problem.message
        for schedule, expected in sorted(planned.items(), key=lambda item: item[1].step_seconds):
            if schedule is not Schedule.GPIPE and expected.step_seconds >= self.best_seconds:
                self.results.pruned += 1
            else:
                self._price(schedule, expected)

    def _planned(self, schedule: Schedule, machine: Machine) -> PlannedPipeline:
        layers = len(self.chain.layers)
        most = layers if schedule is Schedule.INTERLEAVED else min(layers, machine.count)
        return plan_pipeline(
            self.chain, machine, self.examples, microbatches=self.counts, schedules=(schedule,),
            stage_counts=range(2, most + 1), has_overlap=False,
        )  # fmt: skip

    def _price_wide(self, problem: HloomError) -> None:
        """GPipe whatever it holds: people write it, and are told that it does not fit."""
        try:
            wide = self._planned(Schedule.GPIPE, replace(self.machine, memory_bytes=float("inf")))
        except HloomError:
            self.results.problems[GPIPE] = problem.message
            return
        self._add(wide.plan, _called(Schedule.GPIPE))

    def _price(self, schedule: Schedule, expected: PlannedPipeline) -> None:
        """Price a plan; where its temporaries are too much, plan again for what they leave."""
        name, memory = _called(schedule), self.machine.memory_bytes
        for _ in range(RETRIES + 1):
            made = self._add(expected.plan, name)
            missing = made.cost.peak_bytes - self.machine.memory_bytes
            memory = min(memory - missing, max(expected.peak_bytes) - 1)
            if missing <= 0 or memory <= 0:
                return
            try:
                expected = self._planned(schedule, replace(self.machine, memory_bytes=memory))
            except HloomError:
                return

    def on_meshes(self) -> None:
        """Price equal cuts into stages on meshes, each in as many microbatches as is expected to be best."""
        best: dict[str, PipelinePlan] = {}
        plans = list(self._mesh_plans())
        for plan in sorted(plans, key=lambda plan: (self._work_seconds(plan, 1.0), plan.microbatches)):
            best.setdefault(f"{len(plan.stages)} {plan.stages[0].mesh}", plan)
        self.results.pruned += len(plans) - len(best)
        for priced, plan in enumerate(best.values()):
            least = self._work_seconds(plan, 1 / len(plan.stages[0].devices))
            if least >= self.best_seconds or priced >= MOST_ON_MESHES:
                self.results.pruned += 1
                continue
            try:
                self._add(plan, f"{plan.schedule.value} of {plan.stages[0].mesh}")
            except HloomError as problem:
                self.results.problems[f"stages on {plan.stages[0].mesh}"] = problem.message

    def _mesh_plans(self) -> Iterator[PipelinePlan]:
        """Equal cuts, each stage on a mesh with tensor parallelism, for each number of microbatches."""
        count = self.machine.count
        seconds = [layer.forward_seconds + layer.backward_seconds for layer in self.chain.layers]
        for stages in range(2, min(count, len(seconds)) + 1):
            width = count // stages
            ends = min_max_partition(seconds, stages)
            if count % stages or width < 2 or len(ends) < stages:
                continue
            firsts = [0, *(end + 1 for end in ends[:-1])]
            for data in (size for size in range(1, width) if width % size == 0):
                mesh = f"data={data},model={width // data}" if data > 1 else f"model={width}"
                cut = tuple(
                    Stage(first, end, tuple(range(number * width, (number + 1) * width)), mesh)
                    for number, (first, end) in enumerate(zip(firsts, ends, strict=True))
                )
                for microbatches in self.counts:
                    if self.examples // microbatches % data == 0:
                        yield PipelinePlan(cut, microbatches)

    def _work_seconds(self, plan: PipelinePlan, fixed: float) -> float:
        """What a step takes if the work of each stage is divided among its devices, and nothing is sent inside.

        `fixed` is the share that counts of the seconds that do not depend on the microbatch's size.
        """
        costs = StageCosts(self.chain, self.machine, self.examples // plan.microbatches, has_overlap=False)
        times: list[StageTimes] = []
        for stage in plan.stages:
            layers, width = (stage.first, stage.last), len(stage.devices)
            forward = float(costs.forward[layers]) / width + fixed * float(costs.forward_fixed[layers])
            backward = float(costs.backward[layers]) / width + fixed * float(costs.backward_fixed[layers])
            times.append(StageTimes(forward, backward, float(costs.weight[layers]) / width, 0.0, 0.0))
        return simulate(plan, times).step_seconds

    def _add(self, plan: PipelinePlan, name: str) -> Combination:
        widths = [len(group) for group in plan.device_groups]
        shown = f"{len(plan.stages)} stages on {'+'.join(map(str, widths[:8]))}{'+...' * (len(widths) > 8)}"
        made = Combination(
            f"{name}, {shown}{', recomputing' if any(plan.recompute) else ''}",
            self.module,
            plan.microbatches,
            0.0 if any(plan.recompute) else 1.0,
            self.costs.cost(plan, self.examples),
            pipeline=plan,
            baseline=GPIPE if plan.schedule is Schedule.GPIPE else "",
            batch=self.batch,
        )
        self.results.combinations.append(made)
        return made


def _called(schedule: Schedule) -> str:
    return GPIPE if schedule is Schedule.GPIPE else schedule.value
