"""Random modules in which the rules of accumulation_relaxed.py fire."""

from random import Random

from tests.passes.forms import FLOATS, INTEGERS, Domain, domain, one_of

_SUM = "sum {\n  a = $E[] parameter(0)\n  b = $E[] parameter(1)\n  ROOT c = $E[] add(a, b)\n}\n\n"
_BY_ROWS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"


def _scatters(random: Random) -> str:
    element = random.choice(("f32", "s32", "f64"))
    first, second = random.randint(1, 4), random.randint(1, 4)
    sorted_too = random.choice(("", ", indices_are_sorted=true")) if first == 1 else ""
    lines = [
        "ENTRY e {",
        "  x = $E[20,3] parameter(0)",
        f"  i = s32[{first}] parameter(1)",
        f"  u = $E[{first},3] parameter(2)",
        f"  j = s32[{second}] parameter(3)",
        f"  v = $E[{second},3] parameter(4)",
        "  zero = $E[] constant(0)",
        "  zeros = $E[20,3] broadcast(zero), dimensions={}",
        f"  one = $E[20,3] scatter(zeros, i, u), to_apply=sum, {_BY_ROWS}{sorted_too}",
        f"  two = $E[20,3] scatter(x, j, v), to_apply=sum, {_BY_ROWS}",
        f"  ROOT r = $E[20,3] add({random.choice(('one, two', 'two, one', 'x, one', 'one, x'))})",
    ]
    return ("HloModule m\n\n" + _SUM + "\n".join(lines) + "\n}\n").replace("$E", element)


DOMAINS: dict[str, Domain] = {
    "add-update-of-zeros": domain(
        (*INTEGERS, *FLOATS),
        *(
            f"i = s32[] constant({{i}})\nu = $E[2] slice(y), slice={{[1:3]}}\n{text}"
            for text in ("add(x, $T dynamic-update-slice(#0, u, i))", "add($T dynamic-update-slice(#0, u, i), x)")
        ),
        shapes=["5", "7"], i=one_of("0", "2", "9"),
    ),
    "add-scatters": _scatters,
}  # fmt: skip
