"""Random modules in which the rules of addition.py fire."""

from tests.passes.forms import COMPLEX, FLOATS, INTEGERS, Domain, domain, numbers

_ALL = (*INTEGERS, *FLOATS, *COMPLEX)
_SMALL = {"c": numbers(0, 7), "d": numbers(0, 7)}

DOMAINS: dict[str, Domain] = {
    "add-zero": domain((*INTEGERS, "pred"), "add(x, #0)", "add(#0, x)"),
    "subtract-zero": domain((*INTEGERS, *FLOATS), "subtract(x, #0)"),
    "subtract-itself": domain(INTEGERS, "subtract(x, x)"),
    "subtract-from-zero": domain(FLOATS, "subtract(#-0.0, x)"),
    "constant-to-the-right": domain((*INTEGERS, *FLOATS), "add(#{c}, x)", shapes=[""], **_SMALL),
    "subtract-constant": domain((*INTEGERS, *FLOATS), "subtract(x, #{c})", **_SMALL),
    "add-negated": domain(_ALL, "add(x, negate(y))", "add(negate(y), x)"),
    "subtract-negated": domain(_ALL, "subtract(x, negate(y))"),
    "negate-of-negate": domain(_ALL, "negate(negate(x))"),
    "negate-of-difference": domain(INTEGERS, "negate(subtract(x, y))"),
    "add-constants-together": domain(INTEGERS, "add(add(x, #{c}), #{d})", "add(#{d}, add(#{c}, x))", **_SMALL),
    "add-constant-to-difference": domain(INTEGERS, "add(subtract(#{c}, x), #{d})", **_SMALL),
    "subtract-from-constants": domain(
        INTEGERS, "subtract(#{c}, add(x, #{d}))", "subtract(#{c}, subtract(#{d}, x))", **_SMALL
    ),
    "what-cancels-out": domain(
        INTEGERS,
        *("add(x, subtract(y, x))", "add(subtract(y, x), x)", "subtract(x, subtract(x, y))"),
        *("subtract(x, add(y, x))", "subtract(add(y, x), x)"),
    ),
    "common-factor": domain(INTEGERS, "add(multiply(x, z), multiply(z, y))", "add(multiply(z, x), multiply(z, y))"),
}
