"""Random modules in which the rules of division.py fire."""

from tests.passes.forms import FLOATS, INTEGERS, SIGNED, UNSIGNED, Domain, domain, one_of

_BIG = tuple(item for item in INTEGERS if not item.endswith("4") or item.endswith("64"))
_POWERS = {"c": one_of("2", "4", "8")}

DOMAINS: dict[str, Domain] = {
    "divide-by-one": domain((*INTEGERS, *FLOATS), "divide(x, #1)"),
    "divide-by-minus-one": domain((*SIGNED, *FLOATS), "divide(x, #-1)"),
    "divide-unsigned-by-power-of-two": domain(UNSIGNED, "divide(x, #{c})", **_POWERS),
    "divide-by-float-power-of-two": domain(
        FLOATS, "divide(x, #{c})", c=one_of("2", "0.25", "-4", "1024", "-0.0078125")
    ),
    "remainder-by-one": domain(INTEGERS, "remainder(x, #1)"),
    "remainder-of-remainder": domain((*INTEGERS, *FLOATS), "remainder(remainder(x, y), y)"),
    "remainder-of-unsigned-by-power-of-two": domain(UNSIGNED, "remainder(x, #{c})", **_POWERS),
    "remainder-by-more": domain(
        _BIG, "i = $T iota(), iota_dimension=0\nremainder(i, #{c})", shapes=["5", "3,4"], c=one_of("5", "7", "100")
    ),
    "remainder-of-sum-with-divisor": domain(
        _BIG,
        "i = $T iota(), iota_dimension=0\nremainder(add(i, #{c}), #{c})",
        "i = $T iota(), iota_dimension=0\nremainder(add(#{c}, i), #{c})",
        shapes=["5", "30,4"],
        c=one_of("3", "7", "90"),
    ),
    "power-of-zero": domain((*_BIG, *FLOATS), "power(x, #0)"),
    "power-of-one": domain((*_BIG, *FLOATS), "power(x, #1)"),
    "power-of-two": domain((*_BIG, *FLOATS), "power(x, #2)"),
    "integer-power-of-three": domain(_BIG, "power(x, #3)"),
    "power-of-minus-one": domain(FLOATS, "power(x, #-1)"),
    "power-of-one-half": domain(FLOATS, "power(abs(x), #0.5)", "power(exponential(x), #0.5)"),
}
