"""The programs of a pipeline: modules by stage, and the values passed between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hloom.distribute.pipeline.loop_cut import ArrayPart
from hloom.distribute.pipeline.plan import ActionKind, PipelinePlan
from hloom.ir import Module, TensorType


class ValueScope(Enum):
    """What a value belongs to."""

    PARAMETER = "parameter"
    MICROBATCH_NUMBER = "the number of the microbatch"
    MICROBATCH = "one microbatch"
    STEP = "the step"


@dataclass(frozen=True, slots=True)
class StageValue:
    """An array of a step or of one of its microbatches.

    `number` is a parameter's; `batch_dim` is the dimension that is a slice of the batch, None where there is none.
    """

    name: str
    scope: ValueScope
    number: int = -1
    batch_dim: int | None = field(default=None, compare=False)

    @property
    def key(self) -> StageValue:
        """The value as stages hold it: a parameter by its number alone."""
        if self.scope is ValueScope.PARAMETER:
            return StageValue("", ValueScope.PARAMETER, self.number)
        return self


@dataclass(frozen=True, slots=True)
class StageProgram:
    """A module that a stage runs: what it reads and yields, and which of its results go to which other stages.

    `sums` are pairs of an operand's and a result's number: the result is the operand's value from then on, and may be
    written over it.
    """

    module: Module
    stage: int
    operands: tuple[StageValue, ...]
    results: tuple[StageValue, ...]
    sends: tuple[tuple[int, int], ...] = ()
    sums: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StageOutput:
    """A result of the step: the stage that has it, and as what."""

    stage: int
    value: StageValue


@dataclass(frozen=True, slots=True)
class PipelineProgram:
    """All that a pipeline runs: by stage the modules of microbatches, those before and behind them, in order.

    `placements` are for each parameter of the modules the stages that read it, its own first. `totals` are the sums
    that another stage's update reads: whose they are, and which stages read them. A stage without a module for some
    work has nothing to do then.

    `argument_types` are those of the step's own parameters. The modules' parameters are these or rows of them, as
    `parameters` says; `outputs` are the step's results or rows of them, as `results` says.
    """

    plan: PipelinePlan
    before: tuple[StageProgram, ...]
    microbatch: dict[tuple[ActionKind, int], StageProgram]
    update: tuple[StageProgram, ...]
    placements: tuple[tuple[int, ...], ...]
    totals: tuple[tuple[StageOutput, tuple[int, ...]], ...]
    outputs: tuple[StageOutput, ...]
    argument_types: tuple[TensorType, ...]
    parameters: tuple[ArrayPart, ...]
    results: tuple[ArrayPart, ...]

    def programs(self) -> tuple[StageProgram, ...]:
        """All programs of all stages, in an order in which they run."""
        return *self.before, *self.microbatch.values(), *self.update
