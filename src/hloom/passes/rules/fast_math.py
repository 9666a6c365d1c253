"""Rules that hold for real numbers only: no NaN, no infinity, reciprocals for divisions (LLVM's nnan, ninf and arcp).

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleSubtract, HandleMultiply).
XLA applies them under enable_fast_math and enable_floats_are_real.
"""

from __future__ import annotations

from hloom.rewrite import Family

FAST_MATH = Family("fast-math")

FAST_MATH.table("""
subtract-float-itself [3]: subtract(x, x) -> 0 if inexact  # x is neither NaN nor infinite
multiply-float-by-zero [3]: multiply(x, z) -> z if inexact, z is zero  # x is neither NaN nor infinite
what-cancels-out-of-floats [2]: add(x, subtract(y, x)) -> y; subtract(x, subtract(x, y)) -> y;
    subtract(add(x, y), x) -> y; subtract(x, add(x, y)) -> negate(y) where inexact  # as if none were rounded
divide-by-scalar: divide(x, b:broadcast(s)) -> multiply(x, spread(divide(1, s), root))
    if real, s is scalar, s is not literal, root is several  # one division in place of many: rounded twice
""")
