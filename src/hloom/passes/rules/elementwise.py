"""The families of rules on elementwise ops, in the order in which they are tried."""

from __future__ import annotations

from hloom.passes.rules.accumulation_relaxed import ACCUMULATION_RELAXED
from hloom.passes.rules.addition import ADDITION
from hloom.passes.rules.arithmetic_relaxed import ARITHMETIC_RELAXED
from hloom.passes.rules.comparison import COMPARISON
from hloom.passes.rules.conversion import CONVERSION
from hloom.passes.rules.division import DIVISION
from hloom.passes.rules.division_relaxed import DIVISION_RELAXED
from hloom.passes.rules.extremes import EXTREMES
from hloom.passes.rules.fast_math import FAST_MATH as FAST_MATH
from hloom.passes.rules.functions_relaxed import FUNCTIONS_RELAXED
from hloom.passes.rules.logic import LOGIC
from hloom.passes.rules.multiplication import MULTIPLICATION
from hloom.passes.rules.selection import SELECTION
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
