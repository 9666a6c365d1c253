"""Writes to an argument, which the caller would see in Python, are refused at their line, whatever way they take.

Covers `functions/views.py`, `functions/program.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hloom


def at_a_constant_index(x, i):
    x[0] = 1.0
    return x


def at_an_index_of_the_run(x, i):
    x[i] = 1.0
    return x


def at_two_indices_of_the_run(x, i):
    x[i][i] = 1.0
    return x


def in_place(x, i):
    x += 1.0
    return x


def by_a_method(x, i):
    x.sort()
    return x


def by_filling(x, i):
    x.fill(0.0)
    return x


def by_out(x, i):
    np.add(x, 1.0, out=x)
    return x


def through_a_row(x, i):
    row = x[1]
    row += 1.0
    return x


def through_a_row_of_the_run(x, i):
    row = x[i]
    row *= 2.0
    return x


def through_a_transpose(x, i):
    turned = x.T
    turned[0] = 2.0
    return x


def through_a_reshape(x, i):
    flat = x.reshape(-1)
    flat[i] = 2.0
    return x


def through_a_view_that_a_branch_chose(x, i):
    chosen = x[0] if i > 0 else x[1]
    chosen[0] = 2.0
    return x


def by_swapping_rows(x, i):
    x[0], x[1] = x[1], x[0]
    return x


def in_a_loop(x, i):
    for row in x:
        row += 1.0
    return x


def _doubled(row):
    row *= 2.0


def by_a_function_that_is_called(x, i):
    _doubled(x[0])
    return x


WRITES = (
    at_a_constant_index, at_an_index_of_the_run, at_two_indices_of_the_run, in_place, by_a_method, by_filling, by_out,
    through_a_row, through_a_row_of_the_run, through_a_transpose, through_a_reshape, through_a_view_that_a_branch_chose,
    by_swapping_rows, in_a_loop, by_a_function_that_is_called,
)  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_an_argument_is_not_written_to(write: Callable[..., Any]):
    given = np.arange(9.0).reshape(3, 3)[::-1].copy()
    before = given.copy()
    with pytest.raises(hloom.HloomError, match="argument") as raised:
        hloom.function(write)(given, 1)
    assert f"{__file__.rpartition('/')[2]}:" in str(raised.value)
    np.testing.assert_array_equal(given, before)


def test_a_copy_is_written_to():
    def changed(x, i):
        y = x.copy()
        y[i] = 1.0
        return y

    given = np.arange(4.0)
    np.testing.assert_array_equal(hloom.function(changed)(given, 2), [0.0, 1.0, 1.0, 3.0])
    np.testing.assert_array_equal(given, np.arange(4.0))
