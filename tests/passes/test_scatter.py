"""Scatters: before and after."""

from hloom.passes.rules.scatter import SCATTER
from tests.passes.computations import program
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

PROGRAM = """
    x = f32[{rows}] parameter(0)
    i = s32[{indices}] parameter(1)
    y = f32[{updates}] parameter(2)
    ROOT s = f32[{rows}] scatter(x, i, y), {numbers}, to_apply=add_f32
"""
ROWS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
WHOLE = "update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=0"


def test_scatter_of_nothing():
    assert_rewrites(
        SCATTER,
        program(PROGRAM.format(rows="5,3", indices="0,1", updates="0,3", numbers=ROWS)),
        "ROOT x = f32[5,3] parameter(0)  i = s32[0,1] parameter(1)  y = f32[0,3] parameter(2)",
    )


def test_scatter_over_everything():
    assert_rewrites(
        SCATTER,
        program(PROGRAM.format(rows="5,3", indices="0", updates="5,3", numbers=WHOLE)),
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
    assert_keeps(SCATTER, program(PROGRAM.format(rows="5,3", indices="2,1", updates="2,3", numbers=ROWS)))
