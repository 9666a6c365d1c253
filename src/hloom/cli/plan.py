"""`hloom plan`: spread a program over a device mesh, and see what XLA's partitioner makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import bytes_of, device
from hloom.cli.options import Origin, as_json, from_file, to_output
from hloom.cli.reading import read, working
from hloom.cli.writing import byte_text, write_json, write_tables
from hloom.hlo import to_text, write_whole
from hloom.ir import Module
from hloom.runtime.partition import partition
from hloom.runtime.run import run
from hloom.sharding.choosing import Candidate, Chosen, choose
from hloom.sharding.emitted import Emitted, emitted
from hloom.sharding.links import mesh_on
from hloom.sharding.mesh import Mesh
from hloom.sharding.plan import Plan
from hloom.sharding.pricing import Rates
from hloom.sharding.spec import Spec, parse_spec
from hloom.text import HloomError

KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute")


@click.command("plan")
@from_file
@click.option("--mesh", "mesh_text", metavar="AXES", required=True, help="As in data=2,model=4.")
@click.option(
    "--device", "device_name", metavar="NAME", help="Rates and links of this device, not 100 TFLOP/s, 100 GB/s."
)
@click.option("--memory", "budget", metavar="SIZE", help="Bytes a device may hold: 80GiB.")
@click.option(
    "--judge",
    metavar="K",
    type=click.IntRange(min=0),
    default=0,
    help="Compile K plans and the experts', keep the best.",
)
@click.option("--pin", "pins", metavar="NAME=SPEC", multiple=True, help="Fix how a value lies: x=[data,-].")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="For each solution.")
@click.option("--verify", is_flag=True, help="Compile the plan and show what was expected beside what XLA sends.")
@click.option("--run", "runs", is_flag=True, help="Run it on virtual devices and compare with one device.")
@as_json("Write JSON: the plan, its costs, the candidates.")
@to_output("Write the plan: .json for the judge's form, else the annotated HLO.")
@click.pass_context
def command(
    context: click.Context,
    file: str,
    strict: bool,
    module: str | None,
    stage: str | None,
    mesh_text: str,
    device_name: str | None,
    budget: str | None,
    judge: int,
    pins: tuple[str, ...],
    seconds: float,
    verify: bool,
    runs: bool,
    json_output: bool,
    output: Path | None,
) -> None:
    """Find how to split a program over a mesh of devices.

    \b
    Examples:
      hloom plan step.hlo --mesh data=8 -o plan.json
      hloom plan step.hlo --mesh data=2,model=4 --judge 5 --memory 80GiB
      hloom plan step.hlo --mesh data=2,model=4 --verify --run
    """
    program = read(Origin(file, strict, module, stage))
    mesh, rates = _mesh(mesh_text, device_name)
    limit = _limit(budget)

    def measure(plan: Plan) -> Emitted:
        compiled = partition(plan.annotate(program), mesh.device_count)
        return emitted(compiled.module, mesh.device_count, compiled.memory)

    with working("planning"):
        chosen = choose(
            program,
            mesh,
            rates=rates,
            budget=limit,
            judge=judge,
            measure=measure,
            seconds=seconds,
            pins=dict(map(_pin, pins)),
        )
    best = chosen.best
    if verify and best.measured is None:
        best.measured = measure(best.plan)
    difference = _difference(program, best.plan) if runs else None
    if output is not None:
        write_whole(output, _written(best.plan, program, output))
    if json_output:
        write_json(_record(chosen, difference), None)
    else:
        write_tables(_tables(chosen, difference), None)
    if chosen.missing_bytes > 0 or (difference is not None and difference > TOLERANCE):
        context.exit(1)


TOLERANCE = 1e-3
"""How far the results of several devices may be from one device's, beside the largest value."""


def _mesh(text: str, name: str | None) -> tuple[Mesh, Rates]:
    if name is None:
        return Mesh.parse(text), Rates()
    found = device(name)
    mesh = mesh_on(found, text)
    return mesh, Rates.of(found, mesh)


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return bytes_of(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--memory") from None


def _pin(text: str) -> tuple[str, Spec]:
    name, equals, spec = text.partition("=")
    if not equals:
        raise HloomError(f"'{text}' is no pin", hint="write NAME=SPEC, as in x=[data,-]")
    return name, parse_spec(spec)


def _written(plan: Plan, program: Module, path: Path) -> bytes:
    if path.suffix.lower() == ".json":
        return (json.dumps(plan.to_json()) + "\n").encode()
    return to_text(plan.annotate(program)).encode()


def _difference(program: Module, plan: Plan) -> float:
    """The largest difference between several devices' results and one device's, beside the largest value."""
    alone = run(program, devices=1)
    spread = run(plan.annotate(program), inputs=list(alone.inputs), devices=plan.mesh.device_count)
    worst = 0.0
    for one, other in zip(alone.outputs, spread.outputs, strict=True):
        scale = float(np.max(np.abs(one.astype(np.float64)), initial=1e-30))
        worst = max(
            worst, float(np.max(np.abs(one.astype(np.float64) - other.astype(np.float64)), initial=0.0)) / scale
        )
    return worst


def _record(chosen: Chosen, difference: float | None) -> dict:
    return {
        "plan": chosen.best.plan.to_json(),
        "candidates": [_line(each, chosen.rates) for each in chosen.candidates],
        "planning_seconds": chosen.planning_seconds,
        "judging_seconds": chosen.judging_seconds,
        "missing_bytes": chosen.missing_bytes,
        **({} if difference is None else {"difference": difference}),
    }


def _line(each: Candidate, rates: Rates) -> dict:
    expected, measured = each.expected, each.measured
    return {
        "name": each.plan.name,
        "step_seconds": each.step(rates),
        "expected": None
        if expected is None
        else {"wire": dict(expected.wire), "flops": expected.flops, "memory": each.memory},
        "bound_seconds": each.bound,
        "measured": None
        if measured is None
        else {"wire": dict(measured.wire_by_kind), "flops": measured.flops, "memory": measured.memory},
    }


def _tables(chosen: Chosen, difference: float | None) -> list[RenderableType]:
    table = _table("plans, best first", "plan", "step ms", "expected ms", "wire", "memory", "gap %")
    for each in chosen.candidates:
        expected, measured = each.expected, each.measured
        sent = measured.wire if measured is not None else expected.sent if expected is not None else 0.0
        step = each.step(chosen.rates)
        gap = (
            ""
            if each.bound is None or expected is None
            else f"{100 * max(0, 1 - each.bound / expected.objective(chosen.rates)):.2f}"
        )
        table.add_row(
            each.plan.name,
            f"{1e3 * step:.3f}",
            "" if expected is None else f"{1e3 * expected.seconds(chosen.rates):.3f}",
            byte_text(round(sent)),
            "" if measured is None else byte_text(measured.memory),
            gap,
        )
    found: list[RenderableType] = [table]
    if chosen.best.measured is not None and chosen.best.expected is not None:
        found.append(_compared(chosen.best))
    times = f"planned in {chosen.planning_seconds:.1f} s"
    found.append(Text(times + (f", judged in {chosen.judging_seconds:.1f} s" if chosen.judging_seconds else "")))
    found += [Text(note) for note in chosen.notes]
    if chosen.missing_bytes > 0:
        found.append(Text(f"does not fit: the least of the plans needs {byte_text(round(chosen.missing_bytes))} more"))
    if difference is not None:
        found.append(Text(f"results differ from one device's by {difference:.1e} of the largest value"))
    return found


def _compared(best: Candidate) -> Table:
    assert best.expected is not None and best.measured is not None
    table = _table("what a device does", "", "expected", "XLA's partitioner")
    for kind in KINDS:
        have, want = best.measured.wire_by_kind.get(kind, 0.0), best.expected.wire.get(kind, 0.0)
        if have or want:
            table.add_row(kind, byte_text(round(want)), byte_text(round(have)))
    table.add_row("wire", byte_text(round(best.expected.sent)), byte_text(round(best.measured.wire)))
    table.add_row("FLOPs", f"{best.expected.flops:,.0f}", f"{best.measured.flops:,.0f}")
    table.add_row("memory", byte_text(best.memory or 0), byte_text(best.measured.memory))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", overflow="fold")
    return table
