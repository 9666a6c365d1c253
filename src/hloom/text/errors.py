"""The one family of exceptions."""

from __future__ import annotations

from hloom.text.source import Location


class HloomError(Exception):
    """What went wrong, where, and what to do about it; every error hloom raises on purpose is one."""

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
        return "\n".join(lines)


class ParseError(HloomError):
    """A text that does not follow its grammar."""


class Unsupported(HloomError):
    """A thing that is understood but that hloom (or XLA, here) cannot do."""


class HloomWarning(UserWarning):
    """Something was kept that hloom does not understand."""
