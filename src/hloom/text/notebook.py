"""How a value shows itself: one line as its `repr`, tables where it is printed, HTML in a notebook.

A class that shows itself derives from `Displayed` and says in `display` what there is to see; how it looks, how much of
it is shown and that no text of a program becomes HTML is decided here alone. Nothing here runs scripts: notebooks take
those out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any

from hloom.text.plain_table import plain_table
from hloom.text.strings import readable

MOST_ROWS = 20
"""The maximum number of rows of a table to show; the others are only counted."""
MOST_COLUMNS = 12
LONGEST_CELL = 100
"""The maximum number of characters of a text to show."""
NUMBER = "text-align:right;font-variant-numeric:tabular-nums"
TEXT = "text-align:left"
Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class DisplayTable:
    """A collapsed table under a heading; shows the first of `count` rows.

    `rows` may be an iterator: rows that are not shown are never produced.
    """

    heading: str
    columns: Sequence[str]
    rows: Iterable[Sequence[Cell]]
    count: int


@dataclass(frozen=True, slots=True)
class Display:
    """What a notebook shows: a line, tables below it, and Python that shows more; `text` is for a terminal.

    `link` is a URL for the line. Raises ValueError for a URL that could run a script.
    """

    title: str
    tables: Sequence[DisplayTable] = ()
    more: str = ""
    text: str = ""
    link: str = ""

    def __post_init__(self) -> None:
        scheme, colon, _ = self.link.partition(":")
        if colon and scheme != "file":
            raise ValueError(f"a link to a file is relative or begins with file:, not '{scheme}:'")

    def to_text(self) -> str:
        """The line and, under their headings, the first rows of the tables, for a terminal.

        >>> print(Display("<cost of step>", [DisplayTable("totals", ("what", "flops"), [("dot", 12000)], 1)]).to_text())
        <cost of step>
        <BLANKLINE>
        totals: 1
        what   flops
        dot   12,000
        """
        return self.text or "\n\n".join([self.line(), *(_plain(table) for table in self.tables if table.count)])

    def line(self) -> str:
        """The title as one line, without characters that terminals obey."""
        return readable(" ".join(self.title.split("\n")))

    def to_html(self) -> str:
        """The HTML, all texts escaped.

        >>> Display("<b> & co").to_html()
        '<details><summary><code>&lt;b&gt; &amp; co</code></summary></details>'
        """
        parts = [f"<summary><code>{_text(self.title, 3 * LONGEST_CELL)}</code></summary>"]
        parts += [_table(table) for table in self.tables if table.count]
        if self.link:
            return f'<a href="{escape(self.link)}" target="_blank">{_text(self.title)}</a>'
        if self.more:
            parts.append(f"<div>more: <code>{_text(self.more)}</code></div>")
        return f"<details>{''.join(parts)}</details>"


class Displayed:
    """A value that shells, `print` and notebooks show by what `display` says.

    A dataclass that derives from it says `repr=False`: its own `repr` would be all that it holds.
    """

    __slots__ = ()

    @abstractmethod
    def display(self) -> Display:
        """The contents to show."""

    def __repr__(self) -> str:
        return self.display().line()

    def __str__(self) -> str:
        return self.display().to_text()

    def _repr_html_(self) -> str:
        return self.display().to_html()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Text and HTML: in a shell IPython shows the text."""
        shown = self.display()
        return {"text/plain": shown.text or shown.title, "text/html": shown.to_html()}


def _plain(table: DisplayTable) -> str:
    """The first rows of a table under its heading, cells cut."""
    columns = table.columns[:MOST_COLUMNS]
    rows = [list(map(_plain_cell, row[:MOST_COLUMNS])) for row in islice(table.rows, MOST_ROWS)]
    left = table.count - len(rows)
    rest = f"\n{left:,} more" if left > 0 else ""
    return f"{table.heading}: {table.count:,}\n{plain_table(columns, rows)}{rest}"


def _plain_cell(value: Cell) -> Cell:
    if isinstance(value, str):
        return readable(" ".join(_cut(value).split("\n")))
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _table(table: DisplayTable) -> str:
    columns = table.columns[:MOST_COLUMNS]
    rows = [row[:MOST_COLUMNS] for row in islice(table.rows, MOST_ROWS)]
    heading = f"<summary>{_text(table.heading)}: {table.count:,}</summary>"
    head = "".join(f'<th style="{TEXT}">{_text(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    left = table.count - len(rows)
    rest = f'<tr><td colspan="{len(columns)}">{left:,} more</td></tr>' if left > 0 else ""
    return (
        f'<details style="margin-left:1em">{heading}<table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}{rest}</tbody></table></details>"
    )


def _cell(value: Cell) -> str:
    if isinstance(value, str) or value is None:
        return f'<td style="{TEXT}"><code>{_text(value or "")}</code></td>'
    number = f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
    return f'<td style="{NUMBER}">{number}</td>'


def _text(text: str, longest: int = LONGEST_CELL) -> str:
    """A text as HTML holds it: cut, without control characters and lone surrogates, escaped."""
    text = _cut(text, longest)
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return escape(text)


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
