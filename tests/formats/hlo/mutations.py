"""Texts that were right and then had something done to them."""

from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import strategies as st

from tests.corpus import handwritten
from tests.formats.hlo.xla import FOREIGN

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_%][A-Za-z0-9_.%-]*|-?\d+|\s+|.', re.DOTALL)
LARGEST = 6000
"""Longer texts tell nothing more and take longer."""
NUMBERS = (
    *("-1", "0", "7", "64", "65", "127", "1000", "65536", "1000000", "1000000000", "2147483647", "2147483648"),
    *("4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616"),
    *("1e309", "-1e-400", "0x7fffffff", "1" * 400, "1" * 5000, "nan(0x7fffff)", "-inf", "0.1e1", "00", "1_000"),
)
"""Numbers at the edges of what types hold, and beyond."""
TYPES = (
    *("f32[<=4]", "s32[<=2,3]", "f32[<=5]{0}", "(f32[<=5], s32[])", "f32[?]", "f32[0]", "f32[1000000000]"),
    *("f32[65536,65536]", "f32[9223372036854775807]", "f32[<=9223372036854775808]", "token[]", "(f32[], token[])"),
    *("opaque[]", "()", "((f32[2]))", "pred[2]{0:D(D)}", "s4[3]{0:E(4)}", "c128[2,2]{0,1}", "f8e4m3fn[2]"),
    *("f32[2]{0:T(256)}", "f32[2,2]{1,0:T(8,128)(2,1)S(5)}", "b(f32[2])", "f32[,]", "bf16[2,]", "f32[]{" + "1" * 5000 + "}"),
)
"""Types that few programs have: of dynamic size, huge, tokens, tuples of tuples, with tiles."""
BRACKETS = ("(", "{", "[", "negate(", "{{", "{a=", "call(", '"', "/*", "(f32[], ", "[[", '{"a":', "a.")
"""What opens something, to be repeated."""
NESTED = tuple(bracket * 300 for bracket in BRACKETS)
WORDS = (
    *("0", "1", "2", "-1", "1.5", "{", "}", "(", ")", "[", "]", ",", "=", "%", ":", "->", "<=", "?", "*", "#", "..."),
    *("true", "false", "nan", "inf", "ROOT", "ENTRY", "x", "f32[2]", "f32[]", "s32[4]", "pred[]", "<=5", '"x"'),
    *("{}", "()", "{0}", "{1}", "{0,1}", "{{0}}", "dimensions", 'metadata={op_name="a"}', "sharding={replicated}"),
    *("/*", "*/", "//", "\n", '"', "'", "\\", "\x00", "é", "\ufeff", "\u2028", "+", ";", "@"),
    *NUMBERS, *TYPES, *NESTED,
)  # fmt: skip


def originals() -> dict[str, str]:
    """Handwritten modules of moderate length that XLA accepts."""
    return {
        name: text
        for name, text in handwritten().items()
        if not name.startswith((*FOREIGN, "module_deep", "module_long", "quirk_")) and len(text) < LARGEST
    }


@st.composite
def mutated(draw: Callable, texts: tuple[str, ...], words: tuple[str, ...] = WORDS) -> str:
    """A text with one or two tokens removed, added, replaced, doubled or exchanged."""
    tokens = TOKEN.findall(draw(st.sampled_from(texts)))
    for _ in range(draw(st.integers(1, 2))):
        position = draw(st.integers(0, max(0, len(tokens) - 1)))
        change = draw(st.sampled_from(CHANGES))
        change(draw, tokens, position, words)
    return "".join(tokens)


def remove(draw: Callable, tokens: list[str], position: int, words: tuple[str, ...]) -> None:
    del tokens[position : position + 1]


def add(draw: Callable, tokens: list[str], position: int, words: tuple[str, ...]) -> None:
    tokens.insert(position, draw(st.sampled_from(words)))


def replace(draw: Callable, tokens: list[str], position: int, words: tuple[str, ...]) -> None:
    tokens[position : position + 1] = [draw(st.sampled_from(words))]


def double(draw: Callable, tokens: list[str], position: int, words: tuple[str, ...]) -> None:
    tokens[position:position] = tokens[position : position + draw(st.integers(1, 12))]


def exchange(draw: Callable, tokens: list[str], position: int, words: tuple[str, ...]) -> None:
    other = draw(st.integers(0, max(0, len(tokens) - 1)))
    if tokens:
        tokens[position], tokens[other] = tokens[other], tokens[position]


def enlarge(draw: Callable, tokens: list[str], position: int, words: tuple[str, ...]) -> None:
    """Another number in place of a number: sizes, indices, counts and identifiers of every attribute."""
    numbers = [index for index, token in enumerate(tokens) if token.lstrip("-").isdigit()]
    if numbers:
        tokens[draw(st.sampled_from(numbers))] = draw(st.sampled_from(NUMBERS))


def loosen(draw: Callable, tokens: list[str], position: int, words: tuple[str, ...]) -> None:
    """A dimension of dynamic size: `[5]` becomes `[<=5]`."""
    brackets = [index for index, token in enumerate(tokens) if token == "["]
    if brackets:
        tokens.insert(draw(st.sampled_from(brackets)) + 1, "<=")


def cut(draw: Callable, tokens: list[str], position: int, words: tuple[str, ...]) -> None:
    del tokens[position:]


CHANGES = (remove, add, replace, double, exchange, enlarge, loosen)
