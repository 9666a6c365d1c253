"""The field's words only: no private vocabulary in code, documents and messages, and one class to a name.

    python -m tests.test_vocabulary [PACKAGE]     lists what is not allowed, file by file

docs/glossary.md says which words stand for what. To ban a word, add it to WORDS, or to NAMES where only the names of
variables, parameters, fields and functions matter.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from doctest import DocTestParser
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "docs", "benchmarks", "scripts")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")

WORDS = {
    "room": "rooms?",
    "door": "doors?",
    "nought": "noughts?",
    "dear": "dear(?:er|est|ly)?",
    "judge": "judg(?:e|es|ed|ing|ement)",
    "wire": "wires?",
    "lie": "lie|lies|lying",
    "pose": "pos(?:e|es|ed|ing)",
    "foreseen": "fore(?:see|sees|saw|seen)",
    "hand over": "hand(?:s|ed|ing)?[ _](?:over|on)|handed",
    "wiring": "wiring",
    "the issue": "the issue",
}
"""Words that no text may hold, in any case; what to say instead stands in docs/glossary.md."""
NAMES = ("each", "found", "kind", "place", "is_whole", "alike", "tie", "ties", "tied", "helds", "sunk")
"""Names that nothing may have: they say what a value was to its writer, not what it is."""
MAY_BIND = re.compile(
    rf"\b(?:def|class|as)\s+(?:{'|'.join(NAMES)})\b"
    rf"|(?<![.\w])(?:{'|'.join(NAMES)})(?:\s*[=:,;)\]|#\\]|\s+(?:in|if)\b)"
)
"""What must stand in a file that gives something such a name; most files are not parsed for it."""
FIELDS_OWN = {
    "wire": r"^(?:src/hloom/formats/hlo/proto|src/hloom/formats/protobuf|tests/formats/hlo/proto|tests/formats/protobuf)/",
    "pose": r"^CHANGELOG",
    "lie": r"^src/hloom/passes/rules/min_max.py",
}
"""Files where a word is the field's own, `wire` being protobuf's, or where a former name is still read."""
KINDS = (
    "Domain",
    "InputOutputAlias",
    "ShardGroup",
    "Uniform",
)
"""Classes whose `kind` is the field's own: HLO's `domain={kind=...}`, XLA's AliasKind, shard_as and shard_like, and the
types of OpSharding. Values of enumerations named so, as FactorKind, may have the name everywhere."""

SEVERAL_CLASSES: dict[str, str] = {}
"""Public classes that are defined more than once, and why."""


def folder_of(path: str) -> str:
    """The package of a source file, a test or a document: `src/hloom/ir`, `tests/ir`, `docs`."""
    parts = path.split("/")[:-1]
    return "/".join(parts[: 3 if parts[:1] == ["src"] else 2]) or "."


@cache
def texts() -> dict[str, str]:
    paths = [
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".toml")
    ]
    paths += [ROOT / name for name in DOCUMENTS]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(paths) if path != Path(__file__)}


@cache
def trees() -> dict[str, ast.Module]:
    """The Python of each file that may bind a banned name: of a document, its examples."""
    return {path: parsed(path, text) for path, text in texts().items() if MAY_BIND.search(text)}


def parsed(path: str, text: str) -> ast.Module:
    return ast.parse(text) if path.endswith(".py") else examples(text)


def examples(text: str) -> ast.Module:
    """The examples of a document as one module, with the lines at which they stand there."""
    tree = ast.Module([], [])
    for example in DocTestParser().get_examples(text):
        part = ast.increment_lineno(ast.parse(example.source), example.lineno)
        tree.body += part.body
    return tree


@cache
def word_lines() -> dict[str, list[tuple[str, int]]]:
    """File and line of each text that holds a banned word, also as a part of a name; CHANGELOG may quote `names`."""
    lines: dict[str, list[tuple[str, int]]] = defaultdict(list)
    groups = {f"word{number}": word for number, word in enumerate(WORDS)}
    alternatives = "|".join(f"(?P<{group}>{WORDS[word]})" for group, word in groups.items())
    pattern = re.compile(rf"(?<![a-z])(?:{alternatives})(?![a-z])")
    for path, text in texts().items():
        if path == "CHANGELOG.md":
            text = re.sub(r"`[^`\n]*`", "", text)
        text = text.lower()
        for match in pattern.finditer(text):
            word = groups[match.lastgroup or ""]
            if word not in FIELDS_OWN or not re.match(FIELDS_OWN[word], path):
                lines[word].append((path, text.count("\n", 0, match.start()) + 1))
    return lines


def bound_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that a file gives to a variable, a parameter, a field or a function, with its line."""
    own = {id(field.target) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for field in _kinds(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in own:
            yield node.id, node.lineno
        elif isinstance(node, ast.arg) and not _is_kind(node.annotation):
            yield node.arg, node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.MatchAs)) and node.name:
            yield node.name, node.lineno


def _kinds(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """The fields of a class that say of which kind of something it is: `kind: FactorKind`."""
    fields = [field for field in node.body if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == "kind"]
    return [field for field in fields if node.name in KINDS or _is_kind(field.annotation)]


def _is_kind(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id.endswith("Kind")


@cache
def name_lines() -> dict[str, list[tuple[str, int]]]:
    """File and line where each banned name is bound."""
    lines: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path, tree in trees().items():
        for name, line in bound_names(tree):
            if name in NAMES:
                lines[name].append((path, line))
    return lines


def offences(word: str) -> list[tuple[str, int]]:
    return word_lines()[word] if word in WORDS else name_lines()[word]


@pytest.mark.parametrize("word", [*WORDS, *NAMES])
def test_a_banned_word_stands_nowhere(word: str):
    assert [f"{path}:{line}" for path, line in offences(word)] == []


def public_classes() -> dict[str, list[str]]:
    """The files that define each public class of the package."""
    files: dict[str, list[str]] = defaultdict(list)
    for path, text in texts().items():
        if path.startswith("src/"):
            for name in re.findall(r"^class ([A-Za-z]\w*)", text, re.MULTILINE):
                files[name].append(path)
    return files


def test_a_public_class_is_defined_once():
    several = {name: files for name, files in public_classes().items() if len(files) > 1}
    assert {name: files for name, files in several.items() if name not in SEVERAL_CLASSES} == {}


GERUND = re.compile(r"(?:^|_)\w{3,}ing$")
NOUNS_IN_ING = (
    "checkpointing",
    "drawing",
    "field_mapping",
    "folding",
    "indexing",
    "lowering",
    "message_passing",
    "microbatching",
    "rating",
    "sharding",
    "string",
    "tiling",
)
"""Last words of file names that end in -ing and are nouns of the field: XLA's HloSharding, constant folding."""


def gerunds() -> Iterator[str]:
    for path in texts():
        stem = Path(path).stem.removeprefix("test_")
        is_noun = any(f"_{stem}".endswith(f"_{noun}") for noun in NOUNS_IN_ING)
        if path.startswith("src/") and GERUND.search(stem) and not is_noun:
            yield path


def test_files_are_nouns():
    assert list(gerunds()) == []


def test_no_file_is_named_by_a_banned_word():
    banned = {*WORDS, *NAMES}
    stems = {path: Path(path).stem.removeprefix("test_") for path in texts()}
    assert [path for path, stem in stems.items() if stem.rstrip("s") in banned or stem in banned] == []


def main(folders: list[str]) -> None:
    for path in [path for path in texts() if folders and folder_of(path) not in folders]:
        del texts()[path]
    for word in (*WORDS, *NAMES):
        for path, line in offences(word):
            sys.stdout.write(f"{path}:{line}: {word}\n")
    for path in gerunds():
        sys.stdout.write(f"{path}: a gerund as the name of a file\n")


if __name__ == "__main__":
    main(sys.argv[1:])
