"""The roofline plot: operations per second over operations per byte, both logarithmic, as characters and as SVG.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore architectures",
Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from hloom.analysis import Roofline, Timing
from hloom.cli.plots.svg import line, picture, text
from hloom.ir import dtype
from hloom.text import time_text

COLUMNS, LINES = 90, 18
"""The plot's greatest size on a terminal, in characters, beside its labels."""
MARGIN_LEFT = 9
"""How many characters the labels at the left take."""
PICTURE = (900, 520)
"""Width and height of a picture, in pixels."""
MARGIN = (80, 170, 40, 50)
"""Pixels left free at the left, right, top and bottom of a picture."""
COLOURS = {"compute": "#d62728", "memory": "#1f77b4", "link": "#2ca02c", "launch": "#9467bd"}
MARKS = {"compute": "C", "memory": "M", "link": "L", "launch": "."}
GRID = "#dddddd"
MOST_POINTS = 300
"""How many instructions a picture shows: those that take most time."""
SLOPE = "\N{BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT TO LOWER LEFT}"
UNITS = ("", "k", "M", "G", "T", "P")


def roofs(report: Roofline) -> list[tuple[str, float]]:
    """The rates that bound computing: of vectors of f32, and of matrices of f32 by default and of bf16."""
    device = report.device
    f32, bf16 = (device.matrix_rate(dtype(name)) for name in ("f32", "bf16"))
    matrices = [("matrix f32", f32), ("matrix bf16", bf16)] if f32 != bf16 else [("matrix", bf16)]
    return [("vector f32", device.vector["f32"]), *matrices]


class Scale:
    """The positions of intensities and rates, each between 0 and 1: decades of equal width."""

    def __init__(self, report: Roofline, points: Sequence[Timing]) -> None:
        limits = [rate for _, rate in roofs(report)]
        ridges = [rate / report.device.memory_bandwidth for rate in limits]
        self.across = _decades([*(point.intensity for point in points), *ridges])
        self.up = _decades([*(point.achieved for point in points), *limits])

    def x(self, intensity: float) -> float:
        """From the left."""
        return _position(intensity, self.across)

    def y(self, rate: float) -> float:
        """From below."""
        return _position(rate, self.up)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    exponents = [math.log10(value) for value in values if value > 0]
    return math.floor(min(exponents)), max(math.floor(min(exponents)) + 1, math.ceil(max(exponents)))


def _position(value: float, decades: tuple[int, int]) -> float:
    return (math.log10(value) - decades[0]) / (decades[1] - decades[0])


def plotted(report: Roofline) -> list[Timing]:
    """The instructions that a logarithmic plot can show: those that compute and move something."""
    return [timing for timing in report.timings if timing.intensity > 0 and timing.achieved > 0][:MOST_POINTS]


def characters(report: Roofline, columns: int = COLUMNS, lines: int = LINES) -> list[str]:
    """The plot as lines: roofs as strokes, instructions as the letter of what bounds them."""
    points = plotted(report)
    scale = Scale(report, points)
    cells = [[" "] * columns for _ in range(lines)]
    top = max(rate for _, rate in roofs(report))
    for column in range(columns):
        intensity = 10 ** (scale.across[0] + column / (columns - 1) * (scale.across[1] - scale.across[0]))
        slope = intensity * report.device.memory_bandwidth
        for _, rate in roofs(report):
            if slope >= rate:
                _put(cells, column, scale.y(rate), "─")
        if slope < top:
            _put(cells, column, scale.y(slope), SLOPE)
    for point in reversed(points):
        _put(cells, round(scale.x(point.intensity) * (columns - 1)), scale.y(point.achieved), MARKS[point.bound])
    labels = {lines - 1 - round(_position(10.0**power, scale.up) * (lines - 1)): power for power in range(*scale.up)}
    labels[0] = scale.up[1]
    drawn = [f"{_short(10.0 ** labels[n]) if n in labels else '':>7} │{''.join(row)}" for n, row in enumerate(cells)]
    low, high = (_short(10.0**power) for power in scale.across)
    legend = "operations per second over operations per byte"
    marks = "bound by: C compute, M memory, L link, . launch"
    axis = [f"{'':>7} └{'─' * columns}", f"{'':>9}{low:<{columns - 8}}{high:>8}"]
    return [*(row.rstrip() for row in drawn), *axis, legend, marks]


def _put(cells: list[list[str]], column: int, height: float, mark: str) -> None:
    row = len(cells) - 1 - round(height * (len(cells) - 1))
    if 0 <= row < len(cells) and 0 <= column < len(cells[0]):
        cells[row][column] = mark


def _short(value: float) -> str:
    """A number with a unit: 10^12 as 1T.

    >>> _short(1e12), _short(0.01), _short(2.5e4)
    ('1T', '0.01', '25k')
    """
    if value < 1:
        return f"{value:.4g}"
    power = min(int(math.log10(value) + 1e-9) // 3, len(UNITS) - 1)
    return f"{value / 1000**power:.4g}{UNITS[power]}"


def svg(report: Roofline) -> str:
    """The plot as a picture; a point's area is its share of the time, and pointing at it names it."""
    width, height = PICTURE
    left, right, upper, lower = MARGIN
    points = plotted(report)
    scale = Scale(report, points)

    def across(intensity: float) -> float:
        return left + scale.x(intensity) * (width - left - right)

    def down(rate: float) -> float:
        return height - lower - scale.y(rate) * (height - upper - lower)

    title = f"{report.report.module.name} on {report.device.title}: {time_text(report.seconds)}, estimated"
    parts = [
        text(left, 20, title),
        *(_vertical(across(power), _short(power)) for power in _powers(scale.across)),
        *(_horizontal(down(power), _short(power)) for power in _powers(scale.up)),
        text(left, height - 10, "operations for each byte; operations per second upwards"),
    ]
    end = 10.0 ** scale.across[1]
    bandwidth = report.device.memory_bandwidth
    for name, rate in roofs(report):
        parts.append(line(across(rate / bandwidth), down(rate), across(end), down(rate)))
        parts.append(text(across(end) + 6, down(rate) + 4, f"{name}: {_short(rate)}FLOP/s"))
    start = max(10.0 ** scale.across[0], 10.0 ** scale.up[0] / bandwidth)
    ridge = max(rate for _, rate in roofs(report)) / bandwidth
    parts.append(line(across(start), down(start * bandwidth), across(ridge), down(ridge * bandwidth)))
    parts.append(text(across(start) + 4, down(start * bandwidth) - 14, f"memory: {_short(bandwidth)}B/s"))
    parts += [_point(point, across(point.intensity), down(point.achieved), report.seconds) for point in points]
    for number, (bound, colour) in enumerate(COLOURS.items()):
        parts.append(text(width - right + 6, height - lower - 16 * number, f"bound by {bound}", colour))
    return picture(width, height, parts)


def _point(timing: Timing, x: float, y: float, seconds: float) -> str:
    radius = 3 + 22 * math.sqrt(timing.total / seconds)
    node = timing.node
    name = escape(f"{node.graph.name}/{node.name} {node.opcode}: {time_text(timing.total)}, {timing.bound}")
    circle = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{COLOURS[timing.bound]}" fill-opacity="0.5"'
    return f"<circle {circle}><title>{name}</title></circle>"


def _powers(decades: tuple[int, int]) -> list[float]:
    return [10.0**power for power in range(decades[0], decades[1] + 1)]


def _vertical(x: float, label: str) -> str:
    _, _, upper, lower = MARGIN
    bottom = PICTURE[1] - lower
    return line(x, upper, x, bottom, GRID) + text(x, bottom + 16, label, anchor="middle")


def _horizontal(y: float, label: str) -> str:
    left, right, _, _ = MARGIN
    return line(left, y, PICTURE[0] - right, y, GRID) + text(left - 6, y + 4, label, anchor="end")
