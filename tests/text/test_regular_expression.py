"""Regular expressions of our own: they agree with Python's `re`, and no pattern takes long."""

from __future__ import annotations

import itertools
import re

import pytest

from hloom.text import ParseError, compile_pattern

PATTERNS = (
    "", "a", "a*", "a+b", "(a|b)*c", "^a", "b$", "^$", "[ab]c", "[^a]b", "a{2}", "a{2,}b", "a{1,3}c", "(ab)?c", "a.c",
    "(a*)*b", "(a|a)*c", "a{0}b", "a{0,0}b", r"\w\.", "[a-b]{2}|c$", "^(a|b)+$", "(?:a|)b", "a*?b", "[]a]b", r"[\w.]c",
    "^a{,2}b", "^a{,}b", "a{}", "a{x}", "^a{0,00001}b",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_agrees_with_re(pattern: str):
    compiled = compile_pattern(pattern)
    for length in range(5):
        for characters in itertools.product("abc.", repeat=length):
            text = "".join(characters)
            assert compiled.search(text) is (re.search(pattern, text) is not None), text


def test_a_hostile_pattern_ends():
    assert not compile_pattern("(a*)*(a*)*(a|a)*b").search("a" * 20_000)


@pytest.mark.parametrize(
    ("pattern", "column", "message"),
    [
        ("a)", 2, "unmatched ')'"),
        ("(a", 3, "expected ')'"),
        ("*a", 1, "'*' repeats nothing"),
        ("[a", 3, "expected ']'"),
        ("[b-a]", 5, "a range from a greater to a smaller character"),
        ("a{3,2}", 2, "a repetition of 3 to 2 times"),
        ("a{9999}", 8, "a pattern of more than 2,000 states: its repetitions are too large"),
        ("a{1000000}", 11, "a pattern of more than 2,000 states: its repetitions are too large"),
        ("a{0,1000000}", 13, "a pattern of more than 2,000 states: its repetitions are too large"),
        (r"(a)\1", 5, r"'\1' is not known here"),
        ("(?=a)", 3, "only (...) and (?:...) are groups here"),
        ("a\\", 3, "nothing follows '\\'"),
        ("(" * 60, 52, "groups nest deeper than 50"),
        ("a" * 600, 1, "a pattern has at most 500 characters, not 600"),
    ],
)
def test_errors_point(pattern: str, column: int, message: str):
    with pytest.raises(ParseError) as error:
        compile_pattern(pattern)
    assert error.value.message == message
    assert error.value.location is not None
    assert error.value.location.column == column
