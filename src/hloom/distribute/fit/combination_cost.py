"""The cost of a pipeline by the model of sharded programs: the roofline of each device's work, plus its communication.

Programs of stages are priced as they run (`stage_cost.py`), gradients are summed up over a stage's devices with each
microbatch, the order of work is simulated, then come the updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.analysis import Device, comm_factor
from hloom.distribute.fit.combination import DeviceCost
from hloom.distribute.fit.stage_cost import StageCost, stage_costs
from hloom.distribute.microbatch import Batch
from hloom.distribute.pipeline import (
    Action,
    ActionKind,
    Chain,
    Machine,
    PipelinePlan,
    Simulation,
    StageCosts,
    StageTimes,
    order,
    simulate,
)
from hloom.ir import Module, TensorType

WORK = (ActionKind.FORWARD, ActionKind.BACKWARD, ActionKind.BACKWARD_INPUT, ActionKind.BACKWARD_WEIGHT)
"""What is done with a microbatch."""


class PipelineCosts:
    """The costs of plans that run one step as a pipeline."""

    def __init__(self, module: Module, chain: Chain, machine: Machine, device: Device, batch: Batch | None) -> None:
        self.module, self.chain, self.machine, self.device, self.batch = module, chain, machine, device, batch

    def cost(self, plan: PipelinePlan, examples: int) -> DeviceCost:
        """The cost of a plan for a step of this many examples.

        Its work is the mean of all devices', and the bubble what they wait, for transfers too. Updates of stages run
        side by side: the longest counts.
        """
        stages = stage_costs(self.module, plan, self.device, self.batch)
        run = _Run(self, plan, stages, examples)
        simulation = run.simulation
        waiting = simulation.bubble * simulation.pipeline_seconds
        seconds = run.mean_seconds()
        once = max(stages, key=lambda stage: sum(cost.total_seconds for cost in stage.once))
        for cost in once.once:
            for cause, own in cost.seconds.items():
                seconds[cause] = seconds.get(cause, 0.0) + own
        seconds["links"] = seconds.get("links", 0.0) + simulation.step_seconds - simulation.pipeline_seconds
        seconds["bubble"] = waiting
        bubble = simulation.bubble if len(plan.stages) > 1 else 0.0
        return DeviceCost(seconds, run.sent(), max(run.peak_bytes(), default=0), bubble)


@dataclass
class _Run:
    """One step of a plan whose stages are priced."""

    costs: PipelineCosts
    plan: PipelinePlan
    stages: Sequence[StageCost]
    examples: int

    def __post_init__(self) -> None:
        chain, machine = self.costs.chain, self.costs.machine
        self.tables = StageCosts(chain, machine, self.examples // self.plan.microbatches, has_overlap=False)
        self.times = [self._times(stage) for stage in self.stages]
        self.simulation: Simulation = simulate(self.plan, self.times)

    def _times(self, stage: StageCost) -> StageTimes:
        seconds = {work: cost.total_seconds for work in WORK if (cost := stage.action_cost(work)) is not None}
        summing = self._all_reduce(stage)
        weight = seconds.get(ActionKind.BACKWARD_WEIGHT, 0.0)
        weight += summing if weight else 0.0
        backward = seconds.get(ActionKind.BACKWARD, 0.0) + seconds.get(ActionKind.BACKWARD_INPUT, 0.0) + weight
        backward += 0.0 if weight else summing
        return StageTimes(seconds.get(ActionKind.FORWARD, 0.0), backward, weight, self._transfer(stage), 0.0)

    def _transfer(self, stage: StageCost) -> float:
        """Seconds from a stage to the next; what a mesh holds several copies of is sent to each."""
        own = self.plan.stages[stage.stage]
        if stage.stage + 1 == len(self.plan.stages):
            return 0.0
        following = self.plan.stages[stage.stage + 1].devices
        sent = float(self.tables.outputs[own.last]) * self._copies(stage)
        return self.costs.machine.transfer_seconds(own.devices, following, sent)

    def _copies(self, stage: StageCost) -> float:
        """How many copies of what it sends a stage's devices hold together."""
        if stage.sharding is None:
            return 1.0
        program = stage.programs.microbatch.get((ActionKind.FORWARD, stage.stage))
        whole = local = 0
        for result in {number for number, _ in program.sends} if program is not None else ():
            assert program is not None
            value_type = program.module.entry.root.operands[result].type
            if isinstance(value_type, TensorType):
                whole += value_type.byte_count
                local += stage.layout(program.results[result], value_type)
        return local * len(self.plan.stages[stage.stage].devices) / whole if whole else 1.0

    def _all_reduce(self, stage: StageCost) -> float:
        """Seconds of the gradients' all-reduces of one microbatch, one after the other; a mesh's are in its programs.

        A stage's programs are compiled alone, so a sum over microbatches is whole on each of its devices.
        """
        own = self.plan.stages[stage.stage]
        if stage.sharding is not None or len(own.devices) == 1:
            return 0.0
        sums = max(1, sum(len(made.sums) for made in stage.programs.microbatch.values() if made.stage == stage.stage))
        gradients = float(self.tables.gradients[own.first, own.last])
        return sums * self.costs.machine.all_reduce_seconds(own.devices, gradients / sums)

    def mean_seconds(self) -> dict[str, float]:
        """The mean over all devices of the seconds of microbatches, by cause."""
        total: dict[str, float] = {}
        devices = sum(len(group) for group in self.plan.device_groups)
        for stage in self.stages:
            share = self.plan.microbatches * len(self.plan.stages[stage.stage].devices) / devices
            for work in WORK:
                cost = stage.action_cost(work)
                for cause, seconds in cost.seconds.items() if cost is not None else ():
                    total[cause] = total.get(cause, 0.0) + share * seconds
            total["links"] = total.get("links", 0.0) + share * self._all_reduce(stage)
        return total

    def sent(self) -> float:
        """The most bytes that a device sends: activations, their gradients, the gradients' sums, collectives inside."""
        outputs, count, most = self.tables.outputs, self.plan.microbatches, 0.0
        for number, (stage, own) in enumerate(zip(self.stages, self.plan.stages, strict=True)):
            width = len(own.devices)
            forward = outputs[own.last] if number + 1 < len(self.plan.stages) else 0.0
            backward = outputs[self.plan.stages[number - 1].last] if number else 0.0
            sent = count * (forward + backward) * self._copies(stage) / width
            sent += count * sum(cost.comm_bytes for work in WORK if (cost := stage.action_cost(work)) is not None)
            sent += sum(cost.comm_bytes for cost in stage.once)
            if stage.sharding is None:
                sent += count * self.tables.gradients[own.first, own.last] * comm_factor("all-reduce", width)
            most = max(most, float(sent))
        return most

    def peak_bytes(self) -> list[int]:
        """By group of devices the most bytes that each of them holds."""
        peaks: list[int] = []
        for group, actions in enumerate(order(self.plan)):
            own = {stage.stage: stage for stage in self.stages if self.plan.group_of(stage.stage) == group}
            state = sum(stage.state_bytes for stage in own.values())
            update = max(state - stage.state_bytes + stage.update_bytes() for stage in own.values())
            peaks.append(max(state + _live_bytes(own, actions), update))
        return peaks


def _live_bytes(stages: dict[int, StageCost], actions: Sequence[Action]) -> int:
    """The most bytes of microbatches' values, and of the results and temporaries of what runs."""
    lifetimes = {number: stage.lifetime() for number, stage in stages.items()}
    held: dict[tuple[int, int], int] = {}
    total = most = 0
    for action in actions:
        lifetime = lifetimes[action.stage].get(action.kind)
        if lifetime is None:
            continue
        key = action.stage, action.microbatch
        before = held.pop(key, 0)
        cost = stages[action.stage].action_cost(action.kind)
        most = max(most, total - before + lifetime.while_run + (0 if cost is None else cost.extra_bytes))
        held[key] = lifetime.after
        total += lifetime.after - before
    return most
