"""C escapes, as Abseil reads and writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.text import escape, unescape


@given(st.text())
def test_text_reads_back(text: str):
    assert unescape(escape(text)) == text


@given(st.binary())
def test_bytes_that_are_not_utf8_read_back(data: bytes):
    text = data.decode("utf-8", "surrogateescape")
    assert unescape(escape(text)).encode("utf-8", "surrogateescape") == data


@given(st.text())
def test_what_is_escaped_is_printable_ascii(text: str):
    escaped = escape(text)
    assert escaped.isascii() and (escaped.isprintable() or not escaped)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain text", "plain text"),
        ("a\n\r\t\"'\\", "a\\n\\r\\t\\\"\\'\\\\"),
        ("\0\x7f", "\\000\\177"),
        ("é", "\\303\\251"),
        ("\udcff", "\\377"),
    ],
)
def test_escapes(text: str, escaped: str):
    assert escape(text) == escaped
    assert unescape(escaped) == text


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"\a\b\f\v\?\'", "\a\b\f\v?'"),
        (r"\x41\X42\7\1014", "AB\x07A4"),
        (r"\u00e9\U0001F600", "é\U0001f600"),
        ("é\\n", "é\n"),
        (r"\303\251", "é"),
    ],
)
def test_other_spellings_are_read(escaped: str, text: str):
    assert unescape(escaped) == text


@pytest.mark.parametrize(
    ("escaped", "message"),
    [
        (r"\q", r"unknown escape '\q'"),
        ("a\\", "unknown escape '\\'"),
        (r"\x", r"unknown escape '\x'"),
        (r"\400", r"'\400' is over one byte"),
        (r"\x100", r"'\x100' is over one byte"),
        (r"\ud800", r"'\ud800' is not a Unicode character"),
        (r"\U00110000", r"'\U00110000' is not a Unicode character"),
    ],
)
def test_bad_escapes_are_refused(escaped: str, message: str):
    with pytest.raises(ValueError) as caught:
        unescape(escaped)
    assert str(caught.value) == message
