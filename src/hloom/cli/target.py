"""What `--for TARGET` does in commands that report numbers: the target's compiler makes the module they are about.

The report is then on the optimised module, and the compiler's own figures stand beside those of hloom. Where the
compiler is not installed, the report is by hloom's model, and says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from rich.console import RenderableType

from hloom.analysis import TARGET
from hloom.cli.input import progress
from hloom.ir import Module
from hloom.targets.compiler import DEVICES, CompiledProgram, MissingCompiler, compile_module, devices_of, parse_target
from hloom.text import Record, byte_text, readable

MODEL = "by hloom's model"
LEAST_SHOWN = 64 << 10
"""Bytes below which the temporaries of a memory space beside the main one are not mentioned: flags and scalars."""


@cache
def model_errors() -> dict[str, dict[str, Any]]:
    """By chip, the ratios of peaks before optimisation to the compiler's (`scripts/measure_targets.py`)."""
    return tomllib.loads(files("hloom.targets.compiler").joinpath("model_errors.toml").read_text())


@dataclass(frozen=True, slots=True)
class ForTarget(Record):
    """The module to report on: as the target's compiler made it, or as it was given if the compiler is missing.

    `target` is the name asked for, empty if none was; `compiled` the compiler's result; `problem` why there is none.
    """

    module: Module
    target: str = ""
    compiled: CompiledProgram | None = None
    problem: str = ""
    json_keys = "compiler?=compiled compiler_problem?=problem model_error?=stated_error"

    @property
    def device(self) -> str | None:
        """The name of the device with the target's rates, if there is one."""
        return DEVICES.get(parse_target(self.target).chip) if self.target else None

    @property
    def model_error(self) -> str:
        """How far the model's peaks of memory are from those of this target's compiler, as it was measured."""
        chip = parse_target(self.target).chip
        row = model_errors().get(chip)
        if row is None:
            return f" (its error for {chip} is not measured)"
        spread = f"{row['low']:.2f} to {row['high']:.2f} times those of the compiler for {chip}"
        return f" (its peaks are {spread} for 8 in 10 of {row['programs']} programs)"

    def lines(self) -> Iterator[RenderableType]:
        """What the compiler says, or why the report is by hloom's model; nothing if no target was asked for."""
        if self.compiled is not None:
            yield f"by the compiler for {self.compiled.target.name}: {compiler_line(self.compiled)}"
            yield from (f"note: {readable(note)}" for note in self.compiled.all_notes())
        elif self.target:
            yield f"{MODEL}, of the program before optimisation{self.model_error}: {readable(self.problem)}"

    @property
    def stated_error(self) -> str:
        """How far peaks of memory are from the compiler's where it is missing, and the report is by hloom's model."""
        return self.model_error.strip(" ()") if self.problem else ""


def for_target(module: Module, target: str | None) -> ForTarget:
    """The module that a report is on; raises HloomError as `hloom compile` does, except for a missing compiler."""
    if target is None:
        return ForTarget(module)
    wanted = parse_target(target, devices_of(module))
    try:
        with progress(f"compiling for {wanted.name}"):
            compiled = compile_module(module, wanted)
    except MissingCompiler as missing:
        module.attachments[TARGET] = wanted.name
        return ForTarget(module, wanted.name, problem=f"{missing.message} (`hloom doctor` says how to get it)")
    return ForTarget(compiled.module, wanted.name, compiled)


def compiler_line(program: CompiledProgram) -> str:
    """The compiler's figures in a line."""
    memory = program.memory
    parts = [f"peak {byte_text(memory.peak)}", f"temporaries {byte_text(memory.temporaries)}"]
    others = [space for space in program.spaces if space.space and space.temporaries >= LEAST_SHOWN]
    parts += [f"{space.name} {byte_text(space.temporaries)}" for space in others]
    parts += [f"{name} {value:,.0f}" for name, value in program.cost.items()]
    parts += [] if program.cycles is None else [f"{program.cycles.total:,} cycles"]
    return ", ".join(parts)
