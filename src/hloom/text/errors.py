"""The one family of exceptions."""

from __future__ import annotations

from hloom.text.source import Place


class HloomError(Exception):
    """What went wrong, where, and what to do about it; every error hloom raises on purpose is one."""

    def __init__(self, message: str, location: Place | None = None, hint: str | None = None) -> None:
        super().__init__(message, location, hint)
        self.message = message
        self.place = location
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.message}" if self.place else self.message]
        if self.place and self.place.excerpt:
            lines.append(self.place.show())
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


class ParseError(HloomError):
    """A text that does not follow its grammar."""


class Unsupported(HloomError):
    """A thing that is understood but that hloom (or XLA, here) cannot do."""


class HloomWarning(UserWarning):
    """Something was kept that hloom does not understand."""
