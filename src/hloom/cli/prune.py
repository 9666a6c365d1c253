"""`hloom prune`: weights with zeros where they matter least, and the checkpoint that has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import RenderableType
from rich.text import Text

from hloom.analysis import DEFAULT_DEVICE
from hloom.cli.completion import complete_device
from hloom.cli.input import progress, read_program
from hloom.cli.options import STDOUT, ModuleSource, file_argument, json_option, output_option
from hloom.cli.output import check_folder, write_json, write_text
from hloom.cli.quantities import FiniteNumber
from hloom.cli.run import arrays_in_order
from hloom.cli.tables import add_rest, new_table, note_tables, write_tables
from hloom.cli.weight_tables import (
    MOST_ROWS,
    REST,
    exclusion_lines,
    names_of,
    output_table,
    product_table,
    ratio_text,
)
from hloom.compress.pruning import (
    AXES,
    GROUPS,
    METHODS,
    OPCODES,
    SPARSITY,
    PruningReport,
    StructureReport,
    prune,
    prune_structured,
    random_arrays,
    report,
    stored_bytes,
    structure_report,
)
from hloom.compress.quantization import (
    ParameterNames,
    check_suffix,
    inputs_by_any_name,
    load_checkpoint,
    save_checkpoint,
)
from hloom.formats.hlo import save, to_text
from hloom.ir import Module
from hloom.text import byte_text, count_text, time_text


@click.command("prune")
@file_argument
@click.option(
    "--weights",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read the weights from this .npz or .safetensors file (default: random).",
)
@click.option(
    "--convert",
    "checkpoints",
    metavar="OLD NEW",
    type=(Path, Path),
    help="Read weights from OLD and write the pruned ones to NEW (.npz or .safetensors).",
)
@click.option(
    "--sparsity",
    type=FiniteNumber(),
    metavar="SHARE",
    help="Fraction of the weights to remove, from 0 to 1.  [default: 0.5]",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="magnitude",
    show_default=True,
    help="How to score the importance of an element.",
)
@click.option(
    "--calibrate",
    metavar="X.npz",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Calibration inputs for --method wanda; may be repeated.",
)
@click.option(
    "--pattern",
    metavar="PATTERN",
    help="Prune in a pattern: 2:4 keeps two of every four, 16x16 removes blocks (default: single elements).",
)
@click.option(
    "--within", type=click.Choice(GROUPS), help="Rank elements within this scope.  [default: weight; wanda: output]"
)
@click.option("--structured", metavar="AXES", help=f"Remove whole slices of these axes instead: {', '.join(AXES)}.")
@click.option(
    "--multiple",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --structured, keep sizes that are multiples of N (default: 1).",
)
@click.option(
    "--pad-outputs",
    is_flag=True,
    help="With --structured, also prune axes that reach outputs, and pad the outputs with zeros.",
)
@click.option(
    "--shared-positions", is_flag=True, help="With --structured, prune the same positions in every layer of a loop."
)
@click.option(
    "--opcodes",
    metavar="NAMES",
    default=",".join(OPCODES),
    show_default=True,
    help="Prune only weights read by these opcodes.",
)
@click.option("--scope", metavar="REGEX", help="Prune only weights read by instructions whose op_name matches.")
@click.option(
    "--only", metavar="NAMES", help="Prune only these parameters, by name, number or path, as in 1,params.head.w."
)
@click.option(
    "--least", type=click.IntRange(min=0), default=0, metavar="N", help="Prune only weights with at least N elements."
)
@click.option("--masks", is_flag=True, help="Add mask parameters to the program and multiply by them.")
@click.option(
    "--save-masks",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Save the masks, or with --structured the kept positions, to FILE.",
)
@click.option(
    "--check", is_flag=True, help="Run both programs and report the errors of outputs, dots and convolutions."
)
@click.option(
    "--inputs",
    metavar="X.npz",
    type=click.Path(path_type=Path),
    help="Read the inputs for --check from this file (default: random).",
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Seed for random weights and inputs.  [default: 0]"
)
@click.option(
    "--device", metavar="NAME", default=DEFAULT_DEVICE, show_default=True, shell_complete=complete_device,
    help="Device to price the program for (`hloom roofline --list` shows them).",
)  # fmt: skip
@json_option("Write JSON: weights, dots and convolutions, outputs and estimated times.")
@output_option("Write the pruned program to file OUT, atomically.", keeps_stdout=True)
def command(
    source: ModuleSource,
    weights: Path | None,
    checkpoints: tuple[Path, Path] | None,
    sparsity: float | None,
    method: str,
    calibrate: tuple[Path, ...],
    pattern: str | None,
    within: str | None,
    structured: str | None,
    multiple: int | None,
    pad_outputs: bool,
    shared_positions: bool,
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
    """Remove the least important elements of a program's weights.

    Weights are parameters read by dots and convolutions, including inside loops. Without --weights they are random,
    which only shows what could be pruned. --convert writes a checkpoint with zeros, or with --structured a smaller one;
    OLD must then contain every weight, because any other parameter counts as an input. --check needs jax.

    \b
    Examples:
      hloom prune model.hlo --convert model.safetensors sparse.safetensors
      hloom prune model.hlo --weights model.npz --pattern 2:4 \\
        --save-masks masks.npz
      hloom prune model.hlo --weights model.npz --method wanda \\
        --calibrate batch.npz --check
      hloom prune model.hlo --structured heads,channels \\
        --convert model.npz small.npz -o small.hlo
    """
    is_given = {"--pattern": pattern, "--within": within, "--calibrate": calibrate, "--masks": masks}
    wrong = [option for option, value in is_given.items() if value]
    if structured is not None and (wrong or method != "magnitude"):
        raise click.UsageError(
            f"{(wrong or ['--method'])[0]} applies to single elements and cannot be combined with --structured"
        )
    if structured is None and multiple is not None:
        raise click.UsageError("--multiple needs --structured")
    if structured is None and pad_outputs:
        raise click.UsageError("--pad-outputs needs --structured")
    if structured is None and shared_positions:
        raise click.UsageError("--shared-positions needs --structured")
    if structured is not None and weights is None and checkpoints is None:
        raise click.UsageError(
            "--structured needs --weights or --convert: parameters that are not weights count as inputs"
        )
    if weights is not None and checkpoints is not None:
        raise click.UsageError("--weights and --convert both read weights: give only one")
    if inputs is not None and not check:
        raise click.UsageError("--inputs needs --check")
    if calibrate and method != "wanda":
        raise click.UsageError("--calibrate needs --method wanda")
    if output == STDOUT and json_output:
        raise click.UsageError("--json and -o - both write to standard output: give only one")
    for path in (output, save_masks, checkpoints[1] if checkpoints is not None else None):
        if path is not None:
            check_folder(path)
    for path in (save_masks, checkpoints[1] if checkpoints is not None else None):
        if path is not None:
            check_suffix(path)
    program = read_program(source)
    given = checkpoints[0] if checkpoints is not None else weights
    known: Mapping[str, Any] | None = None if given is None else load_checkpoint(given, program)
    guessed = None if given is not None else random_arrays(program, seed or 0)
    chosen: dict[str, Any] = {
        "opcodes": names_of(opcodes) or [],
        "scope": scope,
        "only": names_of(only),
        "least": least,
    }
    arrays = _arrays(program, inputs, known, guessed, seed or 0) if check else None
    with progress("pruning"):
        if structured is not None:
            assert known is not None, "usage says so"
            share = SPARSITY if sparsity is None else sparsity
            names = names_of(structured) or []
            chosen |= {"axes": names, "multiple": multiple or 1, "pad_outputs": pad_outputs}
            chosen |= {"shared_positions": shared_positions}
            smaller = prune_structured(program, known, share, **chosen)
            result = structure_report(smaller, arrays, device=device)
            made, saved, shown = smaller, smaller.kept(), [*structure_tables(result)]
        else:
            pruned = prune(
                program,
                known if known is not None else guessed or (),
                sparsity,
                method=method,
                pattern=pattern,
                within=within,
                calibration=[_inputs(program, path, known) for path in calibrate],
                masks=masks,
                **chosen,
            )
            result = report(pruned, arrays, device=device)
            made, saved, shown = pruned, pruned.masks(), [*tables(result, is_random=given is None)]
    if checkpoints is not None:
        assert known is not None, "it was loaded"
        with progress("converting"):
            save_checkpoint(checkpoints[1], made.convert(known))
    if save_masks is not None:
        save_checkpoint(save_masks, saved)
    if output not in (None, STDOUT):
        save(made.module, output)
    if json_output:
        write_json(result.to_json(), None)
    elif output == STDOUT:
        note_tables(shown)
        write_text(to_text(made.module), None)
    else:
        write_tables(shown, None)


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
    arrays = arrays_in_order(load_checkpoint(path, program))
    if isinstance(arrays, list):
        return arrays
    names = ParameterNames(program.entry.parameters)
    given = {parameter.number for key in arrays if (parameter := names.get(key)) is not None}
    rest = {
        key: array
        for key, array in (known or {}).items()
        if (parameter := names.get(key)) is not None and parameter.number not in given
    }
    return inputs_by_any_name(program, {**rest, **arrays})


def tables(result: PruningReport, *, is_random: bool) -> Iterator[RenderableType]:
    """The weights, the products that read them, the outputs, and what was left."""
    made = result.pruning
    shape = "" if made.pattern is None else f", {made.pattern}"
    columns = ["weight", "type", ">kept", ">removed", ">bytes", ">without zeros", ">"]
    table = new_table(f"{count_text(len(made.weights), 'weight')} by {made.method}{shape}", *columns)
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
        yield Text("the weights are random; use --weights FILE for real ones")
    before, after = result.weight_bytes
    yield Text(f"weights: {result.sparsity:.1%} removed; without zeros {byte_text(before)} -> {byte_text(after)}")
    one, two = result.seconds
    yield Text(f"estimated time on {result.device}, dense products: {time_text(one)} -> {time_text(two)}")


def structure_tables(result: StructureReport) -> Iterator[RenderableType]:
    """The axes, the weights that are cut, products, outputs, and what was left."""
    made = result.pruning
    table = new_table("axes", "axis", "role", ">size", ">kept", "weights")
    for axis in made.axes[:MOST_ROWS]:
        names = ", ".join(f"{name}.{dim}" for name, dim in axis.dims)
        table.add_row(Text(axis.name), axis.role, f"{axis.size:,}", f"{axis.kept:,}", Text(names))
    add_rest(table, len(made.axes), MOST_ROWS, REST)
    yield table
    table = new_table("weights", "weight", "type", "pruned", ">bytes", ">after", ">")
    for weight in result.weights[:MOST_ROWS]:
        before, after = weight.bytes
        cells = [byte_text(before), byte_text(after), ratio_text(after, before)]
        table.add_row(Text(weight.name), str(weight.type), str(weight.cut_type), *cells)
    add_rest(table, len(result.weights), MOST_ROWS, REST)
    yield table
    yield from product_table(
        "dots and convolutions", result.products, [product.flops[1] for product in result.products]
    )
    yield from output_table(result.outputs)
    if result.zeroed is not None:
        worst = max((noise.error for noise in result.zeroed), default=0.0)
        yield Text(f"max error against the original with zeros: {worst:.1e}")
    for axis in made.axes[:MOST_ROWS]:
        if axis.layer_dims:
            yield Text(f"{axis.name}: each layer keeps its own positions")
        elif axis.why_shared is not None:
            yield Text(f"{axis.name}: all layers keep the same positions: {axis.why_shared}")
    yield from exclusion_lines(made.exclusions)
    before, after = result.weight_bytes
    yield Text(f"weights: {byte_text(before)} -> {byte_text(after)}, {ratio_text(after, before)}")
    one, two = result.seconds
    yield Text(f"estimated time on {result.device}: {time_text(one)} -> {time_text(two)}")
