"""Text between brackets that is kept as it stands: found by counting brackets, strings skipped."""

from __future__ import annotations

import re

from hloom.text import Cursor, mlir_strings

_NEXT = re.compile(r'[^"<>()\[\]{}\-]*+(?:-(?!>)[^"<>()\[\]{}\-]*+)*+(->|["<>()\[\]{}])')
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}


def balanced(cursor: Cursor) -> str:
    """Move over an opening bracket and all up to its closing one; the text, brackets included."""
    start = cursor.skip()
    waiting: list[str] = []
    position = start
    while True:
        match = _NEXT.match(cursor.text, position, cursor.end)
        if match is None:
            raise cursor.error(f"'{cursor.text[start]}' is never closed", start)
        position = match.end()
        sign = match[1]
        if sign == '"':
            string = mlir_strings.STRING.match(cursor.text, position - 1, cursor.end)
            if string is None:
                raise cursor.error("this string is never closed", position - 1)
            position = string.end()
        elif sign in _CLOSING:
            waiting.append(_CLOSING[sign])
        elif sign != "->":
            if not waiting or waiting.pop() != sign:
                raise cursor.error(f"'{sign}' closes nothing", position - 1)
            if not waiting:
                cursor.position = position
                return cursor.text[start:position]
