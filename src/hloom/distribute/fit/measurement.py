"""Measures the best combinations with XLA: peak bytes, bytes sent, and the bubble of small pipelines.

A sharded program is compiled for virtual CPU devices, or by the compiler of a target. Of a pipeline each program of
each stage is, and the schedule is followed action by action: a device holds its parts of parameters, sums and live
microbatches, and XLA's temporaries of what it runs. A small pipeline is run too, unless it is for a target.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hloom.analysis import Device, cost
from hloom.distribute.fit.combination import Combination, Omission
from hloom.distribute.fit.result import FitResult
from hloom.distribute.fit.run_record import BATCH_AXIS, SCRIPT, StageLayouts, run_files
from hloom.distribute.pipeline import (
    PipelineProgram,
    StageProgram,
    StageValue,
    ValueScope,
    dispatch_order,
    pipeline_program,
    shard_stages,
)
from hloom.distribute.planner import Plan, read_compiled, read_partitioned
from hloom.formats.hlo import write_folder
from hloom.ir import Module, TensorType
from hloom.runtime import XlaError, partition
from hloom.sharding import Mesh, Spec
from hloom.targets.compiler import (
    CompiledProgram,
    CompilerError,
    CompilerOutOfMemory,
    NoSuchTarget,
    Target,
    compile_module,
    parse_target,
)
from hloom.text import HloomError

SMALL_BYTES, SMALL_FLOPS = 1 << 25, 2e9
"""A pipeline is run where the step's parameters and its work on one device are no more than this."""
RUN_SECONDS = 120
"""How long running a pipeline may take."""


def measure(result: FitResult, count: int) -> None:
    """Compile the best combinations, so many, and for a target until the best is one that its compiler made.

    What XLA does not compile is left out. `result` is ranked again.
    """
    compiler = f"the compiler for {result.target.name}" if result.target is not None else "XLA"
    while result.measured < count or (result.target is not None and result.best.measured_bytes is None):
        made = next((made for made in result.combinations if made.measured_bytes is None), None)
        if made is None:
            return
        position = result.combinations.index(made)
        try:
            result.combinations[position] = _measured(made, result)
            result.measured += 1
        except (XlaError, CompilerError, CompilerOutOfMemory, NoSuchTarget) as problem:
            if len(result.combinations) == 1:
                raise
            del result.combinations[position]
            result.omissions.append(Omission(made.name, f"{compiler} does not compile it: {problem.message}"))
        result.rank()


def _measured(made: Combination, result: FitResult) -> Combination:
    compiled = partial(_by_xla if result.target is None else _by_target, result.target)
    if made.plan is not None:
        one = compiled(made.plan.annotate(made.module), result.devices)
        return replace(made, measured_bytes=one.peak, measured_comm_bytes=one.comm_bytes, compiled=one.program)
    peak, sent = compiled_pipeline(made, result.rates or result.device, compiled)
    is_run = result.target is None and _is_small(made.module)
    return replace(
        made,
        measured_bytes=peak,
        measured_comm_bytes=sent,
        measured_bubble=_bubble(made, result) if is_run else None,
    )


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one run of a program takes on each of its devices; `program` is what a target's compiler made."""

    peak: int
    temporaries: int
    comm_bytes: float
    program: CompiledProgram | None = None


Compile = Callable[[Module, int], DeviceUse]
"""Compiles an annotated module for a given number of devices."""


def _by_xla(_: Target | None, module: Module, devices: int) -> DeviceUse:
    compiled = partition(module, devices)
    sent = read_partitioned(compiled.module, devices, compiled.memory).comm_bytes if devices > 1 else 0.0
    return DeviceUse(compiled.memory, compiled.temporaries, sent)


def _by_target(target: Target, module: Module, devices: int) -> DeviceUse:
    """The program on as many devices of the target: all, or those of a stage."""
    program = compile_module(module, target if devices == target.devices else parse_target(target.chip, devices))
    memory = program.memory
    return DeviceUse(memory.peak, memory.temporaries, read_compiled(program).comm_bytes, program)


def compiled_pipeline(made: Combination, device: Device | str, compiled: Compile | None = None) -> tuple[int, float]:
    """The most bytes that a device holds in a step of a pipeline, and the most that one sends, as XLA compiles it."""
    assert made.pipeline is not None
    program = pipeline_program(made.module, made.pipeline, batch=made.batch)
    layouts = StageLayouts(program, shard_stages(program, device))
    accounts = _StepAccounts(program, layouts, compiled or partial(_by_xla, None))
    accounts.run()
    return max(accounts.peak.values()), max(accounts.sent.values())


class _StepAccounts:
    """One step of a pipeline by its schedule: bytes that a device of each stage holds and sends.

    Stages on the same devices share `peak` and `sent`.
    """

    def __init__(self, program: PipelineProgram, layouts: StageLayouts, compiled: Compile) -> None:
        self.program, self.layouts, self.compiled = program, layouts, compiled
        groups = range(len(program.plan.device_groups))
        self.peak, self.sent = dict.fromkeys(groups, 0), dict.fromkeys(groups, 0.0)
        self.held: list[dict[object, int]] = [{} for _ in program.plan.stages]
        self.left: dict[tuple[int, StageValue, int], int] = {}
        self.readers: defaultdict[tuple[int, StageValue], int] = defaultdict(int)
        for part in program.microbatch.values():
            for value in part.operands:
                self.readers[part.stage, value] += 1
        self._compiled: dict[int, DeviceUse] = {}

    def run(self) -> None:
        """Follow the step from its parameters to its update."""
        for number, stages in enumerate(self.program.placements):
            value = StageValue("", ValueScope.PARAMETER, number)
            for stage in stages:
                self._hold(stage, value, self._local(stage, value))
            for stage in stages[1:]:
                self._send(stages[0], stage, value)
        for part in self.program.before:
            self._run(part, None)
        for action in dispatch_order(self.program.plan):
            part = self.program.microbatch.get((action.kind, action.stage))
            if part is not None:
                self._run(part, action.microbatch)
        for total, stages in self.program.totals:
            for stage in stages:
                self._send(total.stage, stage, total.value)
                self._hold(stage, total.value, self._local(stage, total.value))
        for part in self.program.update:
            self._run(part, None)

    def _run(self, part: StageProgram, microbatch: int | None) -> None:
        compiled, held = self._compile(part), self.held[part.stage]
        made = [self._local(part.stage, value) for value in part.results]
        in_place = {result for _, result in part.sums}
        added = sum(size for number, size in enumerate(made) if number not in in_place)
        self._note(part.stage, compiled.temporaries + added)
        group = self.program.plan.group_of(part.stage)
        self.sent[group] += compiled.comm_bytes
        if microbatch is not None:
            self._drop(part, microbatch, held)
        for value, size in zip(part.results, made, strict=True):
            self._keep(part.stage, value, microbatch, size)
        for number, stage in part.sends:
            value = part.results[number]
            self._send(part.stage, stage, value)
            self._keep(stage, value, microbatch, self._local(stage, value))

    def _drop(self, part: StageProgram, microbatch: int, held: dict[object, int]) -> None:
        """Let go of the values of a microbatch that nothing of the stage reads any more."""
        for value in part.operands:
            if value.scope is not ValueScope.MICROBATCH:
                continue
            key = part.stage, value, microbatch
            self.left[key] -= 1
            if not self.left[key]:
                del held[value, microbatch], self.left[key]

    def _keep(self, stage: int, value: StageValue, microbatch: int | None, size: int) -> None:
        if value.scope is not ValueScope.MICROBATCH:
            self._hold(stage, value.key, size)
        elif microbatch is not None and self.readers[stage, value]:
            self.left[stage, value, microbatch] = self.readers[stage, value]
            self._hold(stage, (value, microbatch), size)

    def _hold(self, stage: int, key: object, size: int) -> None:
        self.held[stage][key] = size
        self._note(stage, 0)

    def _note(self, stage: int, more: int) -> None:
        """What the devices of a stage hold now, with so much more."""
        plan = self.program.plan
        group = plan.group_of(stage)
        stages = (number for number in range(len(plan.stages)) if plan.group_of(number) == group)
        self.peak[group] = max(self.peak[group], more + sum(sum(self.held[number].values()) for number in stages))

    def _send(self, source: int, target: int, value: StageValue) -> None:
        """Count what each device of a stage sends, so that each of another stage has its part."""
        plan = self.program.plan
        if plan.group_of(source) == plan.group_of(target):
            return
        received = self._local(target, value) * len(plan.stages[target].devices)
        self.sent[plan.group_of(source)] += received / len(plan.stages[source].devices)

    def _local(self, stage: int, value: StageValue) -> int:
        """The bytes that each device of a stage holds of a value."""
        mesh, value_type = self._mesh(stage), self.layouts.type_of(value)
        dims = mesh.local_dims(value_type.dims, self.layouts.spec(stage, value))
        return TensorType(value_type.dtype, dims).byte_count

    def _mesh(self, stage: int) -> Mesh:
        entry = self.program.plan.stages[stage]
        return entry.device_mesh or Mesh((BATCH_AXIS,), (len(entry.devices),))

    def _compile(self, part: StageProgram) -> DeviceUse:
        if id(part) not in self._compiled:
            devices = len(self.program.plan.stages[part.stage].devices)
            self._compiled[id(part)] = self.compiled(self._annotated(part), devices)
        return self._compiled[id(part)]

    def _annotated(self, part: StageProgram) -> Module:
        sharding = self.layouts.shardings.get(part.stage)
        if sharding is not None:
            return sharding.plan(part).annotate(part.module)
        return Plan(
            self._mesh(part.stage),
            dict(enumerate(self._specs(part.stage, part.operands))),
            dict(enumerate(self._specs(part.stage, part.results))),
        ).annotate(part.module)

    def _specs(self, stage: int, values: Iterable[StageValue]) -> list[Spec]:
        return [self.layouts.spec(stage, value) for value in values]


def _is_small(module: Module) -> bool:
    types = [parameter.type for parameter in module.entry.parameters]
    size = sum(entry.byte_count for entry in types if isinstance(entry, TensorType))
    return size <= SMALL_BYTES and cost(module).total.flops <= SMALL_FLOPS


def _bubble(made: Combination, result: FitResult) -> float | None:
    """The bubble of a pipeline that is run on virtual CPU devices; None, with an omission, where it does not run."""
    with tempfile.TemporaryDirectory() as parent:
        try:
            texts = run_files(result.module, made, result.rates or result.device)
            folder = write_folder(Path(parent) / "pipeline", texts)
            command = [sys.executable, str(folder / SCRIPT), "--cpu", str(result.devices), "--time"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=RUN_SECONDS)
        except (HloomError, subprocess.SubprocessError, OSError) as problem:
            words = getattr(problem, "stderr", None) or str(problem)
            last = words.strip().splitlines()[-1] if isinstance(words, str) and words.strip() else "it was stopped"
            result.omissions.append(Omission(f"the bubble of {made.name}", last))
            return None
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    return float(lines["bubble"])
