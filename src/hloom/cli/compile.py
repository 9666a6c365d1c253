"""`hloom compile`: a program compiled by the own compiler of a TPU, a GPU or the CPU, without the hardware."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.table import Table

from hloom.cli.exit_status import NO
from hloom.cli.input import progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_standard_output,
    check_usage,
    file_argument,
    json_option,
    number_option,
    output_option,
    path_option,
)
from hloom.cli.output import record_text, write_note, write_record, write_text
from hloom.cli.streams import STDOUT
from hloom.cli.tables import new_table, note_tables, write_tables
from hloom.cli.why_oom import refusal_tables, why_refused
from hloom.formats.hlo import check_new_folder, write_folder
from hloom.ir import Module
from hloom.targets.compiler import (
    SECONDS,
    CompiledProgram,
    CompilerError,
    CompilerOutOfMemory,
    compile_module,
    devices_of,
    parse_flags,
    parse_target,
)
from hloom.text import HloomError, Record, byte_text, readable

MODULE_FILE, ASSIGNMENT_FILE, REPORT_FILE = "module.hlo", "buffer-assignment.txt", "report.json"
"""What -o writes into its folder."""
MOST_SWEPT = 64
"""The maximum number of values of --sweep."""


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One value of a flag: the compiled program, or why there is none."""

    value: str
    program: CompiledProgram | None
    problem: str = ""
    json_keys = "value problem? **program"


@dataclass(frozen=True, slots=True)
class Sweep(Record):
    """A flag, the target, and the program compiled with each value of the flag."""

    flag: str
    target: str
    values: Sequence[SweepRow]


@click.command("compile")
@file_argument
@click.option(
    "--for",
    "target",
    metavar="TARGET",
    required=True,
    help="Target: a TPU slice (v5e:4x4, v5p:2x2x2, v6e), GPUs (h100x8, a100) or cpu. Without a slice or number: the "
    "smallest with as many devices as the program asks for.",
)
@click.option("--flag", "flags", metavar="xla_x=y", multiple=True, help="Set an XLA flag; may be repeated.")
@click.option(
    "--sweep",
    metavar="xla_x=a,b",
    help="Compile once for each value of a flag; compare memory, cycles, collectives.",
)
@click.option(
    "--opaque-calls",
    is_flag=True,
    help="Let custom calls that the target lacks stand as opaque calls of the same types; each is named.",
)
@path_option("--dump", metavar="DIR", help="Write what XLA dumps (modules, buffer assignment) into the new folder DIR.")
@click.option("--passes", "all_passes", is_flag=True, help="With --dump, also the module after every pass.")
@number_option(
    "--seconds", metavar="N", min=0, min_open=True, default=SECONDS, help="Stop the compiler after N seconds."
)
@click.option("--no-cache", is_flag=True, help="Compile even if the answer is in the cache, and do not keep it.")
@json_option("Write JSON: memory, spaces, cycles, versions, notes.")
@output_option(
    f"Write {MODULE_FILE}, {ASSIGNMENT_FILE} and {REPORT_FILE} into the new folder OUT, all or none.", keeps_stdout=True
)
@click.pass_context
def command(
    context: click.Context,
    source: ModuleSource,
    target: str,
    flags: Sequence[str],
    sweep: str | None,
    opaque_calls: bool,
    dump: Path | None,
    all_passes: bool,
    seconds: float,
    no_cache: bool,
    json_output: bool,
    output: Path | None,
) -> None:
    """Compile a program with the target's own compiler, and report what it made.

    Needs no TPU and no GPU: the compilers are Python packages (`hloom doctor` says which are here). The report has
    XLA's own figures of memory, and on TPUs the compiler's estimate of cycles. Shardings are obeyed, by Shardy or
    GSPMD. LAPACK's calls in a program lowered for the CPU become the target's. With -o -, the optimised module goes to
    standard output and the report to standard error. The exit status is 1 if the program does not fit into memory.

    \b
    Examples:
      hloom compile step.hlo --for h100
      hloom compile step.hlo --for v5e:2x2 -o compiled
      hloom compile step.hlo --for v5e --dump passes --passes
      hloom compile step.hlo --for v5e \\
        --sweep xla_tpu_scoped_vmem_limit_kib=8192,16384
      hloom compile step.hlo --for h100 --json | jq .memory.peak
    """
    check_standard_output(output, json_output)
    check_usage(
        (all_passes and dump is None, "--passes needs --dump DIR"),
        (sweep and output is not None, "--sweep compares programs: give no -o"),
        (sweep and dump is not None, "--sweep compares programs: give no --dump"),
    )
    _check_folders(output, dump)
    parse_flags(flags)
    module = read_program(source)
    wanted = parse_target(target, devices_of(module))
    options: dict[str, Any] = {"opaque_calls": opaque_calls, "seconds": seconds, "use_cache": not no_cache}
    if sweep is not None:
        rows = _swept(module, wanted.name, flags, sweep, options)
        _write_sweep(sweep, rows, wanted.name, json_output=json_output)
        return
    try:
        with progress(f"compiling for {wanted.name}"):
            program = compile_module(module, wanted, flags=flags, dump=dump, all_passes=all_passes, **options)
    except CompilerOutOfMemory as error:
        _write_out_of_memory(error, module, json_output=json_output)
        context.exit(NO)
    _write(program, json_output=json_output, output=output)
    if program.fits is False:
        context.exit(NO)


def _check_folders(output: Path | None, dump: Path | None) -> None:
    """Refuse folders that cannot be written, before anything is compiled."""
    if dump == STDOUT:
        raise click.BadParameter("many files are written: give a folder", param_hint="--dump")
    folders = [folder for folder in (output, dump) if folder not in (None, STDOUT)]
    for folder in folders:
        check_new_folder(folder)
    if len(folders) == 2:
        one, other = (Path(os.path.realpath(folder)) for folder in folders)
        if one == other or one in other.parents or other in one.parents:
            raise click.UsageError("-o and --dump each write a folder of their own: give two that are apart")


def _write(program: CompiledProgram, *, json_output: bool, output: Path | None) -> None:
    if output == STDOUT:
        note_tables(tables(program))
        write_text(program.text, STDOUT)
        return
    if output is not None:
        report = record_text(program)
        files = {MODULE_FILE: program.text, ASSIGNMENT_FILE: program.buffer_assignment, REPORT_FILE: report}
        write_folder(output, {name: text for name, text in files.items() if text})
    if json_output:
        write_record(program, None)
    else:
        write_tables(tables(program), None)


def tables(program: CompiledProgram) -> Iterator[RenderableType]:
    """What a compiler made, as tables and lines."""
    yield memory_table(program)
    if len(program.spaces) > 1:
        yield _spaces(program)
    yield _about(program)
    for note in program.all_notes():
        yield f"note: {readable(note)}"
    if program.fits is not None:
        verdict = "fits into" if program.fits else "does not fit into"
        yield f"{verdict} the {byte_text(program.target.memory or 0)} of {program.target.chip}"


def memory_table(program: CompiledProgram) -> Table:
    """The compiler's figures of memory."""
    table = new_table(f"memory, by the compiler for {program.target.name}", "part", ">bytes", ">")
    for name, size in program.memory.to_json().items():
        if size or name not in ("host", "generated_code"):
            table.add_row(name.replace("_", " "), f"{size:,}", byte_text(size))
    return table


def _spaces(program: CompiledProgram) -> Table:
    table = new_table(
        "buffer assignment, by memory space", "space", ">arguments", ">outputs", ">temporaries", ">constants", ">total"
    )
    for space in program.spaces:
        sizes = (space.arguments, space.outputs, space.temporaries, space.constants, space.total)
        table.add_row(space.name, *(byte_text(size) if size else "" for size in sizes))
    return table


def _about(program: CompiledProgram) -> Table:
    table = new_table("about the compilation", "what", "!value")
    for name, value in program.about():
        table.add_row(name, readable(value))
    return table


def _write_out_of_memory(error: CompilerOutOfMemory, module: Module, *, json_output: bool) -> None:
    """What the compiler says of memory, hloom's account of that text, and what its model says of the program."""
    refusal = why_refused(error, module)
    if json_output:
        write_record(refusal, None)
        return
    write_note(f"error: {error}")
    write_tables(refusal_tables(refusal), None)


def _swept(module: Module, target: str, flags: Sequence[str], sweep: str, options: dict[str, Any]) -> list[SweepRow]:
    """The program compiled with each value of a flag; raises HloomError if none compiles."""
    name, equals, values = sweep.partition("=")
    listed = list(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
    if not equals or not listed:
        raise click.BadParameter(f"'{readable(sweep[:80])}' is not xla_x=a,b", param_hint="--sweep")
    if len(listed) > MOST_SWEPT:
        raise click.BadParameter(f"{len(listed):,} values, and {MOST_SWEPT} are the most", param_hint="--sweep")
    rows: list[SweepRow] = []
    failure: HloomError | None = None
    for value in listed:
        try:
            with progress(f"compiling with {name}={value}"):
                made = compile_module(module, target, flags=[*flags, f"{name}={value}"], **options)
            rows.append(SweepRow(value, made))
        except (CompilerError, CompilerOutOfMemory) as error:
            failure = error
            rows.append(SweepRow(value, None, error.message))
    if failure is not None and not any(row.program for row in rows):
        raise failure
    return rows


def _write_sweep(sweep: str, rows: Sequence[SweepRow], target: str, *, json_output: bool) -> None:
    flag = sweep.partition("=")[0].removeprefix("--")
    if json_output:
        write_record(Sweep(flag, target, rows), None)
        return
    table = new_table(
        f"{readable(flag)} for {target}", "value", ">peak", ">temporaries", ">code", ">cycles", ">collectives", ">sent",
        ">instructions", ">compile s",
    )  # fmt: skip
    for row in rows:
        table.add_row(readable(row.value), *_sweep_cells(row.program))
    problems = [f"{readable(row.value)}: {readable(row.problem)}" for row in rows if row.problem]
    write_tables([table, *problems], None)


def _sweep_cells(program: CompiledProgram | None) -> list[str]:
    if program is None:
        return ["failed"]
    collectives = program.collectives().values()
    return [
        byte_text(program.memory.peak),
        byte_text(program.memory.temporaries),
        byte_text(program.memory.generated_code),
        "" if program.cycles is None else f"{program.cycles.total:,}",
        f"{sum(one.count for one in collectives):,}",
        byte_text(sum(one.bytes for one in collectives)),
        f"{program.module.node_count:,}",
        f"{program.seconds:.1f}",
    ]
