"""The cost of a pipeline stage on each of its devices: seconds of its programs by component, bytes sent, bytes held.

A stage on one device runs its programs as they are. On several without a mesh it splits each microbatch, so its devices
run the programs of smaller microbatches, and sum up the gradients of each. With a mesh they run what the planner
makes of the programs (`hloom.distribute.pipeline.shard_stage`), with the partitioner's collectives.

What is held is what the executor holds (`distribute/pipeline/executor.py`): parameters, sums and constants of the
step, the values of live microbatches until they were read last, and, while a program runs, its results and temporaries
by the model of XLA's CPU compiler. What another stage has sent counts from when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hloom.analysis import Device, roofline
from hloom.distribute.fit.sharded_program import ShardedProgram
from hloom.distribute.microbatch import Batch
from hloom.distribute.pipeline import (
    ActionKind,
    PipelinePlan,
    PipelineProgram,
    Stage,
    StageProgram,
    StageSharding,
    StageValue,
    ValueScope,
    pipeline_program,
    shard_stage,
)
from hloom.ir import InputOutputAlias, Module, TensorType
from hloom.targets.cpu import simulate_buffers


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """What one run of a program takes on a device: seconds by cause, bytes sent, bytes beyond those of its operands."""

    seconds: Mapping[str, float]
    comm_bytes: float
    extra_bytes: int

    @property
    def total_seconds(self) -> float:
        """The seconds of all causes."""
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Bytes of a microbatch's values while a part of its work runs, its results apart, and after it."""

    while_run: int
    after: int


class _Layout(Protocol):
    """The bytes that a device holds of a value."""

    def __call__(self, value: StageValue, value_type: TensorType) -> int: ...


@dataclass(frozen=True)
class StageCost:
    """The programs of one stage on one of its devices, with what each takes."""

    stage: int
    programs: PipelineProgram
    costs: Mapping[Module, ProgramCost]
    layout: _Layout
    sharding: StageSharding | None = None

    def action_cost(self, work: ActionKind) -> ProgramCost | None:
        """What a part of the work on one microbatch takes; None where there is none."""
        program = self.programs.microbatch.get((work, self.stage))
        return None if program is None else self.costs[program.module]

    @property
    def once(self) -> list[ProgramCost]:
        """What runs once in a step: before the microbatches, and the update."""
        programs = (*self.programs.before, *self.programs.update)
        return [self.costs[program.module] for program in programs if program.stage == self.stage]

    @property
    def state_bytes(self) -> int:
        """The bytes that are held all through the microbatches: parameters, and what is computed before them."""
        held: dict[StageValue, int] = {}
        for program in self._own(self.programs.programs()):
            entry = program.module.entry
            for value, parameter in zip(program.operands, entry.parameters, strict=True):
                if value.scope is ValueScope.PARAMETER:
                    held[value.key] = self._bytes(value, parameter.type)
        for program in self._own(self.programs.before):
            for value, node in zip(program.results, program.module.entry.root.operands, strict=True):
                held[value.key] = self._bytes(value, node.type)
        return sum(held.values())

    def update_bytes(self) -> int:
        """The most bytes that are held while parameters are updated: the state as it was and as it becomes."""
        held, most = self.state_bytes, 0
        for program in self._own(self.programs.update):
            most = max(most, held + self.costs[program.module].extra_bytes)
            held += sum(
                self._bytes(value, node.type)
                for value, node in zip(program.results, program.module.entry.root.operands, strict=True)
            )
        return most

    def lifetime(self) -> dict[ActionKind, Lifetime]:
        """What is held of a microbatch by its work, in order."""
        programs = {work: made for (work, stage), made in self.programs.microbatch.items() if stage == self.stage}
        readers: dict[StageValue, int] = {}
        for program in programs.values():
            for value in program.operands:
                readers[value] = readers.get(value, 0) + 1
        held: dict[StageValue, int] = {}
        lifetime: dict[ActionKind, Lifetime] = {}
        for work, program in programs.items():
            for value, parameter in zip(program.operands, program.module.entry.parameters, strict=True):
                if value.scope is ValueScope.MICROBATCH:
                    held[value] = self._bytes(value, parameter.type)
            read = sum(held.values())
            for value in program.operands:
                readers[value] -= 1
                if not readers[value]:
                    held.pop(value, None)
            for value, node in zip(program.results, program.module.entry.root.operands, strict=True):
                if value.scope is ValueScope.MICROBATCH and readers.get(value):
                    held[value] = self._bytes(value, node.type)
            lifetime[work] = Lifetime(read, sum(held.values()))
        return lifetime

    def _own(self, programs: Sequence[StageProgram]) -> list[StageProgram]:
        return [program for program in programs if program.stage == self.stage]

    def _bytes(self, value: StageValue, value_type: object) -> int:
        return self.layout(value, value_type) if isinstance(value_type, TensorType) else 0


def stage_costs(module: Module, plan: PipelinePlan, device: Device, batch: Batch | None) -> list[StageCost]:
    """What each stage of a plan takes. Raises HloomError where a stage's programs cannot be sharded over its mesh."""
    programs: dict[int, PipelineProgram] = {}
    made: list[StageCost] = []
    for number, stage in enumerate(plan.stages):
        width = 1 if stage.mesh is not None else len(stage.devices)
        if width not in programs:
            programs[width] = pipeline_program(module, _narrowed(plan, width) if width > 1 else plan, batch=batch)
        if stage.mesh is not None:
            made.append(_sharded(programs[width], number, device))
        else:
            made.append(_split(programs[width], number, device))
    return made


def _narrowed(plan: PipelinePlan, width: int) -> PipelinePlan:
    """The plan of what one of so many devices of each stage does: microbatches that are so much smaller."""
    first = {devices: number for number, devices in enumerate(plan.device_groups)}
    stages = tuple(Stage(stage.first, stage.last, (first[stage.devices],)) for stage in plan.stages)
    return replace(plan, stages=stages, microbatches=plan.microbatches * width)


def _split(programs: PipelineProgram, stage: int, device: Device) -> StageCost:
    """A stage whose devices run the same programs side by side."""
    costs = {
        program.module: ProgramCost(
            roofline(program.module, device).work_seconds(), 0.0, _extra_bytes(program, program.module)
        )
        for program in programs.programs()
        if program.stage == stage
    }
    return StageCost(stage, programs, costs, lambda value, value_type: value_type.byte_count)


def _sharded(programs: PipelineProgram, stage: int, device: Device) -> StageCost:
    """A stage whose programs the planner shards."""
    sharding = shard_stage(programs, stage, device)
    costs: dict[Module, ProgramCost] = {}
    for program in programs.programs():
        if program.stage == stage:
            local = ShardedProgram.of(sharding.candidates[program.module], device)
            assert local.module is not None
            extra = _extra_bytes(program, local.module)
            costs[program.module] = ProgramCost(local.seconds, local.comm_bytes, extra)
    return StageCost(stage, programs, costs, _layout_of(sharding), sharding)


def _layout_of(sharding: StageSharding) -> _Layout:
    def local_bytes(value: StageValue, value_type: TensorType) -> int:
        known = value.key in sharding.specs
        return sharding.local_bytes(value, value_type) if known else value_type.byte_count

    return local_bytes


def _extra_bytes(program: StageProgram, module: Module) -> int:
    """What a program holds beyond its operands while it runs: results, but for sums that are added to, temporaries."""
    live = simulate_buffers(with_sums_in_place(program, module))
    return max(0, live.peak - live.arguments)


def with_sums_in_place(program: StageProgram, module: Module) -> Module:
    """A copy of a program's module, or of one device's, in which sums take the memory of those that they add to."""
    copy = module.clone()
    sums = tuple(InputOutputAlias((result,), operand, ()) for operand, result in program.sums)
    known = tuple(copy.attributes.get("input_output_alias") or ())
    copy.attributes = copy.attributes.changed(input_output_alias=(*known, *sums))
    return copy
