"""Docstrings as Markdown: the examples in them, which doctest reads, become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe  # pyright: ignore[reportMissingImports]

_EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Fences every example of a docstring."""

    def on_object(self, *, obj: Any, **further: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    """A docstring whose examples, from `>>>` to the next empty line, stand in fences."""
    return _EXAMPLE.sub(lambda match: f"{match['indent']}```pycon\n{match[0]}\n{match['indent']}```", docstring)
