"""`hloom quantize`: a program whose weights come in a narrow type, and the checkpoint that it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
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
    size_option,
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
from hloom.compress.quantization import (
    ACTIVATIONS,
    CLIPPINGS,
    FORMATS,
    FORMATS_TO_TRY,
    GRANULARITIES,
    OPCODES,
    SEARCH,
    FormatChoice,
    GptqRounder,
    GptqRounding,
    Quantization,
    QuantizationOptions,
    QuantizationReport,
    QuantizedCache,
    QuantizedWeight,
    choose_formats,
    inputs_by_any_name,
    load_checkpoint,
    quantize_with,
    random_arrays,
    report,
    round_by_gptq,
    save_checkpoint,
)
from hloom.ir import Module
from hloom.text import HloomError, Record, Unattainable, byte_text, count_text, time_text

METHODS = ("nearest", "gptq")
DEFAULTS = QuantizationOptions()
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


@dataclass(frozen=True, slots=True)
class QuantizeRecord(Record):
    """A quantised program, the formats chosen within a budget, and the errors of weights that GPTQ rounded."""

    report: QuantizationReport
    choice: FormatChoice | None
    rounded: Sequence[GptqRounding]
    json_keys = "**report choice? rounded"


@click.command("quantize")
@file_argument
@choice_option(
    "--format",
    "number_format",
    choices=[*FORMATS, NO_FORMAT],
    default=DEFAULTS.weights,
    help="Number format for weights, or none to keep them unchanged.",
)
@choice_option("--per", choices=GRANULARITIES, help="Granularity of scales.  [default: channel]")
@count_option("--group", help="Number of elements that share a scale; implies --per group.")
@click.option("--asymmetric", is_flag=True, help="Quantise asymmetrically, with zero points.")
@selection_options("Quantise", OPCODES)
@choice_option(
    "--activations",
    choices=ACTIVATIONS,
    help="Quantise activations too, to s8 or to the weights' fp8 format, with dynamic or static scales.",
)
@path_option(
    "--calibrate", metavar="X.npz", multiple=True, help="Calibration inputs for ranges and errors; may be repeated."
)
@choice_option(
    "--clipping", choices=CLIPPINGS, help=f"How to choose static activation ranges.  [default: {DEFAULTS.clipping}]"
)
@click.option(
    "--smooth", type=ALPHA, help="Move activation outliers into weights (SmoothQuant): an alpha from 0 to 1, or search."
)
@number_option(
    "--percentile",
    min=0,
    max=100,
    min_open=True,
    metavar="P",
    help=f"Percentile to clip at, with --clipping percentile.  [default: {DEFAULTS.percentile}]",
)
@choice_option("--method", choices=METHODS, default="nearest", help="How to round weights.")
@number_option(
    "--error-budget", metavar="E", help="Choose a format per weight: the smallest program within this output error."
)
@size_option("--bytes-budget", help="Choose a format per weight: the smallest error within this size, as in 80MB.")
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
@inputs_option(
    "Read the inputs for --check from this file; repeat it for later steps, which reuse the caches.", multiple=True
)
@seed_option("Seed for the random inputs of --check without --inputs.  [default: 0]")
@click.option(
    "--convert",
    "checkpoints",
    metavar="OLD NEW",
    type=(Path, Path),
    help="Quantise the checkpoint OLD into NEW (.npz or .safetensors).",
)
@device_option(DEFAULT_DEVICE)
@json_option("Write JSON: weights, dots and convolutions, outputs and estimated times.")
@output_option("Write the quantised program to file OUT, atomically.", keeps_stdout=True)
def command(
    source: ModuleSource,
    selection: dict[str, Any],
    method: str,
    check: bool,
    inputs: tuple[Path, ...],
    seed: int | None,
    checkpoints: tuple[Path, Path] | None,
    device: str,
    json_output: bool,
    output: Path | None,
    **given: Any,
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
    _check_usage(given, method, is_checked=check, has_inputs=bool(inputs), has_seed=seed is not None)
    if method == "gptq" and not check and checkpoints is None:
        raise click.UsageError("--method gptq changes weight values, not the program: add --convert or --check")
    check_standard_output(output, json_output)
    check_outputs(output, checkpoints and checkpoints[1])
    program = read_program(source)
    batches = [_inputs(program, path) for path in given["calibrate"]]
    options = {"per": given["per"], "group": given["group"], "symmetric": not given["asymmetric"], **selection}
    weights = None if given["number_format"] == NO_FORMAT else given["number_format"]
    choice = _chosen_formats(program, batches, given, options) if _has_budget(given) else None
    if choice is not None:
        weights, options = {**choice.formats}, options | {"only": None, "least": 0}
    with progress("quantising"):
        made = quantize_with(
            program,
            QuantizationOptions(
                weights,
                **options,
                cache=_caches(given["cache_format"], given["cache_only"]),
                activations=given["activations"],
                calibration=batches if given["activations"] == "static" or given["smooth"] is not None else (),
                clipping=given["clipping"] or DEFAULTS.clipping,
                percentile=given["percentile"] or DEFAULTS.percentile,
                smoothing=given["smooth"],
            ),
        )
        if method == "gptq":
            made = round_by_gptq(made, batches)
    with progress("comparing"):
        steps = _arrays(made, inputs, seed or 0) if check else []
        result = report(made, steps[0] if check else None, further=steps[1:], device=device)
    if checkpoints is not None:
        with progress("converting"):
            save_checkpoint(checkpoints[1], made.convert(load_checkpoint(checkpoints[0], program)))
    rounded = [
        rounder.rounding
        for rounder in made.rounders.values()
        if isinstance(rounder, GptqRounder) and rounder.rounding is not None
    ]

    shown = [*_choice_tables(choice), *tables(result), *_rounding_table(rounded)]
    write_module(made.module, QuantizeRecord(result, choice, rounded), shown, json_output, output)


def _check_usage(given: dict[str, Any], method: str, *, is_checked: bool, has_inputs: bool, has_seed: bool) -> None:
    """Raise UsageError for options that do not go together."""
    per, activations, clipping = given["per"], given["activations"], given["clipping"]
    error, size, cache = given["error_budget"], given["bytes_budget"], given["cache_format"]
    keeps_weights, has_budget = given["number_format"] == NO_FORMAT, _has_budget(given)
    is_gptq, is_smoothed = method == "gptq", given["smooth"] is not None
    measures = activations == "static" or is_smoothed or is_gptq or has_budget
    check_usage(
        (per not in (None, "group") and given["group"], f"--group is for scales per group, not per {per}"),
        (not is_checked and (has_inputs or has_seed), "--inputs and --seed need --check"),
        (has_inputs and has_seed, "--seed is for random inputs: give either --seed or --inputs"),
        (clipping and activations != "static", "--clipping needs --activations static"),
        (given["percentile"] is not None and clipping != "percentile", "--percentile needs --clipping percentile"),
        (is_smoothed and activations is None, "--smooth needs --activations static or dynamic"),
        (given["cache_only"] is not None and cache is None, "--cache-only needs --cache"),
        (keeps_weights and cache is None, "--format none leaves weights unchanged: add --cache, or choose a format"),
        (
            keeps_weights and (activations is not None or is_gptq),
            "--activations and --method gptq need quantised weights: drop --format none",
        ),
        (given["choices"] is not None and not has_budget, "--choices needs --error-budget or --bytes-budget"),
        (error is not None and size is not None, "give only one of --error-budget and --bytes-budget"),
        (has_budget and activations is not None, "budgets choose weight formats only: drop --activations"),
        (has_budget and keeps_weights, "budgets choose weight formats, but --format none leaves weights unchanged"),
        (
            given["calibrate"] and not measures,
            "--calibrate needs --activations static, --smooth, --method gptq or a budget",
        ),
    )


def _has_budget(given: dict[str, Any]) -> bool:
    """Whether formats are chosen for a budget."""
    return given["error_budget"] is not None or given["bytes_budget"] is not None


def _caches(cache: str | None, only: str | None) -> str | dict[str, str] | None:
    names = names_of(only)
    return cache if cache is None or names is None else dict.fromkeys(names, cache)


def _chosen_formats(
    program: Module, batches: Sequence[Sequence[Any]], given: dict[str, Any], options: dict[str, Any]
) -> FormatChoice:
    """The formats within a budget; raises HloomError where nothing is quantised."""
    error, size = given["error_budget"], given["bytes_budget"]
    formats = names_of(given["choices"]) or FORMATS_TO_TRY
    with progress("measuring"):
        choice = choose_formats(program, batches, formats, error=error, bytes=size, **options)
    _check_choice(choice, is_by_size=size is not None)
    return choice


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
        yield f"weights: {byte_text(before)} -> {byte_text(after)}, {ratio_text(after, before)}"
    if made.caches:
        before, after = result.cache_bytes
        yield f"caches: {byte_text(before)} -> {byte_text(after)}, {ratio_text(after, before)}"
    one, two = result.seconds
    yield f"estimated time on {result.device}: {time_text(one)} -> {time_text(two)}"


def _narrow_table(title: str, noun: str, held: Sequence[QuantizedWeight] | Sequence[QuantizedCache]) -> RenderableType:
    table = new_table(title, noun, "type", "quantised", ">bytes", ">after", ">")
    for one in held[:MOST_ROWS]:
        table.add_row(
            one.name,
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
        weights = ", ".join(smoothed.weights)
        table.add_row(smoothed.name, weights, f"{smoothed.alpha:g}", scale, *errors)
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
        table.add_row(name, *cells, choice.formats.get(name, "stays"))
    add_rest(table, len(names), MOST_ROWS, REST)
    yield table
    yield f"error of the outputs: {choice.predicted:.2e} predicted, {choice.measured:.2e} measured"


def _rounding_table(roundings: Sequence[GptqRounding]) -> Iterator[RenderableType]:
    if not roundings:
        return
    title = "GPTQ rounding: product errors on held-out rows"
    table = new_table(title, "weight", ">slices", ">by GPTQ", ">nearest", ">chosen")
    for one in roundings[:MOST_ROWS]:
        errors = ("", "") if one.errors is None else (f"{error:.2e}" for error in one.errors)
        table.add_row(one.weight, f"{one.slices:,}", f"{one.by_gptq:,}", *errors)
    add_rest(table, len(roundings), MOST_ROWS, REST)
    yield table
