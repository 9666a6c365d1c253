"""`hloom doctor`: what is installed here, and which targets can be compiled for."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
from rich.console import RenderableType

from hloom.cli.options import json_option, output_option
from hloom.cli.tables import new_table, write_report
from hloom.targets.compiler import COMPILERS, GPUS, TPUS, Environment, MissingCompiler, cache_folder, find_environment
from hloom.text import Record, readable

OPTIONAL = {
    "jax": "execution, StableHLO, hloom.jit",
    "jaxlib": "execution, StableHLO, hloom.jit",
    "zstandard": "files compressed as .zst",
}
"""Optional packages and what needs them."""
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
    json_keys = "python packages compilers cache"

    @property
    def python(self) -> str:
        """The version of Python."""
        return platform.python_version()

    @property
    def packages(self) -> dict[str, str | None]:
        """The versions of packages, null for what is not installed."""
        return {name: _installed(name) for name in ("hloom", *OPTIONAL)}

    @property
    def cache(self) -> str | None:
        """The folder of compiled programs; null where there is none."""
        folder = cache_folder()
        return None if folder is None else str(folder)


@click.command("doctor")
@json_option()
@output_option("Write to file OUT, atomically.")
def command(json_output: bool, output: Path | None) -> None:
    """Show what is installed, which targets can be compiled for here, and how to get the others.

    The compiler of a target is looked for in the interpreter that HLOOM_TPU_PYTHON, HLOOM_GPU_PYTHON or
    HLOOM_CPU_PYTHON names, or else in this one. Nothing is imported or compiled.

    \b
    Examples:
      hloom doctor -o report.txt
      hloom doctor --json | jq .compilers[0].found
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
    table = new_table("this environment", "package", "version", "for")
    table.add_row("python", platform.python_version(), sys.executable)
    for name, purpose in {"hloom": "", **OPTIONAL}.items():
        table.add_row(name, _installed(name) or "not installed", purpose)
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
            yield f"  {readable(check.remedy)}"
    cache = cache_folder()
    where = (
        "nowhere: this user has no home folder; set HLOOM_CACHE_DIR" if cache is None else f"in {readable(str(cache))}"
    )
    yield f"compiled programs are kept {where}"


def _versions_text(environment: Environment) -> str:
    """The compiler's own package first."""
    shown = [f"{name} {number}" for name, number in environment.versions.items() if name not in ("python", "jaxlib")]
    return ", ".join(reversed(shown))
