"""Python syntax that has no meaning as a graph, rejected by name where it occurs."""

from __future__ import annotations

import ast
import linecache

from hloom.text import Location, Unsupported

REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Yield: ("generators (yield)", "build a list or an array, or write a function of the index"),
    ast.YieldFrom: ("generators (yield from)", "build a list or an array"),
    ast.Await: ("await", "call a plain function"),
    ast.AsyncFunctionDef: ("asynchronous functions", "write a plain function"),
    ast.AsyncFor: ("async for", "write a plain loop"),
    ast.AsyncWith: ("async with", "call functions one after the other"),
    ast.Try: ("try", "test the condition with if: an error that is raised ends the program"),
    ast.TryStar: ("try", "test the condition with if: an error that is raised ends the program"),
    ast.With: ("with", "call functions one after the other"),
    ast.Global: ("global assignment", "return the value"),
    ast.ClassDef: ("classes defined in a function", "define the class outside"),
}
"""The construct's name and what to write instead."""


def check_subset(node: ast.AST, filename: str) -> None:
    """Raise Unsupported at the first construct that cannot be compiled."""
    for part in ast.walk(node):
        refusal = REFUSED.get(type(part))
        if refusal is not None and not (isinstance(part, ast.Global) and _is_only_read(node, part)):
            name, hint = refusal
            line, column = getattr(part, "lineno", 1), getattr(part, "col_offset", 0)
            excerpt = linecache.getline(filename, line).rstrip("\n")
            location = Location(filename, line, column + 1, excerpt, column)
            raise Unsupported(f"{name} cannot be compiled", location, hint=hint)


def _is_only_read(node: ast.AST, statement: ast.Global) -> bool:
    """Whether no function in a tree binds a name that a `global` statement declares."""
    names = set(statement.names)
    return not any(
        (isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load) and part.id in names)
        or (isinstance(part, ast.arg) and part.arg in names)
        or (isinstance(part, ast.FunctionDef) and part.name in names)
        or (isinstance(part, ast.alias) and (part.asname or part.name) in names)
        for part in ast.walk(node)
    )
