"""`hloom print`: a module as text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from hloom.cli.input import is_mindir, progress, read_module
from hloom.cli.languages import mindir_text
from hloom.cli.options import ModuleSource, count_option, file_argument, json_option, output_option
from hloom.cli.output import write_record, write_text
from hloom.formats.hlo import PrintOptions, save, to_text
from hloom.text import Record


@dataclass(frozen=True, slots=True)
class PrintedModule(Record):
    """A module's text, and its form: hlo, short, canonical, ir or mindir."""

    module: str
    form: str
    text: str


@click.command("print")
@file_argument
@click.option("--short-parsable", is_flag=True, help="Print the shortest text that parses back to the same module.")
@click.option("--canonical", is_flag=True, help="Print a canonical form, equal for modules that differ only in names.")
@click.option("--ir", is_flag=True, help="Print a readable listing of graphs and closures (not HLO).")
@click.option("--no-percent", is_flag=True, help="Print names without the leading %.")
@click.option("--operand-types", is_flag=True, help="Print the type of every operand.")
@click.option("--no-metadata", is_flag=True, help="Omit metadata and stack-frame tables.")
@count_option("--elide", least=0, help="Print constants of more than N elements as {...}.")
@json_option('Write JSON: {"module": NAME, "form": FORM, "text": TEXT}.')
@output_option("Write to file OUT, atomically.")
def command(
    source: ModuleSource,
    short_parsable: bool,
    canonical: bool,
    ir: bool,
    no_percent: bool,
    operand_types: bool,
    no_metadata: bool,
    elide: int | None,
    json_output: bool,
    output: Path | None,
) -> None:
    """Print a module as HLO text; MindIR graphs print as MindSpore's text.

    By default nothing is left out, and the text parses back to the same module. If OUT ends in .gz or .zst the text is
    compressed; if it ends in .pb a proto is written.

    \b
    Examples:
      hloom print step.hlo.pb                       # a proto as text
      hloom print step.hlo --short-parsable
      hloom print step.hlo --elide 10 --no-metadata
      hloom print step.hlo --ir | less
      hloom print dump/ --module jit_f --stage after_optimizations -o f.hlo.gz
    """
    form = _form(short_parsable=short_parsable, canonical=canonical, ir=ir)
    styled = {"--no-percent": no_percent, "--operand-types": operand_types, "--no-metadata": no_metadata}
    given = [name for name, is_given in {**styled, "--elide": elide is not None}.items() if is_given]
    if form == "ir" and given:
        raise click.UsageError(f"{given[0]} styles HLO text, and --ir is another form")
    program = read_module(source)
    if is_mindir(program) and form != "ir":
        if form != "hlo" or given:
            message = f"{source.file} is MindIR, which prints as MindSpore's text or, with --ir, as a listing"
            raise click.UsageError(message)
        _write(PrintedModule(program.name, "mindir", mindir_text(program)), json_output, output)
        return
    options = FORMS[form]
    if options is not None:
        options = replace(
            options,
            percent=options.percent and not no_percent,
            operand_types=options.operand_types or operand_types,
            metadata=options.metadata and not no_metadata,
            constant_limit=elide,
        )
    if output is not None and not json_output and options is not None and _is_container(output):
        save(program, output, options)
        return
    with progress("printing"):
        text = to_text(program, options or "ir")
    _write(PrintedModule(program.name, form, text), json_output, output)


def _write(printed: PrintedModule, json_output: bool, output: Path | None) -> None:
    if json_output:
        write_record(printed, output)
    else:
        write_text(printed.text, output)


FORMS: dict[str, PrintOptions | None] = {
    "hlo": PrintOptions(),
    "short": PrintOptions.short_parsable(),
    "canonical": PrintOptions.canonical(),
    "ir": None,
}
"""The options that each form begins with; the listing has none."""


def _form(**wanted: bool) -> str:
    names = {"short_parsable": "short"}
    chosen = [name for name, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in chosen[:2])
        raise click.UsageError(f"{options} are two forms: give one")
    return names.get(chosen[0], chosen[0]) if chosen else "hlo"


def _is_container(path: Path) -> bool:
    """Whether the file's name asks for more than text."""
    return path.suffix.lower() in (".pb", ".gz", ".zst")
