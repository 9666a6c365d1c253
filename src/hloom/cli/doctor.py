"""`hloom doctor`: what is installed here, which features work, and which targets can be compiled for."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
from rich.console import RenderableType

from hloom.cli.options import json_option, output_option
from hloom.cli.tables import command_line, new_table, write_report
from hloom.targets.compiler import COMPILERS, GPUS, TPUS, Environment, MissingCompiler, cache_folder, find_environment
from hloom.text import Record, readable


@dataclass(frozen=True, slots=True)
class Feature(Record):
    """Something that hloom does only beside other packages or a program on the PATH, and how to get them."""

    name: str
    packages: tuple[str, ...] = ()
    program: str = ""
    remedy: str = ""
    json_keys = "name works problem remedy"

    @property
    def works(self) -> bool:
        """Whether nothing is missing."""
        return not self.problem

    @property
    def problem(self) -> str:
        """What is missing here; empty if nothing is."""
        missing = [name for name in self.packages if _installed(name) is None]
        if self.program and shutil.which(self.program) is None:
            missing.append(self.program)
        return f"without {', '.join(missing)}" if missing else ""


RUN = "pip install 'hloom[run]'"
FEATURES = (
    Feature("read, print, inspect, estimate, compare, rewrite, draw, pages, plans"),
    Feature("run programs: run, --verify, --measure, calibrate", ("jax", "jaxlib"), remedy=RUN),
    Feature("inside JAX: hloom.jit, derivatives by its rules; StableHLO", ("jax", "jaxlib"), remedy=RUN),
    Feature("files compressed as .zst", ("zstandard",), remedy="pip install 'hloom[zst]'"),
    Feature("pictures as PDF: draw -o x.pdf", program="dot", remedy="apt install graphviz"),
)
"""What works only with more than hloom's own dependencies; compilers of targets have a table of their own."""
PACKAGES = tuple(dict.fromkeys(("hloom", *(name for feature in FEATURES for name in feature.packages))))
TARGETS = {"tpu": ", ".join(TPUS), "cuda": ", ".join(GPUS), "cpu": "cpu"}
"""The names of targets by platform."""


@dataclass(frozen=True, slots=True)
class CompilerCheck:
    """Whether a platform's compiler was found: its environment, or why not and how to get it."""

    platform: str
    environment: Environment | None
    problem: str = ""
    remedy: str = ""
    json_keys = "platform targets found environment.python environment.found_by environment.versions problem remedy"

    @property
    def targets(self) -> list[str]:
        """The platform's targets."""
        return TARGETS[self.platform].split(", ")

    @property
    def found(self) -> bool:
        """Whether the compiler was found."""
        return self.environment is not None


@dataclass(frozen=True, slots=True)
class DoctorRecord(Record):
    """What is installed here, which compilers of targets are, and the folder that keeps compiled programs."""

    compilers: Sequence[CompilerCheck]
    json_keys = "python packages features compilers cache"

    @property
    def python(self) -> str:
        """The version of Python."""
        return platform.python_version()

    @property
    def packages(self) -> dict[str, str | None]:
        """The versions of packages, null for what is not installed."""
        return {name: _installed(name) for name in PACKAGES}

    @property
    def features(self) -> Sequence[Feature]:
        """What works here."""
        return FEATURES

    @property
    def cache(self) -> str | None:
        """The folder of compiled programs; null where there is none."""
        folder = cache_folder()
        return None if folder is None else str(folder)


@click.command("doctor")
@json_option()
@output_option("Write to file OUT, atomically.")
def command(json_output: bool, output: Path | None) -> None:
    """Show what is installed, which features work here, and how to get the others.

    Looks for a target's compiler in the interpreter named by HLOOM_TPU_PYTHON, HLOOM_GPU_PYTHON or HLOOM_CPU_PYTHON,
    or else in this one. Imports and compiles nothing.

    \b
    Examples:
      hloom doctor -o report.txt
      hloom doctor --json | jq '.features[] | select(.works | not).remedy'
    """
    checks = [_check(name) for name in COMPILERS]
    write_report(lambda: DoctorRecord(checks), _tables(checks), json_output, output)


def _check(name: str) -> CompilerCheck:
    try:
        return CompilerCheck(name, find_environment(name))
    except MissingCompiler as error:
        return CompilerCheck(name, None, error.message, error.hint or "")


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _tables(checks: Sequence[CompilerCheck]) -> Iterator[RenderableType]:
    table = new_table("this environment", "package", "version", "")
    table.add_row("python", platform.python_version(), readable(sys.executable))
    for name in PACKAGES:
        table.add_row(name, _installed(name) or "not installed", "")
    yield table
    table = new_table("features", "feature", "!works", "how to get it")
    for feature in FEATURES:
        table.add_row(feature.name, feature.problem or "yes", feature.remedy if feature.problem else "")
    yield table
    table = new_table("compilers of targets", "platform", "targets", "!compiler", "found by")
    for check in checks:
        found = check.environment
        table.add_row(
            check.platform,
            TARGETS[check.platform],
            "not found" if found is None else _versions_text(found),
            "" if found is None else f"{found.found_by}: {readable(found.python)}",
        )
    yield table
    for check in checks:
        if check.environment is None:
            yield f"{check.platform}: {readable(check.problem)}"
            yield command_line(f"  {readable(check.remedy)}")
    cache = cache_folder()
    where = (
        "nowhere: this user has no home folder; set HLOOM_CACHE_DIR" if cache is None else f"in {readable(str(cache))}"
    )
    yield f"compiled programs are kept {where}"


def _versions_text(environment: Environment) -> str:
    """The compiler's own package first."""
    shown = [f"{name} {number}" for name, number in environment.versions.items() if name not in ("python", "jaxlib")]
    return ", ".join(reversed(shown))
