"""Loading the module that a command line names, and progress on a terminal where work takes long."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hloom.analysis import awaits_partitioning
from hloom.cli.options import ModuleSource
from hloom.hlo import load
from hloom.ir import Module
from hloom.text import HloomWarning

PATIENCE = 2.0
"""After how many seconds of work a progress bar appears."""
MOST_NOTES = 5
"""How many of a module's notes are shown where the notes are not the matter."""


def read_module(source: ModuleSource, *, show_notes: bool = True) -> Module:
    """Load the module; what it holds that is not understood is noted on standard error."""
    with progress(f"reading {source.name}"), warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        module = load(_as_path(source.file), strict=source.strict, module=source.module, stage=source.stage)
    if show_notes:
        for note in module.notes[:MOST_NOTES]:
            click.echo(f"note: {note}", err=True)
        if len(module.notes) > MOST_NOTES:
            click.echo(f"note: {len(module.notes) - MOST_NOTES} more of these; hloom inspect lists them", err=True)
    return module


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


def _as_path(file: str) -> Path | str:
    """A command line's FILE is a path always, whatever it looks like; only - is not."""
    return file if file == "-" else Path(file)
