"""Bytes of values, as XLA's cost analysis counts them."""

from __future__ import annotations

import pytest

from hloom.analysis import elements, leaf_bytes
from hloom.analysis.sizes import first_array, leaf_elements, shape_bytes
from hloom.formats.hlo import parse
from hloom.ir import Type


def type_of(text: str) -> Type | None:
    return parse(f"ENTRY e {{ ROOT x = {text} parameter(0) }}").entry.parameters[0].type


@pytest.mark.parametrize(
    ("text", "shape", "leaves", "count"),
    [
        ("f32[]", 4, 4, 1),
        ("f32[3,5]", 60, 60, 15),
        ("pred[7]", 7, 7, 7),
        ("c128[2]", 32, 32, 2),
        ("f32[0,5]", 0, 0, 0),
        ("s4[5]{0:E(4)}", 3, 3, 5),
        ("f32[<=4]", 20, 20, 4),
        ("(f32[2], s8[3])", 16, 11, 5),
        ("(f32[2], (f32[2], f32[2]))", 16, 24, 6),
        ("token[]", 0, 0, 0),
    ],
)
def test_bytes_and_elements(text: str, shape: int, leaves: int, count: int):
    value_type = type_of(text)
    assert (shape_bytes(value_type), leaf_bytes(value_type), leaf_elements(value_type)) == (shape, leaves, count)


def test_a_dimension_without_a_bound_counts_as_nothing():
    assert (elements(type_of("f32[?,4]")), elements(None)) == (0, 0)


def test_the_first_array_of_a_tuple():
    assert first_array(type_of("(f32[2], s8[3])")) is type_of("f32[2]")
    assert first_array(type_of("s8[3]")) is type_of("s8[3]")
