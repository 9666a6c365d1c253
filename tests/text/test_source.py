"""Places in a text, and errors that point at them."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from hloom.text import HloomError, Location, ParseError, Source, Unsupported

TEXT = "first\nsecond line\n\tthird"


def test_lines_and_columns_count_from_one():
    source = Source(TEXT, "a.hlo")
    assert str(source.location(0)) == "a.hlo:1:1"
    assert str(source.location(TEXT.index("line"))) == "a.hlo:2:8"
    assert str(source.location(len(TEXT))) == "a.hlo:3:7"
    assert source.location(10**9) == source.location(len(TEXT))
    assert source.location(-1) == source.location(0)
    assert repr(source) == "Source(name='a.hlo')"


@given(st.text(alphabet="ab\n\r\t", max_size=400), st.integers(-3, 410))
def test_a_place_points_at_its_character(text: str, position: int):
    location = Source(text).location(position)
    position = max(0, min(position, len(text)))
    lines = text.split("\n")
    assert sum(len(line) + 1 for line in lines[: location.line - 1]) + location.column - 1 == position
    assert len(location.excerpt) <= 160
    if location.caret < len(location.excerpt):
        assert location.excerpt[location.caret] == text[position]


def test_an_error_shows_the_line_and_a_caret():
    error = ParseError("no such opcode", Source(TEXT, "a.hlo").location(TEXT.index("line")), "did you mean 'lime'?")
    assert str(error) == "a.hlo:2:8: no such opcode\n  second line\n         ^\n  did you mean 'lime'?"


def test_a_tab_is_one_column_and_what_is_not_printable_is_replaced():
    assert Source(TEXT).location(TEXT.index("third")).show() == "   third\n   ^"
    assert Source("a\0b\r\n").location(2).show() == "  a\N{REPLACEMENT CHARACTER}b\n    ^"


def test_a_long_line_is_cut_around_the_caret():
    location = Source("a" * 1000 + "!" + "b" * 1000).location(1000)
    assert location.excerpt == "a" * 80 + "!" + "b" * 79
    assert location.show().split("\n")[1] == " " * 82 + "^"
    assert location.column == 1001


def test_errors_without_a_place():
    assert str(HloomError("it failed")) == "it failed"
    assert str(Unsupported("it failed", hint="try this")) == "it failed\n  try this"
    assert str(HloomError("it failed", Location("a", 1, 2))) == "a:1:2: it failed"


def test_errors_can_be_pickled():
    error = ParseError("message", Location("a", 1, 2), "hint")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ParseError and str(again) == str(error)
