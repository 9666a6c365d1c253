"""Logarithms of whole powers are whole, and their derivatives those of logarithms.

Covers `runtime/exact_logarithms.py`.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import hloom

POWERS_OF_TWO = 2.0 ** np.arange(-1021, 1024)
POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(-307, 309)])


@hloom.function
def logarithms(x):
    return np.log2(x), np.log10(x)


def test_whole_powers_have_whole_logarithms():
    assert np.array_equal(logarithms(POWERS_OF_TWO)[0], np.arange(-1021, 1024))
    assert np.array_equal(logarithms(POWERS_OF_TEN)[1], np.arange(-307, 309))


def test_whole_powers_of_pythons_numbers():
    halvings = hloom.function(lambda n: (int(math.log2(n)), int(math.log10(125.0 * n)), math.log2(1.0 / n)))
    assert halvings(8) == (3, 3, -3.0)


@pytest.mark.parametrize("element", ["float64", "float32", "float16", "int32", "uint8", "bool", "complex128"])
def test_others_are_numpys(element: str):
    numbers = np.array([1, 2, 3, 7, 10, 100, 0], element)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.log2(numbers), np.log10(numbers)
    for got, want in zip(logarithms(numbers), expected, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=4 * np.finfo(want.dtype).eps)


def test_edges():
    edges = np.array([0.0, -1.0, np.inf, np.nan, np.nextafter(1.0, 2.0), 1.7e308])
    with np.errstate(all="ignore"):
        expected = np.log2(edges), np.log10(edges)
    for got, want in zip(logarithms(edges), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize("x", [8.0, 3.7, 1e300, 1e-300, 1.0])
def test_derivatives(x: float):
    for function, base in ((math.log2, 2.0), (math.log10, 10.0)):
        first = hloom.grad(lambda y, function=function: function(y))
        assert first(x) == pytest.approx(1 / x / math.log(base), rel=1e-12)
    assert hloom.grad(hloom.grad(lambda y: math.log10(y)))(3.7) == pytest.approx(-1 / 3.7**2 / math.log(10.0))
