"""The parts of an SVG picture that the plots share."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from hloom.text import visible

INK = "#333333"
"""The colour of text and axes."""


def picture(width: int, height: int, parts: Iterable[str]) -> str:
    """A picture of this size in pixels, on white."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>"]) + "\n"


def text(x: float, y: float, content: str, colour: str = INK, anchor: str = "start") -> str:
    """Text whose baseline is at y; the anchor is start, middle or end."""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(visible(content))}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str = INK, dashes: str = "") -> str:
    """A straight line; `dashes` are the lengths of strokes and gaps."""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}/>'
