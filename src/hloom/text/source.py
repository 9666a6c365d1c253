"""A text with a name, and places in it."""

from __future__ import annotations

from dataclasses import dataclass, field

WINDOW = 160
"""How many characters of a source line an error shows; longer lines are cut around the column."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text to be read and the name to call it by in errors."""

    text: str = field(repr=False)
    name: str = "<text>"

    def location(self, position: int) -> Location:
        """The line and column of a position, counted from 1; a position past the end is the end."""
        position = max(0, min(position, len(self.text)))
        start = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        end = len(self.text) if end < 0 else end
        line_number = self.text.count("\n", 0, start) + 1
        left = max(start, position - WINDOW // 2)
        right = min(end, left + WINDOW)
        return Location(
            self.name, line_number, position - start + 1, self.text[left:right].rstrip("\r"), position - left
        )


@dataclass(frozen=True, slots=True)
class Location:
    """One character of a source: its line and column from 1, the line (or a window of it), the caret's offset there."""

    source: str
    line: int
    column: int
    excerpt: str = ""
    caret: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"

    def show(self) -> str:
        """The excerpt with a caret below the character."""
        visible = "".join(
            c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in self.excerpt
        )
        return f"  {visible}\n  {' ' * self.caret}^"
