"""Texts that were right and then had something done to them."""

from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import strategies as st

from tests.corpus import handwritten
from tests.hlo.xla import FOREIGN

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_%][A-Za-z0-9_.%-]*|-?\d+|\s+|.', re.DOTALL)
LARGEST = 6000
"""Longer texts tell nothing more and take longer."""
WORDS = (
    *("0", "1", "2", "-1", "1.5", "{", "}", "(", ")", "[", "]", ",", "=", "%", ":", "->", "<=", "?", "*", "#", "..."),
    *("true", "false", "nan", "inf", "ROOT", "ENTRY", "x", "f32[2]", "f32[]", "s32[4]", "pred[]", "token[]", '"x"'),
    *("{}", "()", "{0}", "{1}", "{0,1}", "{{0}}", "dimensions", 'metadata={op_name="a"}', "sharding={replicated}"),
    *("/*", "*/", "//", "\n", '"', "'", "\\", "\x00", "é", "\ufeff", "\u2028", "+", ";", "@"),
)


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


def cut(draw: Callable, tokens: list[str], position: int, words: tuple[str, ...]) -> None:
    del tokens[position:]


CHANGES = (remove, add, replace, double, exchange)
