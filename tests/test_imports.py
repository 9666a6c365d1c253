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
GROUPS = ("formats", "distribute", "compress", "inspection", "targets")
"""Packages that only hold packages."""
NESTED = {"passes/saturation", "passes/fusion", "api/model_explorer"}
"""Packages in a package that has an API of its own, with another."""

OPTIONAL = {"jax", "jaxlib", "scipy", "zstandard"}
"""Packages that may be missing: they are imported inside functions."""
PUBLIC_MODULES = {
    *(
        "analysis.rules",
        "distribute.planner.solvers",
        "distribute.planner.experts",
        "formats.hlo.proto",
        "passes.rules",
    ),
    *(
        "api.auto_shard",
        "api.compile",
        "api.differentiable",
        "api.function",
        "api.jax_specs",
        "api.jit",
        "api.load",
        "api.opt",
        "api.plan",
    ),
}
"""Packages inside packages that others may import, beside the packages themselves; and the files of `api`, which
`hloom/__init__.py` offers one by one, so that planning does not load differentiation."""


def package_of(path: Path) -> str:
    """The package that a file belongs to, with dots between a group and its packages."""
    first, *rest = path.parts
    if len(rest) > 1 and (first in GROUPS or f"{first}/{rest[0]}" in NESTED):
        return f"{first}.{rest[0]}"
    return first if rest else ""


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def layers(container: str) -> list[set[str]]:
    """The packages of each layer within a package, the topmost first, as its contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (entry for entry in contracts if entry.get("containers") == [container])
    return [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]


def is_below(lower: str, upper: str) -> bool:
    """Whether a package may be imported by another: it stands in a lower layer, or it is the same one."""
    if lower == upper:
        return True
    (low, *inner_low), (high, *inner_high) = lower.split("."), upper.split(".")
    if low == high and low in GROUPS:
        low, high, order = inner_low[0], inner_high[0], layers(f"hloom.{low}")
    else:
        order = layers("hloom")
    level = next(number for number, packages in enumerate(order) if high in packages)
    return low == high or any(low in packages for packages in order[level + 1 :])


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
            inner = ".".join(rest)
            allowed = inner == package_of(Path(*rest, "__init__.py")) or inner in PUBLIC_MODULES
            if top == "hloom" and len(rest) > 1 and not allowed and not is_within(inner, package_of(path)):
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
        if isinstance(node, ast.ImportFrom) and not is_within(name.removeprefix("hloom."), package_of(path))
        for alias in node.names
        if name.startswith("hloom.") and alias.name.startswith("_") and path.name != "__init__.py"
    ]
    assert taken == []


PRIVATE = re.compile(r"(\w+|[])])\.(_[a-z]\w*)")
"""A private attribute, and what stands before the dot: a name, or the end of an expression."""
OF_PYTHON = {"_exit", "_replace"}
"""Names with an underscore that are public in Python's own modules: `os._exit`, a named tuple's `_replace`."""


def test_private_attributes_stay_in_their_package():
    read: dict[str, list[tuple[str, str]]] = {}
    own: dict[str, set[str]] = {}
    for path in FILES:
        package, text = package_of(path), (SOURCE / path).read_text()
        uses = [(match[1], match[2], match.start()) for match in PRIVATE.finditer(text)]
        own.setdefault(package, set()).update(name for holder, name, _ in uses if holder == "self")
        own[package].update(re.findall(r"^    (?:def )?(_[a-z]\w*)\b[(:]", text, re.MULTILINE))
        read.setdefault(package, []).extend(
            (f"{path}:{text.count(chr(10), 0, start) + 1}: {holder}.{name}", name)
            for holder, name, start in uses
            if holder not in ("self", "cls") and name not in OF_PYTHON
        )
    private = set().union(*own.values())
    taken = [line for package, lines in read.items() for line, name in lines if name in private - own[package]]
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
            named = re.match(r"hloom\.(\w+)\.?(\w*)", node.value)
            if named and (SOURCE / named[1]).is_dir():
                yield node.lineno, package_of(Path(named[1], named[2], "__init__.py"))


def test_modules_named_by_strings_are_below():
    above = [
        f"{path}:{line}: {named}"
        for path in FILES
        if (package := package_of(path))
        for line, named in modules_named_by_strings(path)
        if not is_below(named, package)
    ]
    assert above == []


def test_docstrings_of_packages_say_how_to_extend_them():
    for package in {package_of(path) for path in FILES} - {""}:
        docstring = ast.get_docstring(tree_of(Path(package.replace(".", "/"), "__init__.py")))
        assert docstring, f"{package} does not say what it is for"
        assert re.search(r"\bto (add|change|teach)\b", docstring, re.IGNORECASE), f"{package}: to add X, edit what?"
