"""Tables of plain values: as text, and for JSON, pandas and polars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hloom.analysis.arrow import schema_capsule, stream_capsule
from hloom.text import Display, Displayed, DisplayTable, HloomError, plain_table

MOST_LINES = 60
"""The maximum number of rows to show in an interactive shell."""


@dataclass(frozen=True, slots=True, repr=False)
class Table(Displayed):
    """Named columns and rows of plain values; `str` lays it out with numbers right-aligned.

    >>> print(Table(("name", "flops"), (("dot", 12000), ("add", 7))))
    name   flops
    dot   12,000
    add        7
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def top(self, count: int) -> Table:
        """The first `count` rows."""
        return Table(self.columns, self.rows[:count])

    def to_json(self) -> list[dict[str, Any]]:
        """A list of records, which `json.dumps` takes."""
        return list(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The table by the Arrow PyCapsule interface: `polars.DataFrame(table)`, `pyarrow.table(table)`."""
        return stream_capsule(self._by_column())

    def __arrow_c_schema__(self) -> Any:
        """The types of the columns by the Arrow PyCapsule interface."""
        return schema_capsule(self._by_column())

    def _by_column(self) -> dict[str, list[Any]]:
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        return {name: list(values) for name, values in zip(self.columns, columns, strict=True)}

    def to_pandas(self) -> Any:
        """A pandas DataFrame; raises HloomError where pandas is not installed."""
        columns = {name: list(map(_valid, values)) for name, values in self._by_column().items()}
        return _library("pandas").DataFrame(columns)

    def to_polars(self) -> Any:
        """A polars DataFrame; raises HloomError where polars is not installed."""
        return _library("polars").DataFrame(self)

    def display(self) -> Display:
        return Display(repr(self), [self.as_display("rows")], text=str(self.top(MOST_LINES)))

    def as_display(self, heading: str) -> DisplayTable:
        """The table under a heading, for notebooks."""
        return DisplayTable(heading, self.columns, self.rows, len(self.rows))

    def __repr__(self) -> str:
        return f"<table of {len(self.rows):,} rows: {', '.join(self.columns)}>"

    def __str__(self) -> str:
        return plain_table(self.columns, self.rows)


def _valid(value: Any) -> Any:
    """A value that pandas accepts: text without lone surrogates, which stand for bytes that were not UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise HloomError(f"a table as a {name} frame needs {name}", hint=f"pip install {name}") from None
