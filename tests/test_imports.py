"""What the import contracts in pyproject.toml cannot say: where imports stand, and what they take of other packages.

The layers, the packages of others that one package alone may import, and the absence of cycles are contracts of
import-linter: `make lint` checks them.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hloom"
FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))

OPTIONAL = {"jax", "jaxlib", "scipy", "zstandard"}
"""Packages that may be missing: they are imported inside functions."""
PUBLIC_MODULES = {
    *("analysis.rules", "planner.solvers", "planner.experts", "hlo.proto", "passes.rules"),
    *("api.apply", "api.auto_shard", "api.differentiable", "api.function", "api.jax_specs", "api.jit", "api.load", "api.plan"),
}
"""Packages inside packages that others may import, beside the packages themselves; and the files of `api`, which
`hloom/__init__.py` offers one by one, so that planning does not load differentiation."""


def package_of(path: Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else ""


def layers() -> list[set[str]]:
    """The packages of each layer, the topmost first, as the contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (entry for entry in contracts if entry["type"] == "layers")
    return [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]


def packages_below(package: str) -> set[str]:
    """The packages that one may import."""
    order = layers()
    level = next(level for level, packages in enumerate(order) if package in packages)
    return set().union(*order[level + 1 :])


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse((SOURCE / path).read_text())


def statements(tree: ast.Module) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement, and whether it stands outside of functions and classes."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, is_top = pending.pop()
        if isinstance(node, ast.stmt):
            yield node, is_top
        is_top = is_top and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending += [(part, is_top) for part in getattr(node, field, ()) or ()]


@cache
def imports(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, str, bool]]:
    """Every import of a file: the statement, the module it names, and whether it stands at the top of the file."""
    entries: list[tuple[ast.Import | ast.ImportFrom, str, bool]] = []
    for node, is_top in statements(tree_of(path)):
        if isinstance(node, ast.Import):
            entries += [(node, alias.name, is_top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"hloom.{alias.name}" for alias in node.names] if node.module == "hloom" else [node.module or ""]
            entries += [(node, name, is_top) for name in names]
    return entries


def imports_past_the_api() -> Iterator[str]:
    """Each statement that imports from a module of another package, where the package itself should offer the name."""
    for path in FILES:
        for node, name, _ in imports(path):
            top, *rest = name.split(".")
            if top == "hloom" and len(rest) > 1 and rest[0] != package_of(path) and ".".join(rest) not in PUBLIC_MODULES:
                yield f"{path}:{node.lineno}: {name}"


def test_imports_stand_at_the_top():
    late = [
        f"{path}:{node.lineno}: {name}"
        for path in FILES
        for node, name, is_top in imports(path)
        if not is_top and package_of(path) not in ("", "cli") and name.partition(".")[0] not in OPTIONAL
    ]
    assert late == []


def test_private_names_stay_in_their_package():
    taken = [
        f"{path}:{node.lineno}: {alias.name} of {name}"
        for path in FILES
        for node, name, _ in imports(path)
        if isinstance(node, ast.ImportFrom) and name.split(".")[:2] != ["hloom", package_of(path)]
        for alias in node.names
        if name.startswith("hloom.") and alias.name.startswith("_") and path.name != "__init__.py"
    ]
    assert taken == []


def test_packages_are_imported_through_their_public_api():
    assert list(imports_past_the_api()) == []


def modules_named_by_strings(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the package of every string that begins as the name of a module of ours does."""
    if not re.search(r"""["'}]hloom\.\w""", (SOURCE / path).read_text()):
        return
    nodes = list(ast.walk(tree_of(path)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            named = re.match(r"hloom\.(\w+)", node.value)
            if named and (SOURCE / named[1]).is_dir():
                yield node.lineno, named[1]


def test_modules_named_by_strings_are_below():
    above = [
        f"{path}:{line}: {named}"
        for path in FILES
        if (package := package_of(path))
        for line, named in modules_named_by_strings(path)
        if named not in packages_below(package) | {package}
    ]
    assert above == []


def test_docstrings_of_packages_say_how_to_extend_them():
    for package in {package_of(path) for path in FILES} - {""}:
        docstring = ast.get_docstring(tree_of(Path(package, "__init__.py")))
        assert docstring, f"{package} does not say what it is for"
        assert re.search(r"\bto (add|change|teach)\b", docstring, re.IGNORECASE), f"{package}: to add X, edit what?"
