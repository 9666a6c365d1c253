"""Random modules in which the rules of selection.py fire."""

from tests.passes.forms import COMPLEX, FLOATS, INTEGERS, Domain, domain, one_of

_ALL = (*INTEGERS, *FLOATS, *COMPLEX, "pred")
_DIRECTION = {"o": one_of("EQ", "NE", "LT", "LE", "GT", "GE")}

DOMAINS: dict[str, Domain] = {
    "select-between-the-same": domain(_ALL, "select(p, x, x)"),
    "select-by-constant": domain(_ALL, "c = pred[] constant({c})\nselect(c, x, y)", c=one_of("true", "false")),
    "select-by-not": domain(_ALL, "select(not(p), x, y)"),
    "select-truths": domain(("pred",), "select(p, #true, #false)", "select(p, #false, #true)"),
    "select-one-truth": domain(("pred",), "select(p, #true, x)", "select(p, x, #false)"),
    "select-the-compared": domain(
        (*INTEGERS, "pred"), "c = compare(x, y), direction={o}\nselect(c, x, y)", **_DIRECTION
    ),
    "select-of-select": domain(_ALL, "select(p, select(p, x, y), z)", "select(p, x, select(p, y, z))"),
    "select-around-update": domain(
        (*INTEGERS, *FLOATS),
        "i = s32[] constant({i})\nu = $E[2] slice(y), slice={[0:2]}\nselect(p, x, $T dynamic-update-slice(x, u, i))",
        "i = s32[] constant({i})\nu = $E[2] slice(y), slice={[1:3]}\nselect(p, $T dynamic-update-slice(x, u, i), x)",
        shapes=["5", "7"],
        i=one_of("0", "1", "6", "-1"),
    ),
}
