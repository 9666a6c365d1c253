"""The families of rules on elementwise ops, in the order in which they are tried."""

from __future__ import annotations

from hloom.passes.accumulation_relaxed import ACCUMULATION_RELAXED
from hloom.passes.addition import ADDITION
from hloom.passes.arithmetic_relaxed import ARITHMETIC_RELAXED
from hloom.passes.comparison import COMPARISON
from hloom.passes.conversion import CONVERSION
from hloom.passes.division import DIVISION
from hloom.passes.division_relaxed import DIVISION_RELAXED
from hloom.passes.extremes import EXTREMES
from hloom.passes.fast_math import FAST_MATH as FAST_MATH
from hloom.passes.functions_relaxed import FUNCTIONS_RELAXED
from hloom.passes.logic import LOGIC
from hloom.passes.multiplication import MULTIPLICATION
from hloom.passes.selection import SELECTION
from hloom.rewrite import Family

ELEMENTWISE: tuple[Family, ...] = (
    ADDITION,
    MULTIPLICATION,
    DIVISION,
    LOGIC,
    COMPARISON,
    SELECTION,
    EXTREMES,
    CONVERSION,
)
"""Rules by which every number stays as it was but for the rounding of one operation."""

ELEMENTWISE_RELAXED: tuple[Family, ...] = (
    ARITHMETIC_RELAXED,
    DIVISION_RELAXED,
    FUNCTIONS_RELAXED,
    ACCUMULATION_RELAXED,
)
"""Further rules that XLA's defaults allow."""
