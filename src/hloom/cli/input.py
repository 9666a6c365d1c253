"""Loading the module that a command line names, and progress on a terminal where work takes long."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic

from hloom.analysis import awaits_partitioning, size_note
from hloom.api.load import load
from hloom.cli.options import ModuleSource
from hloom.cli.output import typed_again, write_note
from hloom.formats.hlo import STDIN, DumpedModule, SeveralModules, dumped_module
from hloom.ir import Module
from hloom.text import HloomError, HloomWarning, listening, visible

PATIENCE = 2.0
"""After how many seconds of work a progress bar appears."""
MOST_LISTED = 20
"""How many modules of a dump directory are listed."""
READ_BYTES = 32 << 20
"""How many bytes of them are read for that."""
MOST_NOTES = 5
"""How many of a module's notes are shown where the notes are not the matter."""


def read_module(source: ModuleSource, data: bytes | None = None, *, show_notes: bool = True) -> Module:
    """Load the module; what it holds that is not understood is noted on standard error.

    `data` is what the standard input held, where it was read already.
    """
    with progress(f"reading {source.name}"), warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        try:
            chosen = source if data is not None else _in_dump(source)
            file = _as_path(chosen.file) if data is None else data
            module = load(file, strict=source.strict, module=chosen.module, stage=chosen.stage)
        except SeveralModules as several:
            _note_modules(several.modules)
            largest = os.path.join(source.file, several.modules[0].label)
            raise HloomError(several.message, hint=typed_again({source.file: largest})) from None
    if show_notes and module.notes:
        from hloom.formats.hlo import KEEPS  # with the reader of protos, which texts do without

        notes = [note for note in module.notes if KEEPS not in note]  # `inspect` says what is merely kept
        for note in notes[:MOST_NOTES]:
            write_note(f"note: {note}")
        if len(notes) > MOST_NOTES:
            write_note(f"note: {len(notes) - MOST_NOTES} more notes; `hloom inspect` lists them")
    return module


def read_program(source: ModuleSource, data: bytes | None = None) -> Module:
    """Load the module as HLO: MindIR, which XLA does not read, is lowered."""
    module = read_module(source, data)
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
        write_note("note: the module is not partitioned yet: numbers describe the whole program, not one device")


def note_sizes(module: Module) -> None:
    """Say on standard error what numbers leave out or assume where dimensions have no size."""
    sizes = size_note(module)
    if sizes:
        write_note(f"note: numbers are {sizes.qualifier}what is shown: {sizes}")


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show a bar on the terminal while work goes on for more than PATIENCE seconds.

    It shows the time left where the work says how far it has come (`hloom.text.tracked`), and moves otherwise. The
    block gets a function that lets the bar say something else.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console  # only here: it takes as long to load as most modules take to read
    from rich.progress import BarColumn, Progress, RenderableColumn, TextColumn, TimeElapsedColumn

    left = _TimeLeft()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), RenderableColumn(left))
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task(visible(what), total=None)

    def told(done: int, total: int) -> None:
        left.told(done, total)
        progress.update(task, completed=done, total=total)
        if done == total:  # what follows, if anything, has not said how long it is
            progress.tasks[0].total = None

    timer = threading.Timer(PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        with listening(told, lambda answer: progress.update(task, description=visible(f"{what}: {answer}"))):
            yield lambda text: progress.update(task, description=visible(text))
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


class _TimeLeft:
    """The time left, as a part of the bar: what is done took so long, and the rest will take its share of it."""

    def __init__(self) -> None:
        self.began = monotonic()
        self.end = 0.0

    def told(self, done: int, total: int) -> None:
        """Estimate when the work will end; nothing is known before any of it is done, and after all of it is."""
        now = monotonic()
        if done == 0:
            self.began = now
        self.end = now + (now - self.began) * (total - done) / done if 0 < done < total else 0.0

    def __rich__(self) -> str:
        return f"{timedelta(seconds=max(0, round(self.end - monotonic())))} left" if self.end else ""


def _note_modules(modules: Sequence[DumpedModule]) -> None:
    """A table of dumped modules, largest first; counts of those that are read within READ_BYTES together."""

    from hloom.cli.tables import add_rest, new_table, note_tables

    table = new_table(None, "module", "stage", ">bytes", ">instructions", ">FLOPs")
    left = READ_BYTES
    for listed in modules[:MOST_LISTED]:
        left -= listed.size
        counts = _counts(listed) if left >= 0 else ("", "")
        table.add_row(listed.label, listed.stage, f"{listed.size:,}", *counts)
    add_rest(table, len(modules), MOST_LISTED, "")
    note_tables([table])


def _counts(listed: DumpedModule) -> tuple[str, str]:
    """A module's instructions and FLOPs as a table has them; empty for one that does not read."""
    from hloom.analysis import cost

    try:
        module = load(listed.path)
        report = cost(module)
        return f"{module.node_count:,}", f"{report.qualifier}{max(report.total.flops, 0):,}"
    except HloomError:
        return "", ""


def _in_dump(source: ModuleSource) -> ModuleSource:
    """The file that a directory of dumps means, which a note names with its stage; anything else as it is."""
    if source.file == STDIN:
        return source
    dumped = dumped_module(source.file, source.module, source.stage, source.preferred)
    if dumped is None:
        return source
    chosen, others = dumped
    if chosen.stage:
        named = [stage for stage in others if not stage[:4].isdigit()]
        passes = len(others) - len(named)
        named += [f"{passes:,} between passes"] if passes else []
        also = f"; there are also {', '.join(named)} (--stage)" if named else ""
        is_missing = source.stage is None and not chosen.is_stage(source.preferred)
        missing = f" (no {source.preferred})" if is_missing else ""
        write_note(f"note: {chosen.label} at stage {chosen.stage}{missing}{also}")
    return replace(source, file=str(chosen.path), module=None, stage=None)


def _as_path(file: str) -> Path | str:
    """A command line's FILE is a path always, whatever it looks like; only - is not."""
    return file if file == "-" else Path(file)
