"""Random modules in which the rules of division_relaxed.py fire."""

from tests.passes.forms import COMPLEX, FLOATS, SIGNED, Domain, domain, one_of

_POWERS = {"c": one_of("1", "2", "4")}

DOMAINS: dict[str, Domain] = {
    "divide-complex-by-one": domain(COMPLEX, "divide(x, #(1,0))"),
    "divide-signed-by-power-of-two": domain(SIGNED, "divide(x, #{c})", **_POWERS),
    "remainder-of-signed-by-power-of-two": domain(SIGNED, "remainder(x, #{c})", **_POWERS),
    "divide-by-power": domain(FLOATS, "divide(x, power(exponential(y), z))"),
    "divide-by-square-root": domain(
        FLOATS,
        "divide(x, sqrt(y))",
        "divide(x, rsqrt(y))",
        "r = $E[] sqrt(s)\nb = $T broadcast(r), dimensions={}\ndivide(x, b)",
    ),
    "divide-by-constant": domain(FLOATS, "divide(x, #{c})", c=one_of("3", "0.7", "-11", "inf", "0")),
    "divide-quotients": domain(
        FLOATS, "divide(divide(x, y), divide(z, w))", "divide(divide(x, y), z)", "divide(x, divide(y, z))"
    ),
}
