"""Imports point down: which room may import which, and where in a file an import may stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "hloom"

ROOMS = {
    "text": (),
    "ir": ("text",),
    "ops": ("ir",),
    "protobuf": (),
    "hlo": ("ops", "protobuf"),
    "mlir": ("ops",),
    "evaluate": ("ops",),
    "analysis": ("ops",),
    "rewrite": ("ops",),
    "passes": ("rewrite", "evaluate", "analysis", "hlo"),
    "autodiff": ("passes",),
    "xla_cpu": ("passes",),
    "sharding": ("analysis", "hlo"),
    "propagation": ("sharding",),
    "partitioner": ("propagation",),
    "planner": ("partitioner", "xla_cpu"),
    "pipeline": ("planner",),
    "dialects": ("passes", "hlo", "mlir"),
    "frontend": ("ops",),
    "viz": ("ops",),
    "runtime": ("hlo",),
    "testing": ("runtime", "passes", "analysis"),
    "api": ("runtime", "planner"),
    "cli": ("api", "hlo", "analysis", "viz", "runtime", "dialects", "pipeline", "autodiff", "frontend", "testing"),
}
"""What each room may import, beside what those import. A room stands after all that it imports."""

ONLY_IN = {"jax": "runtime", "jaxlib": "runtime", "click": "cli", "rich": "cli", "zstandard": "hlo"}
"""Packages that one room alone may import."""
OPTIONAL = {"jax", "jaxlib", "zstandard"}
"""Packages that may be missing: their room imports them inside functions."""

FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else ""


def allowed(room: str) -> set[str]:
    """A room, those beside it, and what those may import."""
    reached, pending = set(), [room]
    while pending:
        each = pending.pop()
        reached.add(each)
        pending += ROOMS[each]
    return reached


def imports(path: Path) -> Iterator[tuple[ast.Import | ast.ImportFrom, str, bool]]:
    """Every import of a file: the statement, the module it names, and whether it stands at the top of the file."""
    tree = ast.parse((SOURCE / path).read_text())
    inner = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))
        for each in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, id(node) not in inner) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            name = node.module or ""
            names = [f"hloom.{alias.name}" for alias in node.names] if name == "hloom" else [name]
            yield from ((node, each, id(node) not in inner) for each in names)


def test_the_list_is_in_order():
    seen: set[str] = set()
    for room, below in ROOMS.items():
        assert seen.issuperset(below), f"{room} stands before a room that it imports"
        seen.add(room)


def test_every_room_is_in_the_list():
    assert {room_of(path) for path in FILES} - {""} <= set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports(path: Path):
    room = room_of(path)
    for node, name, is_top in imports(path):
        where = f"{path}:{node.lineno}: {name}"
        package, _, rest = name.partition(".")
        if package in ONLY_IN:
            assert room == ONLY_IN[package], f"{where}: only {ONLY_IN[package]} may import {package}"
        if room in ("", "cli"):
            continue
        assert is_top or package in OPTIONAL, f"{where}: not at the top of the file"
        if package == "hloom":
            other = rest.partition(".")[0]
            assert other in allowed(room), f"{where}: {room} may import {', '.join(sorted(allowed(room)))}"


def test_doors_say_what_the_room_is_for():
    for room in {room_of(path) for path in FILES} - {""}:
        docstring = ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text()))
        assert docstring, f"{room} does not say what it is for"
        assert re.search(r"\bto (add|change|teach)\b", docstring, re.IGNORECASE), f"{room}: to add X, edit what?"
