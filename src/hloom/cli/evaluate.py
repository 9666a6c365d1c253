"""`hloom evaluate`: a module computed with numpy, without XLA, its outputs as a table or a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from hloom.cli.input import progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_seed,
    count_option,
    file_argument,
    inputs_option,
    json_option,
    output_option,
    seed_option,
    size_option,
)
from hloom.cli.run import (
    arrays_in_order,
    check_output,
    not_finite,
    output_tables,
    save_outputs,
)
from hloom.cli.tables import write_report_beside
from hloom.evaluator import MOST_BYTES, MOST_STEPS, NotFinite, evaluate
from hloom.ir import TOKEN, Module, TensorType, verify
from hloom.runtime import OutputRow, input_domains, open_arrays, output_rows, random_inputs
from hloom.text import HloomError, Record, Unsupported

DRAWING_BYTES = 16
"""How many bytes it takes to draw an element, beside the array that it becomes part of."""


@dataclass(frozen=True, slots=True)
class EvaluationRecord(Record):
    """The extreme values of each output, and where the first value that is not finite arises."""

    outputs: Sequence[OutputRow]
    not_finite: NotFinite | str | None
    json_keys = "outputs not_finite?"


@click.command("evaluate")
@file_argument
@inputs_option()
@seed_option()
@count_option("--steps", default=MOST_STEPS, help="Stop after executing this many instructions.")
@size_option(
    "--memory",
    default=f"{MOST_BYTES >> 30}GiB",
    help="Stop if live arrays could exceed this: 80GiB, 500MB, or a number of bytes.",
)
@json_option()
@output_option("Write the outputs to this .npz file, atomically.", keeps_stdout=True)
def command(
    source: ModuleSource,
    inputs: Path | None,
    seed: int | None,
    steps: int,
    memory: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Interpret a module with numpy, one instruction at a time.

    This is slower than XLA, but needs no jax and shows results that XLA's compiler has not touched. Inputs are as for
    `hloom run`: the same seed gives the same arrays. A program that exceeds --steps or --memory is stopped with an
    error that names the instruction and the loops around it.

    \b
    Examples:
      hloom evaluate step.hlo
      hloom evaluate step.hlo --seed 1 -o y.npz
      hloom evaluate step.hlo --inputs x.npz --json
      hloom evaluate train.hlo --steps 100000000 --memory 32GiB
    """
    check_seed(inputs, seed)
    check_output(output, json_output)
    program = read_program(source)
    verify(program)
    arrays = drawn(program, seed or 0, memory) if inputs is None else arrays_in_order(open_arrays(inputs))
    with progress(f"evaluating {source.file}"):
        outputs = evaluate(program, arrays, steps=steps, memory=memory)
    if output is not None:
        save_outputs(output, outputs)
    rows = output_rows(outputs)
    origin = not_finite(program, arrays, rows)
    write_report_beside(
        lambda: EvaluationRecord(rows, origin),
        output_tables(rows, origin),
        json_output,
        output,
    )


def drawn(module: Module, seed: int, most_bytes: int, hint: str = "raise the limit with --memory") -> list[np.ndarray]:
    """Random inputs; raises HloomError where they would take more memory than allowed."""
    types = _input_types(module)
    largest = max((array_type.element_count for array_type in types), default=0)
    need = sum(array_type.byte_count for array_type in types) + DRAWING_BYTES * largest
    if need > most_bytes:
        raise HloomError(
            f"generating the inputs may need {need:,} bytes but only {most_bytes:,} are allowed",
            hint=hint,
        )
    return random_inputs(types, seed, input_domains(module))


def _input_types(program: Module) -> list[TensorType]:
    """The types of the entry's flattened parameters."""
    types: list[TensorType] = []
    for parameter in program.entry.parameters:
        for leaf in parameter.type.leaves() if parameter.type is not None else (None,):
            if leaf is TOKEN:
                continue
            if not isinstance(leaf, TensorType) or not leaf.is_static:
                raise Unsupported(
                    f"parameter {parameter.name} of type {leaf or 'unknown'} has no random values: pass --inputs"
                )
            types.append(leaf)
    return types
