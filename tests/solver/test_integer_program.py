"""Integer programs as HiGHS solves them (`integer_program.py`, `highs_model.py`)."""

import numpy as np
import pytest

from hloom.solver import Constraint, minimize


def test_the_cheapest_columns_within_a_bound():
    """A knapsack: of values 10, 13, 7 with weights 3, 4, 2 and a limit of 6, the last two."""
    rows = [Constraint(np.array([0, 1, 2]), np.array([3.0, 4.0, 2.0]), 6.0)]
    solved = minimize(np.array([-10.0, -13.0, -7.0]), np.zeros(3), np.ones(3), rows)
    assert solved is not None
    columns, bound = solved
    assert columns.round().tolist() == [0, 1, 1] and bound == pytest.approx(-20)


def test_continuous_columns_come_last():
    """An integer and a number that together are at least 1.5."""
    rows = [Constraint(np.array([0, 1]), np.array([-1.0, -1.0]), -1.5)]
    solved = minimize(np.array([1.0, 3.0]), np.zeros(2), np.array([1.0, 9.0]), rows, continuous=1)
    assert solved is not None and solved[0] == pytest.approx([1.0, 0.5])


def test_where_nothing_fits_there_is_no_answer():
    rows = [Constraint(np.array([0]), np.array([1.0]), -1.0)]
    assert minimize(np.ones(1), np.zeros(1), np.ones(1), rows) is None


def test_a_column_may_stand_twice_in_a_row():
    """What HiGHS refuses since 1.16 and miscounts before: 2x + x of at most 4 leaves 1."""
    rows = [Constraint(np.array([0, 0]), np.array([2.0, 1.0]), 4.0)]
    solved = minimize(np.array([-1.0]), np.zeros(1), np.full(1, 9.0), rows)
    assert solved is not None and solved[0] == pytest.approx([1.0])


def test_nothing_is_written(capfd: pytest.CaptureFixture[str]):
    minimize(np.ones(1), np.zeros(1), np.ones(1), [])
    assert capfd.readouterr().out == ""


def test_what_highs_refuses_is_an_error():
    with pytest.raises(AssertionError, match="refuses a model of 1 columns"):
        minimize(np.ones(1), np.zeros(1), np.ones(1), [Constraint(np.array([5]), np.ones(1), 1.0)])
