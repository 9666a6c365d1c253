"""Random modules in which the rules of arithmetic_relaxed.py fire."""

from tests.passes.forms import COMPLEX, FLOATS, Domain, domain, numbers, one_of

_CONSTANTS = {"c": numbers(1, 7), "d": numbers(1, 7)}

DOMAINS: dict[str, Domain] = {
    "add-any-zero": domain(FLOATS, "add(x, #0)", "add(#-0.0, x)"),
    "subtract-any-zero": domain(FLOATS, "subtract(x, #0)", "subtract(x, #-0.0)"),
    "multiply-complex-by-one": domain(COMPLEX, "multiply(x, #(1,0))", "multiply(#(1,0), x)"),
    "add-float-constants-together": domain(FLOATS, "add(add(x, #{c}), #{d})", "add(#{d}, add(#{c}, x))", **_CONSTANTS),
    "add-float-constant-to-difference": domain(FLOATS, "add(subtract(#{c}, x), #{d})", **_CONSTANTS),
    "common-power-of-two": domain(
        FLOATS, "c = $T copy(#{c})\nadd(multiply(x, c), multiply(y, c))", c=one_of("0.125", "2", "-4")
    ),
    "multiply-float-constants-together": domain(FLOATS, "multiply(multiply(x, #{c}), #{d})", **_CONSTANTS),
    "float-constants-of-two-factors": domain(FLOATS, "multiply(multiply(x, #{c}), multiply(#{d}, y))", **_CONSTANTS),
    "float-constant-into-broadcast": domain(
        FLOATS, "b = $T broadcast(s), dimensions={}\nmultiply(b, multiply(x, #{c}))", **_CONSTANTS
    ),
    "multiply-float-by-predicate": domain(FLOATS, "multiply(x, $T convert(p))", "multiply($T convert(p), x)"),
    "square-of-sqrt": domain(FLOATS, "a = sqrt(abs(x))\nmultiply(a, a)", "a = sqrt(exponential(x))\nmultiply(a, a)"),
    "square-of-rsqrt": domain(FLOATS, "a = rsqrt(abs(x))\nmultiply(a, a)"),
    "abs-of-at-least-zero": domain(FLOATS, "abs(maximum(x, abs(y)))", "abs(select(p, #0, maximum(x, #0)))"),
}
