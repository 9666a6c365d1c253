"""Activity: a result in a tuple of its own depends on the inputs as a bare one does."""

from __future__ import annotations

import pytest

from .check import assert_derivatives, module

ADD = "step { a = f64[] parameter(0) b = f64[] parameter(1) s = f64[] multiply(a, b) ROOT r = (f64[]) tuple(s) }"
SINE = "step { a = f64[] parameter(0) s = f64[] sine(a) ROOT r = (f64[]) tuple(s) }"


@pytest.mark.parametrize(
    ("computation", "body"),
    [
        (ADD, "x = f64[2,3] parameter(0) o = f64[] constant(1) t = (f64[2]) reduce(x, o), dimensions={1}, to_apply=step"),
        (SINE, "x = f64[2] parameter(0) t = (f64[2]) scan(x), dimensions={0}, num_carries=0, to_apply=step"),
    ],
)
def test_a_tuple_of_one(computation: str, body: str):
    assert_derivatives(module(f"{computation}\nENTRY e {{ {body} e = f64[2] get-tuple-element(t), index=0 ROOT r = f64[2] exponential(e) }}"))
