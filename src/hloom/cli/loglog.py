"""The roofline plot: operations per second over operations per byte, both logarithmic, as characters and as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from hloom.analysis import Roofline, Timing
from hloom.ir import dtype

COLUMNS, LINES = 90, 18
"""The plot on a terminal."""
PICTURE = (900, 520)
"""Width and height of a picture, in pixels."""
MARGIN = (80, 170, 40, 50)
"""Room at the left, right, top and bottom of a picture."""
COLOURS = {"compute": "#d62728", "memory": "#1f77b4", "link": "#2ca02c", "launch": "#9467bd"}
MARKS = {"compute": "C", "memory": "M", "link": "L", "launch": "."}
MOST_POINTS = 300
"""How many instructions a picture shows: those that take most time."""
SLOPE = "\N{BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT TO LOWER LEFT}"
UNITS = ("", "k", "M", "G", "T", "P")


def roofs(found: Roofline) -> list[tuple[str, float]]:
    """The rates that bound computing: of vectors of f32, and of matrices of f32 by default and of bf16."""
    device = found.device
    f32, bf16 = (device.matrix_rate(dtype(name)) for name in ("f32", "bf16"))
    matrices = [("matrix f32", f32), ("matrix bf16", bf16)] if f32 != bf16 else [("matrix", bf16)]
    return [("vector f32", device.vector["f32"]), *matrices]


class Scale:
    """Where intensities and rates stand, each between nought and one: decades of equal width."""

    def __init__(self, found: Roofline, points: Sequence[Timing]) -> None:
        limits = [rate for _, rate in roofs(found)]
        ridges = [rate / found.device.memory_bandwidth for rate in limits]
        self.across = _decades([*(each.intensity for each in points), *ridges])
        self.up = _decades([*(each.achieved for each in points), *limits])

    def x(self, intensity: float) -> float:
        """From the left."""
        return _part(intensity, self.across)

    def y(self, rate: float) -> float:
        """From below."""
        return _part(rate, self.up)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    exponents = [math.log10(value) for value in values if value > 0]
    return math.floor(min(exponents)), max(math.floor(min(exponents)) + 1, math.ceil(max(exponents)))


def _part(value: float, decades: tuple[int, int]) -> float:
    return (math.log10(value) - decades[0]) / (decades[1] - decades[0])


def shown(found: Roofline) -> list[Timing]:
    """The instructions that a plot has a place for: those that compute and move something."""
    return [each for each in found.timings if each.intensity and each.achieved][:MOST_POINTS]


def characters(found: Roofline, columns: int = COLUMNS, lines: int = LINES) -> list[str]:
    """The plot as lines: roofs as strokes, instructions as the letter of what bounds them."""
    points = shown(found)
    scale = Scale(found, points)
    cells = [[" "] * columns for _ in range(lines)]
    top = max(rate for _, rate in roofs(found))
    for column in range(columns):
        intensity = 10 ** (scale.across[0] + column / (columns - 1) * (scale.across[1] - scale.across[0]))
        slope = intensity * found.device.memory_bandwidth
        for _, rate in roofs(found):
            if slope >= rate:
                _put(cells, column, scale.y(rate), "─")
        if slope < top:
            _put(cells, column, scale.y(slope), SLOPE)
    for each in reversed(points):
        _put(cells, round(scale.x(each.intensity) * (columns - 1)), scale.y(each.achieved), MARKS[each.bound])
    labels = {lines - 1 - round(_part(10.0**power, scale.up) * (lines - 1)): power for power in range(*scale.up)}
    labels[0] = scale.up[1]
    drawn = [f"{_short(10.0 ** labels[n]) if n in labels else '':>7} │{''.join(row)}" for n, row in enumerate(cells)]
    low, high = (_short(10.0**power) for power in scale.across)
    legend = "operations per second over operations per byte; bound by C compute, M memory, L link, . launch"
    axis = [f"{'':>7} └{'─' * columns}", f"{'':>9}{low:<{columns - 8}}{high:>8}"]
    return [*(line.rstrip() for line in drawn), *axis, legend]


def _put(cells: list[list[str]], column: int, height: float, mark: str) -> None:
    line = len(cells) - 1 - round(height * (len(cells) - 1))
    if 0 <= line < len(cells) and 0 <= column < len(cells[0]):
        cells[line][column] = mark


def _short(value: float) -> str:
    """A number with a unit: 10^12 as 1T.

    >>> _short(1e12), _short(0.01), _short(2.5e4)
    ('1T', '0.01', '25k')
    """
    if value < 1:
        return f"{value:.4g}"
    power = min(int(math.log10(value) + 1e-9) // 3, len(UNITS) - 1)
    return f"{value / 1000**power:.4g}{UNITS[power]}"


def svg(found: Roofline) -> str:
    """The plot as a picture; a point's area is its share of the time, and pointing at it names it."""
    width, height = PICTURE
    left, right, upper, lower = MARGIN
    points = shown(found)
    scale = Scale(found, points)

    def across(intensity: float) -> float:
        return left + scale.x(intensity) * (width - left - right)

    def down(rate: float) -> float:
        return height - lower - scale.y(rate) * (height - upper - lower)

    title = f"{found.report.module.name} on {found.device.title}: {found.seconds * 1e3:.4g} ms, estimated"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(left, 20, title),
        *(_grid(across(each), None, _short(each)) for each in _powers(scale.across)),
        *(_grid(None, down(each), _short(each)) for each in _powers(scale.up)),
        _text(left, height - 10, "operations for each byte; operations per second upwards"),
    ]
    end = 10.0 ** scale.across[1]
    for name, rate in roofs(found):
        ridge = rate / found.device.memory_bandwidth
        parts.append(_line(across(ridge), down(rate), across(end), down(rate)))
        parts.append(_text(across(end) + 6, down(rate) + 4, f"{name}: {_short(rate)}FLOP/s"))
    start = max(10.0 ** scale.across[0], 10.0 ** scale.up[0] / found.device.memory_bandwidth)
    ridge = max(rate for _, rate in roofs(found)) / found.device.memory_bandwidth
    bandwidth = found.device.memory_bandwidth
    parts.append(_line(across(start), down(start * bandwidth), across(ridge), down(ridge * bandwidth)))
    parts.append(_text(across(start) + 4, down(start * bandwidth) - 14, f"memory: {_short(bandwidth)}B/s"))
    parts += [_point(each, across(each.intensity), down(each.achieved), found.seconds) for each in points]
    for place, (bound, colour) in enumerate(COLOURS.items()):
        parts.append(_text(width - right + 6, height - lower - 16 * place, f"bound by {bound}", colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _point(each: Timing, x: float, y: float, seconds: float) -> str:
    radius = 3 + 22 * math.sqrt(each.total / seconds)
    said = f"{each.node.graph.name}/{each.node.name} {each.node.opcode}: {each.total * 1e6:.4g} us, {each.bound}"
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"'
    return f'<circle {place} fill="{COLOURS[each.bound]}" fill-opacity="0.5"><title>{escape(said)}</title></circle>'


def _powers(decades: tuple[int, int]) -> list[float]:
    return [10.0**power for power in range(decades[0], decades[1] + 1)]


def _grid(x: float | None, y: float | None, label: str) -> str:
    left, right, upper, lower = MARGIN
    width, height = PICTURE
    if x is not None:
        ends = (x, upper, x, height - lower)
        text = _text(x, height - lower + 16, label, anchor="middle")
    else:
        assert y is not None
        ends = (left, y, width - right, y)
        text = _text(left - 6, y + 4, label, anchor="end")
    return _line(*ends, colour="#dddddd") + text


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = "#333333") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, colour: str = "#333333", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
