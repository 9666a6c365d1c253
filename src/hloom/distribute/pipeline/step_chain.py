"""A step's layers as a chain for planning: seconds on a device by the roofline model, and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from hloom.analysis import Device, as_device, loop_names, roofline
from hloom.distribute.microbatch import Batch
from hloom.distribute.pipeline.chain import Chain, LayerCost
from hloom.distribute.pipeline.layers import StepLayers
from hloom.distribute.pipeline.plan import ActionKind, PipelinePlan, Schedule, Stage
from hloom.distribute.pipeline.program import PipelineProgram, StageProgram
from hloom.distribute.pipeline.stage_programs import pipeline_program
from hloom.distribute.pipeline.step import BatchedStep, parameters_of
from hloom.ir import Constant, Module, Parameter, TensorType
from hloom.text import HloomError, count_text

FORWARD, INPUT, WEIGHT = ActionKind.FORWARD, ActionKind.BACKWARD_INPUT, ActionKind.BACKWARD_WEIGHT
LEAST_RATIO = 4
"""The factor by which the microbatch is reduced, if the batch permits, to separate fixed seconds from others."""


def step_chain(
    module: Module,
    on: Device | str,
    *,
    microbatches: int = 1,
    batch: Batch | str | None = None,
    trip_counts: Mapping[str, int] | None = None,
    unknown_trips: int = 1,
    fewest: int = 1,
) -> Chain:
    """The layers of a step (`hloom.distribute.pipeline.layers`) as a chain, measured at a microbatch of so many.

    The forward and the backward of a layer, the weights' gradients apart, are the modules that it runs where it is a
    stage of its own; `hloom.roofline` says how long they take on a device, which is given or named. A microbatch that
    is some times smaller tells what of that is fixed from what grows with the examples. Parameters count where layers
    read them, and those that only the optimizer reads where they are updated. `batch` is as for `hloom.microbatch`,
    trips of loops as for `hloom.roofline`. Raises as `hloom.pipeline` and `hloom.roofline` do, and HloomError for
    fewer layers than the `fewest`, before any is priced.
    """
    timer = _Timer(as_device(on), loop_names(module, trip_counts or {}), unknown_trips)
    measured = _Measurement(module, microbatches, batch, timer, fewest)
    ratio = _smaller(measured.examples)
    fixed = [(0.0, 0.0, 0.0)] * len(measured.seconds)
    if ratio > 1:
        smaller = _Measurement(module, microbatches * ratio, measured.batch_dims or batch, timer, fewest)
        if len(smaller.seconds) != len(measured.seconds):
            raise HloomError(
                f"{module.name} has {len(measured.seconds)} layers in {microbatches} microbatches, and "
                f"{len(smaller.seconds)} in {microbatches * ratio}",
                hint="price its layers at another number of microbatches",
            )
        fixed = [_fixed(*pair, ratio) for pair in zip(measured.seconds, smaller.seconds, strict=True)]
    layers = tuple(_cost(measured, number, parts) for number, parts in enumerate(fixed))
    return Chain(layers, measured.examples, measured.batch_bytes)


Parts = tuple[float, float, float]
"""Seconds of a forward, of a backward's part for the inputs' gradients, and of that for the weights'."""


class _Measurement:
    """A step cut into as many stages as it has layers, and what each takes."""

    def __init__(
        self, module: Module, microbatches: int, batch: Batch | str | None, timer: _Timer, fewest: int
    ) -> None:
        analysis = StepLayers.analysed(module, microbatches, batch)
        step, self.layers = analysis.step, analysis.all_layers()
        if len(self.layers) < fewest:
            found = count_text(len(self.layers), "layer")
            raise HloomError(f"{module.name} has {found}: more stages than layers are not possible")
        stages = tuple(Stage(number, number, (number,)) for number in range(len(self.layers)))
        plan = PipelinePlan(stages, microbatches, Schedule.ZERO_BUBBLE)
        self.batch_dims = _batch_dims(analysis)
        self.program = pipeline_program(module, plan, batch=self.batch_dims or batch)
        self.examples = _examples(step)
        self.sizes = [value_type.byte_count for value_type in self.program.argument_types]
        read_as = analysis.cut.parameters
        self.batches = {read_as[p.number].number for value in step.batches for p in parameters_of(step.captured[value])}
        self.batch_bytes = sum(self.sizes[number] for number in self.batches) / microbatches
        self.seconds: list[Parts] = [timer.layer_seconds(self.program, stage) for stage in range(len(self.layers))]

    @cached_property
    def crossing_bytes(self) -> list[float]:
        """Bytes of forward values that go from each layer to the next, with those that go on to later ones."""
        crossing = [0.0] * len(self.layers)
        for (part, stage), program in self.program.microbatch.items():
            farthest: dict[int, int] = {}
            for result, target in program.sends if part is FORWARD else ():
                farthest[result] = max(farthest.get(result, target), target)
            for result, target in farthest.items():
                for boundary in range(stage, target):
                    crossing[boundary] += _result_bytes(program, result)
        return crossing

    @cached_property
    def optimizer_bytes(self) -> list[float]:
        """For each layer, the parameters that no microbatch reads: the optimizer's state."""
        read = self.batches.union(*(layer.parameters for layer in self.layers))
        state = [0.0] * len(self.layers)
        for part, stages in zip(self.program.parameters, self.program.placements, strict=True):
            if part.number not in read and stages:
                whole = self.program.argument_types[part.number].dims
                share = (part.rows[1] - part.rows[0]) / whole[0] if part.rows is not None else 1.0
                state[stages[0]] += self.sizes[part.number] * share
        return state

    def sum_bytes(self, stage: int) -> tuple[int, int]:
        """The bytes of gradients that a layer adds up over microbatches, and of results that it puts together."""
        gradients = results = 0
        for part in (FORWARD, INPUT, WEIGHT):
            program = self.program.microbatch.get((part, stage))
            if program is None:
                continue
            for _, number in program.sums:
                is_put_together = program.module.entry.root.operands[number].opcode == "dynamic-update-slice"
                size = _result_bytes(program, number)
                gradients, results = gradients + size * (not is_put_together), results + size * is_put_together
        return gradients, results


class _Timer:
    """Seconds of modules on a device."""

    def __init__(self, on: Device, trip_counts: Mapping[str, int], unknown_trips: int) -> None:
        self._device, self._trip_counts, self._unknown_trips = on, trip_counts, unknown_trips

    def layer_seconds(self, program: PipelineProgram, stage: int) -> Parts:
        """What the modules of a stage take; both parts of a backward are started once."""
        forward, inputs, weights = (
            self._seconds(program.microbatch[part, stage]) if (part, stage) in program.microbatch else 0.0
            for part in (FORWARD, INPUT, WEIGHT)
        )
        return forward, inputs, max(0.0, weights - self._device.start_seconds) if inputs else weights

    def _seconds(self, program: StageProgram) -> float:
        names = {node.name for node in program.module.nodes()}
        known = {name: trips for name, trips in self._trip_counts.items() if name in names}
        return roofline(program.module, self._device, trip_counts=known, unknown_trips=self._unknown_trips).seconds


def _smaller(examples: int) -> int:
    """By what to divide a microbatch for a smaller one: the least divisor from LEAST_RATIO on.

    >>> [_smaller(examples) for examples in (1, 2, 3, 12, 64, 7)]
    [1, 2, 3, 4, 4, 7]
    """
    return next((ratio for ratio in range(LEAST_RATIO, examples + 1) if examples % ratio == 0), examples)


def _fixed(large: Parts, small: Parts, ratio: int) -> Parts:
    """What is left of the seconds of a microbatch as it gets smaller, from two sizes: a line through both.

    >>> _fixed((5.0, 3.0, 0.0), (2.0, 3.0, 0.0), 4)
    (1.0, 3.0, 0.0)
    """
    forward, inputs, weights = (
        min(max(0.0, (ratio * less - more) / (ratio - 1)), more) for more, less in zip(large, small, strict=True)
    )
    return forward, inputs, weights


def _cost(measured: _Measurement, number: int, fixed: Parts) -> LayerCost:
    layer = measured.layers[number]
    gradients, results = measured.sum_bytes(number)
    first = next(iter((*layer.forward, *layer.backward)), None)
    forward, inputs, weights = (time - part for time, part in zip(measured.seconds[number], fixed, strict=True))
    return LayerCost(
        f"{number}: {first.name}" if first is not None else str(number),
        forward,
        inputs + weights,
        layer.residual_bytes,
        measured.crossing_bytes[number],
        layer.parameter_bytes,
        measured.optimizer_bytes[number] + results,
        weights,
        fixed[0],
        fixed[1] + fixed[2],
        gradients,
    )


def _result_bytes(program: StageProgram, number: int) -> int:
    value = program.module.entry.root.operands[number]
    return value.type.byte_count if isinstance(value.type, TensorType) else 0


def _batch_dims(analysis: StepLayers) -> dict[int, int]:
    """By number of the parameters that are sliced themselves the dimension that is the batch, to look for it once."""
    dims: dict[int, int] = {}
    for node in analysis.step.body.nodes:
        source = analysis.step.captured.get(node.operands[0]) if node.opcode == "dynamic-slice" else None
        moving = [dim for dim, start in enumerate(node.operands[1:]) if not isinstance(start, Constant)]
        if isinstance(source, Parameter) and len(moving) == 1:
            dims[analysis.cut.parameters[source.number].number] = moving[0]
    return dims


def _examples(step: BatchedStep) -> int:
    """How many examples a microbatch has: the least that any value holds slices of; others hold several of each."""
    sizes = [node.type.dims[dim] for node, dim in step.batch_dims.items() if isinstance(node.type, TensorType)]
    return max(1, min(sizes, default=1))
