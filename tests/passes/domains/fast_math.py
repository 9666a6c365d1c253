"""Random modules in which the rules of fast_math.py fire."""

from tests.passes.forms import FLOATS, Domain, domain

DOMAINS: dict[str, Domain] = {
    "subtract-float-itself": domain(FLOATS, "subtract(x, x)"),
    "multiply-float-by-zero": domain(FLOATS, "multiply(x, #0)", "multiply(#0, x)"),
    "what-cancels-out-of-floats": domain(
        FLOATS,
        "add(x, subtract(y, x))",
        "subtract(x, subtract(x, y))",
        "subtract(x, add(y, x))",
        "subtract(add(y, x), x)",
    ),
    "divide-by-scalar": domain(
        FLOATS,
        "b = $T broadcast(s), dimensions={}\ndivide($T convert(p), b)",
        "b = $T broadcast(s), dimensions={}\ndivide(x, b)",
        shapes=["5", "3,4"],
    ),
}
