"""`hloom prune`: weights with zeros where they matter least, and the checkpoint that has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import RenderableType
from rich.text import Text

from hloom.cli.completion import complete_device
from hloom.cli.input import progress, read_program
from hloom.cli.options import STDOUT, ModuleSource, file_argument, json_option, output_option
from hloom.cli.output import check_folder, write_json, write_text
from hloom.cli.run import arrays_in_order
from hloom.cli.tables import add_rest, byte_text, new_table, note_tables, time_text, write_tables
from hloom.cli.weight_tables import (
    MOST_ROWS,
    REST,
    exclusion_lines,
    names_of,
    output_table,
    product_table,
    ratio_text,
)
from hloom.hlo import save, to_text
from hloom.ir import Module
from hloom.pruning import (
    GROUPS,
    METHODS,
    OPCODES,
    PruningReport,
    prune,
    random_arrays,
    report,
    stored_bytes,
)
from hloom.quantization import ParameterNames, check_suffix, inputs_in_order, load_checkpoint, save_checkpoint


@click.command("prune")
@file_argument
@click.option("--weights", metavar="FILE", type=click.Path(path_type=Path), help="The weights: .npz or .safetensors.")
@click.option(
    "--convert", "checkpoints", metavar="OLD NEW", type=(Path, Path), help="The weights, and the pruned ones."
)
@click.option("--sparsity", type=float, metavar="SHARE", help="How much is removed, from 0 to 1.  [default: 0.5]")
@click.option("--method", type=click.Choice(METHODS), default="magnitude", show_default=True, help="What matters.")
@click.option("--calibrate", metavar="X.npz", type=click.Path(path_type=Path), multiple=True, help="Inputs for Wanda.")
@click.option("--pattern", metavar="PATTERN", help="2:4 (two kept of every four), or 16x16 (blocks).")
@click.option("--within", type=click.Choice(GROUPS), help="What is compared.  [default: weight; Wanda: output]")
@click.option("--opcodes", metavar="NAMES", default=",".join(OPCODES), show_default=True, help="Whose weights.")
@click.option("--scope", metavar="REGEX", help="Only of instructions in whose op_name this is.")
@click.option("--only", metavar="NAMES", help="Only these parameters, by name, number or path: 1,params.head.w")
@click.option("--least", type=click.IntRange(min=0), default=0, metavar="N", help="Only weights of N elements or more.")
@click.option("--masks", is_flag=True, help="Let the program take the masks too, and multiply by them.")
@click.option("--save-masks", metavar="FILE", type=click.Path(path_type=Path), help="Write the masks: .npz.")
@click.option("--check", is_flag=True, help="Run both programs: errors of outputs, and of dots and convolutions.")
@click.option("--inputs", metavar="X.npz", type=click.Path(path_type=Path), help="Arrays that --check takes.")
@click.option("--seed", type=int, metavar="N", help="Of random arrays, where none are given.  [default: 0]")
@click.option(
    "--device", metavar="NAME", default="h100", show_default=True, shell_complete=complete_device, help="For times."
)
@json_option("Write JSON: weights, products, outputs, times.")
@output_option("Write the program into this file, whole or not at all.", keeps_stdout=True)
def command(
    source: ModuleSource,
    weights: Path | None,
    checkpoints: tuple[Path, Path] | None,
    sparsity: float | None,
    method: str,
    calibrate: tuple[Path, ...],
    pattern: str | None,
    within: str | None,
    opcodes: str,
    scope: str | None,
    only: str | None,
    least: int,
    masks: bool,
    save_masks: Path | None,
    check: bool,
    inputs: Path | None,
    seed: int | None,
    device: str,
    json_output: bool,
    output: Path | None,
) -> None:
    """Remove the elements of weights that matter least.

    Weights are parameters that dots and convolutions read, also in loops. Without --weights they are random: this
    shows what there is to prune. --convert makes a checkpoint with zeros. --check needs jax.

    \b
    Examples:
      hloom prune model.hlo --convert model.safetensors sparse.safetensors
      hloom prune model.hlo --weights model.npz --pattern 2:4 --save-masks masks.npz
      hloom prune model.hlo --weights model.npz --method wanda --calibrate batch.npz --check
    """
    if weights is not None and checkpoints is not None:
        raise click.UsageError("--weights and --convert both give the weights: give one")
    if inputs is not None and not check:
        raise click.UsageError("--inputs is for --check")
    if calibrate and method != "wanda":
        raise click.UsageError("--calibrate is for --method wanda")
    if output == STDOUT and json_output:
        raise click.UsageError("--json and -o - both write to the standard output: give one")
    for path in (output, save_masks, checkpoints[1] if checkpoints is not None else None):
        if path is not None:
            check_folder(path)
    for path in (save_masks, checkpoints[1] if checkpoints is not None else None):
        if path is not None:
            check_suffix(path)
    program = read_program(source)
    given = checkpoints[0] if checkpoints is not None else weights
    known: Mapping[str, Any] | None = None if given is None else load_checkpoint(given)
    guessed = None if given is not None else random_arrays(program, seed or 0)
    with progress("pruning"):
        made = prune(
            program,
            known if known is not None else guessed or (),
            sparsity,
            method=method,
            pattern=pattern,
            within=within,
            opcodes=names_of(opcodes) or [],
            scope=scope,
            only=names_of(only),
            least=least,
            calibration=[_inputs(program, path, known) for path in calibrate],
            masks=masks,
        )
    with progress("comparing"):
        arrays = None
        if check:
            arrays = _arrays(program, inputs, known, guessed, seed or 0)
        result = report(made, arrays, device=device)
    if checkpoints is not None:
        assert known is not None, "it was loaded"
        with progress("converting"):
            save_checkpoint(checkpoints[1], made.convert(known))
    if save_masks is not None:
        save_checkpoint(save_masks, made.masks())
    if output not in (None, STDOUT):
        save(made.module, output)
    if json_output:
        write_json(result.to_json(), None)
    elif output == STDOUT:
        note_tables(tables(result, is_random=given is None))
        write_text(to_text(made.module), None)
    else:
        write_tables(tables(result, is_random=given is None), None)


def _arrays(
    program: Module, inputs: Path | None, known: Mapping[str, Any] | None, guessed: Sequence[Any] | None, seed: int
) -> Sequence[Any]:
    """All arrays of the program: those given, and for the rest random ones."""
    if inputs is not None:
        return _inputs(program, inputs, known)
    arrays = list(guessed if guessed is not None else random_arrays(program, seed))
    names = ParameterNames(program.entry.parameters)
    for key, array in (known or {}).items():
        parameter = names.get(key)
        if parameter is not None:
            arrays[parameter.number] = array
    return arrays


def _inputs(program: Module, path: Path, known: Mapping[str, Any] | None) -> Sequence[Any]:
    """All arrays of the program: those of a file, and the weights for those that it does not have."""
    arrays = arrays_in_order(load_checkpoint(path))
    if isinstance(arrays, list):
        return arrays
    names = ParameterNames(program.entry.parameters)
    given = {parameter.number for key in arrays if (parameter := names.get(key)) is not None}
    rest = {
        key: array
        for key, array in (known or {}).items()
        if (parameter := names.get(key)) is not None and parameter.number not in given
    }
    return inputs_in_order(program, {**rest, **arrays})


def tables(result: PruningReport, *, is_random: bool) -> Iterator[RenderableType]:
    """The weights, the products that read them, the outputs, and what was left."""
    made = result.pruning
    count = f"{len(made.weights):,} weight{'s' if len(made.weights) != 1 else ''}"
    shape = "" if made.pattern is None else f", {made.pattern}"
    columns = ["weight", "type", ">kept", ">removed", ">bytes", ">without zeros", ">"]
    table = new_table(f"{count} by {made.method}{shape}", *columns)
    for weight in made.weights[:MOST_ROWS]:
        before, after = (
            weight.mask.size * np.dtype(weight.type.dtype.numpy).itemsize,
            stored_bytes(weight, made.pattern),
        )
        table.add_row(
            Text(weight.name),
            str(weight.type),
            f"{weight.kept:,}",
            f"{weight.sparsity:.1%}",
            byte_text(before),
            byte_text(after),
            ratio_text(after, before),
        )
    add_rest(table, len(made.weights), MOST_ROWS, REST)
    yield table
    flops = [result.kept_flops[product.name] for product in result.products]
    yield from product_table("dots and convolutions, FLOPs without zeros", result.products, flops)
    yield from output_table(result.outputs)
    yield from exclusion_lines(made.exclusions)
    if is_random:
        yield Text("the weights are random: --weights FILE gives them")
    before, after = result.weight_bytes
    yield Text(f"weights: {result.sparsity:.1%} removed; without zeros {byte_text(before)} -> {byte_text(after)}")
    one, two = result.seconds
    yield Text(f"time by the model on {result.device}, of dense products: {time_text(one)} -> {time_text(two)}")
