"""MLIR's quoted strings: two hexadecimal digits stand for a byte, bytes that are not UTF-8 survive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.text.mlir_strings import STRING, quote, unescape


@given(st.text())
def test_text_reads_back(text: str):
    quoted = STRING.fullmatch(quote(text))
    assert quoted is not None and unescape(quoted[1]) == text


@given(st.binary())
def test_bytes_that_are_not_utf8_read_back(data: bytes):
    text = data.decode("utf-8", "surrogateescape")
    assert unescape(quote(text)[1:-1]).encode("utf-8", "surrogateescape") == data


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain text", '"plain text"'),
        ('a"b\\', '"a\\22b\\\\"'),
        ("a\n\t", '"a\\0A\\09"'),
        ("é", '"\\C3\\A9"'),
        ("\udcff", '"\\FF"'),
    ],
)
def test_escapes(text: str, quoted: str):
    assert quote(text) == quoted


def test_named_escapes_are_read_and_unknown_ones_refused():
    assert unescape(r"a\n\t\"\\") == 'a\n\t"\\'
    with pytest.raises(ValueError, match=r"unknown escape '\\q'"):
        unescape(r"a\q")
