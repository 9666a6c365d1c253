"""`hloom grad`: the module of a module's derivative."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import RenderableType

from hloom import autodiff
from hloom.cli.exit_status import NO
from hloom.cli.input import progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_seed,
    check_usage,
    count_option,
    file_argument,
    inputs_option,
    json_option,
    load_option,
    output_option,
    seed_option,
)
from hloom.cli.output import check_folder, write_record, write_text
from hloom.cli.quantities import MOST_DIGITS
from hloom.cli.tables import new_table, note_tables
from hloom.cli.user_passes import load_passes
from hloom.formats.hlo import save, to_text
from hloom.ir import Module
from hloom.passes import apply_in_place
from hloom.runtime import open_arrays
from hloom.testing import DerivativeCheck, check_derivatives
from hloom.text import HloomError, Record

CLEAN = ("simplify", "cse", "dce")
"""The passes that the derivative goes through, unless --raw leaves it as it was made."""


@dataclass(frozen=True, slots=True)
class GradientChecks(Record):
    """Directional derivatives beside central differences, one for each parameter."""

    checks: Sequence[DerivativeCheck]


@click.command("grad")
@file_argument
@click.option(
    "--wrt",
    metavar="NAMES",
    help="Entry parameters to differentiate by number or name, as in 0,2 or w,b.  [default: all floats]",
)
@count_option("--of", least=0, help="Differentiate result N, a scalar (default: the only result).")
@click.option("--value", is_flag=True, help="Also return the result itself, before the gradients.")
@click.option("--vjp", "is_vjp", is_flag=True, help="Build the VJP: take a cotangent for each result, of any shape.")
@click.option(
    "--jvp", "is_jvp", is_flag=True, help="Build the JVP (forward mode): take tangents, return results and tangents."
)
@click.option("--stop", metavar="NAME", multiple=True, help="Treat this instruction as a constant; may be repeated.")
@count_option(
    "--checkpoints", help="Keep N states of each loop of unknown trip count and recompute the rest (default: 128)."
)
@count_option("--max-iterations", help="Keep every state of such loops, which then may run at most N iterations.")
@click.option("--raw", is_flag=True, help="Skip the clean-up passes (simplify, cse, dce).")
@click.option("--check", is_flag=True, help="Check the derivative against central differences in f64.")
@load_option()
@seed_option("Seed for the random inputs of --check.  [default: 0]")
@inputs_option("Read the inputs for --check from this file (default: random).")
@json_option("Write the result of --check as JSON; the module is then written only with -o.")
@output_option("Write to file OUT, atomically.")
def command(
    source: ModuleSource,
    wrt: str | None,
    of: int | None,
    value: bool,
    is_vjp: bool,
    is_jvp: bool,
    stop: tuple[str, ...],
    checkpoints: int | None,
    max_iterations: int | None,
    raw: bool,
    check: bool,
    load: tuple[Path, ...],
    seed: int | None,
    inputs: Path | None,
    json_output: bool,
    output: Path | None,
) -> None:
    """Build the derivative of a module.

    The gradient module takes the same parameters and returns a tuple with one array for each of NAMES. A loop whose
    trip count is only known at run time keeps N states (128) and recomputes the others. --check needs jax: if it finds
    a wrong derivative, the exit status is 1 and nothing is written. It scales random inputs down if results overflow,
    and reports an error if finite differences are too ill-conditioned to decide. If rules added calls of functions with
    custom derivatives, --load the files that define them.

    \b
    Examples:
      hloom grad loss.hlo --wrt w,b -o gradient.hlo
      hloom grad step.hlo --vjp --check -o backward.hlo
      hloom grad step.hlo --jvp --wrt 0
    """
    check_usage(
        (is_vjp and is_jvp, "give only one of --vjp and --jvp"),
        (
            (is_vjp or is_jvp) and (value or of is not None),
            "--of and --value apply to gradients only: --vjp and --jvp cover all results",
        ),
        (
            is_jvp and (checkpoints or max_iterations),
            "--checkpoints and --max-iterations apply to reverse mode only: forward mode stores no states",
        ),
        (json_output and not check, "--json needs --check"),
        (not check and (inputs is not None or seed is not None), "--inputs and --seed need --check"),
    )
    check_seed(inputs, seed)
    check_folder(output)
    for path in load:
        load_passes(path)
    program = read_program(source)
    chosen = _names(wrt)
    with progress("differentiating"):
        if is_jvp:
            derivative = autodiff.jvp(program, chosen, stop=stop)
        elif is_vjp:
            derivative = autodiff.vjp(
                program, chosen, stop=stop, checkpoints=checkpoints, max_iterations=max_iterations
            )
        else:
            make = autodiff.value_and_grad if value else autodiff.grad
            derivative = make(program, chosen, of=of, stop=stop, checkpoints=checkpoints, max_iterations=max_iterations)
        if not raw:
            apply_in_place(derivative, CLEAN)
    if check:
        arrays = None if inputs is None else open_arrays(inputs)
        with progress("checking"):
            checks = check_derivatives(
                program, chosen, of=of, stop=stop, seed=seed or 0, inputs=arrays,
                checkpoints=checkpoints, max_iterations=max_iterations,
            )  # fmt: skip
        point = f"the random inputs of seed {seed or 0}" if inputs is None else f"the inputs of {inputs}"
        if checks and not any(math.isfinite(item.difference) for item in checks):
            raise HloomError(
                f"results are not finite at {point}, so there is nothing to compare",
                hint="--inputs X.npz supplies other inputs, --seed N draws different ones",
            )
        if json_output:
            write_record(GradientChecks(checks), None)
        else:
            note_tables(_table(checks))
        _check_conclusive(checks, point)
        if not all(item.agrees for item in checks):
            click.get_current_context().exit(NO)
    if output is not None or not json_output:
        _write(derivative, output)


def _names(wrt: str | None) -> list[int | str] | None:
    if wrt is None:
        return None
    parts = [part.strip() for part in wrt.split(",") if part.strip()]
    return [int(part) if part.isdecimal() and len(part) <= MOST_DIGITS else part for part in parts]


def _check_conclusive(checks: list[DerivativeCheck], point: str) -> None:
    """Raise HloomError where nothing differs for certain, but differences are themselves as far off as derivatives."""
    unclear = [item for item in checks if math.isfinite(item.difference) and not item.is_conclusive]
    if unclear and len(unclear) == sum(not item.agrees for item in checks):
        item = unclear[0]
        raise HloomError(
            f"the comparison is ill-conditioned at {point}: differences of several steps along {item.parameter} are "
            f"{item.uncertainty:.1e} apart, and the derivative {abs(item.derivative - item.difference):.1e} from one",
            hint="--inputs X.npz supplies inputs of normal magnitude, --seed N draws different ones",
        )


def _table(checks: list[DerivativeCheck]) -> Iterator[RenderableType]:
    columns = "parameter", ">derivative", ">central difference", ">relative error", ""
    scale = checks[0].scale if checks else 1.0
    scaled = "" if scale == 1.0 else f", random inputs times {scale:g}"
    table = new_table(f"directional derivatives in f64, random directions{scaled}", *columns)
    for check in checks:
        verdict = "DIFFERS" if check.is_conclusive else "ill-conditioned"
        verdict = "agrees" if check.agrees else verdict if math.isfinite(check.difference) else "undefined"
        table.add_row(
            check.parameter, f"{check.derivative:.9g}", f"{check.difference:.9g}", f"{check.error:.1e}", verdict
        )
    yield table


def _write(derivative: Module, output: Path | None) -> None:
    if output is None:
        write_text(to_text(derivative), None)
    else:
        save(derivative, output)
