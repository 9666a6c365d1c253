"""Tables on a terminal: one style for all subcommands, and how numbers are written in them.

What a subcommand shows is in its own file; how a table looks is here alone.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hloom.cli.output import write_note, write_text
from hloom.cli.streams import writing_stdout
from hloom.text import visible

WIDTH = 120
"""The width, in characters, of tables that are not written to a terminal."""
RIGHT = ">"
"""In front of a column's name: its values are aligned to the right, as in Python's format strings."""


def new_table(title: str | None, *columns: str) -> Table:
    """An empty table; a column whose name begins with `>` is aligned to the right, as numbers are."""
    table = _ProgramTable(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        justify = "right" if column.startswith(RIGHT) else "left"
        table.add_column(column.removeprefix(RIGHT), justify=justify, overflow="fold")
    table.columns[0].style = "cyan"
    return table


def add_rest(table: Table, total: int, limit: int, hint: str = "; --top shows them") -> None:
    """Add a last row that counts the rows beyond the limit, if there are any."""
    if total > limit:
        table.add_row(Text(f"{total - limit:,} more{hint}"), style="dim")


class _ProgramTable(Table):
    """A table that shows a program's strings: terminals see escapes, for which its columns are wide enough."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*map(_shown, cells), **options)


def _shown(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, Text):
        return cell if visible(cell.plain) == cell.plain else Text(visible(cell.plain), cell.style)
    return Text(visible(cell)) if isinstance(cell, str) else cell


class _Console(Console):
    """A console whose own escapes for colours are all that a terminal gets."""

    def render(self, renderable: ConsoleRenderable | Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def write_tables(parts: Iterable[RenderableType], output: Path | None) -> None:
    """Write tables and lines of text: coloured on a terminal, plain elsewhere."""
    console = _Console(highlight=False)
    if output is None and console.is_terminal:
        with writing_stdout():
            _show(parts, console)
    else:
        write_text(_plain(parts), output)


def note_tables(parts: Iterable[RenderableType]) -> None:
    """Write tables and lines of text to the standard error, where the standard output is for something else."""
    console = _Console(highlight=False, stderr=True)
    if console.is_terminal:
        _show(parts, console)
    else:
        write_note(_plain(parts).removesuffix("\n"))


def _show(parts: Iterable[RenderableType], console: Console) -> None:
    for part in parts:
        console.print(part)


def _plain(parts: Iterable[RenderableType]) -> str:
    plain = io.StringIO()
    _show(parts, _Console(file=plain, width=WIDTH, highlight=False, no_color=True, force_terminal=False))
    lines = (line.rstrip() for line in plain.getvalue().split("\n"))
    return "\n".join(lines).rstrip("\n") + "\n"


def byte_text(count: int) -> str:
    """A number of bytes with a binary unit.

    >>> byte_text(512), byte_text(1536), byte_text(3 * 2**30)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} PiB"


def time_text(seconds: float) -> str:
    """Seconds with a unit.

    >>> time_text(0.0123), time_text(4.5e-6), time_text(75), time_text(0)
    ('12.3 ms', '4.5 us', '75 s', '0 s')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0 s"


def percent_text(part: float, total: float) -> str:
    """A share in percent, with one decimal; empty where there is no total."""
    return f"{100 * part / total:.1f}" if total else ""


def cut(text: str, limit: int) -> str:
    """The text, shortened in the middle where it is longer than the limit.

    >>> cut("region_1.2.clone.3", 11)
    'regio…one.3'
    """
    if len(text) <= limit:
        return text
    left = (limit - 1) // 2
    return f"{text[:left]}…{text[left + 1 - limit :]}"
