"""Each source file with logic finds its test by name: a search for the file's name leads to the test.

`src/hloom/PACKAGE/FILE.py` is tested by `tests/PACKAGE/test_FILE.py`, or by a test of that package that imports from it,
or by one whose docstring names `FILE.py`, where one test covers several files; a test of another package names
`PACKAGE/FILE.py`.

    python -m tests.test_layout [PACKAGE]     lists the files that have none
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

from tests.test_imports import package_of

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hloom"


def has_logic(path: Path) -> bool:
    """Whether a file defines a function that does more than return one expression, or has several of them."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return len(functions) > 3 or any(len(function.body) > 2 for function in functions)


def docstring_of(text: str) -> str:
    """What a file begins with, as far as its closing quotes."""
    return text.split('"""', 2)[1] if text.startswith('"""') else ""


@cache
def names_in_tests() -> dict[str, set[str]]:
    """By package the modules that its tests are named after or import from, and the files that docstrings name."""
    names: dict[str, set[str]] = {package_of(path.relative_to(SOURCE)): set() for path in SOURCE.rglob("*.py")}
    for path in (ROOT / "tests").rglob("*.py"):
        package = package_of(path.relative_to(ROOT / "tests"))
        if package not in names:
            continue
        text = path.read_text()
        names[package].add(path.stem.removeprefix("test_"))
        for file in re.findall(r"`((?:\w+/)*\w+)\.py`", docstring_of(text)):
            owner = package_of(Path(file))
            names[owner if owner in names and owner else package].add(file.rpartition("/")[2])
        modules = re.findall(rf"^\s*from hloom\.{re.escape(package)}\.([\w.]+) import", text, re.MULTILINE)
        names[package] |= {module.rpartition(".")[2] for module in modules}
    return names


def missing_files() -> list[str]:
    """Files that a package's docstring names and that are not there: in the package, or from `hloom` on."""
    named = [
        (path, name)
        for path in sorted(SOURCE.rglob("__init__.py"))
        for name in re.findall(r"`([\w./-]+\.(?:py|js|css|html|toml|proto|md))`", docstring_of(path.read_text()))
    ]
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path, name in named
        if not any((folder / name).exists() for folder in (path.parent, SOURCE, SOURCE.parent, ROOT))
    ]


@cache
def untested() -> list[str]:
    """Source files with logic to which no test leads."""
    files = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")) if path.stem != "__init__"]
    return [
        file.as_posix()
        for file in files
        if len(file.parts) > 1 and file.stem not in names_in_tests()[package_of(file)] and has_logic(SOURCE / file)
    ]


def test_each_file_with_logic_has_a_test_that_names_it():
    assert untested() == []


def test_files_that_packages_say_to_edit_exist():
    assert missing_files() == []


def main(packages: list[str]) -> None:
    for file in untested():
        if not packages or package_of(Path(file)) in packages:
            sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
