"""Random modules in which the rules of comparison.py fire."""

from tests.passes.forms import FLOATS, INTEGERS, Domain, domain, numbers, one_of

_DIRECTION = {"o": one_of("EQ", "NE", "LT", "LE", "GT", "GE")}
_BITS = (*INTEGERS, "pred")
_IOTA = "i = $T iota(), iota_dimension=0\n"

DOMAINS: dict[str, Domain] = {
    "compare-with-itself": domain(_BITS, "c = compare(x, x), direction={o}\nc", **_DIRECTION),
    "compare-within-bounds": domain(
        ("s8", "u8", "s32", "u64"),
        *(f"{_IOTA}c = compare(i, #{{c}}), direction={{o}}\nc", f"{_IOTA}c = compare(#{{c}}, i), direction={{o}}\nc"),
        shapes=["5", "3,4"],
        c=numbers(5, 9),
        **_DIRECTION,
    ),
    "compare-with-zero": domain(
        FLOATS,
        "c = compare(exponential(x), #0), direction=LT\nc",
        "c = compare(#0, maximum(x, abs(y))), direction=GT\nc",
    ),
    "compare-with-truth": domain(
        ("pred",),
        *("c = compare(x, #{c}), direction={o}\nc", "c = compare(#{c}, x), direction={o}\nc"),
        c=one_of("true", "false"),
        o=one_of("EQ", "NE"),
    ),
    "compare-of-select": domain(
        (*INTEGERS, *FLOATS),
        *(
            "c = compare(select(p, #{a}, #{b}), #{c}), direction={o}\nc",
            "c = compare(#{c}, $T convert(p)), direction={o}\nc",
        ),
        **_DIRECTION,
        a=numbers(0, 3),
        b=numbers(0, 3),
        c=numbers(0, 3),
    ),
    "compare-of-extreme": domain(
        (*INTEGERS, *FLOATS),
        *("c = compare(maximum(x, y), x), direction=GT\nc", "c = compare(maximum(x, y), y), direction=GT\nc"),
        *("c = compare(x, minimum(x, y)), direction=GT\nc", "c = compare(y, maximum(x, y)), direction=LT\nc"),
    ),
    "comparisons-with-constants": domain(
        ("s8", "s32", "u16", "u64"),
        "c = compare(x, #{c}), direction={o}\nd = compare(x, #{d}), direction={o}\n{f}(c, d)",
        c=numbers(1, 7),
        d=numbers(1, 7),
        o=one_of("LT", "LE", "GT", "GE"),
        f=one_of("and", "or"),
    ),
}
