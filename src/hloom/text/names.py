"""Names that users write for instructions and parameters: the whole one, or the one without its number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from hloom.text.source import HloomError

NEAR_NAMES = 3
"""How many near names an error lists."""
MOST_LISTED = 5
"""How many of several names that may be meant an error lists."""
_NUMBER = re.compile(r"\.\d+$")


def names_meant(name: str, names: Iterable[str]) -> list[str]:
    """Which of the names are meant: `w.1` by itself, and by `w` all that are so called up to their number.

    >>> names_meant("w", ["w.1", "b.2"]), names_meant("%w", ["w", "w.1"]), names_meant("w", ["w.1", "w.2"])
    (['w.1'], ['w'], ['w.1', 'w.2'])
    """
    known = dict.fromkeys(names)
    plain = name.removeprefix("%")
    if name in known or plain in known:
        return [name if name in known else plain]
    return [other for other in known if _NUMBER.sub("", other) == plain]


def resolve_name(name: str, names: Iterable[str], owner: str, what: str) -> str:
    """The one name that is meant; raises HloomError, with those that are near, where it is not one of them or several.

    The error says that the owner (`computation main`) has no such thing (`parameter`).
    """
    known = list(names)
    meant = names_meant(name, known)
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise HloomError(
            f"'{name}' may be any of several: {', '.join(meant[:MOST_LISTED])}", hint="give one of these names"
        )
    raise HloomError(f"{owner} has no {what} '{name}'", hint=near_names(name, known))


def near_names(name: str, names: Iterable[str]) -> str | None:
    """A hint with the nearest names, or with some of few."""
    known = dict.fromkeys(names)
    near = get_close_matches(name, known, NEAR_NAMES) or (list(known) if len(known) <= MOST_LISTED else [])
    return f"near: {', '.join(near)}" if near else None
