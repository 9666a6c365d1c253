"""`hloom quantize`: a program whose weights come in a narrow type, and the checkpoint that it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from hloom.analysis import DEFAULT_DEVICE
from hloom.cli.completion import complete_device
from hloom.cli.input import progress, read_program
from hloom.cli.options import STDOUT, ModuleSource, file_argument, json_option, output_option
from hloom.cli.output import check_folder, write_json, write_text
from hloom.cli.quantities import ByteSize, FiniteNumber
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
from hloom.compress.quantization import (
    ACTIVATIONS,
    CLIPPINGS,
    FORMATS,
    FORMATS_TO_TRY,
    GRANULARITIES,
    OPCODES,
    PERCENTILE,
    SEARCH,
    FormatChoice,
    GptqRounder,
    GptqRounding,
    Quantization,
    QuantizationReport,
    QuantizedCache,
    QuantizedWeight,
    check_suffix,
    choose_formats,
    inputs_by_any_name,
    load_checkpoint,
    quantize,
    random_arrays,
    report,
    round_by_gptq,
    save_checkpoint,
)
from hloom.formats.hlo import save, to_text
from hloom.ir import Module
from hloom.text import HloomError, Unattainable, byte_text, count_text, time_text

METHODS = ("nearest", "gptq")
NO_FORMAT = "none"


class AlphaType(click.ParamType):
    """An alpha, or `search`."""

    name = "ALPHA|search"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """The number, or `search`; usage errors say what else it is."""
        if value == SEARCH:
            return SEARCH
        try:
            alpha = float(value)
        except ValueError:
            alpha = math.nan
        if not 0 <= alpha <= 1:
            self.fail(f"'{value}' is neither a number from 0 to 1 nor 'search'", param, ctx)
        return alpha


ALPHA = AlphaType()


@click.command("quantize")
@file_argument
@click.option(
    "--format",
    "number_format",
    type=click.Choice([*FORMATS, NO_FORMAT]),
    default="int8",
    show_default=True,
    help="Number format for weights, or none to keep them unchanged.",
)
@click.option("--per", type=click.Choice(GRANULARITIES), help="Granularity of scales.  [default: channel]")
@click.option(
    "--group",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of elements that share a scale; implies --per group.",
)
@click.option("--asymmetric", is_flag=True, help="Quantise asymmetrically, with zero points.")
@click.option(
    "--opcodes",
    metavar="NAMES",
    default=",".join(OPCODES),
    show_default=True,
    help="Quantise only weights read by these opcodes.",
)
@click.option("--scope", metavar="REGEX", help="Quantise only weights whose name or readers' op_name matches.")
@click.option(
    "--only", metavar="NAMES", help="Quantise only these parameters, by name, number or path, as in 1,params.head.w."
)
@click.option(
    "--least",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Quantise only weights with at least N elements.",
)
@click.option(
    "--activations",
    type=click.Choice(ACTIVATIONS),
    help="Quantise activations too, to s8 or to the weights' fp8 format, with dynamic or static scales.",
)
@click.option(
    "--calibrate",
    metavar="X.npz",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Calibration inputs for ranges and errors; may be repeated.",
)
@click.option(
    "--clipping", type=click.Choice(CLIPPINGS), help="How to choose static activation ranges.  [default: minmax]"
)
@click.option(
    "--smooth", type=ALPHA, help="Move activation outliers into weights (SmoothQuant): an alpha from 0 to 1, or search."
)
@click.option(
    "--percentile",
    type=FiniteNumber(0, 100, min_open=True),
    metavar="P",
    help="Percentile to clip at, with --clipping percentile.",
)
@click.option(
    "--method", type=click.Choice(METHODS), default="nearest", show_default=True, help="How to round weights."
)
@click.option(
    "--error-budget",
    type=FiniteNumber(),
    metavar="E",
    help="Choose a format per weight: the smallest program within this output error.",
)
@click.option(
    "--bytes-budget",
    metavar="SIZE",
    type=ByteSize(),
    help="Choose a format per weight: the smallest error within this size, as in 80MB.",
)
@click.option(
    "--choices", metavar="NAMES", help=f"Formats that the budgets choose from.  [default: {','.join(FORMATS_TO_TRY)}]"
)
@click.option(
    "--cache", "cache_format", metavar="FORMAT", help="Quantise KV caches to this format: int8, e4m3, int4:32, ..."
)
@click.option("--cache-only", metavar="NAMES", help="Quantise only these caches, by name, number or path.")
@click.option(
    "--check", is_flag=True, help="Run both programs and report the errors of outputs, dots and convolutions."
)
@click.option(
    "--inputs",
    metavar="X.npz",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Read the inputs for --check from this file; repeat it for later steps, which reuse the caches.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Seed for the random inputs of --check without --inputs.  [default: 0]",
)
@click.option(
    "--convert",
    "checkpoints",
    metavar="OLD NEW",
    type=(Path, Path),
    help="Quantise the checkpoint OLD into NEW (.npz or .safetensors).",
)
@click.option(
    "--device", metavar="NAME", default=DEFAULT_DEVICE, show_default=True, shell_complete=complete_device,
    help="Device to price the program for (`hloom roofline --list` shows them).",
)  # fmt: skip
@json_option("Write JSON: weights, dots and convolutions, outputs and estimated times.")
@output_option("Write the quantised program to file OUT, atomically.", keeps_stdout=True)
def command(
    source: ModuleSource,
    number_format: str,
    per: str | None,
    group: int | None,
    asymmetric: bool,
    opcodes: str,
    scope: str | None,
    only: str | None,
    least: int,
    activations: str | None,
    calibrate: tuple[Path, ...],
    clipping: str | None,
    smooth: float | str | None,
    percentile: float | None,
    method: str,
    error_budget: float | None,
    bytes_budget: int | None,
    choices: str | None,
    cache_format: str | None,
    cache_only: str | None,
    check: bool,
    inputs: tuple[Path, ...],
    seed: int | None,
    checkpoints: tuple[Path, Path] | None,
    device: str,
    json_output: bool,
    output: Path | None,
) -> None:
    """Quantise the weights of a program.

    Weights are parameters read by dots, convolutions and gathers, including inside loops. Each becomes a parameter of
    the narrow type plus one for its scales; --convert makes a matching checkpoint. --check needs jax.

    \b
    Examples:
      hloom quantize model.hlo -o small.hlo \\
        --convert model.safetensors small.safetensors
      hloom quantize model.hlo --format int4 --group 64 --check
      hloom quantize model.hlo --activations static --calibrate batch.npz \\
        --clipping mse --check
      hloom quantize model.hlo --format mxfp8 --scope mlp --json
      hloom quantize model.hlo --format int4 --method gptq \\
        --calibrate batch.npz --convert old.npz new.npz
      hloom quantize decode.hlo --format none --cache int8 --check \\
        --inputs step0.npz --inputs step1.npz
      hloom quantize model.hlo --error-budget 0.01 \\
        --choices int8,int4:32,int4:128 --calibrate batch.npz
    """
    _check_usage(per, group, check=check, has_inputs=bool(inputs), has_seed=seed is not None)
    _check_measures(activations, clipping, percentile, smooth)
    _check_cache(number_format, cache_format, cache_only, activations, method)
    budget = _budget(error_budget, bytes_budget, choices, activations)
    if budget and number_format == NO_FORMAT:
        raise click.UsageError("budgets choose weight formats, but --format none leaves weights unchanged")
    if method == "gptq" and not check and checkpoints is None:
        raise click.UsageError("--method gptq changes weight values, not the program: add --convert or --check")
    if calibrate and not (activations == "static" or smooth is not None or budget or method == "gptq"):
        raise click.UsageError("--calibrate needs --activations static, --smooth, --method gptq or a budget")
    if output == STDOUT and json_output:
        raise click.UsageError("--json and -o - both write to standard output: give only one")
    if output is not None:
        check_folder(output)
    if checkpoints is not None:
        check_suffix(checkpoints[1])
        check_folder(checkpoints[1])
    program = read_program(source)
    batches = [_inputs(program, path) for path in calibrate]
    selection = {"symmetric": not asymmetric, "opcodes": names_of(opcodes) or [], "scope": scope}
    choice: FormatChoice | None = None
    weights: str | Mapping[str, str] | None = None if number_format == NO_FORMAT else number_format
    selected: dict[str, Any] = {"per": per, "group": group, "only": names_of(only), "least": least}
    if budget:
        with progress("measuring"):
            choice = choose_formats(
                program, batches, names_of(choices) or FORMATS_TO_TRY, **budget, **selection, **selected
            )
        _check_choice(choice, is_by_size=bytes_budget is not None)
        weights, selected = {**choice.formats}, {"per": per, "group": group}
    with progress("quantising"):
        made = quantize(
            program,
            weights,
            **selection,
            **selected,
            cache=_caches(cache_format, cache_only),
            activations=activations,
            calibration=batches if activations == "static" or smooth is not None else (),
            clipping=clipping or "minmax",
            percentile=percentile or PERCENTILE,
            smoothing=smooth,
        )
        if method == "gptq":
            made = round_by_gptq(made, batches)
    with progress("comparing"):
        steps = _arrays(made, inputs, seed or 0) if check else []
        result = report(made, steps[0] if check else None, further=steps[1:], device=device)
    if checkpoints is not None:
        with progress("converting"):
            save_checkpoint(checkpoints[1], made.convert(load_checkpoint(checkpoints[0], program)))
    roundings = [rounder.rounding for rounder in made.rounders.values() if isinstance(rounder, GptqRounder)]
    shown = [*_choice_tables(choice), *tables(result), *_rounding_table([one for one in roundings if one is not None])]
    if output not in (None, STDOUT):
        save(made.module, output)
    if json_output:
        record = result.to_json()
        if choice is not None:
            record["choice"] = asdict(choice)
        record["rounded"] = [asdict(one) for one in roundings if one is not None]
        write_json(record, None)
    elif output == STDOUT:
        note_tables(iter(shown))
        write_text(to_text(made.module), None)
    else:
        write_tables(iter(shown), None)


def _check_usage(per: str | None, group: int | None, *, check: bool, has_inputs: bool, has_seed: bool) -> None:
    if per not in (None, "group") and group is not None:
        raise click.UsageError(f"--group is for scales per group, not per {per}")
    if not check and (has_inputs or has_seed):
        raise click.UsageError("--inputs and --seed need --check")
    if has_inputs and has_seed:
        raise click.UsageError("--seed is for random inputs: give either --seed or --inputs")


def _check_measures(
    activations: str | None, clipping: str | None, percentile: float | None, smooth: float | str | None
) -> None:
    if clipping and activations != "static":
        raise click.UsageError("--clipping needs --activations static")
    if percentile is not None and clipping != "percentile":
        raise click.UsageError("--percentile needs --clipping percentile")
    if smooth is not None and activations is None:
        raise click.UsageError("--smooth needs --activations static or dynamic")


def _check_cache(number_format: str, cache: str | None, only: str | None, activations: str | None, method: str) -> None:
    if only is not None and cache is None:
        raise click.UsageError("--cache-only needs --cache")
    if number_format == NO_FORMAT:
        if cache is None:
            raise click.UsageError("--format none leaves weights unchanged: add --cache, or choose a format")
        if activations is not None or method == "gptq":
            raise click.UsageError("--activations and --method gptq need quantised weights: drop --format none")


def _caches(cache: str | None, only: str | None) -> str | dict[str, str] | None:
    names = names_of(only)
    return cache if cache is None or names is None else dict.fromkeys(names, cache)


def _budget(
    error: float | None, size: int | None, choices: str | None, activations: str | None
) -> dict[str, float | int]:
    """What formats are chosen for, if they are."""
    if error is None and size is None:
        if choices is not None:
            raise click.UsageError("--choices needs --error-budget or --bytes-budget")
        return {}
    if error is not None and size is not None:
        raise click.UsageError("give only one of --error-budget and --bytes-budget")
    if activations is not None:
        raise click.UsageError("budgets choose weight formats only: drop --activations")
    if error is not None:
        return {"error": error}
    assert size is not None, "one is given"
    return {"bytes": size}


def _check_choice(choice: FormatChoice, *, is_by_size: bool) -> None:
    """Raise HloomError where nothing is quantised: no format is within the error, or the weights are small enough."""
    if choice.formats:
        return
    if is_by_size:
        raise HloomError("the weights already fit this budget: nothing was quantised")
    least = min(choice.sensitivities, key=lambda one: one.error)
    raise Unattainable(
        "no weight can be quantised within this budget",
        hint=f"{least.weight} as {least.format} has the smallest error, {least.error:.2e}",
    )


def _arrays(made: Quantization, inputs: Sequence[Path], seed: int) -> list[Sequence[Any]]:
    if not inputs:
        return [random_arrays(made, seed)]
    if len(inputs) > 1 and not any(cache.number is not None for cache in made.caches):
        raise click.UsageError("repeated --inputs are steps that reuse a cache: add --cache")
    return [_inputs(made.original, path) for path in inputs]


def _inputs(program: Module, path: Path) -> Sequence[Any]:
    arrays = arrays_in_order(load_checkpoint(path, program))
    return arrays if isinstance(arrays, list) else inputs_by_any_name(program, arrays)


def tables(result: QuantizationReport) -> Iterator[RenderableType]:
    """The weights, the products that read them, the outputs, and what was left."""
    made = result.quantization
    before, after = result.weight_bytes
    if made.weights:
        yield _narrow_table(f"{count_text(len(made.weights), 'weight')} as {made.recipe}", "weight", made.weights)
    if made.caches:
        formats = ", ".join(dict.fromkeys(str(cache.format) for cache in made.caches))
        yield _narrow_table(f"{count_text(len(made.caches), 'cache')} as {formats}", "cache", made.caches)
    yield from _smoothing_table(made)
    title = "dots and convolutions, including dequantisation"
    yield from product_table(title, result.products, [product.flops[1] for product in result.products])
    yield from output_table(result.outputs)
    yield from _step_table(result)
    yield from exclusion_lines(made.exclusions)
    if made.weights:
        yield Text(f"weights: {byte_text(before)} -> {byte_text(after)}, {ratio_text(after, before)}")
    if made.caches:
        before, after = result.cache_bytes
        yield Text(f"caches: {byte_text(before)} -> {byte_text(after)}, {ratio_text(after, before)}")
    one, two = result.seconds
    yield Text(f"estimated time on {result.device}: {time_text(one)} -> {time_text(two)}")


def _narrow_table(title: str, noun: str, held: Sequence[QuantizedWeight] | Sequence[QuantizedCache]) -> RenderableType:
    table = new_table(title, noun, "type", "quantised", ">bytes", ">after", ">")
    for one in held[:MOST_ROWS]:
        table.add_row(
            Text(one.name),
            str(one.type),
            str(one.quantized_type.with_layout(None)),
            byte_text(one.bytes_before),
            byte_text(one.bytes_after),
            ratio_text(one.bytes_after, one.bytes_before),
        )
    add_rest(table, len(held), MOST_ROWS, REST)
    return table


def _step_table(result: QuantizationReport) -> Iterator[RenderableType]:
    """The greatest errors of every step, of outputs that are caches and of the others."""
    if len(result.steps) < 2:
        return
    caches = {cache.output for cache in result.quantization.caches}
    table = new_table("errors by step", ">step", ">error", ">cache error")
    for step, noises in enumerate(result.steps):
        cells = [
            max((noise.error for number, noise in enumerate(noises) if (number in caches) == are_caches), default=None)
            for are_caches in (False, True)
        ]
        table.add_row(str(step), *("" if error is None else f"{error:.2e}" for error in cells))
    yield table


def _smoothing_table(made: Quantization) -> Iterator[RenderableType]:
    activations = () if made.smoothing is None else made.smoothing.activations
    if not activations:
        return
    columns = ["activation", "weights", ">alpha", "scale", ">error before", ">after"]
    table = new_table("smoothed activations", *columns)
    for smoothed in activations[:MOST_ROWS]:
        scale = f"in {', '.join(smoothed.folded)}" if smoothed.folded else "multiplied"
        errors = ("", "") if smoothed.errors is None else (f"{error:.2e}" for error in smoothed.errors)
        weights = Text(", ".join(smoothed.weights))
        table.add_row(Text(smoothed.name), weights, f"{smoothed.alpha:g}", Text(scale), *errors)
    add_rest(table, len(activations), MOST_ROWS, REST)
    yield table


def _choice_tables(choice: FormatChoice | None) -> Iterator[RenderableType]:
    if choice is None:
        return
    formats = list(dict.fromkeys(one.format for one in choice.sensitivities))
    errors = {(one.weight, one.format): one.error for one in choice.sensitivities}
    names = list(dict.fromkeys(one.weight for one in choice.sensitivities))
    columns = ["weight", *(f">as {text}" for text in formats), "chosen"]
    table = new_table("errors with one weight quantised", *columns)
    for name in names[:MOST_ROWS]:
        cells = [f"{errors[name, text]:.2e}" if (name, text) in errors else "" for text in formats]
        table.add_row(Text(name), *cells, choice.formats.get(name, "stays"))
    add_rest(table, len(names), MOST_ROWS, REST)
    yield table
    yield Text(f"error of the outputs: {choice.predicted:.2e} predicted, {choice.measured:.2e} measured")


def _rounding_table(roundings: Sequence[GptqRounding]) -> Iterator[RenderableType]:
    if not roundings:
        return
    title = "GPTQ rounding: product errors on held-out rows"
    table = new_table(title, "weight", ">slices", ">by GPTQ", ">nearest", ">chosen")
    for one in roundings[:MOST_ROWS]:
        errors = ("", "") if one.errors is None else (f"{error:.2e}" for error in one.errors)
        table.add_row(Text(one.weight), f"{one.slices:,}", f"{one.by_gptq:,}", *errors)
    add_rest(table, len(roundings), MOST_ROWS, REST)
    yield table
