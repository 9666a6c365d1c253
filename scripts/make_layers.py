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
WAYPOINT = 14
"""The width that an arrow takes in a layer that it passes, in pixels."""
SWEEPS = 12
"""How often the order of each layer is improved; few crossings go away after the fourth."""
Slot = str | tuple[str, str, int]
"""What stands in a layer: a package, or where an arrow between two others passes through it."""
HEADS = "<defs><marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='6' markerHeight='6' orient='auto'>"
HEADS += "<path d='M0,0 L8,4 L0,8 z' fill='#8899aa'/></marker></defs>"


def main() -> None:
    PICTURE.write_text(picture(layers(), reduced(imports())))


def layers() -> list[list[str]]:
    """The packages of each layer, the topmost first, as the import contract lists them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (entry for entry in contracts if entry.get("containers") == ["hloom"])
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


def chains(rows: list[list[str]], edges: Mapping[str, set[str]]) -> list[list[Slot]]:
    """Each arrow as a package, a waypoint in every layer between, and the package that it leads to."""
    level = {package: number for number, row in enumerate(rows) for package in row}
    return [
        [package, *((package, other, number) for number in range(level[package] + 1, level[other])), other]
        for package in sorted(edges)
        for other in sorted(edges[package])
    ]


def ordered(rows: list[list[str]], arrows: list[list[Slot]]) -> list[list[Slot]]:
    """The layers with their packages and waypoints, so that few arrows cross: sweeps of the barycentre heuristic.

    Source: Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures", 1981.
    """
    slots: list[list[Slot]] = [[*row] for row in rows]
    neighbours: dict[Slot, list[Slot]] = {}
    for arrow in arrows:
        for waypoint in arrow[1:-1]:
            assert isinstance(waypoint, tuple)
            slots[waypoint[2]].append(waypoint)
        for upper, lower in pairwise(arrow):
            neighbours.setdefault(upper, []).append(lower)
            neighbours.setdefault(lower, []).append(upper)
    best, fewest = slots, crossings(slots, arrows)
    for _ in range(SWEEPS):
        for number in [*range(1, len(slots)), *range(len(slots) - 2, -1, -1)]:
            where = positions(slots)
            means = {
                slot: sum(where[other][0] for other in near) / len(near)
                for slot in slots[number]
                if (near := neighbours.get(slot, []))
            }
            slots[number] = sorted(slots[number], key=lambda slot: (means.get(slot, WIDTH / 2), str(slot)))
            count = crossings(slots, arrows)
            if count < fewest:
                best, fewest = [[*row] for row in slots], count
    return best


def crossings(slots: list[list[Slot]], arrows: list[list[Slot]]) -> int:
    """How many pairs of arrows cross between two layers."""
    where = positions(slots)
    steps = [(where[upper], where[lower]) for arrow in arrows for upper, lower in pairwise(arrow)]
    return sum(
        start[1] == other_start[1] and (start[0] - other_start[0]) * (end[0] - other_end[0]) < 0
        for number, (start, end) in enumerate(steps)
        for other_start, other_end in steps[:number]
    )


def positions(slots: list[list[Slot]]) -> dict[Slot, tuple[float, float]]:
    """The middle of each box's or waypoint's upper side; what is left of a layer's width is shared out as gaps."""
    where: dict[Slot, tuple[float, float]] = {}
    for level, row in enumerate(slots):
        widths = [BOX[0] if isinstance(slot, str) else WAYPOINT for slot in row]
        gap = (WIDTH - 2 * MARGIN - sum(widths)) / (len(row) + 1)
        x: float = MARGIN
        for slot, width in zip(row, widths, strict=True):
            where[slot] = (x + gap + width / 2, MARGIN + LAYER * level)
            x += gap + width
    return where


def picture(rows: list[list[str]], edges: Mapping[str, set[str]]) -> str:
    """The layers from top to bottom, arrows from a package to those that it imports."""
    width, height = BOX
    arrows = chains(rows, edges)
    where = positions(ordered(rows, arrows))
    total = MARGIN * 2 + LAYER * (len(rows) - 1) + height
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{total}' viewBox='0 0 {WIDTH} {total}' "
        "font-family='sans-serif' font-size='14'>",
        f"<rect width='{WIDTH}' height='{total}' fill='white'/>",
        HEADS,
    ]
    parts += [_arrow([where[slot] for slot in arrow]) for arrow in arrows]
    for package in (package for row in rows for package in row):
        x, y = where[package]
        parts.append(
            f"<rect x='{x - width / 2:.0f}' y='{y}' width='{width}' height='{height}' rx='6' fill='#eef3f8' "
            f"stroke='#557799'/><text x='{x:.0f}' y='{y + 22}' text-anchor='middle' fill='#223344'>"
            f"{escape(package)}</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _arrow(points: list[tuple[float, float]]) -> str:
    """A curve from the bottom of a box, past those of the layers between, to the top of another."""
    way = f"M{points[0][0]:.0f},{points[0][1] + BOX[1]:.0f}"
    for (x, y), (end, below) in pairwise(points):
        y += BOX[1]
        bend = (below - y) / 2
        way += f" C{x:.0f},{y + bend:.0f} {end:.0f},{below - bend:.0f} {end:.0f},{below:.0f}"
        if (end, below) != points[-1]:
            way += f" V{below + BOX[1]:.0f}"
    return f"<path d='{way}' fill='none' stroke='#8899aa' marker-end='url(#head)'/>"


if __name__ == "__main__":
    main()
