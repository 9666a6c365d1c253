"""Plain tables: named columns under each other, numbers to the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The rows under the columns' names, a line each.

    >>> print(plain_table(("name", "flops"), [("dot", 12000), ("add", 7)]))
    name   flops
    dot   12,000
    add        7
    """
    held = list(rows)
    texts = [columns, *([_text(value) for value in row] for row in held)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    is_number = [all(isinstance(row[number], int | float) for row in held) for number in range(len(widths))]
    return "\n".join(_line(row, widths, is_number) for row in texts)


def _line(row: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> str:
    cells = zip(row, widths, is_number, strict=True)
    return "  ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in cells).rstrip()


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)
