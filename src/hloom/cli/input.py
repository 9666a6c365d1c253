"""Loading the module that a command line names, and progress on a terminal where work takes long."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from hloom.analysis import awaits_partitioning
from hloom.api.load import load
from hloom.cli.options import ModuleSource
from hloom.hlo import DumpedModule, ForeignText, SeveralModules
from hloom.ir import Module
from hloom.text import HloomError, HloomWarning

MLIR = "MLIR"
"""What the reader of HLO text calls the language of StableHLO."""
PATIENCE = 2.0
"""After how many seconds of work a progress bar appears."""
MOST_LISTED = 20
"""How many modules of a dump directory are listed."""
READ_BYTES = 32 << 20
"""How many bytes of them are read for that."""
MOST_NOTES = 5
"""How many of a module's notes are shown where the notes are not the matter."""


def read_module(source: ModuleSource, *, show_notes: bool = True) -> Module:
    """Load the module; what it holds that is not understood is noted on standard error."""
    with progress(f"reading {source.name}"), warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        try:
            module = load(_as_path(source.file), strict=source.strict, module=source.module, stage=source.stage)
        except ForeignText as foreign:
            if foreign.language != MLIR:
                raise
            from hloom.runtime import from_stablehlo  # only here: it takes jax

            module = from_stablehlo(foreign.text, source.name)
        except SeveralModules as several:
            _note_modules(several.modules)
            raise HloomError(several.message) from None
    if show_notes:
        for note in module.notes[:MOST_NOTES]:
            click.echo(f"note: {note}", err=True)
        if len(module.notes) > MOST_NOTES:
            click.echo(f"note: {len(module.notes) - MOST_NOTES} more of these; hloom inspect lists them", err=True)
    return module


def read_program(source: ModuleSource) -> Module:
    """Load the module as HLO: MindIR, which XLA does not read, is lowered."""
    module = read_module(source)
    if not is_mindir(module):
        return module
    from hloom.dialects import mindir  # only here: few files are MindIR

    return mindir.lower(module)


def is_mindir(module: Module) -> bool:
    """Whether a module is one of MindSpore's graphs, whose ops are not HLO's."""
    return module.entry.root.opcode.startswith("mindir.")


def note_whole_program(module: Module) -> None:
    """Say on standard error where numbers will be of all devices together, which share the program once it is cut."""
    if awaits_partitioning(module):
        click.echo(
            "note: the module is not partitioned yet: numbers are of the whole program, not of one of its devices",
            err=True,
        )


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show a moving bar on the terminal while work goes on for more than PATIENCE seconds."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # only here: it takes as long to load as most modules take to read
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(what, total=None)
    timer = threading.Timer(PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


def _note_modules(modules: Sequence[DumpedModule]) -> None:
    """A table of dumped modules, largest first; counts of those that are read within READ_BYTES together."""
    from rich.text import Text

    from hloom.cli.tables import add_rest, new_table, note_tables

    table = new_table(None, "module", "stage", ">bytes", ">instructions", ">FLOPs")
    left = READ_BYTES
    for listed in modules[:MOST_LISTED]:
        left -= listed.size
        counts = _counts(listed) if left >= 0 else ("", "")
        table.add_row(Text(listed.label), Text(listed.stage), f"{listed.size:,}", *counts)
    add_rest(table, len(modules), MOST_LISTED, "")
    note_tables([table])


def _counts(listed: DumpedModule) -> tuple[str, str]:
    """A module's instructions and FLOPs as a table has them; empty for one that does not read."""
    from hloom.analysis import cost

    try:
        module = load(listed.path)
        return f"{module.node_count:,}", f"{max(cost(module).total.flops, 0):,}"
    except HloomError:
        return "", ""


def _as_path(file: str) -> Path | str:
    """A command line's FILE is a path always, whatever it looks like; only - is not."""
    return file if file == "-" else Path(file)
