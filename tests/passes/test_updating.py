"""Updates of slices, and scatters: before and after."""

import pytest

from hloom.passes.rules.updating import UPDATING, UPDATING_AS_XLA
from tests.passes.computations import program
from tests.passes.rewriting import assert_keeps, assert_rewrites

X = "x = f32[10] parameter(0)  "
XI = X + "i = s32[] parameter(1)  "


@pytest.mark.parametrize(
    "before, after",
    [
        (
            XI + "y = f32[10] parameter(2)  ROOT d = f32[10] dynamic-update-slice(x, y, i)",
            XI + "ROOT y = f32[10] parameter(2)",
        ),
        (
            XI + "y = f32[0] parameter(2)  ROOT d = f32[10] dynamic-update-slice(x, y, i)",
            XI.replace("x =", "ROOT x =") + "y = f32[0] parameter(2)",
        ),
        (
            "s = f32[] parameter(0)  b = f32[2] broadcast(s)  y = f32[1] parameter(1)  i = s32[] constant(2)  "
            "ROOT d = f32[2] dynamic-update-slice(b, y, i)",
            "s = f32[] parameter(0)  y = f32[1] parameter(1)  ROOT p = f32[2] pad(y, s), padding=1_0",
        ),
        (
            XI + "s = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}  ROOT d = f32[10] dynamic-update-slice(x, s, i)",
            XI.replace("x =", "ROOT x ="),
        ),
        (
            XI + "y = f32[4] parameter(2)  z = f32[4] parameter(3)  a = f32[10] dynamic-update-slice(x, y, i)  "
            "ROOT d = f32[10] dynamic-update-slice(a, z, i)",
            XI + "y = f32[4] parameter(2)  z = f32[4] parameter(3)  ROOT d = f32[10] dynamic-update-slice(x, z, i)",
        ),
    ],
    ids=["everything", "nothing", "scalar", "what is there", "twice"],
)
def test_updates(before: str, after: str):
    assert_rewrites(UPDATING, before, after)


def test_update_of_updated_slice():
    assert_rewrites(
        UPDATING_AS_XLA,
        XI + "j = s32[] parameter(2)  y = f32[2] parameter(3)  s = f32[5] dynamic-slice(x, i), dynamic_slice_sizes={5}  "
        "u = f32[5] dynamic-update-slice(s, y, j)  ROOT d = f32[10] dynamic-update-slice(x, u, i)",
        XI + "j = s32[] parameter(2)  y = f32[2] parameter(3)  "
        "a = s32[] constant(0)  b = s32[] constant(3)  c = s32[] clamp(a, j, b)  "
        "e = s32[] constant(0)  f = s32[] constant(5)  g = s32[] clamp(e, i, f)  "
        "k = s32[] add(c, g)  ROOT d = f32[10] dynamic-update-slice(x, y, k)",
    )


@pytest.mark.parametrize(
    "text",
    [
        XI + "y = f32[4] parameter(2)  ROOT d = f32[10] dynamic-update-slice(x, y, i)",
        "s = f32[] parameter(0)  b = f32[2] broadcast(s)  y = f32[1] parameter(1)  i = s32[] parameter(2)  "
        "ROOT d = f32[2] dynamic-update-slice(b, y, i)",
        "s = f32[] parameter(0)  b = f32[2] broadcast(s)  y = f32[1] parameter(1)  i = s32[] constant(0)  "
        'm = f32[1] custom-call(y), custom_call_target="MoveToHost"  ROOT d = f32[2] dynamic-update-slice(b, m, i)',
        XI + "j = s32[] parameter(2)  s = f32[4] dynamic-slice(x, j), dynamic_slice_sizes={4}  "
        "ROOT d = f32[10] dynamic-update-slice(x, s, i)",
        XI + "y = f32[4] parameter(2)  z = f32[3] parameter(3)  a = f32[10] dynamic-update-slice(x, y, i)  "
        "ROOT d = f32[10] dynamic-update-slice(a, z, i)",
    ],
    ids=["part", "scalar, but anywhere", "to the host", "from another place", "less"],
)
def test_updates_that_stay(text: str):
    assert_keeps(UPDATING, text)


SCATTER = """
    x = f32[{rows}] parameter(0)
    i = s32[{indices}] parameter(1)
    y = f32[{updates}] parameter(2)
    ROOT s = f32[{rows}] scatter(x, i, y), {numbers}, to_apply=add_f32
"""
ROWS = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
)
WHOLE = "update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=0"


def test_scatter_of_nothing():
    assert_rewrites(
        UPDATING,
        program(SCATTER.format(rows="5,3", indices="0,1", updates="0,3", numbers=ROWS)),
        "ROOT x = f32[5,3] parameter(0)  i = s32[0,1] parameter(1)  y = f32[0,3] parameter(2)",
    )


def test_scatter_over_everything():
    assert_rewrites(
        UPDATING,
        program(SCATTER.format(rows="5,3", indices="0", updates="5,3", numbers=WHOLE)),
        program(
            """
            x = f32[5,3] parameter(0)
            i = s32[0] parameter(1)
            y = f32[5,3] parameter(2)
            ROOT m = f32[5,3] map(x, y), dimensions={0,1}, to_apply=add_f32
            """
        ),
    )


def test_scatter_of_something_stays():
    assert_keeps(UPDATING, program(SCATTER.format(rows="5,3", indices="2,1", updates="2,3", numbers=ROWS)))
