"""A cursor skips white space and comments, and says what it expected."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.text import Cursor, ParseError, Source

WORD = re.compile(r"[a-z]+")


def cursor_over(text: str) -> Cursor:
    return Cursor(Source(text, "t"))


def test_reading():
    cursor = cursor_over(" /* a * b */ add ( // to the end\n x)")
    assert cursor.peek() == "a"
    match = cursor.match(WORD)
    assert match is not None and match[0] == "add"
    assert cursor.match(WORD) is None
    assert not cursor.accept(")") and cursor.at("(") and cursor.accept("(")
    assert cursor.read(WORD, "a word")[0] == "x"
    cursor.expect(")")
    assert cursor.peek() == "" and cursor.next_token() == "the end of the text"


@given(st.lists(st.sampled_from([" ", "\t", "\r\n", "/* x */", "/***/", "// y\n"]), max_size=8))
def test_white_space_and_comments_mean_nothing(trivia: list[str]):
    text = "".join(trivia)
    cursor = cursor_over(text + "word")
    assert cursor.skip() == len(text)
    assert cursor.read(WORD, "a word")[0] == "word"


def test_a_comment_that_does_not_end_is_no_comment():
    assert cursor_over("/* a").peek() == "/"
    assert cursor_over("/ a").peek() == "/"


def test_a_cursor_may_end_early():
    cursor = Cursor(Source("abc def"), 1, 5)
    assert cursor.read(WORD, "a word")[0] == "bc"
    assert not cursor.at("def")
    assert cursor.read(WORD, "a word")[0] == "d"
    assert cursor.next_token() == "the end of the text"


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("word-1.2 rest", "'word-1.2'"),
        ("%name", "'%name'"),
        ("{}", "'{'"),
        ("", "the end of the text"),
        ("a" * 99, f"'{'a' * 40}'"),
    ],
)
def test_what_was_found_is_named(text: str, token: str):
    assert cursor_over(text).next_token() == token


def refusal(action, text: str) -> str:
    with pytest.raises(ParseError) as caught:
        action(cursor_over(text))
    return str(caught.value)


def test_expect_says_what_and_where():
    assert refusal(lambda c: c.expect("="), " x") == "t:1:2: expected '=', found 'x'\n   x\n   ^"
    message = refusal(lambda c: c.expect("=", "after the name"), "")
    assert message == "t:1:1: expected '=' after the name, found the end of the text"


def test_read_says_what_and_where():
    assert refusal(lambda c: c.read(WORD, "a word"), "\n 3") == "t:2:2: expected a word, found '3'\n   3\n   ^"


def test_an_error_points_at_the_next_token_or_where_it_is_told():
    cursor = cursor_over("a  b")
    cursor.accept("a")
    assert str(cursor.error("no")) == "t:1:4: no\n  a  b\n     ^"
    assert str(cursor.error("no", 0, "yes")) == "t:1:1: no\n  a  b\n  ^\n  yes"
