"""`hloom run`: a module on XLA's CPU client, its outputs as a table, a file, or compared with another module's."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import RenderableType
from rich.text import Text

from hloom.cli.completion import complete_file
from hloom.cli.equivalence import difference_lines
from hloom.cli.exit_status import NO
from hloom.cli.input import progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_seed,
    check_standard_output,
    count_option,
    defaults_of,
    file_argument,
    inputs_option,
    json_option,
    number_option,
    output_option,
    seed_option,
)
from hloom.cli.output import write_bytes
from hloom.cli.streams import STDOUT
from hloom.cli.tables import new_table, write_report_beside
from hloom.evaluator import NotFinite, first_not_finite
from hloom.formats.hlo import replacing
from hloom.ir import Module
from hloom.runtime import (
    Arbitration,
    Difference,
    OutputRow,
    ProgramRun,
    RunResult,
    arbitrate,
    compare,
    open_arrays,
    run,
    save_arrays,
)
from hloom.text import HloomError, Record

MOST_OUTPUTS = 40
"""How many outputs the table shows."""


DEFAULTS = defaults_of(run)


@dataclass(frozen=True, slots=True)
class RunCheck(Record):
    """How the outputs differ from those of the `other` module of --check."""

    other: str
    differences: Sequence[Difference]
    arbitration: Arbitration | None
    json_keys = "other agrees differences arbitration?"

    @property
    def agrees(self) -> bool:
        """Whether no output differs by more than the tolerance."""
        return not self.differences


@dataclass(frozen=True, slots=True)
class RunRecord(Record):
    """What a run gave: seconds, the extremes of each output, and where the first value that is not finite arises."""

    result: RunResult
    check: RunCheck | None
    not_finite: NotFinite | str | None
    json_keys = "result.seconds result.compile_seconds outputs=result.rows check? not_finite?"


@click.command("run")
@file_argument
@inputs_option()
@seed_option()
@click.option(
    "--check",
    metavar="OTHER",
    shell_complete=complete_file,
    help="Also run this module on the same inputs and compare the outputs.",
)
@number_option("--rtol", min=0, metavar="R", help="Relative tolerance for --check (default: by element type).")
@count_option("--devices", help="Partition the module over N virtual CPU devices, following its shardings.")
@number_option(
    "--timeout", min=0, metavar="S", default=DEFAULTS["timeout"], help="Stop the run after this many seconds."
)
@json_option()
@output_option("Write the outputs to this .npz file, atomically.", keeps_stdout=True)
def command(
    source: ModuleSource,
    inputs: Path | None,
    seed: int | None,
    check: str | None,
    rtol: float | None,
    devices: int | None,
    timeout: float,
    json_output: bool,
    output: Path | None,
) -> None:
    """Run a module on XLA's CPU client and summarise its outputs.

    Inputs are random (the same for the same seed) or come from a file. If --check finds outputs that differ by more
    than the tolerance of their type (f32: 1e-4) or --rtol, the exit status is 1. Needs jax: pip install 'hloom[run]'.

    \b
    Examples:
      hloom run step.hlo
      hloom run step.hlo --inputs x.npz -o y.npz
      hloom run step.hlo --check optimised.hlo --rtol 1e-5
      hloom run sharded.hlo --devices 8 --json
    """
    check_seed(inputs, seed)
    if rtol is not None and check is None:
        raise click.UsageError("--rtol needs --check")
    check_output(output, json_output)
    program = read_program(source)
    other = None if check is None else read_program(ModuleSource(check, source.strict))
    arrays = None if inputs is None else open_arrays(inputs)
    with progress(f"running {source.file}"):
        result = run(program, arrays_in_order(arrays), seed=seed or 0, devices=devices, timeout=timeout)
    differences = arbitration = None
    if other is not None:
        with progress(f"running {check}"):
            reference = run(other, result.inputs, devices=devices, timeout=timeout)
        differences = compare(result.outputs, reference.outputs, rtol)
        if differences:
            arbitration = arbitrate(
                ProgramRun(str(source.file), program, result.inputs, result.outputs),
                ProgramRun(str(check), other, reference.inputs, reference.outputs),
                rtol,
            )
    if output is not None:
        save_outputs(output, result.outputs)
    origin = not_finite(program, result.inputs, result.rows())
    write_report_beside(
        lambda: _record(result, check, differences, arbitration, origin),
        _tables(result, check, differences, origin, arbitration),
        json_output,
        output,
    )
    if differences:
        click.get_current_context().exit(NO)


def arrays_in_order(arrays: dict[str, Any] | None) -> Any:
    """Arrays saved without names (`arr_0`, ...) or as outputs (`output_0`, ...) are given in order, others by name."""
    if arrays is None:
        return None
    for stem in ("arr_", "output_"):
        if arrays and all(name == f"{stem}{number}" for number, name in enumerate(arrays)):
            return list(arrays.values())
    return arrays


def save_outputs(output: Path, outputs: Sequence[np.ndarray]) -> None:
    """Write outputs as an .npz archive, into a file or to the standard output."""
    arrays = {f"output_{number}": array for number, array in enumerate(outputs)}
    if output == STDOUT:
        archive = io.BytesIO()
        save_arrays(archive, arrays)
        write_bytes(archive.getvalue())
        return
    with replacing(output) as beside:
        save_arrays(beside, arrays)


def _record(
    result: RunResult,
    check: str | None,
    differences: Sequence[Difference] | None,
    arbitration: Arbitration | None,
    origin: NotFinite | str | None,
) -> RunRecord:
    checked = None if differences is None else RunCheck(check or "", differences, arbitration)
    return RunRecord(result, checked, origin)


def _tables(
    result: RunResult,
    check: str | None,
    differences: Sequence[Difference] | None,
    origin: NotFinite | str | None,
    arbitration: Arbitration | None,
) -> Iterator[RenderableType]:
    yield from output_tables(result.rows(), origin)
    devices = f" on {len(result.per_device)} devices" if result.per_device else ""
    yield f"compiled in {result.compile_seconds:.2f} s, ran in {result.seconds * 1000:.3g} ms{devices}"
    if differences is not None:
        yield _verdict(len(result.outputs), check or "", differences)
    if arbitration is not None:
        yield str(arbitration)


def not_finite(program: Module, inputs: Sequence[np.ndarray], rows: Sequence[OutputRow]) -> NotFinite | str | None:
    """Where the first NaN or infinity of outputs arises, or why that is not known; None where they are finite."""
    if not any(row.not_finite for row in rows):
        return None
    try:
        origin = first_not_finite(program, inputs)
    except HloomError as problem:
        return f"the source of non-finite values is unknown: {problem.message.splitlines()[0]}"
    return origin or "hloom.evaluate gives finite outputs on these inputs: the non-finite values arise only in XLA"


def output_tables(rows: Sequence[OutputRow], origin: NotFinite | str | None) -> Iterator[RenderableType]:
    """The outputs: types, extreme values, how many values are not finite, and where the first of those arises."""
    table = new_table(None, ">output", "type", ">min", ">max", ">non-finite")
    for row in rows[:MOST_OUTPUTS]:
        numbers = (_number(row.minimum), _number(row.maximum), f"{row.not_finite:,}" if row.not_finite else "")
        table.add_row(str(row.number), row.type, *numbers)
    yield table
    if len(rows) > MOST_OUTPUTS:
        yield f"and {len(rows) - MOST_OUTPUTS:,} more outputs"
    if origin is not None:
        yield str(origin)


def check_output(output: Path | None, json_output: bool) -> None:
    """Raise UsageError where -o is not an .npz file, or --json and it both ask for the standard output."""
    check_standard_output(output, json_output)
    if output is not None and output != STDOUT and output.suffix.lower() != ".npz":
        raise click.BadParameter(f"'{output}' does not end in .npz", param_hint="-o")


def _verdict(count: int, check: str, differences: Sequence[Difference]) -> Text:
    if not differences:
        agreeing = "the output agrees with that" if count == 1 else f"all {count:,} outputs agree with those"
        return Text(f"{agreeing} of {check}", style="green")
    summary = f"{len(differences):,} of {count:,} outputs differ from those of {check}"
    return Text("\n".join([summary, *difference_lines(differences)]), style="red")


def _number(value: float | complex | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, complex):
        return f"{value:.4g}"
    return f"{value:.6g}"
