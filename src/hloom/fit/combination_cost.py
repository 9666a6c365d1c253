"""What a combination takes, by one model: the roofline of what one device runs, then its collectives.

Of a sharded program that is the program of one device with the collectives that the partitioner emits; of a pipeline
the layers of the stages' modules, their update, and the simulated order of work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hloom.analysis import CollectiveCost, Device, collective_seconds, comm_factor, roofline, step_count
from hloom.fit.combination import DeviceCost
from hloom.ir import Module
from hloom.microbatch import Batch
from hloom.pipeline import (
    Chain,
    Machine,
    PipelineProgram,
    PlannedPipeline,
    StageCosts,
    StageProgram,
    pipeline_program,
)
from hloom.planner import CandidatePlan, device_program
from hloom.sharding import Axes, Mesh
from hloom.xla_cpu import simulate_buffers

COLLECTIVES = frozenset({"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"})


def work_seconds(module: Module, device: Device) -> dict[str, float]:
    """Seconds of what a device computes and moves, by what limits it; collectives apart."""
    seconds = {"compute": device.start_seconds, "memory": 0.0, "launch": 0.0}
    for timing in roofline(module, device).timings:
        if timing.node.opcode in COLLECTIVES:
            continue
        limit = "compute" if timing.compute >= timing.memory else "memory"
        seconds[limit] += max(timing.compute, timing.memory) * timing.times
        seconds["launch"] += timing.launch * timing.times
    return seconds


def ideal_seconds(module: Module, device: Device, devices: int) -> float:
    """What a program takes at least on so many devices: all its work divided among them, nothing sent."""
    seconds = work_seconds(module, device)
    return (seconds["compute"] + seconds["memory"]) / devices


@dataclass(slots=True)
class ShardedProgram:
    """One device's program under a plan with its seconds by cause; the program is kept until it is simulated."""

    module: Module | None
    seconds: Mapping[str, float]
    comm_bytes: float

    @staticmethod
    def of(candidate: CandidatePlan, device: Device) -> ShardedProgram:
        """The program of a plan whose solution is known."""
        solution = candidate.solution
        assert solution is not None, "a plan that was solved or completed"
        problem = solution.problem
        program = device_program(problem, solution.choice.strategies, solution.specs).module
        seconds = {**work_seconds(program, device), "links": 0.0}
        sent = 0.0
        members: dict[Axes, tuple[int, ...]] = {}
        for collective in solution.forecast.collectives:
            step = collective.step
            if step.axes not in members:
                members[step.axes] = members_along(problem.mesh, step.axes)
            one_run = collective.sent / collective.times if collective.times else 0.0
            steps = step_count(step.opcode, step.group_size)
            cost = CollectiveCost("", "", step.opcode, step.group_size, round(one_run), 0, steps, 1)
            seconds["links"] += collective_seconds(cost, members[step.axes], device) * collective.times
            sent += collective.sent
        return ShardedProgram(program, seconds, sent)

    @property
    def step_seconds(self) -> float:
        """The time of a step."""
        return sum(self.seconds.values())

    def peak_bytes(self) -> int:
        """The bytes at the peak by the model of XLA's CPU compiler."""
        assert self.module is not None, "it was simulated before"
        module, self.module = self.module, None
        return simulate_buffers(module).peak

    def cost(self, peak_bytes: int) -> DeviceCost:
        """What a device takes, its peak being known."""
        return DeviceCost(self.seconds, self.comm_bytes, peak_bytes)


def sharded_cost(candidate: CandidatePlan, device: Device) -> DeviceCost:
    """What a device takes under a plan whose solution is known."""
    program = ShardedProgram.of(candidate, device)
    return program.cost(program.peak_bytes())


def members_along(mesh: Mesh, axes: Axes) -> tuple[int, ...]:
    """The devices of the first group along some axes of a mesh; all of them where none is named.

    >>> members_along(Mesh.parse("a=2,b=4"), ("a",)), members_along(Mesh.parse("a=2,b=4"), ("b",))
    ((0, 4), (0, 1, 2, 3))
    """
    ids = mesh.order.ids().reshape(mesh.sizes)
    along = tuple(slice(None) if not axes or name in axes else 0 for name in mesh.names)
    return tuple(np.asarray(ids[along]).reshape(-1).tolist())


class PipelineCosts:
    """What plans of one step as pipelines take."""

    def __init__(self, module: Module, chain: Chain, machine: Machine, device: Device, batch: Batch | None) -> None:
        self.module, self.chain, self.machine, self.device, self.batch = module, chain, machine, device, batch

    def cost(self, planned: PlannedPipeline, examples: int) -> DeviceCost:
        """What a planned pipeline takes for a step of so many examples.

        Its work is the mean of all devices', and the bubble what they wait, for transfers too; then comes what the
        gradients' all-reduce takes longer. Updates of stages run side by side: the longest counts, and what it holds.
        """
        plan, simulation = planned.plan, planned.simulation
        program = pipeline_program(self.module, plan, batch=self.batch)
        once = [*program.before, *program.update]
        updates = max((self._seconds(once, stage) for stage in range(len(plan.stages))), default=0.0)
        held = max((self._held(program.update, stage) for stage in range(len(plan.stages))), default=0)
        waiting = simulation.bubble * simulation.pipeline_seconds
        seconds = {
            **self._split(simulation.pipeline_seconds - waiting),
            "links": simulation.step_seconds - simulation.pipeline_seconds + self._latency(program),
            "bubble": waiting,
        }
        seconds["memory"] += updates
        bubble = simulation.bubble if len(plan.stages) > 1 else 0.0
        return DeviceCost(seconds, self._sent(planned, examples), max(*planned.peak_bytes, held), bubble)

    def _split(self, seconds: float) -> dict[str, float]:
        """Seconds of the stages' work by what limits the whole program on one device."""
        whole = self._limits
        total = sum(whole.values()) or 1.0
        return {limit: seconds * whole[limit] / total for limit in ("compute", "memory", "launch")}

    @cached_property
    def _limits(self) -> dict[str, float]:
        return work_seconds(self.module, self.device)

    def _latency(self, program: PipelineProgram) -> float:
        """What all-reduces of single gradients wait longer for links than one of all gradients of a stage."""
        longest = 0.0
        for number, stage in enumerate(program.plan.stages):
            sums = sum(len(made.sums) for made in program.microbatch.values() if made.stage == number)
            latency, _ = self.machine.all_reduce_line(stage.devices)
            longest = max(longest, latency * max(0, sums - 1))
        return longest

    def _seconds(self, programs: list[StageProgram], stage: int) -> float:
        return sum(roofline(made.module, self.device).seconds for made in programs if made.stage == stage)

    def _held(self, updates: tuple[StageProgram, ...], stage: int) -> int:
        """The most bytes that a stage's update holds: the state as it was and as it becomes, beside the gradients."""
        made = [update for update in updates if update.stage == stage]
        return max((simulate_buffers(update.module.clone()).peak for update in made), default=0)

    def _sent(self, planned: PlannedPipeline, examples: int) -> float:
        """The most bytes that a device sends: activations on, their gradients back, and the gradients' all-reduce."""
        plan = planned.plan
        costs = StageCosts(self.chain, self.machine, examples // plan.microbatches)
        most = 0.0
        for number, stage in enumerate(plan.stages):
            width = len(stage.devices)
            forward = costs.outputs[stage.last] if number + 1 < len(plan.stages) else 0.0
            backward = costs.outputs[plan.stages[number - 1].last] if number else 0.0
            gradients = costs.gradients[stage.first, stage.last] * comm_factor("all-reduce", width)
            most = max(most, plan.microbatches * (forward + backward) / width + gradients)
        return float(most)
