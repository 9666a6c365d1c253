"""Count the lines and files of Python at commits, package by package: what was there at the first, and what came since.

    python scripts/count_lines.py 3c7c16c HEAD

Blank lines count too. A package is a folder of src/hloom or tests, or one of benchmarks and scripts. What belongs to
the packages of NEW is counted apart, so that the others can be compared with the first commit.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "benchmarks", "scripts")
NEW = re.compile(
    r"(src/hloom|tests)/(autodiff|functional|frontend|microbatch|remat|dialects/mindir)/"
    r"|src/hloom/(dialects/mindir|api/function|cli/grad|runtime/library_calls)"
    r"|benchmarks/(autodiff|derivative_costs|functions?|function_programs|microbatch|mindspore/function_times)\b"
    r"|scripts/(compare_functional_peers|make_mindspore_samples|count_lines)\b"
)
"""Files of what hloom could not do at 3c7c16c: derivatives, Python functions, microbatches, MindIR."""


def package_of(path: str) -> str:
    parts = path.split("/")[:-1]
    folder = "/".join(parts[: 3 if parts[:1] == ["src"] else 2])
    return f"{folder} (new)" if NEW.match(path) else folder


def count_lines(commit: str) -> tuple[Counter[str], Counter[str]]:
    """Lines and files of each package at a commit."""
    listing = git("ls-tree", "-r", "-z", commit, "--", *FOLDERS).decode().rstrip("\0").split("\0")
    blobs = [(entry.split()[2], path) for entry, _, path in (row.partition("\t") for row in listing)]
    lines, files = Counter[str](), Counter[str]()
    python = [(blob, path) for blob, path in blobs if path.endswith(".py")]
    contents = git("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob, _ in python).encode())
    start = 0
    for _, path in python:
        header, start = contents.index(b"\n", start), contents.index(b"\n", start) + 1
        size = int(contents[:header].rsplit(b" ", 1)[1])
        lines[package_of(path)] += contents[start : start + size].count(b"\n")
        files[package_of(path)] += 1
        start += size + 1
    return lines, files


def git(*arguments: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(("git", *arguments), cwd=ROOT, input=stdin, stdout=subprocess.PIPE, check=True).stdout


def main(commits: list[str]) -> None:
    counts = [count_lines(commit) for commit in commits]
    packages = sorted({package for lines, _ in counts for package in lines})
    print(f"{'lines, files':34}" + "".join(f"{commit:>18}" for commit in commits))
    rows = {package: [package] for package in packages}
    for folder in ("src", ""):
        members = [package for package in packages if package.startswith(folder)]
        rows[f"{folder or 'all'}, without the new"] = [member for member in members if not member.endswith("(new)")]
        rows[folder or "all"] = members
    for name, members in rows.items():
        columns = [(sum(lines[m] for m in members), sum(files[m] for m in members)) for lines, files in counts]
        print(f"{name:34}" + "".join(f"{lines:12,} {files:5}" for lines, files in columns))


if __name__ == "__main__":
    main(sys.argv[1:] or ["HEAD"])
