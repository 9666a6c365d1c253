"""A position in a text that advances over white space, comments and expected tokens."""

from __future__ import annotations

import re

from hloom.text.source import ParseError, Source

TRIVIA = re.compile(r"(?:[ \t\r\n]++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n]*+)*+")
"""White space and comments, which HLO and MLIR share."""


class Cursor:
    """Reads a source from left to right; every method skips white space and comments first."""

    __slots__ = ("end", "position", "source", "text")

    def __init__(self, source: Source, position: int = 0, end: int | None = None) -> None:
        self.source = source
        self.text = source.text
        self.position = position
        self.end = len(source.text) if end is None else end

    def skip(self) -> int:
        """Skip white space and comments; returns the position of the next token."""
        position = self.position
        if position < self.end and self.text[position] not in " \t\r\n/":
            return position
        match = TRIVIA.match(self.text, self.position, self.end)
        assert match is not None, "the trivia pattern matches the empty string"
        self.position = match.end()
        return self.position

    def peek(self) -> str:
        """The next character, or the empty string at the end."""
        position = self.skip()
        return self.text[position] if position < self.end else ""

    def at(self, literal: str) -> bool:
        """Whether this literal text comes next."""
        return self.text.startswith(literal, self.skip(), self.end)

    def accept(self, literal: str) -> bool:
        """Consume this literal text if it comes next."""
        if not self.at(literal):
            return False
        self.position += len(literal)
        return True

    def expect(self, literal: str, where: str = "") -> None:
        """Consume this literal text, or raise ParseError."""
        if not self.accept(literal):
            raise self.error(f"expected '{literal}'{' ' + where if where else ''}, found {self.next_token()}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consume what the pattern matches next, if it matches."""
        match = pattern.match(self.text, self.skip(), self.end)
        if match:
            self.position = match.end()
        return match

    def match_ahead(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What the pattern matches next, without consuming it."""
        return pattern.match(self.text, self.skip(), self.end)

    def read(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Consume what the pattern must match next, or raise ParseError that names it."""
        match = self.match(pattern)
        if match is None:
            raise self.error(f"expected {what}, found {self.next_token()}")
        return match

    def next_token(self) -> str:
        """The next token as an error names it."""
        position = self.skip()
        if position >= self.end:
            return "the end of the text"
        word = re.compile(r"[\w.%-]{1,40}|.", re.DOTALL).match(self.text, position, self.end)
        return f"'{word[0] if word else self.text[position]}'"

    def error(self, message: str, position: int | None = None, hint: str | None = None) -> ParseError:
        """An error at a position, the next token's unless given; the caller raises it."""
        at = self.skip() if position is None else position
        return ParseError(message, self.source.location(at), hint)
