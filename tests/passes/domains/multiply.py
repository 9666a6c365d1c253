"""Random modules in which the rules of multiplication.py fire."""

from tests.passes.forms import COMPLEX, FLOATS, INTEGERS, SIGNED, Domain, domain, numbers

_SMALL = {"c": numbers(0, 7), "d": numbers(0, 7)}

DOMAINS: dict[str, Domain] = {
    "multiply-by-one": domain((*INTEGERS, *FLOATS), "multiply(x, #1)", "multiply(#1, x)"),
    "multiply-by-zero": domain(INTEGERS, "multiply(x, #0)", "multiply(#0, x)"),
    "multiply-by-minus-one": domain((*SIGNED, *FLOATS), "multiply(x, #-1)", "multiply(#-1, x)"),
    "multiply-negated": domain((*INTEGERS, *FLOATS), "multiply(negate(x), negate(y))"),
    "square-of-abs": domain((*SIGNED, *FLOATS), "a = abs(x)\nmultiply(a, a)"),
    "multiply-by-predicate": domain(INTEGERS, "multiply(x, $T convert(p))", "multiply($T convert(p), x)"),
    "multiply-constants-together": domain(
        INTEGERS, "multiply(multiply(x, #{c}), #{d})", "multiply(#{d}, multiply(#{c}, x))", **_SMALL
    ),
    "constants-of-two-factors": domain(
        INTEGERS,
        "multiply(multiply(x, #{c}), multiply(#{d}, y))",
        "multiply(multiply(#{c}, x), multiply(y, #{d}))",
        **_SMALL,
    ),
    "constant-into-broadcast": domain(
        INTEGERS,
        "b = $T broadcast(s), dimensions={}\nmultiply(multiply(x, #{c}), b)",
        "b = $T broadcast(s), dimensions={}\nmultiply(b, multiply(#{c}, x))",
        **_SMALL,
    ),
    "abs-of-abs": domain((*SIGNED, *FLOATS), "abs(abs(x))"),
    "abs-of-not-negative": domain(
        FLOATS,
        *("abs(exponential(x))", "abs(multiply(x, x))", "abs(minimum(abs(x), exponential(y)))"),
        *("abs(select(p, abs(x), #2))", "abs($T convert(p))", "abs(power(abs(x), y))", "abs(sqrt(abs(x)))"),
    ),
    "abs-of-negate": domain((*SIGNED, *FLOATS, *COMPLEX), "abs(negate(x))"),
    "sign-of-sign": domain((*SIGNED, *FLOATS), "sign(sign(x))"),
}
