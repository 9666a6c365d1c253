"""Comparisons of outputs: tolerances, messages, counts."""

import numpy as np
import pytest

from hloom.runtime import compare, first_difference


def test_compare_agrees():
    nan, inf = np.nan, np.inf
    left = [np.array([1, nan, inf], np.float32), np.array(3), np.zeros((0,), np.float32)]
    right = [np.array([1 + 1e-6, nan, inf], np.float32), np.array(3), np.zeros((0,), np.float32)]
    assert compare(left, right) == []
    assert first_difference(left, right) is None


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (np.array([1, 2], np.float32), np.array([1, 2.5], np.float32), "f32[2]: 2.0 against 2.5 at [1], off by 0.5 (0.2 relative); 1 of 2 elements differ"),
        (np.int32(3), np.int32(4), "s32[]: 3 against 4, off by 1 (0.25 relative); 1 of 1 elements differ"),
        (np.array([1], np.float32), np.array([np.nan], np.float32), "f32[1]: 1.0 against nan at [0], off by inf (inf relative); 1 of 1 elements differ"),
        (np.array([1], np.float32), np.array([1], np.float64), "f32[1] against f64[1]"),
        (np.array([1], np.float32), np.array([[1]], np.float32), "f32[1] against f32[1,1]"),
        (np.array(True), np.array(False), "pred[]: True against False, off by 1 (1 relative); 1 of 1 elements differ"),
    ],
)  # fmt: skip
def test_compare_says_what_differs(left, right, message):
    difference = first_difference([np.zeros(1), left], [np.zeros(1), right])
    assert str(difference) == f"output 1: {message}"


def test_compare_counts_outputs():
    assert str(first_difference([np.zeros(1)], [])) == "output 0: one run has 1 outputs, the other 0"


def test_tolerances():
    left, right = [np.array([100, 0], np.float32)], [np.array([100.5, 0], np.float32)]
    assert compare(left, right, rtol=0.01) == []
    assert compare(left, right, rtol=0, atol=0.6) == []
    assert len(compare(left, right, rtol=0, atol=0.4)) == 1
