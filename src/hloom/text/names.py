"""Resolves names that users write for instructions and parameters, with or without the numeric suffix."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from hloom.text.source import HloomError

NEAR_NAMES = 3
"""The maximum number of similar names to list in an error."""
MOST_LISTED = 5
"""The maximum number of ambiguous names to list in an error."""
_NUMBER = re.compile(r"\.\d+$")


def names_meant(name: str, names: Iterable[str]) -> list[str]:
    """The names that a name refers to: `w.1` matches itself, and `w` matches every `w` with a numeric suffix.

    >>> names_meant("w", ["w.1", "b.2"]), names_meant("%w", ["w", "w.1"]), names_meant("w", ["w.1", "w.2"])
    (['w.1'], ['w'], ['w.1', 'w.2'])
    """
    known = dict.fromkeys(names)
    plain = name.removeprefix("%")
    if name in known or plain in known:
        return [name if name in known else plain]
    return [other for other in known if _NUMBER.sub("", other) == plain]


def resolve_name(name: str, names: Iterable[str], owner: str, what: str) -> str:
    """The one name meant; raises HloomError, with similar names, if there is none or several.

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
    """A hint with the most similar names, or with some of the names if there are few."""
    known = dict.fromkeys(names)
    near = get_close_matches(name, known, NEAR_NAMES) or (list(known) if len(known) <= MOST_LISTED else [])
    return f"near: {', '.join(near)}" if near else None
