"""`hloom plan`: shard a program over a device mesh, and show what XLA's partitioner makes of the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hloom.api.plan import PlanResult, check_plan_path, load_plan, plan
from hloom.cli.exit_status import NO
from hloom.cli.input import progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_machine,
    check_standard_output,
    check_usage,
    count_option,
    decorated,
    defaults_of,
    device_option,
    file_argument,
    json_option,
    number_option,
    output_option,
    path_option,
    size_option,
    target_option,
)
from hloom.cli.output import check_folder, write_note, write_text
from hloom.cli.plan_report import PlanRecord, tables
from hloom.cli.streams import STDOUT
from hloom.cli.tables import write_report_beside
from hloom.cli.target import before_search
from hloom.distribute.planner import ENTRY, Forbidden
from hloom.formats.hlo import to_text
from hloom.runtime import DeviceComparison, compare_with_one_device
from hloom.sharding import Spec, as_mesh, parse_spec
from hloom.text import HloomError

DEFAULTS = defaults_of(plan)


def constraint_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that constrain a plan: the command gets what they say."""
    decorators = (
        size_option("--memory", is_capacity=True, help="Memory per device, as in 80GiB (default: no limit)."),
        click.option(
            "--pin",
            "pins",
            metavar="NAME=SPEC",
            multiple=True,
            help="Fix the sharding of a value, as in x=[data,-]; may be repeated.",
        ),
        path_option(
            "--like", metavar="PLAN", help="Reuse the shardings of this plan.json for values of the same name."
        ),
        click.option(
            "--forbid",
            "forbidden",
            metavar="AXIS",
            multiple=True,
            help="Forbid an axis everywhere, for a value (NAME:AXIS) or for one dimension (NAME:DIMENSION=AXIS).",
        ),
    )
    return decorated(function, decorators)


@click.command("plan")
@file_argument
@click.option(
    "--mesh", metavar="AXES", help="Mesh axes and their sizes, as in data=2,model=4 (default: the links of --for)."
)
@device_option(None, "Device that gives compute and link rates (default: that of --for, or 100 TFLOP/s, 100 GB/s).")
@target_option(
    "Compile the chosen plan, or with --measure the K best ones, with the compiler of this target (v5e:2x2, "
    "h100x8; see `hloom compile`); show its figures beside the forecast, and keep the fastest that fits."
)
@click.option("--overlap", is_flag=True, help="Assume that collectives overlap with computation.")
@click.option(
    "--planner",
    metavar="NAME",
    default=DEFAULTS["planner"],
    show_default=True,
    help="Planner to use: ilp, recursive or expert.",
)
@number_option(
    "--seconds",
    min=0.1,
    metavar="S",
    default=DEFAULTS["seconds"],
    help="Stop the solver after S seconds (default: no limit).",
)
@count_option(
    "--measure",
    least=0,
    metavar="K",
    default=DEFAULTS["measure"],
    help="Compile the K best plans and the expert plans with XLA; keep the fastest (default: 0, or 1 with --for).",
)
@constraint_options
@click.option("--best-effort", is_flag=True, help="Write the plan with -o even if it exceeds --memory.")
@click.option("--explain", is_flag=True, help="Show every collective, every split tensor and the runner-up plans.")
@click.option("--verify", is_flag=True, help="Compile the plan and compare predicted collectives with those XLA emits.")
@click.option("--run", "runs", is_flag=True, help="Run the plan on virtual CPU devices and compare with one device.")
@number_option("--timeout", min=1, metavar="S", default=600, help="Stop a compilation or run after S seconds.")
@json_option("Write JSON: the plan, its costs and the candidates; with --explain, the explanation too.")
@output_option("Write the plan to file OUT: .json for JSON, .hlo for annotated HLO.", keeps_stdout=True)
@click.pass_context
def command(
    context: click.Context,
    source: ModuleSource,
    explain: bool,
    verify: bool,
    runs: bool,
    json_output: bool,
    output: Path | None,
    memory: int | None,
    pins: tuple[str, ...],
    forbidden: tuple[str, ...],
    like: Path | None,
    timeout: float,
    best_effort: bool,
    mesh: str | None,
    device: str | None,
    target: str | None,
    **options: Any,
) -> None:
    """Choose a sharding of a program over a mesh of devices.

    Minimises the predicted time of a step, optionally within a memory budget, and reports the chosen shardings, the
    collectives they cause and the alternatives.

    \b
    Examples:
      hloom plan step.hlo --mesh data=8 -o plan.json
      hloom plan step.hlo --mesh data=2,model=4 --measure 5 --memory 80GiB
      hloom plan step.hlo --for v5e:2x4 --measure 3
      hloom plan step.hlo --mesh data=2,model=4 --verify --run
      hloom plan step.hlo --mesh data=2,model=4 --pin x=[data,-] --forbid w:model
    """
    check_standard_output(output, json_output)
    if output is not None and output != STDOUT:
        check_folder(output)
        check_plan_path(output)
    asked = {
        "memory": memory,
        "pins": _parse_pins(pins),
        "forbidden": list(map(_parse_forbidden, forbidden)),
    }
    check_machine("--mesh", mesh, target)
    check_usage(
        (verify and target is not None, "--verify compares with XLA's partitioner, and --for with a target's compiler"),
    )
    program = read_program(source)
    keep = None if like is None else load_plan(like, program)
    made = before_search(program, target, None if mesh is None else as_mesh(mesh).device_count, device)
    axes = mesh if mesh is not None or made.target is None else made.target.axes
    if made.target is not None:
        options |= {"target": made.target} if made.is_available else {"measure": 0}
    options |= {"mesh": axes, "device": made.rates}
    with progress("planning"):
        planned = plan(program, like=keep, marks=output is None or output.suffix != ".json", **asked, **options)
    made = replace(made, compiled=planned.compiled)
    if verify and planned.best.measured is None:
        with progress("compiling"):
            planned.best.measured = planned.measure()
            planned.chosen.rank()
    is_written = best_effort or planned.chosen.missing_bytes <= 0
    if output is not None and not is_written:
        write_note("error: the plan does not fit and was not written; use --best-effort to write it anyway")
    elif output == STDOUT:
        write_text(to_text(planned.annotate()), output)
    elif output is not None:
        _warn_of_lost_specs(planned, planned.save(output))
    comparison = _compare_with_one_device(planned, timeout) if runs else None
    write_report_beside(
        lambda: PlanRecord(planned, comparison, made, is_full=explain),
        [*tables(planned, comparison, is_full=explain), *made.lines()],
        json_output,
        output,
    )
    if planned.chosen.missing_bytes > 0 or (comparison is not None and comparison.differences):
        context.exit(NO)


def _parse_pins(texts: Sequence[str]) -> dict[str, Spec]:
    specs: dict[str, Spec] = {}
    for name, spec in map(_parse_pin, texts):
        if specs.setdefault(name, spec) != spec:
            raise click.BadParameter(f"{name} cannot have both specs {specs[name]} and {spec}", param_hint="--pin")
    return specs


def _parse_pin(text: str) -> tuple[str, Spec]:
    name, equals, spec = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"'{text}' is not a pin: write NAME=SPEC, as in x=[data,-]", param_hint="--pin")
    try:
        return name, parse_spec(spec)
    except HloomError as problem:
        raise click.BadParameter(problem.message, param_hint="--pin") from None


def _parse_forbidden(text: str) -> Forbidden:
    try:
        return Forbidden.parse(text)
    except HloomError as problem:
        raise click.BadParameter(f"{problem.message}: {problem.hint}", param_hint="--forbid") from None


def _warn_of_lost_specs(planned: PlanResult, path: Path) -> None:
    """Warn that other readers of the JSON ignore what the plan says of loops and branches, and how much that is."""
    if path.suffix.lower() != ".json":
        return
    inside = {name: named for name, named in planned.plan.computations.items() if name != ENTRY}
    if inside:
        specs = sum(len(named) for named in inside.values())
        write_note(
            f"warning: {path.name}: {specs:,} specs in {len(inside):,} computations of loops and branches are read by "
            "hloom alone. What others make of these loops may send far more than is shown: -o FILE.hlo says all to XLA"
        )


def _compare_with_one_device(planned: PlanResult, timeout: float) -> DeviceComparison:
    """The program on one device and on all of them, with the same random inputs."""
    with progress("running"):
        devices = planned.plan.mesh.device_count
        return compare_with_one_device(planned.chosen.module, planned.annotate(), devices, timeout=timeout)
