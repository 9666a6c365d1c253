"""A pipeline's modules on jax's devices: compiled by XLA, dispatched in the order of the schedule.

Nothing waits: jax dispatches asynchronously, and an array is sent to another stage's devices as soon as it is
dispatched. A value is dropped when the last program that reads it is dispatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hloom.pipeline import Action, ActionKind, PipelineProgram, StageProgram, StageValue, ValueScope, dispatch_order
from hloom.runtime.differentiation import Program, program_call
from hloom.runtime.jax_internals import jax_internals
from hloom.text import HloomError

BATCH_AXIS = "batch"
"""The name of the axis of a stage's devices, along which microbatches are split."""


@dataclass(frozen=True, slots=True)
class ProgramTrees:
    """The trees of a lowered program's arguments and results, around its flat parameters and results."""

    arguments_tree: Any
    results_tree: Any

    @staticmethod
    def of(lowered: Any) -> ProgramTrees | None:
        """The trees of what `jax.jit(f).lower(...)` returns; None for anything else."""
        arguments, results = getattr(lowered, "in_tree", None), getattr(lowered, "out_tree", None)
        return None if arguments is None or results is None else ProgramTrees(arguments, results)

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments; raises HloomError where they are another tree."""
        leaves, tree = jax_internals().jax.tree.flatten((tuple(args), kwargs))
        if tree != self.arguments_tree:
            raise HloomError(f"the step takes {self.arguments_tree}, and {tree} is given")
        return leaves

    def results(self, leaves: Sequence[Any]) -> Any:
        """The tree of the results."""
        return jax_internals().jax.tree.unflatten(self.results_tree, leaves)


@dataclass(slots=True)
class StepRecord:
    """What the last step did: actions in the order of their dispatch, and by stage the most live microbatches.

    A microbatch is live in a stage from its forward until nothing of it is held there any more.
    """

    actions: list[Action] = field(default_factory=list)
    live_microbatches: dict[int, int] = field(default_factory=dict)
    sent_bytes: int = 0


class PipelineExecutor:
    """Runs the steps of a pipeline.

    `devices` are jax's, which the plan's devices number; by default all that jax knows.
    """

    def __init__(self, program: PipelineProgram, devices: Sequence[Any] | None = None) -> None:
        self.program = program
        self.plan = program.plan
        known = list(devices) if devices is not None else jax_internals().jax.devices()
        wanted = 1 + max(device for stage in self.plan.stages for device in stage.devices)
        if wanted > len(known):
            raise HloomError(
                f"the plan uses {wanted} devices, and there are {len(known)}",
                hint=f"on the CPU: XLA_FLAGS=--xla_force_host_platform_device_count={wanted}",
            )
        self._stages = [_StageDevices([known[number] for number in stage.devices]) for stage in self.plan.stages]
        self._order = dispatch_order(self.plan)
        self._compiled: dict[int, Any] = {}
        self._readers = self._count_readers()
        self.record = StepRecord()

    def step(self, arguments: Sequence[Any]) -> list[Any]:
        """The results of one step, each on the devices of its stage; arguments in the order of the parameters."""
        with jax_internals().jax.enable_x64(True):
            run = _Run(self, arguments)
            return run.results()

    def _count_readers(self) -> dict[tuple[int, StageValue], int]:
        """By stage and value of a microbatch how many programs of the stage read it."""
        readers: dict[tuple[int, StageValue], int] = {}
        for program in self.program.microbatch.values():
            for operand in program.operands:
                key = program.stage, operand
                readers[key] = readers.get(key, 0) + 1
        return readers

    def compiled(self, program: StageProgram) -> Any:
        """A program as jax's jitted function, made once."""
        made = self._compiled.get(id(program))
        if made is None:
            made = self._compiled[id(program)] = self._compile(program)
        return made

    def _compile(self, program: StageProgram) -> Any:
        internals = jax_internals()
        module = program.module

        def avals(types: Any) -> list[Any]:
            return [internals.core.ShapedArray(made.dims, made.dtype.numpy) for made in types]

        inputs = avals([parameter.type for parameter in module.entry.parameters])
        outputs = avals(module.entry.root.type.elements)  # pyright: ignore
        called = Program(module.name, inputs, outputs, None, module=module)  # pyright: ignore[reportArgumentType]

        def apply(*arrays: Any) -> Any:
            return tuple(program_call().bind(*arrays, program=called))

        apply.__name__ = apply.__qualname__ = module.name
        stage = self._stages[program.stage]
        shardings = tuple(
            stage.sharding(value, aval.shape) for value, aval in zip(program.results, outputs, strict=True)
        )
        donated = tuple(operand for operand, _ in program.sums)
        return internals.jax.jit(apply, out_shardings=shardings, donate_argnums=donated)


class _StageDevices:
    """The devices of a stage, and the shardings on them: slices of the batch are split, all else is replicated."""

    def __init__(self, devices: list[Any]) -> None:
        self.devices = devices

    @cached_property
    def _mesh(self) -> Any:
        return jax_internals().jax.sharding.Mesh(np.array(self.devices), (BATCH_AXIS,))

    def sharding(self, value: StageValue, dims: Sequence[int]) -> Any:
        """The sharding of a value on the devices."""
        sharding = jax_internals().jax.sharding
        if len(self.devices) == 1:
            return sharding.SingleDeviceSharding(self.devices[0])
        spec: list[str | None] = [None] * len(dims)
        if value.batch_dim is not None and dims[value.batch_dim] % len(self.devices) == 0:
            spec[value.batch_dim] = BATCH_AXIS
        return sharding.NamedSharding(self._mesh, sharding.PartitionSpec(*spec))


class _Run:
    """One step while it is dispatched: what each stage holds, of the step and of each microbatch."""

    def __init__(self, executor: PipelineExecutor, arguments: Sequence[Any]) -> None:
        self.executor, self.program = executor, executor.program
        self.jax = jax_internals().jax
        count = len(executor.plan.stages)
        self.held: list[dict[StageValue, Any]] = [{} for _ in range(count)]
        self.held_of: list[dict[int, dict[StageValue, Any]]] = [{} for _ in range(count)]
        self.left: list[dict[int, dict[StageValue, int]]] = [{} for _ in range(count)]
        self.started: set[tuple[int, int]] = set()
        self.record = executor.record = StepRecord(live_microbatches=dict.fromkeys(range(count), 0))
        self._place(arguments)

    def results(self) -> list[Any]:
        for program in self.program.before:
            self._run_once(program)
        for action in self.executor._order:
            self._run_action(action)
        for total, stages in self.program.totals:
            for stage in stages:
                self.held[stage][total.value] = self._sent(self.held[total.stage][total.value], total.value, stage)
        for program in self.program.update:
            self._run_once(program)
        return [self.held[output.stage][output.value] for output in self.program.outputs]

    def _place(self, arguments: Sequence[Any]) -> None:
        """Put each parameter on the devices of the stages that read it."""
        types = self.program.parameter_types
        if len(arguments) != len(types):
            raise HloomError(
                f"the step takes {len(types)} arrays, and {len(arguments)} are given",
                hint="jax leaves unused arguments out: lower jax.jit(f, keep_unused=True)",
            )
        for number, (argument, expected) in enumerate(zip(arguments, types, strict=True)):
            array = argument if isinstance(argument, self.jax.Array) else np.asarray(argument, expected.dtype.numpy)
            if array.shape != expected.dims or array.dtype != expected.dtype.numpy:
                given = f"{array.dtype}{list(array.shape)}"
                raise HloomError(f"argument {number} is {given}, and the step takes {expected}")
            value = StageValue("", ValueScope.PARAMETER, number)
            for stage in self.program.placements[number]:
                self.held[stage][value] = self._sent(array, value, stage)

    def _sent(self, array: Any, value: StageValue, stage: int) -> Any:
        """An array on another stage's devices; no copy where it is there."""
        target = self.executor._stages[stage].sharding(value, array.shape)
        if getattr(array, "sharding", None) == target:
            return array
        self.record.sent_bytes += array.nbytes
        return self.jax.device_put(array, target)

    def _run_once(self, program: StageProgram) -> None:
        held = self.held[program.stage]
        results = self.executor.compiled(program)(*[held[_key(operand)] for operand in program.operands])
        held.update(zip(program.results, results, strict=True))
        for number, stage in program.sends:
            value = program.results[number]
            self.held[stage][value] = self._sent(results[number], value, stage)

    def _run_action(self, action: Action) -> None:
        self.record.actions.append(action)
        program = self.program.microbatch.get((action.kind, action.stage))
        if action.kind is ActionKind.FORWARD:
            self.started.add((action.stage, action.microbatch))
        if program is not None:
            self._run_microbatch(program, action.microbatch)
        self._count_live(action)

    def _run_microbatch(self, program: StageProgram, microbatch: int) -> None:
        operands = [self._operand(program.stage, operand, microbatch) for operand in program.operands]
        results = self.executor.compiled(program)(*operands)
        sums = {result for _, result in program.sums}
        for number, (value, array) in enumerate(zip(program.results, results, strict=True)):
            if number in sums or value.scope is ValueScope.STEP:
                self.held[program.stage][value] = array
            else:
                self._hold(program.stage, value, microbatch, array)
        for number, stage in program.sends:
            value = program.results[number]
            self._hold(stage, value, microbatch, self._sent(results[number], value, stage))

    def _hold(self, stage: int, value: StageValue, microbatch: int, array: Any) -> None:
        readers = self.executor._readers.get((stage, value), 0)
        if readers:
            self.held_of[stage].setdefault(microbatch, {})[value] = array
            self.left[stage].setdefault(microbatch, {})[value] = readers

    def _operand(self, stage: int, value: StageValue, microbatch: int) -> Any:
        """What a program reads; a value of the microbatch is dropped with its last reader."""
        if value.scope is ValueScope.MICROBATCH_NUMBER:
            return self._number(stage, microbatch, value)
        if value.scope is not ValueScope.MICROBATCH:
            return self.held[stage][_key(value)]
        left = self.left[stage][microbatch]
        left[value] -= 1
        held = self.held_of[stage][microbatch]
        array = held[value]
        if not left[value]:
            del held[value], left[value]
        return array

    def _number(self, stage: int, microbatch: int, value: StageValue) -> Any:
        key = StageValue(f"{value.name}.{microbatch}", ValueScope.MICROBATCH_NUMBER)
        if key not in self.held[stage]:
            target = self.executor._stages[stage].sharding(value, ())
            self.held[stage][key] = self.jax.device_put(np.int32(microbatch), target)
        return self.held[stage][key]

    def _count_live(self, action: Action) -> None:
        stage = action.stage
        live = sum(
            bool(held) and (stage, microbatch) in self.started for microbatch, held in self.held_of[stage].items()
        )
        is_running = action.kind is ActionKind.FORWARD and not self.held_of[stage].get(action.microbatch)
        self.record.live_microbatches[stage] = max(self.record.live_microbatches[stage], live + is_running)


def _key(value: StageValue) -> StageValue:
    return StageValue("", ValueScope.PARAMETER, value.number) if value.scope is ValueScope.PARAMETER else value
