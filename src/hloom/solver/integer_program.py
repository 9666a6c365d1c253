"""Integer programs as HiGHS solves them: by steps, not by seconds, so that the same one always has the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np

MOST_NODES = 2_000
"""How many nodes the solver's tree of branches may have."""
GAP = 0.002
"""The share of the cost that is not worth more branches."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """The weighted sum of some columns is at most a bound."""

    columns: np.ndarray
    weights: np.ndarray
    bound: float


def minimize(
    costs: np.ndarray, lower: np.ndarray, upper: np.ndarray, rows: Sequence[Constraint], continuous: int = 0
) -> tuple[np.ndarray, float] | None:
    """The cheapest columns found within bounds and rows, and what none costs less than; None where nothing fits.

    All columns but the last `continuous` ones are integers.
    """
    model = highspy.HighsLp()
    model.num_col_ = len(costs)
    model.col_cost_, model.col_lower_, model.col_upper_ = costs, lower, upper
    model.num_row_ = len(rows)
    model.row_lower_ = np.full(len(rows), -highspy.kHighsInf)
    model.row_upper_ = np.array([row.bound for row in rows])
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = np.cumsum([0, *(len(row.columns) for row in rows)])
    matrix.index_ = np.concatenate([row.columns for row in rows]) if rows else np.zeros(0, int)
    matrix.value_ = np.concatenate([row.weights for row in rows]) if rows else np.zeros(0)
    integers = [highspy.HighsVarType.kInteger] * (len(costs) - continuous)
    model.integrality_ = integers + [highspy.HighsVarType.kContinuous] * continuous
    solver = highspy.Highs()
    for option, setting in (
        ("output_flag", False),
        ("mip_rel_gap", GAP),
        ("mip_max_nodes", MOST_NODES),
        ("threads", 1),
        ("random_seed", 1),
    ):
        solver.setOptionValue(option, setting)
    solver.passModel(model)
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return np.array(solver.getSolution().col_value), info.mip_dual_bound
