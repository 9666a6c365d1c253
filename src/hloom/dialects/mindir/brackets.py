"""Balanced brackets in `.ir` text: where one closes, and the items between its commas. Nesting may be of any depth."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hloom.text import ParseError, Source

STRING = re.compile(r'"(?:[^"]|"(?![,)\]}:\s]|\Z))*+"')
"""A text between quotes. MindSpore escapes nothing: a quote ends the text where what may follow a value follows."""
_TOKEN = re.compile(STRING.pattern + r"|[()\[\]{},]")
_TOKEN_WITH_ANGLES = re.compile(r"->|[()\[\]{}<>,]")
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}

Span = tuple[int, int]


def items(source: Source, start: int, *, angles: bool = False) -> tuple[list[Span], int]:
    """The trimmed spans between the top-level commas of the bracket at `start`, and the position of its closing one.

    `angles` makes brackets of `<` and `>`, and nothing of quotes. Raises ParseError where a bracket is not closed.
    """
    text = source.text
    spans: list[Span] = []
    left = start + 1
    for token, depth in _tokens(source, start, angles):
        if depth == 1 and text[token] == ",":
            spans.append(_trimmed(text, left, token))
            left = token + 1
        elif depth == 0:
            last = _trimmed(text, left, token)
            if spans or last[0] < last[1]:
                spans.append(last)
            return spans, token
    raise AssertionError("an open bracket is an error")


def closing(source: Source, start: int, *, angles: bool = False) -> int:
    """The position of the bracket that closes the one at `start`."""
    for token, depth in _tokens(source, start, angles):
        if depth == 0:
            return token
    raise AssertionError("an open bracket is an error")


def first_outside(source: Source, start: int, end: int, wanted: str) -> int:
    """The position of the first `wanted` bracket outside of all other brackets; -1 where there is none before `end`."""
    position = start
    while match := _TOKEN.search(source.text, position, end):
        token = match[0]
        if token == wanted:
            return match.start()
        position = closing(source, match.start()) + 1 if token in _CLOSING else match.end()
    return -1


def _tokens(source: Source, start: int, angles: bool) -> Iterator[Span]:
    """The brackets and commas from an opening bracket on, with how many brackets are open after each."""
    opened: list[int] = []
    text = source.text
    for match in (_TOKEN_WITH_ANGLES if angles else _TOKEN).finditer(text, start):
        token = match[0]
        if token in _CLOSING:
            opened.append(match.start())
        elif token in (")", "]", "}", ">"):
            if not opened or _CLOSING[text[opened[-1]]] != token:
                wanted = _CLOSING[text[opened[-1]]] if opened else "no closing bracket"
                raise ParseError(f"expected '{wanted}', not '{token}'", source.location(match.start()))
            opened.pop()
        yield match.start(), len(opened)
        if not opened:
            return
    raise ParseError(f"this '{text[start]}' is not closed", source.location(start))


def _trimmed(text: str, left: int, right: int) -> Span:
    while left < right and text[left].isspace():
        left += 1
    while left < right and text[right - 1].isspace():
        right -= 1
    return left, right


def depth_of(text: str, *, most: int) -> int:
    """How deep the brackets of a text nest, counted no further than `most`."""
    depth = deepest = 0
    for match in re.finditer(r"[()\[\]{}<>]", text):
        depth += 1 if match[0] in _CLOSING else -1
        deepest = max(deepest, depth)
        if deepest >= most:
            break
    return deepest
