"""Memory in use over a run, as characters for a terminal, as SVG, and as PNG through matplotlib."""

from __future__ import annotations

import io
from importlib import import_module
from itertools import pairwise
from typing import Any

from hloom.analysis import MemoryReport
from hloom.cli.plots.svg import line, picture, text
from hloom.cli.tables import cut
from hloom.text import HloomError, byte_text

BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH, HEIGHT = 100, 10
"""The plot's greatest size on a terminal, in characters, beside its labels."""
MARGIN_LEFT = 12
"""How many characters the labels at the left take."""
PICTURE = (900, 360)
"""Width and height of a picture, in pixels."""
MARGIN = (80, 30, 20, 46)
"""Pixels left free at the left, top, right and bottom of a picture."""
HEADROOM = 1.05
"""How much higher a picture's axis ends than its greatest value."""
TICKS = 4
"""Into how many equal parts labels divide a picture's axis of bytes."""
COLOURS = {"fixed": "#9ecae1", "temporary": "#3182bd", "budget": "#d62728"}


def characters(report: MemoryReport, width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """The plot as lines: from left to right the run, each column the most bytes of its part of it."""
    bars = _columns(report, width)
    top = max([*bars, 1])
    rows = []
    for row in range(height, 0, -1):
        cells = "".join(_cell(bar / top * height - (row - 1)) for bar in bars)
        label = byte_text(top * row / height) if row in (height, height // 2) else ""
        rows.append(f"{label:>10} │{cells}")
    marked = _peak_column(report, len(bars))
    rows.append(f"{'0 B':>10} └{'─' * len(bars)}")
    rows.append(_mark(marked, report.peak_instruction, MARGIN_LEFT + width) if len(bars) else "")
    return [row.rstrip() for row in rows]


def _mark(column: int, name: str, line: int) -> str:
    """The line that marks the peak: its instruction stands right of the mark, or left of it where the line ends."""
    column += MARGIN_LEFT
    if column + 2 + len(name) > line and len(name) < column:
        return f"{name:>{column - 1}} ▲"
    return f"{'':>{column}}▲ {cut(name, line - column - 2)}"


def _columns(report: MemoryReport, width: int) -> list[int]:
    points = [size for _, size in report.timeline]
    if len(points) <= width:
        return points
    bounds = [column * len(points) // width for column in range(width + 1)]
    return [max(points[start:end]) for start, end in pairwise(bounds)]


def _peak_column(report: MemoryReport, width: int) -> int:
    return min(report.peak_time * width // max(report.length, 1), max(width - 1, 0))


def _cell(filled: float) -> str:
    return BLOCKS[min(max(round(filled * 8), 0), 8)]


def svg(report: MemoryReport, budget: int | None = None) -> str:
    """The plot as a picture: arguments and outputs below, temporaries above them, the budget as a line."""
    width, height = PICTURE
    left, upper, right, lower = MARGIN
    fixed = report.arguments + report.outputs - report.aliases
    top = max(report.peak, budget or 0, 1) * HEADROOM
    last = max(report.length - 1, 1)

    def across(time: float) -> float:
        return left + (width - left - right) * time / last

    def down(size: float) -> float:
        return upper + (height - upper - lower) * (1 - size / top)

    base, peak = down(0), across(report.peak_time)
    steps = [f"{across(time):.1f},{down(size):.1f}" for time, size in report.timeline] or [f"{left},{down(fixed):.1f}"]
    ends = across(report.timeline[-1][0] if report.timeline else 0)
    parts = [
        text(left, 18, f"{report.module}: {byte_text(report.peak)} at the peak, schedule: {report.schedule}"),
        f'<polygon fill="{COLOURS["temporary"]}" points="{left},{base:.1f} {" ".join(steps)} {ends:.1f},{base:.1f}"/>',
        f'<rect fill="{COLOURS["fixed"]}" x="{left}" y="{down(fixed):.1f}" width="{ends - left:.1f}" '
        f'height="{base - down(fixed):.1f}"><title>arguments and outputs</title></rect>',
        line(left, base, width - right, base),
        *(_tick(top * number / TICKS, down(top * number / TICKS)) for number in range(TICKS + 1)),
        line(peak, upper, peak, base, dashes="2 3"),
        text(left, height - 10, f"instructions run: {report.length:,}; the peak is at {report.peak_instruction}"),
    ]
    if budget is not None:
        parts.append(line(left, down(budget), width - right, down(budget), COLOURS["budget"]))
        parts.append(text(left + 4, down(budget) - 4, f"budget {byte_text(budget)}", COLOURS["budget"]))
    return picture(width, height, parts)


def _tick(size: float, y: float) -> str:
    return text(MARGIN[0] - 6, y + 4, byte_text(size), anchor="end")


def png(report: MemoryReport, budget: int | None = None) -> bytes:
    """The same picture as PNG; raises HloomError where matplotlib is not installed."""
    try:
        figure_type: Any = import_module("matplotlib.figure").Figure
    except ImportError:
        raise HloomError("a PNG needs matplotlib", hint="pip install matplotlib, or write an .svg") from None
    figure = figure_type(figsize=(PICTURE[0] / 100, PICTURE[1] / 100), dpi=100)
    axes = figure.subplots()
    times, sizes = zip(*report.timeline, strict=True) if report.timeline else ((0,), (0,))
    fixed = report.arguments + report.outputs - report.aliases
    axes.fill_between(times, [size / 2**20 for size in sizes], color=COLOURS["temporary"], label="temporaries")
    axes.fill_between(times, [fixed / 2**20] * len(times), color=COLOURS["fixed"], label="arguments and outputs")
    if budget is not None:
        axes.axhline(budget / 2**20, color=COLOURS["budget"], label="budget")
    axes.set(xlabel="instructions run", ylabel="MiB", title=report.module)
    axes.legend(loc="lower right")
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()
