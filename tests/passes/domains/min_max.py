"""Random modules in which the rules of extremes.py fire."""

from random import Random

from tests.passes.forms import FLOATS, INTEGERS, Domain, domain, form, numbers, one_of

_ALL = (*INTEGERS, *FLOATS)
_EXTREME = {"f": one_of("maximum", "minimum")}
_IOTA = "i = $T iota(), iota_dimension=0\n"
_BOUNDS = {"a": numbers(-5, 0), "b": numbers(1, 5), "c": numbers(-4, 2), "d": numbers(3, 6)}
_SIGNED = ("s8", "s16", "s32", "s64")


def _rank_of(random: Random) -> str:
    bounds = f"a = u32[] constant(0)\nb = u32[] constant({random.randint(1, 5)})"
    text = form(f"{bounds}\ni = u32[] replica-id()\nclamp(a, i, b)", "u32[]")
    return text.replace("HloModule form", "HloModule form, replica_count=2")


DOMAINS: dict[str, Domain] = {
    "extreme-of-the-same": domain((*_ALL, "pred"), "{f}(x, x)", **_EXTREME),
    "extreme-with-the-least": domain(FLOATS, "maximum(x, #-inf)", "minimum(#inf, x)"),
    "extreme-of-disjoint-ranges": domain(
        _SIGNED,
        f"{_IOTA}{{f}}(i, #{{c}})",
        f"{_IOTA}{{f}}(#{{d}}, i)",
        shapes=["5", "3,4"],
        c=one_of("0", "-3", "4"),
        d=one_of("4", "9"),
        **_EXTREME,
    ),
    "extreme-of-extreme": domain((*_ALL, "pred"), "{f}({f}(x, y), y)", "{f}(x, {f}(x, y))", **_EXTREME),
    "extreme-of-opposite": domain(INTEGERS, "maximum(x, minimum(y, x))", "minimum(maximum(x, y), x)"),
    "extreme-of-constants": domain(_ALL, "{f}({f}(x, #{c}), #{d})", c=numbers(1, 7), d=numbers(1, 7), **_EXTREME),
    "extremes-to-clamp": domain(
        (*_SIGNED, *FLOATS), "maximum(minimum(x, #{b}), #{a})", "minimum(#{b}, maximum(#{a}, x))", **_BOUNDS
    ),
    "extreme-of-clamp": domain(
        (*_SIGNED, *FLOATS),
        "l = $E[] constant({a})\nh = $E[] constant({b})\nmaximum(clamp(l, x, h), l)",
        shapes=[""],
        **_BOUNDS,
    ),
    "clamp-of-clamp": domain((*INTEGERS, *FLOATS), "clamp(x, clamp(x, y, z), z)", "clamp(s, clamp(s, y, t), t)"),
    "clamp-between-constants-twice": domain(_SIGNED, "clamp(#{c}, clamp(#{a}, x, #{b}), #{d})", **_BOUNDS),
    "clamp-within-bounds": domain(_SIGNED, f"{_IOTA}clamp(#0, i, #{{d}})", shapes=["3", "3,4"], **_BOUNDS),
    "clamp-between-the-same": domain(INTEGERS, "clamp(x, y, x)"),
    "clamp-of-rank": _rank_of,
}
