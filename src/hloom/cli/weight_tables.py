"""Tables of what was done to weights: products that read them, errors of outputs, what was left."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType

from hloom.cli.output import check_folder, write_text
from hloom.cli.streams import STDOUT
from hloom.cli.tables import add_rest, new_table, write_report_beside
from hloom.compress.quantization import Exclusion, Noise, ProductReport, check_suffix
from hloom.formats.hlo import save, to_text
from hloom.ir import Module
from hloom.text import Record, byte_text, time_text

MOST_ROWS = 40
"""How many weights, and how many products, the tables show."""
REST = "; --json lists all"


def check_outputs(output: Path | None, *checkpoints: Path | None) -> None:
    """Raise HloomError, before work that takes long, for what cannot be written: a program, and arrays beside it."""
    for path in (output, *checkpoints):
        check_folder(path)
    for path in checkpoints:
        if path is not None:
            check_suffix(path)


def write_module(
    module: Module, record: Record, parts: Iterable[RenderableType], json_output: bool, output: Path | None
) -> None:
    """Write a changed program where -o says, and the report as JSON or as tables."""
    if output not in (None, STDOUT):
        save(module, output)
    write_report_beside(lambda: record, parts, json_output, output)
    if output == STDOUT:
        write_text(to_text(module), None)


def product_table(
    title: str, products: Sequence[ProductReport], flops_after: Sequence[int]
) -> Iterator[RenderableType]:
    """The dots and convolutions that read weights, before and after; nothing where there are none."""
    if not products:
        return
    is_measured = any(product.noise is not None for product in products)
    columns = ["product", ">FLOPs", ">after", ">bytes", ">after", ">time", ">after"]
    table = new_table(title, *columns, *([">SNR, dB", ">error"] if is_measured else []))
    for product, flops in zip(products[:MOST_ROWS], flops_after, strict=False):
        cells = [
            f"{product.flops[0]:,}",
            f"{flops:,}",
            *(byte_text(size) for size in product.bytes),
            *(time_text(seconds) for seconds in product.seconds),
        ]
        table.add_row(product.name, *cells, *(noise_cells(product.noise) if is_measured else ()))
    add_rest(table, len(products), MOST_ROWS, REST)
    yield table


def output_table(outputs: Sequence[Noise] | None) -> Iterator[RenderableType]:
    """The errors of the outputs, where they were compared."""
    if outputs is None:
        return
    table = new_table("outputs, computed by XLA", ">output", ">SNR, dB", ">error", ">max difference")
    for number, noise in enumerate(outputs[:MOST_ROWS]):
        table.add_row(str(number), *noise_cells(noise), f"{noise.greatest:.3g}")
    add_rest(table, len(outputs), MOST_ROWS, REST)
    yield table


def exclusion_lines(exclusions: Sequence[Exclusion]) -> Iterator[RenderableType]:
    """What was left, and why."""
    for left in exclusions[:MOST_ROWS]:
        yield f"skipped: {left.name}: {left.reason}"
    if len(exclusions) > MOST_ROWS:
        yield f"and {len(exclusions) - MOST_ROWS:,} more skipped"


def noise_cells(noise: Noise | None) -> tuple[str, str]:
    """The ratio in decibels, and the error."""
    if noise is None:
        return "", ""
    return f"{noise.snr:.1f}" if math.isfinite(noise.snr) else str(noise.snr), f"{noise.error:.2e}"


def ratio_text(after: int, before: int) -> str:
    """What part is left; nothing of nothing."""
    return f"{after / before:.3f}" if before else ""
