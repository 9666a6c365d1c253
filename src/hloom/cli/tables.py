"""Tables on a terminal: one style for all subcommands, and how numbers are written in them.

What a subcommand shows is in its own file; how a table looks is here alone.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hloom.cli.output import write_note, write_record, write_text
from hloom.cli.streams import STDOUT, writing_stdout
from hloom.text import visible

WIDTH = 120
"""The width, in characters, of tables that are not written to a terminal, unless COLUMNS says another."""
NARROWEST = 40
"""No output is made narrower than this, in characters: a table's names and one number need it."""
NAME = 36
"""How many characters a line of the first column has before other columns are left out; longer texts do not fit."""
TEXTS = (24, 12)
"""To how many characters other columns of text are cut: before names are folded, and before columns are left out."""
GAP, EDGE = 3, 1
"""How many characters stand between two columns, and at either end of a line."""
NAME_TEXT = re.compile(r"[\w.-]+")
"""A name of an instruction, which one copies: one that is folded could not be searched for."""
PATH_STEP = re.compile(r"(?<=/)|(?=\[)")
MOST_LINES = 4
"""Over how many lines the path of a scope or a file is folded; one that needs more loses its middle."""
RIGHT = ">"
"""In front of a column's name: its values are aligned to the right, as in Python's format strings."""
KEPT = "!"
"""In front of a column's name: on a narrow line, columns without it are left out before it."""


def new_table(title: str | None, *columns: str) -> Table:
    """An empty table; a column whose name begins with `>` is aligned to the right, as numbers are; see also KEPT."""
    table = _ProgramTable(box=box.SIMPLE_HEAD, pad_edge=False)
    table.heading = title
    table.kept = {number for number, column in enumerate(columns) if column.startswith(KEPT)}
    for column in columns:
        justify = "right" if column.startswith(RIGHT) else "left"
        table.add_column(column.removeprefix(RIGHT).removeprefix(KEPT), justify=justify, overflow="fold")
    table.columns[0].style = "cyan"
    return table


def add_rest(table: Table, total: int, limit: int, hint: str = "; --top shows them") -> None:
    """Say below the table how many rows are beyond the limit, if there are any."""
    if total > limit and isinstance(table, _ProgramTable):
        table.rest = f"{total - limit:,} more{hint}"


class _ProgramTable(Table):
    """A table that shows a program's strings: terminals see escapes, for which its columns are wide enough.

    Where it is wider than the line, columns of text lose the middle of their cells (the last column is folded: there
    stand reasons and lists), then the first column is folded, and at last the columns at the right are left out.
    Numbers are shown whole or not at all. Names of instructions stand on one line always: those that are too long lose
    their middle.
    """

    heading: str | None
    kept: set[int]
    rest = ""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*map(_shown, cells), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Any]:
        widths = [_natural_width(column.header, *column.cells) for column in self.columns]
        is_text = [number > 0 and column.justify == "left" for number, column in enumerate(self.columns)]
        words = [0] * (len(widths) - 1) + [_longest_word(self.columns[-1].cells)]
        fitted = _fitted_widths(widths, is_text, options.max_width, self.kept, words)
        table = self if fitted == widths else self._narrowed(fitted)
        if self.heading:  # not the table's own title, which is folded to its width
            yield Text(self.heading, style="bold")
        yield from Table.__rich_console__(table, console, options)
        headers = [str(column.header) for column, width in zip(self.columns, fitted, strict=True) if not width]
        left_out = ", ".join(filter(None, headers))
        notes = [self.rest, f"columns that do not fit: {left_out}" if left_out else ""]
        if any(notes):
            yield Text("; ".join(filter(None, notes)) + "\n", style="dim")

    def _narrowed(self, widths: Sequence[int]) -> Table:
        """The table with its columns that wide, without those of no width."""
        made = Table(box=self.box, pad_edge=False)
        kept = [number for number, width in enumerate(widths) if width]
        for number in kept:
            column, width = self.columns[number], widths[number]
            made.add_column(column.header, justify=column.justify, style=column.style, width=width, overflow="fold")
        lines = dict.fromkeys(kept, 1) | {0: MOST_LINES, len(widths) - 1: None}
        cells = [
            [_cut_cell(cell, widths[number], lines[number]) for cell in self.columns[number].cells] for number in kept
        ]
        for row, values in zip(self.rows, zip(*cells, strict=True), strict=True):
            made.add_row(*values, style=row.style, end_section=row.end_section)
        return made


def _natural_width(*cells: RenderableType) -> int:
    return max(1, *(cell_len(line) for cell in cells for line in str(cell).split("\n")))


def _longest_word(cells: Iterable[RenderableType]) -> int:
    """The width of the longest word that a folded column keeps on one line; very long words do not count."""
    return max((len(word) for cell in cells for word in str(cell).split() if len(word) <= TEXTS[0]), default=0)


def _cut_cell(cell: RenderableType, width: int, lines: int | None) -> RenderableType:
    """A cell that is folded over as many lines, or any number; names are not folded."""
    if not isinstance(cell, Text | str) or _natural_width(cell) <= width:
        return cell
    limits = [width if NAME_TEXT.fullmatch(line) else (lines and lines * width) for line in str(cell).split("\n")]
    text = "\n".join(
        _folded(cut(line, limit or len(line)), width) for line, limit in zip(str(cell).split("\n"), limits, strict=True)
    )
    return Text(text, cell.style) if isinstance(cell, Text) else text


def _folded(path: str, width: int) -> str:
    """A path with line breaks behind slashes or in front of brackets, where it has them.

    >>> _folded("state['layers'][3]['weight']", 18)
    "state['layers'][3]\\n['weight']"
    """
    lines = [""]
    for step in PATH_STEP.split(path):
        if lines[-1] and len(lines[-1]) + len(step) > width:
            lines.append("")
        lines[-1] += step
    return "\n".join(lines)


def _fitted_widths(
    widths: Sequence[int],
    is_text: Sequence[bool],
    line: int,
    kept: Collection[int] = (),
    words: Sequence[int] = (),
) -> list[int]:
    """The widths with which columns fit on a line, 0 for those that are left out; `words` are not broken.

    >>> _fitted_widths([30, 7, 50, 50], [False, False, True, True], 80)
    [30, 7, 16, 16]
    >>> _fitted_widths([50, 7, 50, 9], [False, False, True, False], 60)
    [36, 7, 0, 9]
    """
    fitted, words = list(widths), words or [0] * len(widths)
    while len([width for width in fitted if width]) > 2:
        for text, name in ((TEXTS[0], widths[0]), (TEXTS[0], NAME), (TEXTS[1], NAME)):
            leasts = {number: max(text, words[number]) for number, shrinks in enumerate(is_text) if shrinks}
            _shrink(fitted, leasts, _excess(fitted, line))
            _shrink(fitted, {0: name}, _excess(fitted, line))
        if _excess(fitted, line) <= 0:
            return fitted
        shown = [number for number, width in enumerate(fitted) if width and number]
        free = [number for number in shown if number not in kept] or shown
        droppable = [number for number in free if is_text[number]] or free
        fitted = [widths[number] if width and number != droppable[-1] else 0 for number, width in enumerate(fitted)]
    _shrink(fitted, dict.fromkeys(range(1, len(fitted)), TEXTS[1]), _excess(fitted, line))
    _shrink(fitted, {0: 1}, _excess(fitted, line))
    return fitted


def _excess(widths: Sequence[int], line: int) -> int:
    """By how many characters a table with such columns is wider than the line."""
    return sum(width + GAP for width in widths if width) - GAP + 2 * EDGE - line


def _shrink(widths: list[int], leasts: Mapping[int, int], excess: int) -> None:
    """Take up to `excess` from the widest of these columns, none below its least."""
    for _ in range(excess):
        wide = [number for number, least in leasts.items() if widths[number] > least]
        if not wide:
            return
        widths[max(wide, key=widths.__getitem__)] -= 1


def _shown(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, Text):
        return cell if visible(cell.plain) == cell.plain else Text(visible(cell.plain), cell.style)
    return Text(visible(cell)) if isinstance(cell, str) else cell


class _Console(Console):
    """A console whose own escapes for colours are all that a terminal gets."""

    def render(self, renderable: ConsoleRenderable | Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def command_line(text: str) -> Text:
    """A line that is to be pasted into a shell: it is not broken, however long it is."""
    return Text(text, overflow="ignore")


def write_tables(parts: Iterable[RenderableType], output: Path | None) -> None:
    """Write tables and lines of text: coloured on a terminal, plain elsewhere."""
    console = _Console(highlight=False)
    if output is None and console.is_terminal:
        with writing_stdout():
            _show(parts, console)
    else:
        write_text(_plain(parts), output)


def write_report(
    record: Callable[[], Any], parts: Iterable[RenderableType], json_output: bool, output: Path | None
) -> None:
    """Write a report as JSON or as tables, whichever was asked for; the other is not made."""
    if json_output:
        write_record(record(), output)
    else:
        write_tables(parts, output)


def write_report_beside(
    record: Callable[[], Any], parts: Iterable[RenderableType], json_output: bool, output: Path | None
) -> None:
    """The same for a command whose -o is for something else: tables make way for it on the standard output."""
    if output == STDOUT and not json_output:
        note_tables(parts)
    else:
        write_report(record, parts, json_output, None)


def note_tables(parts: Iterable[RenderableType]) -> None:
    """Write tables and lines of text to the standard error, where the standard output is for something else."""
    console = _Console(highlight=False, stderr=True)
    if console.is_terminal:
        _show(parts, console)
    else:
        write_note(_plain(parts).removesuffix("\n"))


def _show(parts: Iterable[RenderableType], console: Console) -> None:
    for part in parts:
        is_command = isinstance(part, Text) and part.overflow == "ignore"
        console.print(Text(part) if isinstance(part, str) else part, soft_wrap=is_command)


def shown_width() -> int:
    """How many characters a line of output has: a terminal's width; elsewhere that of COLUMNS, or else WIDTH."""
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else _columns()
    return max(width, NARROWEST)


def _columns() -> int:
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() and text.isascii() and int(text[:6]) > 0 else WIDTH


def _plain(parts: Iterable[RenderableType]) -> str:
    plain = io.StringIO()
    width = max(_columns(), NARROWEST)
    _show(parts, _Console(file=plain, width=width, highlight=False, no_color=True, force_terminal=False))
    lines = (line.rstrip() for line in plain.getvalue().split("\n"))
    return "\n".join(lines).rstrip("\n") + "\n"


def cut(text: str, limit: int) -> str:
    """The text, shortened in the middle where it is longer than the limit.

    >>> cut("region_1.2.clone.3", 11)
    'regio…one.3'
    """
    if len(text) <= limit:
        return text
    left = (limit - 1) // 2
    return f"{text[:left]}…{text[left + 1 - limit :]}"
