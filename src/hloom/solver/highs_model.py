"""Linear models as HiGHS takes them, and a solver that has taken one: what HiGHS refuses is an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a model: what each costs, its bounds, and whether it is an integer."""

    costs: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    is_integer: Sequence[bool]


@dataclass(frozen=True, slots=True)
class BoundedRow:
    """The weighted sum of some columns is between two bounds. A column may stand in it several times."""

    columns: np.ndarray
    weights: np.ndarray
    low: float
    high: float


def solver_of(columns: Columns, rows: Sequence[BoundedRow], options: dict[str, bool | float | int]) -> highspy.Highs:
    """A silent solver that minimises the costs, on one thread, with the same random numbers always."""
    solver = highspy.Highs()
    for option, setting in {"output_flag": False, "threads": 1, "random_seed": 1, **options}.items():
        solver.setOptionValue(option, setting)
    if solver.passModel(_model(columns, rows)) == highspy.HighsStatus.kError:
        raise AssertionError(f"HiGHS refuses a model of {len(columns.costs):,} columns and {len(rows):,} rows")
    return solver


def _model(columns: Columns, rows: Sequence[BoundedRow]) -> highspy.HighsLp:
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(columns.costs), len(rows)
    model.col_cost_, model.col_lower_, model.col_upper_ = columns.costs, columns.lower, columns.upper
    model.row_lower_ = np.array([max(row.low, -highspy.kHighsInf) for row in rows])
    model.row_upper_ = np.array([min(row.high, highspy.kHighsInf) for row in rows])
    types = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    model.integrality_ = [types[is_integer] for is_integer in columns.is_integer]
    entries = [_summed(row) for row in rows]
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = np.cumsum([0, *(len(row_columns) for row_columns, _ in entries)])
    matrix.index_ = np.concatenate([row_columns for row_columns, _ in entries] or [np.empty(0, int)])
    matrix.value_ = np.concatenate([weights for _, weights in entries] or [np.empty(0)])
    return model


def _summed(row: BoundedRow) -> tuple[np.ndarray, np.ndarray]:
    """The entries of a row with every column once, as HiGHS demands."""
    if len(set(row.columns.tolist())) == len(row.columns):
        return row.columns, row.weights
    distinct, numbers = np.unique(row.columns, return_inverse=True)
    return distinct, np.bincount(numbers, row.weights, len(distinct))
