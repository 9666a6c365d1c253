"""The course of memory over a run, as characters for a terminal, as SVG, and as PNG through matplotlib."""

from __future__ import annotations

import io
from html import escape
from importlib import import_module
from itertools import pairwise
from typing import Any

from hloom.analysis import MemoryReport
from hloom.cli.writing import byte_text
from hloom.text import HloomError

BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH, HEIGHT = 100, 10
"""Columns and lines of the plot on a terminal."""
PICTURE = (900, 360)
"""Width and height of a picture, in pixels."""
MARGIN = (80, 30, 20, 46)
"""Room at the left, top, right and bottom of a picture."""
TICKS = 4
COLOURS = {"fixed": "#9ecae1", "temporary": "#3182bd", "budget": "#d62728", "text": "#333333"}


def characters(found: MemoryReport, width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """The plot as lines: from left to right the run, each column the most bytes of its part of it."""
    bars = _columns(found, width)
    top = max([*bars, 1])
    lines = []
    for line in range(height, 0, -1):
        cells = "".join(_cell(bar / top * height - (line - 1)) for bar in bars)
        label = byte_text(round(top * line / height)) if line in (height, height // 2) else ""
        lines.append(f"{label:>10} │{cells}")
    marked = _place(found, len(bars))
    lines.append(f"{'0 B':>10} └{'─' * len(bars)}")
    lines.append(f"{'':>11} {' ' * marked}▲ {found.peak_instruction}" if len(bars) else "")
    return [line.rstrip() for line in lines]


def _columns(found: MemoryReport, width: int) -> list[int]:
    points = [bytes for _, bytes in found.timeline]
    if len(points) <= width:
        return points
    bounds = [place * len(points) // width for place in range(width + 1)]
    return [max(points[start:end]) for start, end in pairwise(bounds)]


def _place(found: MemoryReport, width: int) -> int:
    return min(found.peak_time * width // max(found.length, 1), max(width - 1, 0))


def _cell(filled: float) -> str:
    return BLOCKS[min(max(round(filled * 8), 0), 8)]


def svg(found: MemoryReport, budget: int | None = None) -> str:
    """The plot as a picture: arguments and outputs below, temporaries above them, the budget as a line."""
    width, height = PICTURE
    left, upper, right, lower = MARGIN
    fixed = found.arguments + found.outputs - found.aliases
    top = max(found.peak, budget or 0, 1) * 1.05
    last = max(found.length - 1, 1)

    def across(time: float) -> float:
        return left + (width - left - right) * time / last

    def down(bytes: float) -> float:
        return upper + (height - upper - lower) * (1 - bytes / top)

    base = down(0)
    steps = [f"{across(time):.1f},{down(bytes):.1f}" for time, bytes in found.timeline] or [f"{left},{down(fixed):.1f}"]
    ends = across(found.timeline[-1][0] if found.timeline else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(left, 18, f"{found.module}: {byte_text(found.peak)} at the peak, schedule: {found.schedule}"),
        f'<polygon fill="{COLOURS["temporary"]}" points="{left},{base:.1f} {" ".join(steps)} {ends:.1f},{base:.1f}"/>',
        f'<rect fill="{COLOURS["fixed"]}" x="{left}" y="{down(fixed):.1f}" width="{ends - left:.1f}" '
        f'height="{base - down(fixed):.1f}"><title>arguments and outputs</title></rect>',
        *_axis(top, base, down),
        f'<line x1="{across(found.peak_time):.1f}" x2="{across(found.peak_time):.1f}" y1="{upper}" y2="{base:.1f}" '
        f'stroke="{COLOURS["text"]}" stroke-dasharray="2 3"/>',
        _text(left, height - 10, f"instructions run: {found.length:,}; the peak is at {found.peak_instruction}"),
    ]
    if budget is not None:
        place = f"{down(budget):.1f}"
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{place}" y2="{place}" stroke="{COLOURS["budget"]}"/>')
        parts.append(_text(left + 4, down(budget) - 4, f"budget {byte_text(budget)}", COLOURS["budget"]))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axis(top: float, base: float, down: Any) -> list[str]:
    left, _, right, _ = MARGIN
    lines = [
        f'<line x1="{left}" x2="{PICTURE[0] - right}" y1="{base:.1f}" y2="{base:.1f}" stroke="{COLOURS["text"]}"/>'
    ]
    for tick in range(TICKS + 1):
        bytes = top * tick / TICKS
        lines.append(_text(left - 6, down(bytes) + 4, byte_text(round(bytes)), anchor="end"))
    return lines


def _text(x: float, y: float, text: str, colour: str = COLOURS["text"], anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'


def png(found: MemoryReport, budget: int | None = None) -> bytes:
    """The same picture as PNG; raises HloomError where matplotlib is not installed."""
    try:
        figure_type: Any = import_module("matplotlib.figure").Figure
    except ImportError:
        raise HloomError("a PNG needs matplotlib", hint="pip install matplotlib, or write an .svg") from None
    figure = figure_type(figsize=(PICTURE[0] / 100, PICTURE[1] / 100), dpi=100)
    axes = figure.subplots()
    times, sizes = zip(*found.timeline, strict=True) if found.timeline else ((0,), (0,))
    fixed = found.arguments + found.outputs - found.aliases
    axes.fill_between(times, [size / 2**20 for size in sizes], color=COLOURS["temporary"], label="temporaries")
    axes.fill_between(times, [fixed / 2**20] * len(times), color=COLOURS["fixed"], label="arguments and outputs")
    if budget is not None:
        axes.axhline(budget / 2**20, color=COLOURS["budget"], label="budget")
    axes.set(xlabel="instructions run", ylabel="MiB", title=found.module)
    axes.legend(loc="lower right")
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()
