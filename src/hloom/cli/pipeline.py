"""`hloom pipeline`: cut a step into pipeline stages over devices, by every schedule, and write the stages' programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import DEFAULT_DEVICE
from hloom.analysis import device as device_of
from hloom.cli.input import note_sizes, progress, read_program
from hloom.cli.options import (
    ModuleSource,
    batch_option,
    check_standard_output,
    choice_option,
    count_option,
    device_option,
    file_argument,
    json_option,
    output_option,
    size_option,
    trips_option,
)
from hloom.cli.output import check_folder, write_json
from hloom.cli.streams import STDOUT
from hloom.cli.tables import cut, new_table, write_report_beside
from hloom.distribute.pipeline import (
    Chain,
    DoesNotFit,
    InvalidPlan,
    LayerCost,
    Machine,
    PipelineProgram,
    PlannedPipeline,
    Schedule,
    StageProgram,
    pipeline_program,
    plan_merged_pipeline,
    step_chain,
)
from hloom.formats.hlo import check_new_folder, to_text, write_folder
from hloom.ir import Module
from hloom.text import HloomError, Record, byte_text, time_text

NAME_WIDTH = 40
"""The width at which names of layers are cut."""


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """The best plan of a schedule, or why there is none."""

    schedule: Schedule
    planned: PlannedPipeline | None
    problem: HloomError | None = None
    json_keys = "schedule problem? **planned"


@dataclass(frozen=True, slots=True)
class PipelineRecord(Record):
    """The fastest plan, the bytes of a device's memory, the layers, and the best plan of each schedule."""

    best: PlannedPipeline
    memory_bytes: float
    layers: tuple[LayerCost, ...]
    schedules: Sequence[ScheduleResult]
    json_keys = "**best memory_bytes layers schedules"


@click.command("pipeline")
@file_argument
@count_option("--devices", "count", required=True, help="Number of devices to split the step over.")
@device_option(DEFAULT_DEVICE, "Device model that gives compute rates, memory and links.")
@count_option("--stages", help="Use N stages.  [default: searched]")
@count_option("--microbatches", metavar="M", help="Use M microbatches.  [default: searched]")
@choice_option(
    "--schedule", choices=[schedule.value for schedule in Schedule], help="Use only this schedule.  [default: the best]"
)
@size_option("--memory", is_capacity=True, help="Memory per device, as in 16GiB.  [default: the device's]")
@batch_option("Batch dimension of a parameter, as in tokens:0; may be repeated.  [default: detected]")
@trips_option()
@json_option("Write JSON: the plan, its stages, and the best plan of each schedule.")
@output_option("Write the plan to a .json file, or the plan and the stage modules to a directory.", keeps_stdout=True)
def command(
    source: ModuleSource,
    count: int,
    device: str,
    stages: int | None,
    microbatches: int | None,
    schedule: str | None,
    memory: int | None,
    batch: str | None,
    trips: dict[str, int],
    json_output: bool,
    output: Path | None,
) -> None:
    """Split a training or inference step into pipeline stages over devices.

    A layer's forward and backward parts always share a stage. For each schedule, searches the cuts, the devices per
    stage, the microbatches and the recomputation that give the shortest step within memory. Times come from the
    roofline model.

    \b
    Examples:
      hloom pipeline step.hlo --devices 8 --device h100
      hloom pipeline step.hlo --devices 4 --stages 4 --microbatches 16 \\
        --schedule 1f1b
      hloom pipeline step.hlo --devices 8 --memory 16GiB --batch tokens:0 \\
        -o plan.json
      hloom pipeline step.hlo --devices 2 -o stages/
    """
    check_standard_output(output, json_output)
    if output is not None:
        _check_output(output)
    known = device_of(device)
    machine = Machine.of(known, count, memory)
    module = read_program(source)
    note_sizes(module)
    with progress("planning"):
        chain = step_chain(module, known, microbatches=microbatches or 1, batch=batch, trip_counts=trips)
        schedules = list(Schedule) if schedule is None else [Schedule(schedule)]
        results = _planned(chain, machine, stages, microbatches, schedules)
    best = min((r.planned for r in results if r.planned is not None), key=lambda planned: planned.step_seconds)
    if output == STDOUT:
        write_json(best.plan.to_json(), None)
    elif output is not None and output.suffix.lower() == ".json":
        best.plan.save(output)
    elif output is not None:
        write_folder(output, _program_texts(pipeline_program(module, best.plan, batch=batch)))
    write_report_beside(
        lambda: PipelineRecord(best, machine.memory_bytes, chain.layers, results),
        _tables(module, chain, best, results),
        json_output,
        output,
    )


def _planned(
    chain: Chain, machine: Machine, stages: int | None, microbatches: int | None, schedules: Sequence[Schedule]
) -> list[ScheduleResult]:
    """The best plan of each schedule; raises the first schedule's error where none has any."""
    results: list[ScheduleResult] = []
    for schedule in schedules:
        try:
            planned = plan_merged_pipeline(
                chain,
                machine,
                chain.batch * (microbatches or 1),
                microbatches=None if microbatches is None else [microbatches],
                schedules=[schedule],
                stage_counts=None if stages is None else [stages],
            )
            results.append(ScheduleResult(schedule, planned))
        except (DoesNotFit, InvalidPlan) as problem:
            results.append(ScheduleResult(schedule, None, problem))
    problems = [result.problem for result in results if result.problem is not None]
    if len(problems) == len(results):
        raise problems[0]
    return results


def _check_output(output: Path) -> None:
    """Raise HloomError, before work that takes long, where the plan or the stages cannot be written."""
    check_folder(output)
    if output == STDOUT or output.suffix.lower() == ".json":
        return
    if output.suffix and not output.is_dir():
        what = f"{output}: write a plan to a .json file, or a plan and stage modules to a directory"
        raise HloomError(what, hint="-o plan.json, -o stages/")
    check_new_folder(output)


def _program_texts(program: PipelineProgram) -> dict[str, str]:
    """The files of a folder: the plan, the stages' modules, and what they read, yield and send."""
    named = dict(_named_programs(program))
    listed = [_program_record(name, part) for name, part in named.items()]
    records = {"plan.json": program.plan.to_json(), "programs.json": listed}
    texts = {name: json.dumps(record, indent=2) + "\n" for name, record in records.items()}
    return texts | {name: to_text(part.module) for name, part in named.items()}


def _named_programs(program: PipelineProgram) -> Iterator[tuple[str, StageProgram]]:
    for part in program.before:
        yield f"stage{part.stage}.before.hlo", part
    for (phase, stage), part in program.microbatch.items():
        yield f"stage{stage}.{phase.name.lower()}.hlo", part
    for number, part in enumerate(program.update):
        yield f"stage{part.stage}.update{number}.hlo", part


def _program_record(name: str, part: StageProgram) -> dict[str, Any]:
    return {
        "file": name,
        "stage": part.stage,
        "operands": [{"name": value.name, "of": value.scope.value} for value in part.operands],
        "results": [{"name": value.name, "of": value.scope.value} for value in part.results],
        "sends": [{"result": result, "stage": stage} for result, stage in part.sends],
    }


def _tables(
    module: Module, chain: Chain, best: PlannedPipeline, results: Sequence[ScheduleResult]
) -> Iterator[RenderableType]:
    plan = best.plan
    yield Text(
        f"{module.name}: {len(chain.layers)} layers, {len(plan.stages)} stages, {plan.microbatches} microbatches, "
        f"{plan.schedule.value}\n",
        style="bold",
    )
    yield _stage_table(chain, best)
    yield _schedule_table(best, results)
    yield f"step {time_text(best.step_seconds)}, bubble {best.bubble:.1%}: estimated by the roofline model"


def _stage_table(chain: Chain, best: PlannedPipeline) -> Table:
    table = new_table(
        "stages", ">stage", "layers", "from", "devices", ">forward", ">backward", ">transfer", ">all-reduce", ">peak"
    )
    for number, (stage, times) in enumerate(zip(best.plan.stages, best.times, strict=True)):
        recomputes = " (recomputes)" if best.plan.recompute[number] else ""
        table.add_row(
            str(number),
            f"{stage.first} to {stage.last}",
            cut(chain.layers[stage.first].name, NAME_WIDTH),
            _ranges(stage.devices) + recomputes,
            *map(
                time_text,
                (times.forward_seconds, times.backward_seconds, times.transfer_seconds, times.all_reduce_seconds),
            ),
            byte_text(best.peak_bytes[best.plan.group_of(number)]),
        )
    return table


def _schedule_table(best: PlannedPipeline, results: Sequence[ScheduleResult]) -> Table:
    table = new_table("schedules", "schedule", ">stages", ">devices", ">microbatches", ">step", ">bubble", ">peak", "")
    for result in results:
        planned = result.planned
        if planned is None:
            reason = result.problem.message if result.problem is not None else ""
            table.add_row(result.schedule.value, "", "", "", "", "", "", reason)
            continue
        table.add_row(
            result.schedule.value,
            str(len(planned.plan.stages)),
            str(sum(map(len, planned.plan.device_groups))),
            str(planned.plan.microbatches),
            time_text(planned.step_seconds),
            f"{planned.bubble:.1%}",
            byte_text(max(planned.peak_bytes)),
            "best" if planned is best else "",
        )
    return table


def _ranges(devices: Sequence[int]) -> str:
    """Numbers of devices, neighbours as a range.

    >>> _ranges((0, 1, 2, 5))
    '0-2,5'
    """
    runs: list[list[int]] = []
    for number in devices:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
