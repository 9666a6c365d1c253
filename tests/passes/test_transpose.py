"""Transposes: before and after."""

import pytest

from hloom.passes.rules.transpose import TRANSPOSE, TRANSPOSE_AS_XLA
from tests.passes.rule_assertions import assert_keeps, assert_rewrites


def test_transpose_that_moves_nothing():
    assert_rewrites(
        TRANSPOSE,
        "x = f32[2,3] parameter(0)  ROOT t = f32[2,3] transpose(x), dimensions={0,1}",
        "ROOT x = f32[2,3] parameter(0)",
    )


def test_transpose_of_transpose():
    assert_rewrites(
        TRANSPOSE,
        """
        x = f32[2,3,4] parameter(0)
        a = f32[3,4,2] transpose(x), dimensions={1,2,0}
        ROOT t = f32[4,3,2] transpose(a), dimensions={1,0,2}
        """,
        "x = f32[2,3,4] parameter(0)  ROOT t = f32[4,3,2] transpose(x), dimensions={2,1,0}",
    )


def test_transpose_of_ones():
    assert_rewrites(
        TRANSPOSE,
        "x = f32[1,1,10] parameter(0)  ROOT t = f32[10,1,1] transpose(x), dimensions={2,1,0}",
        "x = f32[1,1,10] parameter(0)  ROOT t = f32[10,1,1] reshape(x)",
    )


def test_transpose_of_broadcast():
    assert_rewrites(
        TRANSPOSE,
        """
        x = f32[2,4] parameter(0)
        b = f32[10,2,3,4] broadcast(x), dimensions={1,3}
        ROOT t = f32[2,3,10,4] transpose(b), dimensions={1,2,0,3}
        """,
        "x = f32[2,4] parameter(0)  ROOT b = f32[2,3,10,4] broadcast(x), dimensions={0,3}",
    )


def test_transpose_of_iota():
    assert_rewrites(
        TRANSPOSE,
        "i = f32[2,3] iota(), iota_dimension=1  ROOT t = f32[3,2] transpose(i), dimensions={1,0}",
        "ROOT i = f32[3,2] iota(), iota_dimension=0",
    )


def test_transpose_that_undoes_another():
    assert_rewrites(
        TRANSPOSE,
        """
        x = f32[10,20] parameter(0)
        a = f32[20,10] transpose(x), dimensions={1,0}
        b = f32[1,20,10] reshape(a)
        ROOT t = f32[1,10,20] transpose(b), dimensions={0,2,1}
        """,
        "x = f32[10,20] parameter(0)  ROOT r = f32[1,10,20] reshape(x)",
    )


DEPTH_TO_SPACE = """
    x = f32[8,14,14,{depth}] parameter(0)
    a = f32[8,14,14,{chunks},4] reshape(x)
    t = f32[{moved},4] transpose(a), dimensions={{{order}}}
    ROOT r = f32[{made},4] reshape(t)
"""


def test_depth_to_space():
    assert_rewrites(
        TRANSPOSE_AS_XLA,
        DEPTH_TO_SPACE.format(depth=8, chunks=2, moved="8,14,2,14", order="0,1,3,2,4", made="8,28,14"),
        """
        x = f32[8,14,14,8] parameter(0)
        a = f32[8,14,14,4] slice(x), slice={[0:8], [0:14], [0:14], [0:4]}
        b = f32[8,14,14,4] slice(x), slice={[0:8], [0:14], [0:14], [4:8]}
        c = f32[8,14,28,4] concatenate(a, b), dimensions={2}
        ROOT r = f32[8,28,14,4] reshape(c)
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        DEPTH_TO_SPACE.format(depth=32, chunks=8, moved="8,14,8,14", order="0,1,3,2,4", made="8,112,14"),
        DEPTH_TO_SPACE.format(depth=8, chunks=2, moved="8,2,14,14", order="0,3,1,2,4", made="8,28,14"),
    ],
    ids=["many chunks", "joined with another dimension"],
)
def test_what_is_no_depth_to_space_stays(text: str):
    assert_keeps([*TRANSPOSE, *TRANSPOSE_AS_XLA], text)


@pytest.mark.parametrize(
    "text",
    [
        """
        x = f32[2,4] parameter(0)
        b = f32[10,2,3,4] broadcast(x), dimensions={1,3}
        ROOT t = f32[4,2,3,10] transpose(b), dimensions={3,1,2,0}
        """,
        """
        x = f32[4,4,1,4] parameter(0)
        a = f32[4,4,4,1] transpose(x), dimensions={1,0,3,2}
        b = f32[4,4,4] reshape(a)
        ROOT t = f32[4,4,4] transpose(b), dimensions={0,2,1}
        """,
        "x = f32[2,3]{1,0} parameter(0)  ROOT t = f32[2,3]{0,1} transpose(x), dimensions={0,1}",
        "x = f32[<=2,3] parameter(0)  ROOT t = f32[3,<=2] transpose(x), dimensions={1,0}",
    ],
    ids=["broadcast whose dimensions change places", "another order", "layout", "dynamic"],
)
def test_transposes_that_stay(text: str):
    assert_keeps(TRANSPOSE, text)


def test_a_bitcast_between_row_major_arrays_is_a_reshape():
    text = (
        "x = f32[2,3]{1,0} parameter(0)  t = f32[3,2]{1,0} transpose(x), dimensions={1,0}  "
        "b = f32[1,3,2]%s bitcast(t)  ROOT u = f32[1,2,3]{2,1,0} transpose(b), dimensions={0,2,1}"
    )
    after = "x = f32[2,3]{1,0} parameter(0)  ROOT r = f32[1,2,3]{2,1,0} reshape(x)"
    assert_rewrites(TRANSPOSE, text % "{2,1,0}", after)
    assert_keeps(TRANSPOSE, text % "{0,1,2}")
