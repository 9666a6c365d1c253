"""Each source file with logic finds its test by name: a search for the file's name leads to the test.

`src/hloom/PACKAGE/FILE.py` is tested by `tests/PACKAGE/test_FILE.py`, or by a test of that package that imports from it,
or by one whose docstring names `FILE.py`, where one test covers several files.

    python -m tests.test_layout [PACKAGE]     lists the files that have none
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hloom"

UNTESTED = {
    "analysis": 4,
    "api": 3,
    "autodiff": 27,
    "cli": 5,
    "passes": 8,
    "planner": 13,
    "propagation": 1,
    "protobuf": 1,
    "rewrite": 4,
    "runtime": 4,
    "testing": 1,
    "text": 2,
    "viz": 1,
}
"""How many files of each package find no test by their name: these numbers only fall."""


def has_logic(path: Path) -> bool:
    """Whether a file defines a function that does more than return one expression, or has several of them."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return len(functions) > 3 or any(len(function.body) > 2 for function in functions)


@cache
def names_in_tests(package: str) -> set[str]:
    """The modules that tests of a package are named after or import from, and the files that their docstrings name."""
    names: set[str] = set()
    for path in (ROOT / "tests" / package).rglob("*.py"):
        tree = ast.parse(path.read_text())
        names.add(path.stem.removeprefix("test_"))
        names |= set(re.findall(r"`(?:\w+/)*(\w+)\.py`", ast.get_docstring(tree) or ""))
        imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        names |= {module.rpartition(".")[2] for module in imported if module.startswith(f"hloom.{package}.")}
    return names


@cache
def untested() -> list[str]:
    """Source files with logic to which no test leads."""
    files = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")) if path.stem != "__init__"]
    return [
        file.as_posix()
        for file in files
        if len(file.parts) > 1 and file.stem not in names_in_tests(file.parts[0]) and has_logic(SOURCE / file)
    ]


def test_no_further_file_is_without_a_test_of_its_name():
    counts = Counter(file.partition("/")[0] for file in untested())
    for package, count in counts.items():
        files = [file for file in untested() if file.startswith(f"{package}/")]
        assert count <= UNTESTED.get(package, 0), "\n".join(files)


def main(packages: list[str]) -> None:
    for file in untested():
        if not packages or file.partition("/")[0] in packages:
            sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
