"""Runs a pipeline's modules on jax devices, dispatched in the order of the schedule.

Nothing waits: jax dispatches asynchronously, and an array is sent to another stage's devices as soon as it is
dispatched. A value is dropped when the last program that reads it is dispatched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hloom.distribute.pipeline.dispatch import dispatch_order
from hloom.distribute.pipeline.plan import Action, ActionKind
from hloom.distribute.pipeline.program import PipelineProgram, StageProgram, StageValue, ValueScope
from hloom.distribute.pipeline.stage_sharding import StageSharding
from hloom.runtime import Split, checked_argument, device_groups, join_rows, take_rows, uses_shardy
from hloom.text import HloomError


@dataclass(slots=True)
class StepRecord:
    """What the last step did: actions in dispatch order, and the maximum number of live microbatches per stage.

    A microbatch is live in a stage from its forward until nothing of it is held there any more. `sources` are by action
    those whose results it read. `sent_bytes` counts what came to a stage's devices from elsewhere.
    """

    actions: list[Action] = field(default_factory=list)
    sources: dict[Action, frozenset[Action]] = field(default_factory=dict)
    live_microbatches: dict[int, int] = field(default_factory=dict)
    sent_bytes: int = 0


class PipelineExecutor:
    """Runs the steps of a pipeline; `devices` are jax's, which the plan's devices number: all of them by default.

    `shardings` are by stage that has a mesh how the planner shards its programs.
    """

    def __init__(
        self,
        program: PipelineProgram,
        devices: Sequence[Any] | None = None,
        shardings: Mapping[int, StageSharding] | None = None,
    ) -> None:
        self.program, self.shardings = program, dict(shardings or {})
        stages = program.plan.stages
        meshes = [self.shardings[number].mesh if number in self.shardings else None for number in range(len(stages))]
        self.groups = device_groups([stage.devices for stage in stages], devices, meshes)
        self.order = dispatch_order(program.plan)
        self.readers = self._count_readers()
        self.record = StepRecord()
        self._compiled: dict[int, Callable[..., tuple[Any, ...]]] = {}

    def step(self, arguments: Sequence[Any]) -> list[Any]:
        """The results of one step, each on the devices of its stage; arguments in the order of the parameters."""
        run = StepRun(self, arguments)
        self.record = run.record
        return run.results()

    def _count_readers(self) -> dict[tuple[int, StageValue], int]:
        """By stage and value of a microbatch how many programs of the stage read it."""
        readers: dict[tuple[int, StageValue], int] = {}
        for program in self.program.microbatch.values():
            for operand in program.operands:
                key = program.stage, operand
                readers[key] = readers.get(key, 0) + 1
        return readers

    def split_of(self, stage: int, value: StageValue) -> Split:
        """How a stage's devices hold a value: by its spec on the stage's mesh, else split along the batch."""
        sharding = self.shardings.get(stage)
        if sharding is None or value.scope is ValueScope.MICROBATCH_NUMBER:
            return value.batch_dim
        return sharding.specs.get(value.key)

    def compiled(self, program: StageProgram) -> Callable[..., tuple[Any, ...]]:
        """A program as a function on its stage's devices, made once."""
        made = self._compiled.get(id(program))
        if made is None:
            splits = [self.split_of(program.stage, value) for value in program.results]
            donated = [operand for operand, _ in program.sums]
            sharding = self.shardings.get(program.stage)
            module = program.module
            if sharding is not None:
                module = sharding.annotated(program, for_shardy=uses_shardy())
            made = self.groups[program.stage].compiled(module, splits, donated)
            self._compiled[id(program)] = made
        return made


class StepRun:
    """One step while it is dispatched: what each stage holds, of the step and of each microbatch."""

    def __init__(self, executor: PipelineExecutor, arguments: Sequence[Any]) -> None:
        self.executor, self.program = executor, executor.program
        count = len(executor.program.plan.stages)
        self.held: list[dict[StageValue, Any]] = [{} for _ in range(count)]
        self.held_of: list[dict[int, dict[StageValue, Any]]] = [{} for _ in range(count)]
        self.left: list[dict[int, dict[StageValue, int]]] = [{} for _ in range(count)]
        self.started: set[tuple[int, int]] = set()
        self.made_by: dict[tuple[int, StageValue, int | None], Action] = {}
        self.record = StepRecord(live_microbatches=dict.fromkeys(range(count), 0))
        self._place(arguments)

    def results(self) -> list[Any]:
        """Dispatch the step; its results."""
        self.prepare()
        for action in self.executor.order:
            self.run_action(action)
        return self.update()

    def prepare(self) -> None:
        """Dispatch what comes before the microbatches."""
        for program in self.program.before:
            self._run_once(program)

    def update(self) -> list[Any]:
        """Dispatch what follows the microbatches; the step's results."""
        for total, stages in self.program.totals:
            for stage in stages:
                self.held[stage][total.value] = self._sent(self.held[total.stage][total.value], total.value, stage)
        for program in self.program.update:
            self._run_once(program)
        return self._whole_results()

    def _whole_results(self) -> list[Any]:
        """The step's results, those that stages have rows of put together."""
        pieces: dict[int, list[tuple[int, int, Any]]] = {}
        for part, output in zip(self.program.results, self.program.outputs, strict=True):
            array = self.held[output.stage][output.value.key]
            first = part.rows[0] if part.rows is not None else 0
            pieces.setdefault(part.number, []).append((first, output.stage, array))
        results: list[Any] = []
        for number in sorted(pieces):
            arrays = sorted(pieces[number], key=lambda piece: piece[0])
            groups = [self.executor.groups[stage] for _, stage, _ in arrays]
            pieces_only = [array for *_, array in arrays]
            results.append(pieces_only[0] if len(arrays) == 1 else join_rows(pieces_only, groups))
        return results

    def _place(self, arguments: Sequence[Any]) -> None:
        """Put each parameter on the devices of the stages that read it."""
        types = self.program.argument_types
        if len(arguments) != len(types):
            raise HloomError(f"the step takes {len(types)} arrays, and {len(arguments)} are given")
        pairs = zip(arguments, types, strict=True)
        checked = [checked_argument(argument, expected, number) for number, (argument, expected) in enumerate(pairs)]
        for number, (part, stages) in enumerate(zip(self.program.parameters, self.program.placements, strict=True)):
            value = StageValue("", ValueScope.PARAMETER, number)
            array = checked[part.number]
            if part.rows is not None and stages:
                array = take_rows(array, part.rows, self.executor.groups[stages[0]])
            for stage in stages:
                self.held[stage][value] = self._sent(array, value, stage)

    def _sent(self, array: Any, value: StageValue, stage: int) -> Any:
        """An array on a stage's devices; no copy where it is there."""
        group, split = self.executor.groups[stage], self.executor.split_of(stage, value)
        if not group.holds(array, split):
            self.record.sent_bytes += array.nbytes
        return group.put(array, split)

    def _run_once(self, program: StageProgram) -> None:
        held = self.held[program.stage]
        results = self.executor.compiled(program)(*[held[operand.key] for operand in program.operands])
        held.update(zip(program.results, results, strict=True))
        for number, stage in program.sends:
            value = program.results[number]
            self.held[stage][value] = self._sent(results[number], value, stage)

    def arrays(self) -> list[Any]:
        """The arrays that stages hold for the step."""
        return [array for held in self.held for array in held.values()]

    def run_action(self, action: Action) -> list[Any]:
        """Dispatch an action; the arrays that it yields and sends."""
        self.record.actions.append(action)
        program = self.program.microbatch.get((action.kind, action.stage))
        if action.kind is ActionKind.FORWARD:
            self.started.add((action.stage, action.microbatch))
        made = self._run_microbatch(program, action) if program is not None else []
        self._count_live(action)
        return made

    def _run_microbatch(self, program: StageProgram, action: Action) -> list[Any]:
        stage, microbatch = program.stage, action.microbatch
        self.record.sources[action] = self._sources(program, microbatch)
        operands = [self._operand(stage, operand, microbatch) for operand in program.operands]
        results = self.executor.compiled(program)(*operands)
        for value, array in zip(program.results, results, strict=True):
            if value.scope is ValueScope.STEP:
                self.held[stage][value] = array
                self.made_by[stage, value, None] = action
            else:
                self._hold(stage, value, action, array)
        sent = []
        for number, target in program.sends:
            value = program.results[number]
            sent.append(self._sent(results[number], value, target))
            self._hold(target, value, action, sent[-1])
        return [*results, *sent]

    def _sources(self, program: StageProgram, microbatch: int) -> frozenset[Action]:
        """The actions whose results a program reads."""
        numbers = [(value, microbatch if value.scope is ValueScope.MICROBATCH else None) for value in program.operands]
        makers = (self.made_by.get((program.stage, value, number)) for value, number in numbers)
        return frozenset(maker for maker in makers if maker is not None)

    def _hold(self, stage: int, value: StageValue, maker: Action, array: Any) -> None:
        readers = self.executor.readers.get((stage, value), 0)
        if readers:
            microbatch = maker.microbatch
            self.held_of[stage].setdefault(microbatch, {})[value] = array
            self.left[stage].setdefault(microbatch, {})[value] = readers
            self.made_by[stage, value, microbatch] = maker

    def _operand(self, stage: int, value: StageValue, microbatch: int) -> Any:
        """What a program reads; a value of the microbatch is dropped with its last reader."""
        if value.scope is ValueScope.MICROBATCH_NUMBER:
            return self._number(stage, microbatch, value)
        if value.scope is not ValueScope.MICROBATCH:
            return self.held[stage][value.key]
        left, held = self.left[stage][microbatch], self.held_of[stage][microbatch]
        left[value] -= 1
        array = held[value]
        if not left[value]:
            del held[value], left[value]
        return array

    def _number(self, stage: int, microbatch: int, value: StageValue) -> Any:
        key = StageValue(f"{value.name}.{microbatch}", ValueScope.MICROBATCH_NUMBER)
        if key not in self.held[stage]:
            self.held[stage][key] = self.executor.groups[stage].put(np.int32(microbatch))
        return self.held[stage][key]

    def _count_live(self, action: Action) -> None:
        stage = action.stage
        held_of = self.held_of[stage]
        live = sum(bool(held) and (stage, microbatch) in self.started for microbatch, held in held_of.items())
        is_alone = action.kind is ActionKind.FORWARD and not held_of.get(action.microbatch)
        self.record.live_microbatches[stage] = max(self.record.live_microbatches[stage], live + is_alone)
