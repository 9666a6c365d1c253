"""Scans: carries, inputs and outputs, forwards and backwards, along any dimension."""

from __future__ import annotations

import pytest

from .check import assert_derivatives, module

STEP = (
    "step { x = f64[2] parameter(0) c = f64[2] parameter(1) s = f64[2] sine(x) m = f64[2] multiply(s, c) "
    "a = f64[2] add(m, x) ROOT r = (f64[2], f64[2]) tuple(m, a) }"
)


@pytest.mark.parametrize("direction", ["", ", is_reverse=true"])
@pytest.mark.parametrize(("dim", "array"), [(0, "f64[4,2]"), (1, "f64[2,4]")])
def test_a_carry_and_an_output(direction: str, dim: int, array: str):
    assert_derivatives(
        module(
            f"{STEP}\nENTRY e {{ x = {array} parameter(0) c = f64[2] parameter(1) "
            f"s = ({array}, f64[2]) scan(x, c), dimensions={{{dim}}}, num_carries=1, to_apply=step{direction} "
            f"o = {array} get-tuple-element(s), index=0 l = f64[2] get-tuple-element(s), index=1 "
            f"ROOT r = ({array}, f64[2]) tuple(o, l) }}"
        )
    )


def test_a_carry_alone():
    assert_derivatives(
        module(
            "last { x = f64[2] parameter(0) c = f64[2] parameter(1) m = f64[2] multiply(x, c) ROOT r = (f64[2]) tuple(m) }\n"
            "ENTRY e { x = f64[3,2] parameter(0) c = f64[2] parameter(1) "
            "ROOT s = (f64[2]) scan(x, c), dimensions={0}, num_carries=1, to_apply=last }"
        )
    )
