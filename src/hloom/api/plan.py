"""Plans how to shard a module, and measures plans with XLA's partitioner."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from hloom.analysis import Device, as_device
from hloom.api.jax_specs import MeshLike, mesh_of, partition_specs, result_partition_specs
from hloom.api.plan_like import PlanLike, as_plan
from hloom.api.plan_like import load_plan as load_plan
from hloom.distribute.planner import (
    Alternative,
    CandidatePlan,
    Explanation,
    FamilyTable,
    PartitionedProgram,
    Plan,
    Rates,
    SearchResult,
    check_plannable,
    explain,
    other_plans,
    predict_plan,
    read_compiled,
    read_partitioned,
    search_plans,
    with_comparisons,
)
from hloom.formats.hlo import to_text, write_whole
from hloom.ir import Module, ModuleLike, as_module
from hloom.runtime import partition
from hloom.sharding import Spec
from hloom.targets.compiler import (
    CompiledProgram,
    CompilerError,
    CompilerOutOfMemory,
    Target,
    available_target,
    compile_module,
    rates_for,
)
from hloom.text import Display, Displayed, DisplayTable, HloomError, parse_capacity, time_text, tracked

EXAMPLES = "a mesh such as data=2,model=4, or a target such as v5e:2x2"
MOST_DEVICES = 1 << 18
"""The largest mesh that is planned for: ids of devices are listed one by one."""


def plan(
    module: ModuleLike,
    mesh: MeshLike | None = None,
    *,
    planner: str = "ilp",
    memory: float | str | None = None,
    measure: int = 0,
    target: str | Target | None = None,
    pins: Mapping[str, Spec | str] | None = None,
    like: PlanLike | None = None,
    forbidden: Iterable[str] = (),
    device: Device | str | None = None,
    overlap: bool = False,
    seconds: float = math.inf,
    marks: bool = True,
) -> PlanResult:
    """The best plan found to shard a module over a mesh of devices, with its costs and their causes.

    The mesh is a `Mesh`, its axes as a dict or a text (`data=2,model=4`, or `2x4`), or a `jax.sharding.Mesh`.

    `planner` is the name of a planner; `memory` the bytes per device (`80GiB`); with `measure`, this many plans, and
    the experts' plans, are compiled by XLA's partitioner, and the best measured one is kept. `pins` fix the specs of
    values (`{"x": "[data,-]"}`), `like` is a plan to follow, or its file, `forbidden` lists `AXIS`, `NAME:AXIS` or
    `NAME:DIMENSION=AXIS`. Rates and links are those of `device`; by default dots run at 100 TFLOP/s, links send 100
    GB/s without latency, and nothing else takes time. With `overlap`, work and collectives run concurrently. Solutions
    stop after this many `seconds`, with a note if they do. Plans mark operands of dots, which annotated modules contain
    but the plan's JSON does not: without `marks`, the JSON describes a plan of a module without loops completely.

    With a `target` such as "v5e:2x2", the best plan found, or the `measure` best, are compiled by the target's compiler
    instead, and the fastest whose peak fits is kept; `compiled` of the result is what it made. The mesh is then that of
    the target's links unless given, and the rates are the target's.

    Raises HloomError for modules that cannot be planned and for demands that cannot be met, and as `hloom.compile` does
    if no plan compiles.
    """
    module = as_module(module)
    check_plannable(module)
    given = None if mesh is None else mesh_of(mesh)
    wanted = None if target is None else available_target(target, given and given.device_count)
    space = given if wanted is None or given is not None else mesh_of(wanted.axes)
    if space is None:
        raise HloomError("a plan needs a mesh, or a target that says how many devices there are", hint=EXAMPLES)
    on = None if device is None else as_device(device)
    on = on if wanted is None else rates_for(wanted, on)
    rates = Rates() if on is None else Rates.of(on, space)
    if space.device_count > MOST_DEVICES:
        raise HloomError(f"a mesh of {space.device_count:,} devices: at most {MOST_DEVICES:,} are planned for")
    chosen = search_plans(
        module,
        space,
        rates=replace(rates, is_overlapped=overlap),
        budget=None if memory is None else parse_capacity(memory),
        measure=measure if wanted is None else 0,
        measure_plan=partial(_measured, module),
        seconds=seconds,
        planner=planner,
        pins=pins,
        forbidden=forbidden,
        like=None if like is None else as_plan(like, module),
        marks=marks,
    )
    if wanted is not None:
        _compile_best(chosen, wanted, max(measure, 1))
    return PlanResult(chosen)


def _compile_best(chosen: SearchResult, target: Target, count: int) -> None:
    """Compile the `count` best plans for a target, and more until one fits; rank them by the compiled programs.

    Plans that its compiler refuses are left out, with a note. Raises the compiler's error if it refuses all of them.
    """
    started = time.perf_counter()
    refusals: list[HloomError] = []
    compiled: list[CandidatePlan] = []
    for candidate in tracked([*chosen.candidates]):
        if len(compiled) >= count and any(made.fits(chosen.task.budget) for made in compiled):
            break
        try:
            program = compile_module(candidate.plan.annotate(chosen.module), target)
        except (CompilerError, CompilerOutOfMemory) as refusal:
            refusals.append(refusal)
            chosen.notes.append(f"{candidate.plan.name} is left out: {refusal.message}")
            chosen.candidates.remove(candidate)
        else:
            candidate.predict_memory()
            candidate.measured = read_compiled(program)
            compiled.append(candidate)
    chosen.measuring_seconds = time.perf_counter() - started
    if not compiled:
        raise refusals[0]
    chosen.rank()


def measure(
    planned: PlanLike | ModuleLike, module: ModuleLike | None = None, *, devices: int | None = None
) -> PartitionedProgram:
    """What XLA's partitioner makes of a plan for a module, or of an annotated module, for virtual CPU devices.

    A plan given as JSON or by path needs the module. Predictions of the plan are in `comparisons`. Raises as `run`
    does.
    """
    own = None if module is None else as_module(module)
    if isinstance(planned, PlanResult):
        return with_comparisons(_measured(own or planned.chosen.module, planned.plan), planned.best)
    if own is not None:
        plan = as_plan(cast(PlanLike, planned), own)
        return with_comparisons(_measured(own, plan), predict_plan(own, plan))
    if isinstance(planned, (Plan, Mapping)):
        raise HloomError("a plan is measured together with its module")
    annotated = as_module(cast(ModuleLike, planned))
    if devices is None:
        raise HloomError("an annotated module does not say for how many devices it is", hint="devices=8")
    compiled = partition(annotated, devices)
    return read_partitioned(compiled.module, devices, compiled.memory)


@dataclass(repr=False)
class PlanResult(Displayed):
    """The plan chosen for a module; `chosen` has all candidates with their predicted and measured costs."""

    chosen: SearchResult = field(repr=False)

    def display(self) -> Display:
        rates, candidates = self.chosen.rates, self.chosen.candidates
        rows = (
            (made.plan.name, made.step(rates), made.held(), "expected" if made.measured is None else "measured")
            for made in candidates
        )
        columns = ("plan", "step seconds", "bytes held", "")
        tables = [DisplayTable("plans, best first", columns, rows, len(candidates)), *self.plan.display().tables]
        title = (
            f"<plan {self.plan.name} of {self.chosen.module.name} on {self.plan.mesh}: {time_text(self.step_seconds)}>"
        )
        return Display(title, tables, "result.table(), result.explanation")

    @property
    def plan(self) -> Plan:
        """The plan itself."""
        return self.chosen.best.plan

    @property
    def best(self) -> CandidatePlan:
        """The plan with its predicted and measured costs."""
        return self.chosen.best

    @property
    def step_seconds(self) -> float:
        """The time of a step: as measured, else as expected."""
        return self.best.step(self.chosen.rates)

    @cached_property
    def explanation(self) -> Explanation:
        """Every collective with its cause, and what takes the time."""
        return explain(self.chosen)

    @cached_property
    def alternatives(self) -> list[Alternative]:
        """The five best other plans, and how they differ."""
        return other_plans(self.chosen)

    @property
    def compiled(self) -> CompiledProgram | None:
        """The program that the target's compiler made of the plan, if there is a target."""
        measured = self.best.measured
        return measured.compiled if isinstance(measured, PartitionedProgram) else None

    def table(self) -> FamilyTable:
        """How each family of tensors is split, with the memory that saves and the bytes it sends."""
        return self.explanation.table

    def annotate(self, module: Module | None = None) -> Module:
        """A copy of the module with the plan's shardings, for XLA's partitioner."""
        return self.plan.annotate(self.chosen.module if module is None else module)

    def partition_specs(self, tree: Any) -> Any:
        """The tree of arguments with jax's `PartitionSpec`s as leaves, for `in_shardings`."""
        return partition_specs(self.plan, tree)

    def result_partition_specs(self, tree: Any) -> Any:
        """The same of a tree of results, for `out_shardings`."""
        return result_partition_specs(self.plan, self.chosen.module, tree)

    def measure(self) -> PartitionedProgram:
        """What XLA's partitioner makes of the plan, compared with the prediction."""
        return measure(self)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON."""
        return self.plan.to_json()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the plan: `.json` as JSON, `.hlo` as the annotated module; raises HloomError for other endings."""
        check_plan_path(path)
        if Path(path).suffix.lower() == ".json":
            return write_whole(path, json.dumps(self.to_json()) + "\n")
        return write_whole(path, to_text(self.annotate()))


def check_plan_path(path: str | os.PathLike[str]) -> None:
    """Raise HloomError if a file's suffix does not select a format for plans."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".json", ".hlo") and (not os.path.exists(path) or os.path.isfile(path)):
        raise HloomError(f"{path}: a plan is written as .json (the plan) or as .hlo (the annotated module)")


def _measured(module: Module, plan: Plan) -> PartitionedProgram:
    compiled = partition(plan.annotate(module), plan.mesh.device_count)
    return read_partitioned(compiled.module, plan.mesh.device_count, compiled.memory)



