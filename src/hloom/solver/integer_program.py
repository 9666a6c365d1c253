"""Integer programs as HiGHS solves them: by steps, not by seconds, so that the same one always has the same answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from hloom.solver.highs_model import BoundedRow, Columns, solver_of

MOST_NODES = 2_000
"""How many nodes the solver's tree of branches may have."""
GAP = 0.002
"""The share of the cost that is not worth more branches."""
OPTIONS: Mapping[str, bool | float | int] = {
    "mip_rel_gap": GAP,
    "mip_max_nodes": MOST_NODES,
    "mip_heuristic_run_feasibility_jump": False,  # takes most of the time of small programs, and finds nothing better
}
NO_OPTIONS: Mapping[str, bool | float | int] = {}


@dataclass(frozen=True, slots=True)
class Constraint:
    """The weighted sum of some columns is at most a bound."""

    columns: np.ndarray
    weights: np.ndarray
    bound: float


def minimize(
    costs: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    rows: Sequence[Constraint],
    continuous: int = 0,
    options: Mapping[str, bool | float | int] = NO_OPTIONS,
) -> tuple[np.ndarray, float] | None:
    """The cheapest columns found within bounds and rows, and what none costs less than; None where nothing fits.

    All columns but the last `continuous` ones are integers. `options` are further ones of HiGHS.
    """
    is_integer = [True] * (len(costs) - continuous) + [False] * continuous
    bounded = [BoundedRow(row.columns, row.weights, -math.inf, row.bound) for row in rows]
    solver = solver_of(Columns(costs, lower, upper, is_integer), bounded, {**OPTIONS, **options})
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return np.array(solver.getSolution().col_value), info.mip_dual_bound
