"""Random modules in which the rules of functions_relaxed.py fire."""

from tests.passes.forms import COMPLEX, FLOATS, Domain, domain, one_of

DOMAINS: dict[str, Domain] = {
    "multiply-exponentials": domain(FLOATS, "multiply(exponential(x), exponential(y))"),
    "divide-exponentials": domain(FLOATS, "divide(exponential(x), exponential(y))"),
    "divide-by-exponential": domain(FLOATS, "divide(x, exponential(y))"),
    "power-of-exponential": domain(FLOATS, "power(exponential(x), y)"),
    "float-power-of-three": domain(FLOATS, "power(x, #3)"),
    "small-complex-power": domain(COMPLEX, "power(x, #({c},0))", c=one_of("0", "1", "2", "-1")),
    "power-of-one-half-of-at-least-zero": domain(FLOATS, "power(maximum(x, abs(y)), #0.5)"),
    "log-of-exponential": domain(FLOATS, "log(exponential(x))"),
    "log-of-power": domain(FLOATS, "log(power(exponential(x), y))"),
    "log-of-root": domain(FLOATS, "log(sqrt(x))", "log(rsqrt(x))"),
    "sqrt-of-square": domain(FLOATS, "sqrt(multiply(x, x))"),
    "rsqrt-of-reciprocal": domain(FLOATS, "rsqrt(divide(#1, exponential(x)))", "rsqrt(divide(#1, abs(x)))"),
    "rsqrt-of-power": domain(FLOATS, "rsqrt(power(exponential(x), #-2))"),
    "maximum-of-any-clamp": domain(FLOATS, "maximum(#-1, clamp(#-1, y, #3))", "maximum(clamp(#2, y, #2), #2)"),
    "exponential-of-zero": domain(FLOATS, "exponential(#0)"),
    "maximum-of-growing-functions": domain(
        FLOATS, "maximum({f}(x), {f}(y))", f=one_of("tanh", "logistic", "cbrt", "erf")
    ),
}
