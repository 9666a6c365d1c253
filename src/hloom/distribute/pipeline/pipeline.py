"""A training or inference step as a pipeline over groups of devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from hloom.analysis import Device
from hloom.distribute.microbatch import Batch
from hloom.distribute.pipeline.executor import PipelineExecutor, StepRecord
from hloom.distribute.pipeline.measurement import StepMeasurement, measure_step
from hloom.distribute.pipeline.plan import PipelinePlan
from hloom.distribute.pipeline.plan_json import as_plan
from hloom.distribute.pipeline.program import PipelineProgram
from hloom.distribute.pipeline.stage_programs import pipeline_program
from hloom.distribute.pipeline.stage_sharding import shard_stages
from hloom.ir import ModuleLike, as_module
from hloom.runtime import ProgramTrees
from hloom.text import Display, Displayed, HloomError


def pipeline(
    source: ModuleLike,
    plan: PipelinePlan | Mapping[str, Any] | str | os.PathLike[str],
    *,
    batch: Batch | str | None = None,
    devices: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> Pipeline:
    """A step as stages on groups of devices: `pipeline(jax.jit(step).lower(state, batch), plan).step(state, batch)`.

    `source` is a module or what `hloom.load` reads; the plan is one, its JSON or the path of that. Its layers are those
    of `hloom.distribute.pipeline.layers(source)`.
    `batch` says which dimension of which parameters is the batch, as for `hloom.microbatch`. `devices` are jax's, which
    the plan's devices number. The programs of stages that have a mesh are sharded by the planner, with the rates and
    links of `device`, as for `hloom.plan`. Nothing is computed or compiled yet. Raises MixedExamples where examples
    mix, HloomError where the batch is not divisible, an instruction has effects, or layers or devices are fewer than
    the plan's.
    """
    module = as_module(source)
    program = pipeline_program(module, as_plan(plan), batch=batch)
    shardings = shard_stages(program, device)
    return Pipeline(program, PipelineExecutor(program, devices, shardings), ProgramTrees.of(source))


class Pipeline(Displayed):
    """A step that runs as a pipeline.

    `program` holds the stages' modules; `executor.record` says what the last step did.
    """

    def __init__(self, program: PipelineProgram, executor: PipelineExecutor, trees: ProgramTrees | None) -> None:
        self.program, self.executor = program, executor
        self._trees = trees

    def display(self) -> Display:
        return self.program.plan.display()

    @property
    def record(self) -> StepRecord:
        """The order of dispatch of the last step, and by stage the most live microbatches."""
        return self.executor.record

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """What the whole step yields for its arguments.

        Of a program that jax lowered, arguments and results are its trees; of any other module they are the arrays of
        its parameters, and a tuple of arrays. Results are jax's arrays on the devices of their stages, and may be the
        arguments of the next step: what is where it is needed is not moved.
        """
        results = self.executor.step(self._arguments(args, kwargs))
        return self._trees.results(results) if self._trees is not None else tuple(results)

    def measure(self, *args: Any, repeats: int = 1, **kwargs: Any) -> StepMeasurement:
        """What the actions of a step with these arguments take, one by one and together; the results are dropped.

        Of `repeats` measurements the least seconds count: what else the machine does only adds to them.
        """
        return measure_step(self.executor, self._arguments(args, kwargs), repeats)

    def _arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        if self._trees is not None:
            return self._trees.arguments(args, kwargs)
        if kwargs:
            raise HloomError(f"{next(iter(kwargs))}: the parameters of a module are given in order, without names")
        return args
