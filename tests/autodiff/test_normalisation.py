"""Batch normalisation: training, inference, and the gradient's own derivative."""

from __future__ import annotations

import pytest

from .check import assert_derivatives, entry

VECTORS = "s = f64[3] parameter(1) o = f64[3] parameter(2)"


@pytest.mark.parametrize("result", [0, 1, 2])
def test_training(result: int):
    shape = "f64[4,3]" if result == 0 else "f64[3]"
    assert_derivatives(
        entry(
            f"x = f64[4,3] parameter(0) {VECTORS} "
            "t = (f64[4,3], f64[3], f64[3]) batch-norm-training(x, s, o), epsilon=0.01, feature_index=1 "
            f"ROOT r = {shape} get-tuple-element(t), index={result}"
        ),
        tolerance=1e-5,
        orders=1,
    )


def test_inference():
    assert_derivatives(
        entry(
            f"x = f64[3,4] parameter(0) {VECTORS} m = f64[3] parameter(3) v = f64[3] parameter(4) "
            "ROOT r = f64[3,4] batch-norm-inference(x, s, o, m, v), epsilon=0.01, feature_index=0"
        ),
        low=0.5,
        high=1.5,
    )


@pytest.mark.parametrize("result", [0, 1, 2])
def test_the_gradient_has_a_derivative_too(result: int):
    shape = "f64[4,3]" if result == 0 else "f64[3]"
    assert_derivatives(
        entry(
            "x = f64[4,3] parameter(0) s = f64[3] parameter(1) m = f64[3] parameter(2) v = f64[3] parameter(3) "
            "c = f64[4,3] parameter(4) t = (f64[4,3], f64[3], f64[3]) batch-norm-grad(x, s, m, v, c), epsilon=0.01, "
            f"feature_index=1 ROOT r = {shape} get-tuple-element(t), index={result}"
        ),
        low=0.5,
        high=1.5,
        orders=1,
    )
