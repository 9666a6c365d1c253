"""Values while they are lowered: skeletons, leaves, and what two ways have in common."""

from __future__ import annotations

import pytest

from hloom import Module, Unsupported
from hloom.dialects.mindir.lowered_values import (
    INDEX_TYPE,
    Choice,
    aggregate,
    choice,
    closure,
    functions_in,
    joined,
    leaf_types,
    leaves,
    skeleton_of,
    with_arrays,
    with_dynamic_numbers,
)
from hloom.dialects.mindir.values import Number, Word
from hloom.ir import TensorType, dtype

F32 = TensorType(dtype("f32"), (2,))
MODULE = Module()
F, G = MODULE.add_graph("f"), MODULE.add_graph("g")
X, Y = F.add_parameter(F32, "x"), F.add_parameter(TensorType(dtype("s32")), "y")


def test_a_value_is_its_skeleton_and_its_arrays():
    value = aggregate([X, Number("I64", "3"), closure(G, (Y,)), Word("None")])
    skeleton = skeleton_of(value)
    assert list(leaves(value)) == [X, Y]
    assert leaf_types(skeleton) == [X.type, Y.type]
    assert with_arrays(skeleton, iter([X, Y])) == value
    assert list(functions_in(value)) == [G]


def test_unequal_numbers_join_as_an_array_and_unequal_functions_as_one_of_several():
    assert joined(Number("I64", "3"), Number("I64", "3"), "x") == Number("I64", "3")
    assert joined(Number("F32", "3"), Number("F32", "4"), "x") is TensorType(dtype("f32"))
    both = joined(closure(F, (F32,)), closure(G, ()), "x")
    assert both == choice(INDEX_TYPE, (closure(F, (F32,)), closure(G, ())))
    assert joined(both, closure(G, ()), "x") == both
    assert isinstance(both, Choice)
    assert joined(closure(F, (Number("I64", "1"),)), closure(F, (Number("I64", "2"),)), "x") == closure(
        F, (TensorType(dtype("s64")),)
    )


@pytest.mark.parametrize(
    "left, right, message",
    [
        (F32, Word("None"), r"x is f32\[2\] on one way here and None on another"),
        (F32, TensorType(dtype("f32")), r"x is f32\[2\] on one way here and f32\[\] on another"),
        (aggregate([F32]), aggregate([]), "x is a tuple of 1 on one way here and a tuple of 0 on another"),
        (closure(F, ()), F32, r"x is the function f on one way here and f32\[2\] on another"),
    ],
)
def test_what_does_not_join_is_refused(left, right, message):
    with pytest.raises(Unsupported, match=message):
        joined(left, right, "x")


def test_numbers_become_arrays_where_a_loop_carries_them():
    value = aggregate([Number("I64", "0"), Word("None")])
    assert with_dynamic_numbers(value) == aggregate([TensorType(dtype("s64")), Word("None")])


def test_values_nest_to_a_limit():
    value = aggregate([])
    with pytest.raises(Unsupported, match="nest deeper than 100 levels"):
        for _ in range(200):
            value = aggregate([value])
