"""Notebook display of a value: a line with collapsible tables below it, in HTML.

A displayed class derives from `Displayed` and returns its contents from `display`. Layout, truncation and escaping of
program text are decided here only. No scripts are used, because notebooks strip them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any

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
    """A value that notebooks show as its `display` describes."""

    __slots__ = ()

    @abstractmethod
    def display(self) -> Display:
        """The contents to show."""

    def _repr_html_(self) -> str:
        return self.display().to_html()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Text and HTML; without the text, IPython would compute the `repr` of everything a report holds."""
        shown = self.display()
        return {"text/plain": shown.text or shown.title, "text/html": shown.to_html()}


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
    """A text prepared for HTML: truncated, without control characters and lone surrogates, escaped."""
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return escape(text)
