r"""Quoted strings with C escapes, compatible with Abseil's CEscape and CUnescape, and escaping of text for display."""

from __future__ import annotations

import json
import re

_NAMED = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "?": 63, "'": 39, '"': 34}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?'\"])|([0-7]{1,3})|[xX]([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.?))", re.DOTALL
)
_PRINTED = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
_SPECIAL = re.compile(r"[^ !#-&(-\[\]-~]")


def unescape(text: str) -> str:
    r"""Undo C escapes; bytes that are not UTF-8 become surrogates.

    Raises ValueError where Abseil's CUnescape refuses: unknown escapes, values over one byte.

    >>> unescape(r"a\n\303\251")
    'a\né'
    """
    if "\\" not in text:
        return text
    data = bytearray()
    end = 0
    for match in _ESCAPE.finditer(text):
        data += text[end : match.start()].encode("utf-8", "surrogateescape")
        data += _unescape_one(match)
        end = match.end()
    data += text[end:].encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape")


def _unescape_one(match: re.Match[str]) -> bytes:
    named, octal, hexadecimal, short, long, unknown = match.groups()
    if unknown is not None:
        raise ValueError(f"unknown escape '\\{unknown}'")
    if named is not None:
        return bytes([_NAMED[named]])
    if short is not None or long is not None:
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ValueError(f"'{match[0]}' is not a Unicode character")
        return chr(code).encode("utf-8")
    value = int(octal, 8) if octal is not None else int(hexadecimal, 16)
    if value > 255:
        raise ValueError(f"'{match[0]}' is over one byte")
    return bytes([value])


def escape(text: str) -> str:
    r"""Write C escapes; bytes other than printable ASCII become three octal digits.

    >>> escape('say "é"')
    'say \\"\\303\\251\\"'
    """
    if not _SPECIAL.search(text):
        return text
    data = text.encode("utf-8", "surrogateescape")
    return "".join(_PRINTED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data)


HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, which terminals interpret
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # invisible
    "\ud800-\udfff\ufffe\uffff]"  # bytes that are not UTF-8, and characters that XML forbids
)
"""Characters from a program's strings that must not reach a terminal, an image or a page; tabs and line breaks may."""


def visible(text: str) -> str:
    r"""The text with C escapes for characters that are invisible or that terminals interpret.

    Inside a quoted HLO string the result denotes the same string.

    >>> visible("a\x1b[2J\n")
    'a\\033[2J\n'
    """
    return text if text.isprintable() else HIDDEN.sub(_octal, text)


MOST_OF_LINE = 2_000
"""The maximum number of characters of a line to show; names and library messages can have millions."""


def readable(text: str) -> str:
    """A message with long lines cut in the middle and special characters escaped."""
    if len(text) > MOST_OF_LINE:
        text = "\n".join(map(_cut_line, text.split("\n")))
    return visible(text)


def _cut_line(line: str) -> str:
    if len(line) <= MOST_OF_LINE:
        return line
    half = MOST_OF_LINE // 2
    return f"{line[:half]} ... {line[-half:]}"


def visible_json(text: str) -> str:
    r"""JSON with these characters escaped; it denotes the same strings.

    >>> visible_json('["\x7f"]')
    '["\\u007f"]'
    """
    return text if text.isprintable() else HIDDEN.sub(_json_escape, text)


def _octal(match: re.Match[str]) -> str:
    try:
        data = match[0].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # an unpaired surrogate, which stands for no byte
        data = match[0].encode("utf-8", "surrogatepass")
    return "".join(_PRINTED.get(byte) or f"\\{byte:03o}" for byte in data)


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f"
