"""The cost of a stage: seconds per microbatch, of transfers and of the gradients' all-reduce, and bytes of memory.

A stage on d devices splits each microbatch over them: each runs a d-th of it and holds all weights (data parallelism),
and the gradients are all-reduced once, after the last microbatch. With overlap, the all-reduce of a layer's gradients
begins when the last microbatch's backward is past the layer (Li et al., PyTorch Distributed, 2020, section 3.2.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import accumulate

import numpy as np

from hloom.analysis import MessageTime
from hloom.distribute.pipeline.chain import Chain
from hloom.distribute.pipeline.machine import Machine
from hloom.distribute.pipeline.plan import Action, ActionKind, PipelinePlan, Schedule
from hloom.distribute.pipeline.schedules import live_microbatches, order
from hloom.text import HloomError

MOST_LAYERS = 2048
"""The maximum number of layers of a chain: there are tables over all pairs of them."""


class ChainTooLong(HloomError):
    """A chain of more layers than stages are made of."""


class IndivisibleBatch(HloomError):
    """A batch that cannot be split into this many microbatches, or a microbatch over this many devices."""


class Pace(Enum):
    """What the slowest stage's pace has: with transfers it is a bound, as nothing overlaps; without, an estimate.

    In 1F1B transfers overlap with the work of stages that are less busy than their neighbours.
    """

    WITH_TRANSFERS = "with transfers"
    WITHOUT_TRANSFERS = "without transfers"


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of one microbatch in a stage, of bringing its output to the next, and of the gradients' all-reduce.

    `backward_seconds` has all of the backward, and the second forward where the stage recomputes; `weight_seconds` is
    the part of it that makes the weights' gradients. `all_reduce_seconds` is what of it nothing overlaps.
    """

    forward_seconds: float
    backward_seconds: float
    weight_seconds: float
    transfer_seconds: float
    all_reduce_seconds: float

    @property
    def work_seconds(self) -> float:
        """Forward and backward."""
        return self.forward_seconds + self.backward_seconds

    @property
    def seconds(self) -> float:
        """How long the stage is taken up with a microbatch, sending included, both ways."""
        return self.work_seconds + 2 * self.transfer_seconds


class StageCosts:
    """The costs of a chain's stages on a machine, for microbatches of this size.

    Arrays over layers k and l are of the stage from layer k to layer l, both included; what is below the diagonal
    means nothing.
    """

    def __init__(self, chain: Chain, machine: Machine, microbatch: int, *, has_overlap: bool = True) -> None:
        if microbatch < 1:
            raise IndivisibleBatch(f"a microbatch of {microbatch} examples", hint="it has one or more")
        if len(chain.layers) > MOST_LAYERS:
            raise ChainTooLong(
                f"a chain of {len(chain.layers)} layers", hint=f"merge layers to {MOST_LAYERS} or fewer (merge_layers)"
            )
        self.chain = chain
        self.machine = machine
        self.microbatch = microbatch
        self.has_overlap = has_overlap
        self.scale = microbatch / chain.batch
        self._exposed: dict[tuple[int, MessageTime], np.ndarray] = {}

    @cached_property
    def forward(self) -> np.ndarray:
        """Seconds of a microbatch's forward on one device, without the fixed seconds, [k, l]."""
        return self.scale * self._between("forward_seconds")

    @cached_property
    def backward(self) -> np.ndarray:
        """Seconds of a microbatch's backward on one device, without the fixed seconds, [k, l]."""
        return self.scale * self._between("backward_seconds")

    @cached_property
    def weight(self) -> np.ndarray:
        """The part of `backward` that makes the gradients of the weights, [k, l]."""
        return self.scale * self._between("weight_seconds")

    @cached_property
    def forward_fixed(self) -> np.ndarray:
        """Seconds that a forward takes however small its microbatch is, [k, l]."""
        return self._between("forward_fixed_seconds")

    @cached_property
    def backward_fixed(self) -> np.ndarray:
        """Seconds that a backward takes however small its microbatch is, [k, l]."""
        return self._between("backward_fixed_seconds")

    @cached_property
    def activations(self) -> np.ndarray:
        """Bytes that a microbatch keeps for its backward, on one device, [k, l]."""
        return self.scale * self._between("activation_bytes")

    @cached_property
    def gradients(self) -> np.ndarray:
        """Bytes of gradients of parameters, [k, l]."""
        return self._between("gradient_bytes")

    @cached_property
    def state(self) -> np.ndarray:
        """Bytes of parameters, their gradients and the optimizer's state, [k, l]."""
        return self._between("parameter_bytes") + self.gradients + self._between("optimizer_bytes")

    @cached_property
    def outputs(self) -> np.ndarray:
        """Bytes that a microbatch brings from each layer to the next; none from the last."""
        sizes = [layer.output_bytes for layer in self.chain.layers]
        return self.scale * np.array([*sizes[:-1], 0.0])

    @cached_property
    def inputs(self) -> np.ndarray:
        """Bytes that a microbatch brings into each layer."""
        return np.concatenate(([self.scale * self.chain.input_bytes], self.outputs[:-1]))

    def seconds(self, width: int, recomputes: bool) -> np.ndarray:
        """Seconds of a microbatch's forward and backward on each of `width` devices, [k, l]."""
        forward = self.forward / width + self.forward_fixed
        backward = self.backward / width + self.backward_fixed
        return backward + 2 * forward if recomputes else backward + forward

    def memory_bytes(self, width: int, live: int, recomputes: bool) -> np.ndarray:
        """Bytes on each of `width` devices with this many microbatches live, [k, l]."""
        if recomputes:
            return self.state + (live * self.inputs[:, None] + self.activations) / width
        return self.state + live * self.activations / width

    def exposed_all_reduce(self, width: int, first_device: int) -> np.ndarray:
        """Seconds of the gradients' all-reduce over devices `first_device` and on that nothing overlaps, [k, l]."""
        time = self.machine.all_reduce_time(range(first_device, first_device + width))
        if (width, time) not in self._exposed:
            self._exposed[width, time] = self._exposed_all_reduce(width, time)
        return self._exposed[width, time]

    def _exposed_all_reduce(self, width: int, time: MessageTime) -> np.ndarray:
        if width == 1:
            return np.zeros_like(self.gradients)
        whole = time.each(self.gradients)
        if not self.has_overlap:
            return whole
        per_byte = np.divide(whole - time.latency, self.gradients, out=np.zeros_like(whole), where=self.gradients > 0)
        layers, gradients = self.chain.layers, self.gradients.diagonal()
        backward = [self.scale * layer.backward_seconds / width + layer.backward_fixed_seconds for layer in layers]
        exposed = np.zeros_like(self.gradients)
        ready, done = np.zeros(len(layers)), np.zeros(len(layers))
        for k in reversed(range(len(layers))):
            ready[k:] += backward[k]
            done[k:] = np.maximum(done[k:], ready[k:]) + per_byte[k, k:] * gradients[k]
            exposed[k, k:] = done[k:] - ready[k:]
        return np.where(self.gradients > 0, time.latency + exposed, 0.0)

    def transfer_seconds(self, sources: Sequence[int], targets: Sequence[int]) -> np.ndarray:
        """Seconds that a microbatch takes from a stage that ends with each layer to the next."""
        return self.machine.transfer_time(sources, targets).each(self.outputs)

    def _between(self, field: str) -> np.ndarray:
        """The sum of a field over the layers k to l, both included, [k, l]."""
        values = np.array([getattr(layer, field) for layer in self.chain.layers])
        count = len(values)
        sums = np.zeros((count, count))
        for k in range(count):
            sums[k, k:] = np.cumsum(values[k:])
        return sums

    def stage_times(self, plan: PipelinePlan) -> tuple[StageTimes, ...]:
        """The seconds of each stage of a plan."""
        return tuple(self.times_of_stage(plan, number) for number in range(len(plan.stages)))

    def times_of_stage(self, plan: PipelinePlan, number: int) -> StageTimes:
        """The seconds of one stage of a plan. Raises IndivisibleBatch where its devices do not divide a microbatch."""
        stage = plan.stages[number]
        width, layers = len(stage.devices), (stage.first, stage.last)
        self._check_width(width)
        forward = self.forward[layers] / width + self.forward_fixed[layers]
        backward = self.backward[layers] / width + self.backward_fixed[layers]
        weight_share = self.weight[layers] / self.backward[layers] if self.backward[layers] else 0.0
        following = plan.stages[number + 1].devices if number + 1 < len(plan.stages) else None
        return StageTimes(
            float(forward),
            float(backward + forward if plan.recompute[number] else backward),
            float(weight_share * backward),
            float(self.transfer_seconds(stage.devices, following)[stage.last]) if following else 0.0,
            float(self.exposed_all_reduce(width, stage.devices[0])[layers]),
        )

    def drain_seconds(self, layer: int, devices: int) -> float:
        """What a backward through the layers before takes at least, on so many devices in stages of any widths."""
        return float(self.backward[0, layer - 1]) / devices if layer else 0.0

    def step_seconds(self, plan: PipelinePlan, pace: Pace = Pace.WITH_TRANSFERS) -> float:
        """`step_bound` or `step_estimate` with what is known of the stages before a stage: `drain_seconds`."""
        drains, devices = [], 0
        for stage in plan.stages:
            drains.append(self.drain_seconds(stage.first, devices))
            devices += len(stage.devices)
        formula = step_bound if pace is Pace.WITH_TRANSFERS else step_estimate
        return formula(self.stage_times(plan), plan.microbatches, drains)

    def peak_bytes(self, plan: PipelinePlan) -> tuple[int, ...]:
        """The most bytes that a device of each group holds at once, as the schedule has it."""
        return tuple(math.ceil(self._peak_bytes(plan, actions)) for actions in order(plan))

    def _peak_bytes(self, plan: PipelinePlan, actions: Sequence[Action]) -> float:
        owned = sorted(live_microbatches(actions))
        resident = sum(self.state[plan.stages[number].first, plan.stages[number].last] for number in owned)
        kept, work = {}, {}
        for number in owned:
            stage = plan.stages[number]
            activations = self.activations[stage.first, stage.last] / len(stage.devices)
            inputs = self.inputs[stage.first] / len(stage.devices)
            kept[number], work[number] = (inputs, activations) if plan.recompute[number] else (activations, 0.0)
        peak = resident
        for action in actions:
            if action.kind is ActionKind.FORWARD:
                resident += kept[action.stage]
                peak = max(peak, resident)
                continue
            peak = max(peak, resident + work[action.stage])
            if action.kind is not ActionKind.BACKWARD_INPUT:
                resident -= kept[action.stage]
        return float(peak)

    def _check_width(self, width: int) -> None:
        if self.microbatch % width:
            raise IndivisibleBatch(
                f"a microbatch of {self.microbatch} examples on {width} devices",
                hint="choose a number of devices that divides it, or other microbatches",
            )


def step_bound(times: Sequence[StageTimes], microbatches: int, drains: Sequence[float] | None = None) -> float:
    """An upper bound on the seconds of a step of 1F1B: the first microbatch's way, then the slowest stage's pace.

    The sum of all stages' seconds, m - 1 times the slowest's, and what of an all-reduce lasts longer than the stages
    before still work (Fan et al., DAPPLE, 2021, section 4.2). `drains` are lower bounds on that, by default what their
    last backwards and transfers take. Exact where stages are equal, and nothing is transferred or all-reduced.
    """
    pace = max(time.seconds for time in times)
    return sum(time.seconds for time in times) + (microbatches - 1) * pace + _late_seconds(times, drains)


def step_estimate(times: Sequence[StageTimes], microbatches: int, drains: Sequence[float] | None = None) -> float:
    """As `step_bound`, but for transfers that overlap with work but for the first microbatch's: no bound."""
    pace = max(time.work_seconds for time in times)
    return sum(time.seconds for time in times) + (microbatches - 1) * pace + _late_seconds(times, drains)


def _late_seconds(times: Sequence[StageTimes], drains: Sequence[float] | None) -> float:
    """How much later than the pipeline the last all-reduce ends at most."""
    if drains is None:
        drains = list(accumulate((time.backward_seconds + time.transfer_seconds for time in times), initial=0.0))[:-1]
    return max(0.0, *(time.all_reduce_seconds - drain for time, drain in zip(times, drains, strict=True)))


def live_bound(schedule: Schedule, stages_to_end: int, stages: int, microbatches: int) -> int:
    """The most live microbatches of a stage with `stages_to_end` stages from it to the last, itself included.

    >>> [live_bound(Schedule.ONE_F_ONE_B, stages_to_end, 4, 8) for stages_to_end in (4, 3, 2, 1)]
    [4, 3, 2, 1]
    """
    if schedule is Schedule.ONE_F_ONE_B:
        return min(stages_to_end, microbatches)
    return min(stages, microbatches) if schedule is Schedule.ZERO_BUBBLE else microbatches
