"""Asynchronous pairs: the derivative is that of the computation that they call."""

from __future__ import annotations

import numpy as np

import hloom

from .check import assert_derivatives, inputs_of, module, run

WORK = "work { a = f64[3] parameter(0) b = f64[3] parameter(1) ROOT r = f64[3] multiply(a, b) }"
START = "start = ((f64[3], f64[3]), f64[3], u32[]) async-start(x, y), calls=work"


def program(between: str, done: str) -> hloom.Module:
    return module(
        f"{WORK}\nENTRY e {{ x = f64[3] parameter(0) y = f64[3] parameter(1) {START} {between} "
        f"d = f64[3] async-done({done}) ROOT r = f64[3] multiply(d, x) }}"
    )


def test_start_and_done():
    assert_derivatives(program("", "start"))


def test_updates_between_pass_everything_on():
    assert_derivatives(program("update = ((f64[3], f64[3]), f64[3], u32[]) async-update(start)", "update"))


def test_the_gradient_is_that_of_a_plain_call():
    called = module(
        f"{WORK}\nENTRY e {{ x = f64[3] parameter(0) y = f64[3] parameter(1) d = f64[3] call(x, y), to_apply=work "
        "ROOT r = f64[3] multiply(d, x) }"
    )
    inputs = [*inputs_of(called), np.ones(3)]
    for asynchronous, plain in zip(run(hloom.vjp(program("", "start")), inputs), run(hloom.vjp(called), inputs), strict=True):
        np.testing.assert_array_equal(asynchronous, plain)
