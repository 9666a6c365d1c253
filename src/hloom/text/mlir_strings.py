r"""MLIR's quoted strings: `\22` is a quote, `\0A` a newline; bytes that are not UTF-8 become surrogates."""

from __future__ import annotations

import re

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')
"""A quoted string; its inside is group 1."""

_ESCAPE = re.compile(r'\\(?:([0-9a-fA-F]{2})|([nt"\\])|(.))')
_NAMED = {"n": b"\n", "t": b"\t", '"': b'"', "\\": b"\\"}
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


def unescape(text: str) -> str:
    r"""Undo the escapes; raises ValueError for an unknown one.

    >>> unescape(r"a\0A\C3\A9")
    'a\né'
    """
    if "\\" not in text:
        return text
    data = bytearray()
    end = 0
    for match in _ESCAPE.finditer(text):
        data += text[end : match.start()].encode("utf-8", "surrogateescape")
        hexadecimal, named, unknown = match.groups()
        if unknown is not None:
            raise ValueError(f"unknown escape '\\{unknown}'")
        data += bytes([int(hexadecimal, 16)]) if hexadecimal else _NAMED[named]
        end = match.end()
    data += text[end:].encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape")


def quote(text: str) -> str:
    r"""The string in quotes, with escapes.

    >>> quote('a"é')
    '"a\\22\\C3\\A9"'
    """
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(map(_escaped, data)) + '"'


def _escaped(byte: int) -> str:
    if byte == 92:
        return "\\\\"
    return chr(byte) if 32 <= byte < 127 and byte != 34 else f"\\{byte:02X}"
