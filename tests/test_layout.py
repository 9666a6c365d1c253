"""Names lead to files: from each source file with logic to its test, and from docstrings and documents to the source.

`src/hloom/PACKAGE/FILE.py` is tested by `tests/PACKAGE/test_FILE.py`, or by a test of that package that imports from it,
or by one whose docstring names `FILE.py`, where one test covers several files; a test of another package names
`PACKAGE/FILE.py`.

    python -m tests.test_layout [PACKAGE]     lists the files that have none

Files and folders that a package's docstring or a document names in backquotes exist.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.test_imports import package_of

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hloom"
DOCUMENTS = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
FOLDERS = (SOURCE, ROOT / "tests", ROOT / "scripts", ROOT / "benchmarks")
"""Where a document's paths begin, besides the root."""
FOREIGN = {
    "incubate/passes/ir.py",
    "interpreters/pdl.py",
    "matcher_utils.py",
    "pattern_rewriter.py",
    "subgraph_rewriter.py",
}
"""Files of Paddle, xDSL and torch.fx that docs/rewriting.md cites."""


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
    """Files and folders that a package's docstring names and that do not exist, in the package or from a root on."""
    named = [
        (path, name)
        for path in sorted(SOURCE.rglob("__init__.py"))
        for name in re.findall(
            r"`([\w./*-]+\.(?:py|js|css|html|toml|proto|md)|[\w.*-]+/[\w./*-]*)`", docstring_of(path.read_text())
        )
    ]
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path, name in named
        if not any(any(folder.glob(name.rstrip("/"))) for folder in (path.parent, SOURCE, SOURCE.parent, ROOT))
    ]


def stale_paths(text: str) -> list[str]:
    """Python files that a document names in backquotes and that do not exist; a bare name may be in any folder."""
    own = {*re.findall(r"<!-- file: (\S+) -->", text), *FOREIGN}
    named = set(re.findall(r"`((?:[\w.-]+/)*[a-z_]\w*\.py)`", text)) - own
    return sorted(name for name in named - every_name() if not any((root / name).exists() for root in (*FOLDERS, ROOT)))


@cache
def every_name() -> set[str]:
    """The names of all Python files, without folders."""
    return {path.name for folder in FOLDERS for path in folder.rglob("*.py")}


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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_documents_name_exist(path: Path):
    assert stale_paths(path.read_text()) == []


def test_a_public_class_is_defined_once():
    files: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE):
            files.setdefault(name, []).append(path.name)
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}


def test_a_file_that_moved_is_found():
    text = (
        "`ir/graph.py` and `printer.py`, not `hlo/printer.py`, `fusion/graph.py` or `no_such_file.py`; `ops/FAMILY.py`"
    )
    assert stale_paths(text) == ["fusion/graph.py", "hlo/printer.py", "no_such_file.py"]


def main(packages: list[str]) -> None:
    for file in untested():
        if not packages or package_of(Path(file)) in packages:
            sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
