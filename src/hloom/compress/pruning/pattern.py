"""Sparsity patterns: any elements, n of every m, or whole blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hloom.text import HloomError

LARGEST = 1 << 20
"""The maximum number of elements of a group or of a side of a block."""


@dataclass(frozen=True, slots=True)
class GroupPattern:
    """Of every `size` elements along what a product sums up, `kept` are kept: 2:4."""

    kept: int
    size: int

    def __str__(self) -> str:
        return f"{self.kept}:{self.size}"

    @property
    def sparsity(self) -> float:
        return 1 - self.kept / self.size


@dataclass(frozen=True, slots=True)
class BlockPattern:
    """Blocks of summed elements by outputs are kept or removed as a whole: 16x16."""

    rows: int
    columns: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}"


Pattern = GroupPattern | BlockPattern | None
"""None: every element for itself."""


def read_pattern(text: str | None) -> Pattern:
    """Parse a pattern: 2:4, or 16x16; raises HloomError for others."""
    if text is None:
        return None
    matched = re.fullmatch(r"(\d{1,9})(:|x)(\d{1,9})", text.strip())
    if matched is None:
        raise HloomError(f"'{text}' is not a pattern", hint="give 2:4 (2 of every 4 are kept), or 16x16 (blocks)")
    first, second = int(matched[1]), int(matched[3])
    if not first or not second or max(first, second) > LARGEST:
        raise HloomError(f"'{text}' is not a pattern: its numbers are from 1 to {LARGEST:,}")
    if matched[2] == "x":
        return BlockPattern(first, second)
    if first > second:
        raise HloomError(f"'{text}' is not a pattern: {first} of {second} elements cannot be kept")
    return GroupPattern(first, second)
