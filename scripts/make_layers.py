"""Draw docs/images/layers.svg: the packages in their layers, and which imports which, read from the source.

    python scripts/make_layers.py

Layers are those of the import contract in pyproject.toml. An arrow means that the upper package imports the lower one;
an import that follows from other arrows is left out (the transitive reduction), so that the picture can be read.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hloom"
PICTURE = ROOT / "docs" / "images" / "layers.svg"

WIDTH = 860
"""The picture's width, in pixels."""
BOX = (112, 34)
"""Width and height of a package's box, in pixels."""
LAYER = 76
"""Pixels between the tops of two layers."""
MARGIN = 20
HEADS = "<defs><marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='6' markerHeight='6' orient='auto'>"
HEADS += "<path d='M0,0 L8,4 L0,8 z' fill='#8899aa'/></marker></defs>"


def main() -> None:
    PICTURE.write_text(picture(layers(), reduced(imports())))


def layers() -> list[list[str]]:
    """The packages of each layer, the topmost first, as the import contract lists them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (entry for entry in contracts if entry["type"] == "layers")
    return [re.findall(r"\w+", layer) for layer in contract["layers"]]


def imports() -> dict[str, set[str]]:
    """The packages that each package imports."""
    imported: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        package, *rest = path.relative_to(SOURCE).parts
        if rest:
            imported.setdefault(package, set()).update(set(_imported(path)) - {package})
    return {package: others & imported.keys() for package, others in imported.items()}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            top, _, rest = node.module.partition(".")
            if top == "hloom":
                yield from [rest.partition(".")[0]] if rest else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("hloom."))


def reduced(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The transitive reduction of an acyclic graph."""
    reached = {package: _reached(graph, package) for package in graph}
    return {
        package: {other for other in others if not any(other in reached[third] for third in others)}
        for package, others in graph.items()
    }


def _reached(graph: Mapping[str, set[str]], package: str) -> set[str]:
    """The packages that one imports through others, itself left out."""
    seen: set[str] = set()
    pending = list(graph[package])
    while pending:
        other = pending.pop()
        if other not in seen:
            seen.add(other)
            pending += graph[other]
    return seen


def ordered(rows: list[list[str]], edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The layers with packages ordered by the mean position of their neighbours above (the barycentre heuristic)."""
    placed = [list(rows[0])]
    positions = {package: (number + 0.5) / len(rows[0]) for number, package in enumerate(rows[0])}
    for row in rows[1:]:
        above = {package: [positions[other] for other in positions if package in edges[other]] for package in row}
        means = {package: sum(values) / len(values) if values else 0.5 for package, values in above.items()}
        order = sorted(row, key=lambda package: (means[package], package))
        positions |= {package: (number + 0.5) / len(order) for number, package in enumerate(order)}
        placed.append(order)
    return placed


def picture(rows: list[list[str]], edges: Mapping[str, set[str]]) -> str:
    """The layers from top to bottom, arrows from a package to those that it imports."""
    width, height = BOX
    centres = {
        package: (MARGIN + (WIDTH - 2 * MARGIN) * (number + 0.5) / len(row), MARGIN + LAYER * level)
        for level, row in enumerate(ordered(rows, edges))
        for number, package in enumerate(row)
    }
    total = MARGIN * 2 + LAYER * (len(rows) - 1) + height
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{total}' viewBox='0 0 {WIDTH} {total}' "
        "font-family='sans-serif' font-size='14'>",
        f"<rect width='{WIDTH}' height='{total}' fill='white'/>",
        HEADS,
    ]
    for package in sorted(edges):
        parts += [_arrow(centres[package], centres[other]) for other in sorted(edges[package])]
    for package, (x, y) in centres.items():
        parts.append(
            f"<rect x='{x - width / 2:.0f}' y='{y}' width='{width}' height='{height}' rx='6' fill='#eef3f8' "
            f"stroke='#557799'/><text x='{x:.0f}' y='{y + 22}' text-anchor='middle' fill='#223344'>"
            f"{escape(package)}</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A curve from the bottom of one box to the top of another."""
    points = ((start[0], start[1] + BOX[1]), (start[0], start[1] + BOX[1] + 24), (end[0], end[1] - 24), end)
    first, *others = (f"{x:.0f},{y:.0f}" for x, y in points)
    assert all(upper[1] <= lower[1] for upper, lower in pairwise((start, end))), "an arrow leads down"
    return f"<path d='M{first} C{' '.join(others)}' fill='none' stroke='#8899aa' marker-end='url(#head)'/>"


if __name__ == "__main__":
    main()
