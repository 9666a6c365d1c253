"""Formats many f32 as text at once with numpy, in about a quarter of the time that `literal_text` needs one by one.

Each number becomes a row of characters, in columns that all numbers share: sign, `0.000`, then digits with a column for
the point behind each but the last. A mask says which columns a number has, as C's printf would write it with `%.6g` or
`%.9g`. The digits come from arithmetic in doubles, which is sure unless the number is next to the middle of two
decimal ones; numbers where it is not, and those written with an exponent, are left to the caller's `spell`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

FEWER_DIGITS = 6
"""The number of digits to try first (digits10 of C++); kept if they read back as the same number."""
DIGITS = 9
"""The number of digits that distinguish any two f32 (max_digits10)."""

_SEPARATOR = ", "
_PREFIX = np.frombuffer(b"-0.000  ", np.uint64)[0]
_LANE = 8
"""Rows are written in words of eight characters: the prefix, then three digits a word."""
_WIDTH = 4 * _LANE
_TEXT_WIDTH = _WIDTH - len(_SEPARATOR)
_LEAST_EXPONENT = -4
"""The smallest decimal exponent that `%g` writes without an exponent field."""

_CHUNK = 2**14
"""The number of values formatted per batch; their rows and masks then fit in a processor's cache."""
_SAMPLE = 1024
"""The number of values sampled to estimate whether most are repeated; if so, each distinct value is formatted once."""


@cache
def _layouts() -> tuple[np.ndarray, np.ndarray]:
    """Which columns a number has, and how many: by its sign, its exponent, and its last digit that is not zero."""
    shape = 2, DIGITS - _LEAST_EXPONENT, DIGITS
    layouts = np.zeros((*shape, _WIDTH), bool)
    for negative, row, last in np.ndindex(*shape):
        exponent = row + _LEAST_EXPONENT
        columns = [0] * negative
        if exponent < 0:
            columns += range(1, 2 - exponent)
        for digit in range(max(last, exponent) + 1):
            column = _LANE * (1 + digit // 3) + 2 * (digit % 3)
            columns += [column, column + 1] if digit == exponent < last else [column]
        layouts[negative, row, last, [*columns, _WIDTH - 2, _WIDTH - 1]] = True
    return layouts.reshape(-1, _WIDTH), layouts.sum(-1).reshape(-1)


@cache
def _triples() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For 0 to 999: the digits followed by points, the same before a separator, and the number of trailing zeros."""
    digits = [f"{number:03d}" for number in range(1000)]
    pointed = ["".join(f"{digit}." for digit in three) for three in digits]
    plain, last = (
        np.frombuffer("".join(text + end for text in pointed).encode(), np.uint64) for end in ("  ", _SEPARATOR)
    )
    return plain, last, np.array([3 - len(three.rstrip("0")) for three in digits])


def f32_rows(flat: np.ndarray, size: int, spell: Callable[[np.ndarray], list[str]]) -> list[str]:
    """The texts of every `size` numbers, separated by commas.

    `spell` formats the numbers of an array one by one; it is called for those the arithmetic cannot decide.
    """
    pieces: list[bytes] = []
    lengths = np.empty(flat.size, np.int64)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        text, lengths[start : start + _CHUNK] = _joined(chunk, spell)
        pieces.append(text)
    text = b"".join(pieces).decode("ascii")
    ends = np.cumsum(lengths)[size - 1 :: size].tolist()
    starts = [0, *ends[:-1]]
    return [text[start : end - len(_SEPARATOR)] for start, end in zip(starts, ends, strict=True)]


def is_varied(words: np.ndarray) -> bool:
    """Whether more than a quarter of the first numbers, given as unsigned words, are distinct."""
    ordered = np.sort(words[:_SAMPLE])  # np.unique would import numpy.ma here, 26 ms in the first print of a constant
    return (1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))) * 4 > ordered.size


def _joined(flat: np.ndarray, spell: Callable[[np.ndarray], list[str]]) -> tuple[bytes, np.ndarray]:
    """The numbers, each followed by a separator, and the number of characters of each including the separator."""
    words = flat.view(np.uint32)
    if is_varied(words):
        rows, mask, lengths = _characters(flat, spell)
    else:
        distinct, numbers = np.unique(words, return_inverse=True)
        tables = _characters(distinct.view(np.float32), spell)
        rows, mask, lengths = (table.take(numbers, 0) for table in tables)
    return np.compress(mask.reshape(-1), rows.reshape(-1)).tobytes(), lengths


def _characters(
    flat: np.ndarray, spell: Callable[[np.ndarray], list[str]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A row of characters for each number, a mask of the characters that belong to it, and their count."""
    with np.errstate(all="ignore"):
        size = np.abs(flat.astype(np.float64))
        exponent = np.floor(np.log10(size))
        few, few_is_sure, is_short = _few_digits(flat, size, exponent)
        many, many_is_sure = _digits(size, exponent, DIGITS)
        is_plain = (exponent >= _LEAST_EXPONENT) & (exponent < np.where(is_short, FEWER_DIGITS, DIGITS))
        sure = few_is_sure & (is_short | many_is_sure) & is_plain
        exponents = np.where(sure, exponent, 0).astype(np.int64)
        digits = np.where(sure, np.where(is_short, few * 10 ** (DIGITS - FEWER_DIGITS), many), 1).astype(np.uint32)
    rows, mask, lengths = _plain_rows(digits, exponents, np.signbit(flat))
    unsure = np.flatnonzero(~sure)
    if unsure.size:
        spelled = np.array(spell(flat[unsure]), dtype=f"S{_TEXT_WIDTH}")
        characters = spelled.view(np.uint8).reshape(unsure.size, _TEXT_WIDTH)
        rows[unsure, :_TEXT_WIDTH] = characters
        mask[unsure, :_TEXT_WIDTH] = characters != 0
        lengths[unsure] = mask[unsure].sum(1)
    return rows, mask, lengths


def _few_digits(flat: np.ndarray, size: np.ndarray, exponent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The shorter digits, where they are certain to read back as the number or not to, and where they do."""
    digits, sure = _digits(size, exponent, FEWER_DIGITS)
    read = digits * 10.0 ** (exponent - (FEWER_DIGITS - 1))
    half = 0.5 * np.spacing(np.abs(flat)).astype(np.float64)
    distance = np.abs(read - size)
    is_short = distance < half * (1 - 1e-6)
    is_long = distance > half * (1 + 1e-6)
    is_power_of_two = (flat.view(np.uint32) & 0x7FFFFF) == 0  # the next f32 below is nearer
    return digits, np.where(is_long, True, sure & is_short & ~is_power_of_two), is_short


def _digits(size: np.ndarray, exponent: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The leading decimal digits of each number, rounded, as an integer, and where they are certain to be right."""
    scaled = size / 10.0 ** (exponent - (count - 1))
    digits = np.rint(scaled)
    in_range = (digits >= 10.0 ** (count - 1)) & (digits < 10.0**count)
    return digits, in_range & (np.abs(scaled - digits) < 0.5 - 1e-5)


def _plain_rows(
    digits: np.ndarray, exponent: np.ndarray, negative: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, masks and lengths of numbers of nine digits; trailing zeros after the point are dropped."""
    rest = digits // np.uint32(1000)
    low = digits - rest * np.uint32(1000)
    high = rest // np.uint32(1000)
    middle = rest - high * np.uint32(1000)
    rows = np.empty((digits.size, 4), np.uint64)
    rows[:, 0] = _PREFIX
    triples, last_triples, trailing = _triples()
    rows[:, 1] = triples[high]
    rows[:, 2] = triples[middle]
    rows[:, 3] = last_triples[low]
    zeros = np.where(low, trailing[low], np.where(middle, 3 + trailing[middle], 6 + trailing[high]))
    layout = (negative * (DIGITS - _LEAST_EXPONENT) + (exponent - _LEAST_EXPONENT)) * DIGITS + (DIGITS - 1 - zeros)
    masks, lengths = _layouts()
    return rows.view(np.uint8), masks.take(layout, 0), lengths.take(layout)
