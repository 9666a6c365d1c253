"""Random modules in which the rules of logic.py fire."""

from tests.passes.forms import INTEGERS, SIGNED, Domain, domain, numbers, one_of

_BITS = (*INTEGERS, "pred")
_CONSTANTS = {"c": numbers(0, 7), "d": numbers(0, 7)}
_SHIFT = {"f": one_of("shift-left", "shift-right-logical", "shift-right-arithmetic")}
_LOGIC = {"f": one_of("and", "or")}
_DIRECTION = {"o": one_of("EQ", "NE", "LT", "LE", "GT", "GE")}

DOMAINS: dict[str, Domain] = {
    "and-with-ones": domain(SIGNED, "and(x, #-1)", "and(#-1, x)"),
    "and-with-zero": domain(_BITS, "and(x, #0)", "and(#0, x)"),
    "or-with-zero": domain(_BITS, "or(x, #0)", "or(#0, x)"),
    "or-with-ones": domain(SIGNED, "or(x, #-1)", "or(#-1, x)"),
    "xor-with-zero": domain(_BITS, "xor(x, #0)", "xor(#0, x)"),
    "xor-with-ones": domain(SIGNED, "xor(x, #-1)", "xor(#-1, x)"),
    "logic-with-itself": domain(_BITS, "{f}(x, x)", "{f}(not(x), not(x))", **_LOGIC),
    "xor-with-itself": domain(_BITS, "xor(x, x)", "xor(not(x), not(x))"),
    "logic-with-its-inverse": domain(_BITS, "{f}(x, not(x))", "{f}(not(x), x)", **_LOGIC),
    "absorbed-logic": domain(_BITS, "{f}(x, and(y, x))", "{f}(or(x, y), x)", **_LOGIC),
    "logic-of-constants": domain(INTEGERS, "{f}({f}(x, #{c}), #{d})", **_CONSTANTS, f=one_of("and", "or", "xor")),
    "not-of-not": domain(_BITS, "not(not(x))"),
    "not-of-compare": domain((*INTEGERS, "pred"), "c = compare(x, y), direction={o}\nnot(c)", **_DIRECTION),
    "shift-by-zero": domain(INTEGERS, "{f}(x, #0)", "{f}(#0, x)", **_SHIFT),
    "shift-beyond-the-width": domain(
        ("s8", "u8"), "{f}(x, #{c})", c=one_of("8", "9", "100"), f=one_of("shift-left", "shift-right-logical")
    ),
    "shift-of-shift": domain(
        ("s8", "u16", "s32", "u64"), "{f}({f}(x, #{c}), #{d})", c=numbers(0, 3), d=numbers(0, 4), **_SHIFT
    ),
}
