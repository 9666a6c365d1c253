"""Names as XLA wants them on the wire: plain letters, and each but once in the whole module."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*+")
_OTHER = re.compile(r"[^A-Za-z0-9_.-]")
_NUMBERED = re.compile(r"(.+)\.(-?[0-9]{1,18})", re.DOTALL)


class UniqueNames:
    """Gives names out, each once; the first to come keeps its own, later ones get a number behind a dot, as in XLA."""

    __slots__ = ("_next", "_used")

    def __init__(self) -> None:
        self._used: set[tuple[str, int]] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str) -> str:
        """The name, or the name with the first free number.

        >>> names = UniqueNames()
        >>> names.take("x"), names.take("x"), names.take("x.7")
        ('x', 'x.1', 'x.7')
        """
        numbered = _NUMBERED.fullmatch(name)
        stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        if (stem, number) in self._used:
            number = self._next.get(stem, 0)
            while (stem, number) in self._used:
                number += 1
            self._next[stem] = number + 1
        self._used.add((stem, number))
        return f"{stem}.{number}" if number or numbered else stem


def sanitized(name: str) -> str:
    """The name with `_` in place of what no name may hold, as XLA does it."""
    if _PLAIN.fullmatch(name):
        return name
    plain = _OTHER.sub("_", name)
    return plain if plain[:1].isalpha() or plain.startswith("_") else f"_{plain}"
