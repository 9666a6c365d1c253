"""Sums with arrays that are zero nearly everywhere: before => after."""

from hloom.passes.rules.add_update_inexact import ADD_UPDATE_INEXACT
from tests.passes.forms import becomes, stays
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

_LINES = "i = s32[] constant(1)\nu = f32[2] slice(y), slice={[0:2]}\n"
_PLACES = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"


def test_updates_of_zeros():
    becomes(
        ADD_UPDATE_INEXACT,
        "f32[8]",
        f"{_LINES}add(x, $T dynamic-update-slice(#0, u, i))",
        f"{_LINES}a = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={{2}}\nb = f32[2] add(a, u)\n"
        "$T dynamic-update-slice(x, b, i)",
    )
    stays(ADD_UPDATE_INEXACT, "f32[8]", f"{_LINES}add(x, $T dynamic-update-slice(#1, u, i))")


def program(*lines: str, combiner: str = "add", size: int = 100) -> str:
    return "\n".join(
        [
            "HloModule m\n",
            f"apply {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] {combiner}(a, b)\n}}\n",
            "ENTRY e {",
            f"  x = f32[{size},4] parameter(0)",
            f"  y = f32[{size},4] parameter(1)",
            "  i = s32[20] parameter(2)",
            "  j = s32[10] parameter(3)",
            "  u = f32[20,4] parameter(4)",
            "  v = f32[10,4] parameter(5)",
            *(
                f"  {line}".replace("$T", f"f32[{size},4]").replace("$BY", f"to_apply=apply, {_PLACES}")
                for line in lines
            ),
            "}",
        ]
    )


def test_one_scatter():
    before = program("s = $T scatter(y, i, u), $BY", "ROOT r = $T add(x, s)")
    assert_rewrites(ADD_UPDATE_INEXACT, before, program("s = $T add(x, y)", "ROOT r = $T scatter(s, i, u), $BY"))


def test_two_scatters():
    first, second = "s = $T scatter(x, i, u), $BY", "t = $T scatter(y, j, v), $BY"
    after = program(
        "k = s32[30] concatenate(i, j), dimensions={0}",
        "w = f32[30,4] concatenate(u, v), dimensions={0}",
        "z = $T add(x, y)",
        "ROOT r = $T scatter(z, k, w), $BY",
    )
    assert_rewrites(ADD_UPDATE_INEXACT, program(first, second, "ROOT r = $T add(s, t)"), after)


def test_two_scatters_of_which_one_is_sorted():
    first, second = "s = $T scatter(x, i, u), $BY, indices_are_sorted=true", "t = $T scatter(y, j, v), $BY"
    after = program(
        "z = $T add(x, y)",
        "t = $T scatter(z, j, v), $BY",
        "ROOT r = $T scatter(t, i, u), $BY, indices_are_sorted=true",
    )
    assert_rewrites(ADD_UPDATE_INEXACT, program(first, second, "ROOT r = $T add(s, t)"), after)


def test_scatters_that_stay():
    scatter, total = "s = $T scatter(y, i, u), $BY", "ROOT r = $T add(x, s)"
    assert_keeps(ADD_UPDATE_INEXACT, program(scatter, total, combiner="maximum"))
    assert_keeps(ADD_UPDATE_INEXACT, program(scatter, "t = $T add(x, s)", "ROOT r = $T multiply(t, s)"))
    both = ("t = $T scatter(x, j, v), $BY", "ROOT r = $T add(s, t)")
    assert_keeps(ADD_UPDATE_INEXACT, program(scatter, *both, size=30))
