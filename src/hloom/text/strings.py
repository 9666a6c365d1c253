r"""Quoted strings with C escapes, as Abseil's CEscape writes them and CUnescape reads them."""

from __future__ import annotations

import re

_NAMED = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "?": 63, "'": 39, '"': 34}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?'\"])|([0-7]{1,3})|[xX]([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.?))", re.DOTALL
)
_PRINTED = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
_SPECIAL = re.compile(r"[^ !#-&(-\[\]-~]")


def unescape(text: str) -> str:
    r"""Undo C escapes; bytes that are not UTF-8 survive as surrogates.

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
            raise ValueError(f"'{match[0]}' is no Unicode character")
        return chr(code).encode("utf-8")
    value = int(octal, 8) if octal is not None else int(hexadecimal, 16)
    if value > 255:
        raise ValueError(f"'{match[0]}' is over one byte")
    return bytes([value])


def escape(text: str) -> str:
    r"""Write C escapes; what is not printable ASCII becomes three octal digits per byte.

    >>> escape('say "é"')
    'say \\"\\303\\251\\"'
    """
    if not _SPECIAL.search(text):
        return text
    data = text.encode("utf-8", "surrogateescape")
    return "".join(_PRINTED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data)
