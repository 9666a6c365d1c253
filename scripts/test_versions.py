"""Run the tests that use jax with other versions of Python and jax, each pair in a virtual environment of its own.

    .venv/bin/python scripts/test_versions.py             # make test-versions: all pairs; writes docs/versions.md
    .venv/bin/python scripts/test_versions.py --smoke     # make smoke-versions: a test per feature, oldest and newest

Interpreters are those on the path and pyenv's. Environments are kept in .versions; a pair whose interpreter is missing,
or whose packages cannot be installed, is skipped, and named.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = Path(os.environ.get("HLOOM_VERSIONS_DIR", ROOT / ".versions"))
PAGE = ROOT / "docs" / "versions.md"
PAIRS = (
    ("3.11", "0.6.2"), ("3.11", "0.8.3"), ("3.11", "0.9.2"), ("3.11", "0.10.2"), ("3.12", "0.11.2"),
    ("3.12", "0.12.0.1"), ("3.13", "0.12.0.1"), ("3.14", "0.12.0.1"),
)  # fmt: skip
"""Python and jax; jax 0.11 and later need Python 3.12."""
OLDER = PAIRS[0]
"""Too old for the extra `run`: what works there works, and what does not says so."""
SMOKE = (("3.11", "0.8.3"), ("3.12", "0.12.0.1"), ("3.13", "0.12.0.1"))
"""The oldest pair that is supported, and the newest, with the first of these interpreters that is found."""
FEATURES = "tests/runtime/test_jax_features.py"
NO_INTERPRETER = "no Python {} on the path or among pyenv's versions"
TOOLS = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "scipy", "zstandard")
"""What the tests need beside hloom's own dependencies."""
REASONS = {
    "unknown VHLO": "older jaxlibs refuse what newer ones die of, and the test wants to see the worker survive it",
}
"""Why tests fail with some versions, by a part of their names: the page says it in place of the error."""
MOST_FAILURES = 12
"""How many failures of a pair the page names."""


@dataclass(slots=True)
class Outcome:
    """What the tests of a pair did; `skipped` says why there was no run."""

    python: str
    jax: str
    skipped: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    features: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.python} / {self.jax}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a test per feature, with the oldest and the newest pair")
    parser.add_argument("--workers", default="2", help="processes that run tests; 2 by default")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="these tests, besides one per feature")
    parser.add_argument("--only", metavar="JAX", help="the pairs of this jax; the others are as they were run last")
    options = parser.parse_args()
    if options.smoke:
        sys.exit(any(not smoke(python, jax) for python, jax in smoke_pairs()))
    tests = [FEATURES, *options.tests] if options.tests else suite()
    outcomes = [
        run(*pair, [FEATURES] if pair == OLDER else tests, options.workers)
        if options.only in (None, pair[1])
        else last_run(*pair)
        for pair in PAIRS
    ]
    subject = f"The tests of {', '.join(options.tests)}" if options.tests else "All tests that use jax"
    PAGE.write_text(page(outcomes, subject))
    say(f"wrote {PAGE.relative_to(ROOT)}")


def say(text: str) -> None:
    print(text, flush=True)


def smoke_pairs() -> Iterator[tuple[str, str]]:
    """The oldest pair, and the newest whose interpreter is here."""
    yield SMOKE[0]
    newest = next((pair for pair in SMOKE[1:] if interpreter(pair[0]) is not None), None)
    if newest is None:
        say(f"no Python {' or '.join(python for python, _ in SMOKE[1:])}: jax {SMOKE[-1][1]} is not tried")
    else:
        yield newest


def smoke(python: str, jax: str) -> bool:
    """Whether every feature works, or could not be tried for lack of an interpreter or of PyPI."""
    outcome = run(python, jax, [FEATURES], workers="0")
    return bool(outcome.skipped) or not outcome.failures


def suite() -> list[str]:
    """The test files that use jax: those that name it, its worker, or what only that answers."""
    uses = re.compile(r"\b(jax|XlaError|run_text|hloom\.run|compare|xla_queries)\b")
    files = [file for file in sorted((ROOT / "tests").rglob("test_*.py")) if uses.search(file.read_text())]
    return [str(file.relative_to(ROOT)) for file in files if "targets" not in file.parts]


def run(python: str, jax: str, tests: Sequence[str], workers: str) -> Outcome:
    """Make the pair's environment and run these tests in it."""
    outcome = Outcome(python, jax)
    executable, outcome.skipped = environment(python, jax)
    if executable is None:
        say(f"Python {python} with jax {jax}: skipped, {outcome.skipped}")
        return outcome
    report = executable.parent.parent / "report.xml"
    report.unlink(missing_ok=True)
    command = [
        str(executable), "-m", "pytest", "-q", "-m", "not long", "-n", workers, "-p", "no:cacheprovider", "--tb=line",
        "--no-header", f"--junitxml={report}", *(() if workers == "0" else ("--dist", "worksteal")), *tests,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": "src"}, capture_output=True, text=True)
    if not report.exists():
        outcome.failures["pytest"] = (done.stdout + done.stderr).strip().rpartition("\n")[2]
    else:
        read_report(report, outcome)
    say(f"Python {python} with jax {jax}: {', '.join(f'{count} {what}' for what, count in outcome.counts.items())}")
    for name, problem in list(outcome.failures.items())[:MOST_FAILURES]:
        say(f"  {name}: {problem}")
    return outcome


def last_run(python: str, jax: str) -> Outcome:
    """What the report of a pair says that was run before."""
    outcome, report = Outcome(python, jax), ENVIRONMENTS / f"py{python}-jax{jax}" / "report.xml"
    if report.exists():
        read_report(report, outcome)
    else:
        outcome.skipped = NO_INTERPRETER.format(python) if interpreter(python) is None else "nobody asked for it"
    return outcome


def environment(python: str, jax: str) -> tuple[Path | None, str]:
    """The interpreter of the pair's environment, made if needed; or None and why not."""
    base = interpreter(python)
    if base is None:
        return None, NO_INTERPRETER.format(python)
    folder = ENVIRONMENTS / f"py{python}-jax{jax}"
    executable, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        packages = [f"jax=={jax}", f"jaxlib=={jax}", *dependencies, *TOOLS]
        install = [str(executable), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        for command in ([base, "-m", "venv", str(folder)], install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                return None, f"it cannot be installed: {done.stderr.strip().rpartition(chr(10))[2]}"
        ready.touch()
    return executable, ""


def interpreter(python: str) -> str | None:
    """An interpreter of this version, from the path or from pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    known = [shutil.which(f"python{python}"), *sorted(root.glob(f"{python}.*/bin/python"), reverse=True)]
    return next((str(found) for found in known if found is not None and answers(str(found), python)), None)


def answers(executable: str, python: str) -> bool:
    """Whether an interpreter works, is of this version, and can make environments: pyenv's shims may not."""
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([executable, "-c", code], capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == python


def read_report(file: Path, outcome: Outcome) -> None:
    """Fill an outcome from pytest's report."""
    for case in ElementTree.parse(file).iter("testcase"):
        failure = next((part for part in case if part.tag in ("failure", "error")), None)
        skipped = case.find("skipped")
        what = "failed" if failure is not None else "skipped" if skipped is not None else "passed"
        outcome.counts[what] += 1
        module, name = case.get("classname", "").rpartition(".")[2], case.get("name", "")
        if failure is not None:
            problem = next(iter((failure.get("message") or failure.text or "").strip().split("\n")), "")
            outcome.failures[f"{module}::{name}"] = problem[:160]
        if module == Path(FEATURES).stem:
            said = "" if skipped is None else skipped.get("message", "").removeprefix("Skipped: ")
            outcome.features[name.removeprefix("test_")] = {"passed": "yes", "failed": "**no**"}.get(what, said)


def page(outcomes: Sequence[Outcome], subject: str) -> str:
    """The text of docs/versions.md; the subject says which tests these are."""
    ran = [outcome for outcome in outcomes if not outcome.skipped]
    names = sorted({name for outcome in ran for name in outcome.features})
    lines = [
        *INTRODUCTION,
        table(["feature", *(outcome.name for outcome in ran)],
              [[name.replace("_", " "), *(outcome.features.get(name, "") for outcome in ran)] for name in names]),
        "",
        f"{subject}, with each pair:",
        "",
        table(["Python / jax", "passed", "failed", "skipped"],
              [[outcome.name, *(str(outcome.counts[what]) for what in ("passed", "failed", "skipped"))]
               for outcome in ran]),
        "",
        *(f"Python {outcome.python} with jax {outcome.jax} was not run: {outcome.skipped}." for outcome in outcomes
          if outcome.skipped),
        *(line for outcome in ran if outcome.failures for line in failures_of(outcome)),
    ]  # fmt: skip
    return "\n".join([*lines, ""])


INTRODUCTION = (
    "# Versions of jax and Python",
    "",
    "Which jax does hloom work with? `scripts/test_versions.py` (`make test-versions`) wrote this page.",
    "",
    "hloom needs jax only to run programs, to convert StableHLO, and inside `jax.jit`; everything else works without",
    "it. If a version of jax lacks a name that a feature needs, only that feature fails, and the error says which",
    "name is missing and which versions were tested. There is no upper limit: a newer jax works as long as it keeps",
    "those names.",
    "",
    "One test per feature, by Python / jax:",
    "",
)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def failures_of(outcome: Outcome) -> Iterator[str]:
    yield from ("", f"Failures with Python {outcome.python} and jax {outcome.jax}:", "")
    for name, problem in list(outcome.failures.items())[:MOST_FAILURES]:
        reason = next((why for part, why in REASONS.items() if part in name), problem)
        yield f"- `{name}`: {reason.replace('|', '/')}"
    if len(outcome.failures) > MOST_FAILURES:
        yield f"- and {len(outcome.failures) - MOST_FAILURES} more"


if __name__ == "__main__":
    main()
