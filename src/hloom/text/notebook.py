"""What notebooks show of a value: a line, and under it tables that open with a click, in HTML.

A class that notebooks show derives from `Displayed` and says in `display` what there is to see; how it looks, how much
of it is shown and that no text of a program becomes HTML is decided here alone. Nothing here runs scripts: notebooks
take those out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any

MOST_ROWS = 20
"""How many rows of a table are shown; the rest is counted."""
MOST_COLUMNS = 12
LONGEST_CELL = 100
"""How many characters of a text are shown."""
NUMBER = "text-align:right;font-variant-numeric:tabular-nums"
TEXT = "text-align:left"
Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class DisplayTable:
    """A table under a heading, closed until it is clicked; of `count` rows the first are shown.

    `rows` may be an iterator: what is not shown is not made.
    """

    heading: str
    columns: Sequence[str]
    rows: Iterable[Sequence[Cell]]
    count: int


@dataclass(frozen=True, slots=True)
class Display:
    """What a notebook shows: a line, tables under it, and Python that shows more; `text` is for a terminal.

    With a `link`, a URL that opens what the line is of, the line is a link. Raises ValueError for one that could run a
    script.
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
    """A value that notebooks show by what `display` says."""

    __slots__ = ()

    @abstractmethod
    def display(self) -> Display:
        """What there is to see."""

    def _repr_html_(self) -> str:
        return self.display().to_html()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Text and HTML; the text keeps IPython from making the `repr` of all that a report holds."""
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
    """A text as HTML holds it: cut, without control characters and lone surrogates, escaped."""
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return escape(text)
