"""What `--for TARGET` does in commands that report numbers: the target's compiler makes the module they are about.

The report is then on the optimised module, and the compiler's own figures stand beside those of hloom. Where the
compiler is not installed, the report is by hloom's model, and says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from hloom.analysis import TARGET, Device
from hloom.analysis import device as device_of
from hloom.cli.input import progress
from hloom.cli.tables import new_table
from hloom.ir import Module
from hloom.targets.compiler import (
    CompiledProgram,
    CompilerOutOfMemory,
    MissingCompiler,
    SpaceUse,
    Target,
    compile_module,
    devices_of,
    find_environment,
    parse_sized_target,
    parse_target,
    rates_for,
)
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

    `target` is the one asked for, if any; `compiled` the compiler's result; `problem` why there is none, or `refusal`
    that the program does not fit. `rates` is the device to price for: the one named, or the target's own, if hloom has
    its rates.
    """

    module: Module
    target: Target | None = None
    compiled: CompiledProgram | None = None
    problem: str = ""
    refusal: str = ""
    rates: Device | None = None
    json_keys = "compiler?=compiled compiler_refusal?=refusal compiler_problem?=problem model_error?=stated_error"

    @property
    def is_available(self) -> bool:
        """Whether there is a target whose compiler is here."""
        return self.target is not None and not self.problem

    @property
    def model_error(self) -> str:
        """How far the model's peaks of memory are from those of this target's compiler, as it was measured."""
        chip = "" if self.target is None else self.target.chip
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
        elif self.target is not None:
            yield f"{MODEL}, of the program before optimisation{self.model_error}: {readable(self.problem)}"

    @property
    def stated_error(self) -> str:
        """How far peaks of memory are from the compiler's where it is missing, and the report is by hloom's model."""
        return self.model_error.strip(" ()") if self.problem else ""


def for_target(module: Module, target: str | None, device: str | None = None, listed: Path | None = None) -> ForTarget:
    """The module that a report is on; raises HloomError as `hloom compile` does, except for a missing compiler.

    `device` names the rates to price with, `listed` is a file of further devices.
    """
    named = None if device is None else device_of(device, listed)
    if target is None:
        return ForTarget(module, rates=named)
    wanted = parse_target(target, devices_of(module))
    rates = rates_for(wanted, named, listed)
    try:
        with progress(f"compiling for {wanted.name}"):
            compiled = compile_module(module, wanted)
    except MissingCompiler as missing:
        module.attachments[TARGET] = wanted.name
        return ForTarget(module, wanted, problem=_missing(missing), rates=rates)
    return ForTarget(compiled.module, wanted, compiled, rates=rates)


def before_search(
    module: Module, target: str | None, devices: int | None, device: str | None, listed: Path | None = None
) -> ForTarget:
    """What a search for programs on `devices` devices is told of the target that will compile them.

    Raises HloomError if the target's name contradicts the number or the device. Whether its compiler is here is found
    out before the search, which takes longer.
    """
    named = None if device is None else device_of(device, listed)
    if target is None:
        return ForTarget(module, rates=named)
    wanted = parse_sized_target(target, devices)
    try:
        find_environment(wanted.platform, wanted.name)
        problem = ""
    except MissingCompiler as missing:
        problem = _missing(missing)
    return ForTarget(module, wanted, problem=problem, rates=rates_for(wanted, named, listed))


def _missing(error: MissingCompiler) -> str:
    return f"{error.message} (`hloom doctor` says how to get it)"


def compiler_line(program: CompiledProgram) -> str:
    """The compiler's figures in a line."""
    memory = program.memory
    parts = [f"peak {byte_text(memory.peak)}", f"temporaries {byte_text(memory.temporaries)}"]
    parts += [f"{space.name} {byte_text(space.temporaries)}" for space in _beside_main(program)]
    parts += [f"{name} {value:,.0f}" for name, value in program.cost.items()]
    parts += [] if program.cycles is None else [f"{program.cycles.total:,} cycles"]
    sums = program.collectives().items()
    parts += [f"{one.count:,} {kind} ({byte_text(one.bytes)} sent)" for kind, one in sums]
    return ", ".join(parts)


def _beside_main(program: CompiledProgram) -> list[SpaceUse]:
    """The memory spaces beside the main one that hold more than flags and scalars."""
    return [space for space in program.spaces if space.space and space.temporaries >= LEAST_SHOWN]


def before_and_after(before: Module, after: Module, target: str) -> tuple[ForTarget, ForTarget]:
    """A module before and after a transformation, each as the target's compiler makes it.

    One that does not fit into the target's memory has the compiler's words as its `refusal`.
    """
    return _made(before, target), _made(after, target)


def _made(module: Module, target: str) -> ForTarget:
    try:
        return for_target(module, target)
    except CompilerOutOfMemory as refusal:
        return ForTarget(module, parse_target(target, devices_of(module)), refusal=refusal.message)


def change_lines(before: ForTarget, after: ForTarget, peaks: tuple[int, int]) -> Iterator[RenderableType]:
    """What a transformation changes by the target's compiler, beside the peaks before and after by hloom's model."""
    assert after.target is not None
    title = f"{'for' if after.problem else 'compiled for'} {after.target.name}"
    table = new_table(title, "figure", ">before", ">after", ">change %")
    _add_change(table, f"peak {MODEL}", peaks, byte_text)
    sides = [_figures(made.compiled) for made in (before, after)]
    for name, show in {name: show for side in sides for name, (_, show) in side.items()}.items():
        _add_change(table, name, [side.get(name, (0, show))[0] if side else None for side in sides], show)
    yield table
    if after.problem:
        yield from after.lines()
    for when, made in (("before", before), ("after", after)):
        yield from [f"{when}: {readable(made.refusal)}"] if made.refusal else []
    notes = [note for made in (before, after) if made.compiled is not None for note in made.compiled.all_notes()]
    yield from (f"note: {readable(note)}" for note in dict.fromkeys(notes))


Figure = tuple[int, Callable[[int], str]]
"""A number and what shows it."""


def _figures(program: CompiledProgram | None) -> dict[str, Figure]:
    """The compiler's figures by name; empty if it made no program."""
    if program is None:
        return {}
    memory, count = program.memory, "{:,}".format
    figures: dict[str, Figure] = {"peak": (memory.peak, byte_text), "temporaries": (memory.temporaries, byte_text)}
    figures |= {space.name: (space.temporaries, byte_text) for space in _beside_main(program)}
    figures |= {} if program.cycles is None else {"cycles": (program.cycles.total, count)}
    for kind, one in program.collectives().items():
        figures |= {kind: (one.count, count), f"{kind}, sent": (one.bytes, byte_text)}
    return figures | {"instructions": (program.module.node_count, count)}


def _add_change(table: Table, name: str, figures: Sequence[int | None], show: Callable[[int], str]) -> None:
    before, after = figures
    texts = ["" if figure is None else show(figure) for figure in figures]
    table.add_row(name, *texts, f"{100 * (after / before - 1):+.1f}" if before and after is not None else "")
