"""Derivatives beside central differences: what agrees, what differs, and what says nothing.

Covers `testing/derivatives.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.testing import check_derivatives
from tests.testing.recurrent import SINES, recurrent


def test_a_derivative_that_is_right():
    (check,) = check_derivatives(hloom.parse("ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] sine(x) }"))
    assert check.agrees and check.is_conclusive and check.scale == 1.0


def test_a_derivative_that_is_wrong():
    module = hloom.parse(
        "ENTRY e { x = f32[3] parameter(0) y = f32[3] sine(x) ROOT z = f32[3] multiply(x, y) }"
    )
    (check,) = check_derivatives(module, stop=["y"])  # as if the sine were constant
    assert check.is_conclusive and not check.agrees


def test_inputs_at_which_a_recurrence_explodes_are_made_smaller():
    checks = check_derivatives(recurrent(SINES))
    assert all(check.agrees and 0 < check.scale < 1 for check in checks)


def test_a_wrong_derivative_of_a_recurrence_that_explodes():
    (of_x, of_w) = check_derivatives(recurrent(SINES), stop=["squares"])
    assert not of_x.agrees and not of_w.agrees


def test_what_is_chaotic_is_not_called_wrong():
    checks = check_derivatives(recurrent("k = f32[] constant(900) b = f32[8] broadcast(k), dimensions={} "
                                         "u = f32[8] multiply(v, b) y = f32[8] sine(u)"))  # fmt: skip
    assert not any(check.is_conclusive and not check.agrees for check in checks)


@pytest.mark.parametrize("order", ["in order", "by name"])
def test_inputs_that_are_given(order: str):
    arrays = {"x": np.full(8, 0.5, np.float32), "w": np.eye(8, dtype=np.float32)}
    checks = check_derivatives(recurrent(SINES), inputs=arrays if order == "by name" else list(arrays.values()))
    assert all(check.agrees and check.scale == 1.0 for check in checks)
