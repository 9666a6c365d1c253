"""Named texts, locations in them, and errors that show the location."""

from __future__ import annotations

from dataclasses import dataclass, field

from hloom.text.strings import readable

WINDOW = 160
"""The maximum number of characters of a source line to show in an error; longer lines are cut around the column."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text to read and its name for error messages."""

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
        shown = "".join(
            c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in self.excerpt
        )
        return f"  {shown}\n  {' ' * self.caret}^"


class HloomError(Exception):
    """What went wrong, where, and what to do about it; hloom raises no other kind of error on purpose."""

    def __init__(self, message: str, location: Location | None = None, hint: str | None = None) -> None:
        super().__init__(message, location, hint)
        self.message = message
        self.location = location
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.location}: {self.message}" if self.location else self.message]
        if self.location and self.location.excerpt:
            lines.append(self.location.show())
        if self.hint:
            lines.append(f"  {self.hint}")
        return readable("\n".join(lines))


class ParseError(HloomError):
    """A text that does not follow its grammar."""


class Unsupported(HloomError):
    """Something valid that hloom (or XLA, where noted) does not support."""


class Unattainable(HloomError):
    """No solution exists: nothing fits the given limit, or a fault cannot be reproduced."""


class HloomWarning(UserWarning):
    """hloom kept something it does not understand."""

    def __str__(self) -> str:
        return readable(super().__str__())
