"""`hloom prune`: weights with zeros where they matter least, and the checkpoint that has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import RenderableType

from hloom.analysis import DEFAULT_DEVICE
from hloom.cli.input import progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_standard_output,
    check_usage,
    choice_option,
    count_option,
    device_option,
    file_argument,
    inputs_option,
    json_option,
    names_of,
    number_option,
    output_option,
    path_option,
    seed_option,
    selection_options,
)
from hloom.cli.run import arrays_in_order
from hloom.cli.tables import add_rest, new_table
from hloom.cli.weight_tables import (
    MOST_ROWS,
    REST,
    check_outputs,
    exclusion_lines,
    output_table,
    product_table,
    ratio_text,
    write_module,
)
from hloom.compress.pruning import (
    AXES,
    GROUPS,
    METHODS,
    OPCODES,
    SPARSITY,
    PruningOptions,
    PruningReport,
    StructuredPruningOptions,
    StructureReport,
    prune_structured_with,
    prune_with,
    random_arrays,
    report,
    stored_bytes,
    structure_report,
)
from hloom.compress.quantization import (
    ParameterNames,
    inputs_by_any_name,
    load_checkpoint,
    save_checkpoint,
)
from hloom.ir import Module
from hloom.text import byte_text, count_text, time_text


@click.command("prune")
@file_argument
@path_option(
    "--weights", metavar="FILE", help="Read the weights from this .npz or .safetensors file (default: random)."
)
@click.option(
    "--convert",
    "checkpoints",
    metavar="OLD NEW",
    type=(Path, Path),
    help="Read weights from OLD and write the pruned ones to NEW (.npz or .safetensors).",
)
@number_option(
    "--sparsity", metavar="SHARE", help=f"Fraction of the weights to remove, from 0 to 1.  [default: {SPARSITY}]"
)
@choice_option("--method", choices=METHODS, default=METHODS[0], help="How to score the importance of an element.")
@path_option(
    "--calibrate", metavar="X.npz", multiple=True, help="Calibration inputs for --method wanda; may be repeated."
)
@click.option(
    "--pattern",
    metavar="PATTERN",
    help="Prune in a pattern: 2:4 keeps two of every four, 16x16 removes blocks (default: single elements).",
)
@choice_option(
    "--within",
    choices=GROUPS,
    help="Rank elements within each output, weight or the model.  [default: weight; wanda: output]",
)
@click.option("--structured", metavar="AXES", help=f"Remove whole slices of these axes instead: {', '.join(AXES)}.")
@count_option("--multiple", help="With --structured, keep sizes that are multiples of N (default: 1).")
@click.option(
    "--pad-outputs",
    is_flag=True,
    help="With --structured, also prune axes that reach outputs, and pad the outputs with zeros.",
)
@click.option(
    "--shared-positions",
    is_flag=True,
    help="With --structured, remove the same positions from every layer of a loop over stacked layers.",
)
@selection_options("Prune", OPCODES)
@click.option("--masks", is_flag=True, help="Add mask parameters; the program reads select(mask, weight, 0).")
@path_option("--save-masks", metavar="FILE", help="Save the masks, or with --structured the kept positions, to FILE.")
@click.option(
    "--check", is_flag=True, help="Run both programs and report the errors of outputs, dots and convolutions."
)
@inputs_option("Read the inputs for --check from this file (default: random).")
@seed_option("Seed for random weights and inputs.  [default: 0]")
@device_option(DEFAULT_DEVICE)
@json_option("Write JSON: weights, dots and convolutions, outputs and estimated times.")
@output_option("Write the pruned program to file OUT, atomically.", keeps_stdout=True)
def command(
    source: ModuleSource,
    selection: dict[str, Any],
    weights: Path | None,
    checkpoints: tuple[Path, Path] | None,
    structured: str | None,
    save_masks: Path | None,
    check: bool,
    inputs: Path | None,
    seed: int | None,
    device: str,
    json_output: bool,
    output: Path | None,
    **given: Any,
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
    has_weights = weights is not None or checkpoints is not None
    _check_usage(given, is_structured=structured is not None, has_weights=has_weights)
    check_usage(
        (weights is not None and checkpoints is not None, "--weights and --convert both read weights: give only one"),
        (inputs is not None and not check, "--inputs needs --check"),
        (given["calibrate"] and given["method"] != "wanda", "--calibrate needs --method wanda"),
    )
    check_standard_output(output, json_output)
    check_outputs(output, save_masks, checkpoints and checkpoints[1])
    program = read_program(source)
    file = checkpoints[0] if checkpoints is not None else weights
    known: Mapping[str, Any] | None = None if file is None else load_checkpoint(file, program)
    guessed = None if known is not None else random_arrays(program, seed or 0)
    arrays = _arrays(program, inputs, known, guessed, seed or 0) if check else None
    with progress("pruning"):
        if structured is not None:
            assert known is not None, "usage says so"
            options = _structured_options(given, structured, selection)
            made = prune_structured_with(program, known, options)
            result = structure_report(made, arrays, device=device)
            saved, shown = made.kept(), [*structure_tables(result)]
        else:
            options = _options(given, selection, [_inputs(program, path, known) for path in given["calibrate"]])
            made = prune_with(program, known if known is not None else guessed or (), options)
            result = report(made, arrays, device=device)
            saved, shown = made.masks(), [*tables(result, is_random=known is None)]
    if checkpoints is not None:
        assert known is not None, "it was loaded"
        with progress("converting"):
            save_checkpoint(checkpoints[1], made.convert(known))
    if save_masks is not None:
        save_checkpoint(save_masks, saved)
    write_module(made.module, result, shown, json_output, output)


def _check_usage(given: dict[str, Any], *, is_structured: bool, has_weights: bool) -> None:
    """Raise UsageError for options of single elements beside --structured, and for those of whole slices without it."""
    single = [f"--{name}" for name in ("pattern", "within", "calibrate", "masks") if given[name]]
    single += ["--method"] if given["method"] != METHODS[0] else []
    check_usage(
        (
            is_structured and single,
            f"{single[0] if single else ''} applies to single elements and cannot be combined with --structured",
        ),
        (not is_structured and given["multiple"] is not None, "--multiple needs --structured"),
        (not is_structured and given["pad_outputs"], "--pad-outputs needs --structured"),
        (not is_structured and given["shared_positions"], "--shared-positions needs --structured"),
        (
            is_structured and not has_weights,
            "--structured needs --weights or --convert: parameters that are not weights count as inputs",
        ),
    )


def _options(given: dict[str, Any], selection: dict[str, Any], calibration: Sequence[Sequence[Any]]) -> PruningOptions:
    """How single elements are pruned."""
    named = {name: given[name] for name in ("sparsity", "method", "pattern", "within", "masks")}
    return PruningOptions(**named, **selection, calibration=calibration)


def _structured_options(given: dict[str, Any], axes: str, selection: dict[str, Any]) -> StructuredPruningOptions:
    """How whole slices are removed; an option that is not given has its default."""
    named = {name: given[name] for name in ("sparsity", "multiple") if given[name] is not None}
    flags = {name: given[name] for name in ("pad_outputs", "shared_positions")}
    return StructuredPruningOptions(**named, **flags, **selection, axes=names_of(axes) or [])


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
            weight.name,
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
        yield "the weights are random; use --weights FILE for real ones"
    before, after = result.weight_bytes
    yield f"weights: {result.sparsity:.1%} removed; without zeros {byte_text(before)} -> {byte_text(after)}"
    one, two = result.seconds
    yield f"estimated time on {result.device}, dense products: {time_text(one)} -> {time_text(two)}"


def structure_tables(result: StructureReport) -> Iterator[RenderableType]:
    """The axes, the weights that are cut, products, outputs, and what was left."""
    made = result.pruning
    table = new_table("axes", "axis", "role", ">size", ">kept", "weights")
    for axis in made.axes[:MOST_ROWS]:
        names = ", ".join(f"{name}.{dim}" for name, dim in axis.dims)
        table.add_row(axis.name, axis.role, f"{axis.size:,}", f"{axis.kept:,}", names)
    add_rest(table, len(made.axes), MOST_ROWS, REST)
    yield table
    table = new_table("weights", "weight", "type", "pruned", ">bytes", ">after", ">")
    for weight in result.weights[:MOST_ROWS]:
        before, after = weight.bytes
        cells = [byte_text(before), byte_text(after), ratio_text(after, before)]
        table.add_row(weight.name, str(weight.type), str(weight.cut_type), *cells)
    add_rest(table, len(result.weights), MOST_ROWS, REST)
    yield table
    yield from product_table(
        "dots and convolutions", result.products, [product.flops[1] for product in result.products]
    )
    yield from output_table(result.outputs)
    if result.zeroed is not None:
        worst = max((noise.error for noise in result.zeroed), default=0.0)
        yield f"max error against the original with zeros: {worst:.1e}"
    for axis in made.axes[:MOST_ROWS]:
        if axis.layer_dims:
            yield f"{axis.name}: each layer keeps its own positions"
        elif axis.why_shared is not None:
            yield f"{axis.name}: all layers keep the same positions: {axis.why_shared}"
    yield from exclusion_lines(made.exclusions)
    before, after = result.weight_bytes
    yield f"weights: {byte_text(before)} -> {byte_text(after)}, {ratio_text(after, before)}"
    one, two = result.seconds
    yield f"estimated time on {result.device}: {time_text(one)} -> {time_text(two)}"
