"""A mixed integer program built row by row and solved by HiGHS."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np

from hloom.solver import BoundedRow, Columns, solver_of

MOST_NODES = 100_000
"""The maximum number of branch-and-bound nodes: a bound on work that is the same on every machine."""


@dataclass(frozen=True, slots=True)
class MixedIntegerSolution:
    """The values of all columns (none where nothing was found), their cost, and the bound that was proven.

    `is_cut` says that time ran out before the node limit.
    """

    values: np.ndarray
    cost: float
    bound: float
    is_optimal: bool
    is_cut: bool = False


@dataclass(slots=True)
class MixedIntegerProgram:
    """Columns with costs and upper bounds, some of them integers; rows with bounds and entries."""

    costs: list[float] = field(default_factory=list)
    uppers: list[float] = field(default_factory=list)
    is_integer: list[bool] = field(default_factory=list)
    rows: list[BoundedRow] = field(default_factory=list)

    def columns(
        self, costs: Sequence[float] | np.ndarray, *, is_integer: bool = False, upper: float = 1.0
    ) -> np.ndarray:
        """Columns between zero and `upper`; their numbers."""
        start = len(self.costs)
        self.costs += [float(cost) for cost in costs]
        self.uppers += [upper] * len(costs)
        self.is_integer += [is_integer] * len(costs)
        return np.arange(start, start + len(costs))

    def row(self, low: float, high: float, columns: np.ndarray, entries: np.ndarray | float) -> None:
        """One constraint."""
        entries = np.broadcast_to(np.asarray(entries, float), np.shape(columns))
        self.rows.append(BoundedRow(np.asarray(columns), entries, low, high))

    def solve(
        self,
        seconds: float,
        start: Mapping[int, float] | None = None,
        gap: float = 1e-4,
        nodes: int = MOST_NODES,
        most: float = math.inf,
        options: Mapping[str, bool | float | int] | None = None,
    ) -> MixedIntegerSolution:
        """Minimise, starting from the known values of some columns if given, until the gap is closed.

        Solutions that cost more than `most` are not searched. Stops after this many nodes, which is reproducible, or
        seconds, which is not. `options` are HiGHS's.
        """
        columns = Columns(np.array(self.costs), np.zeros(len(self.costs)), np.array(self.uppers), self.is_integer)
        limits = {"time_limit": seconds, "mip_rel_gap": gap, "mip_max_nodes": nodes, "objective_bound": most}
        solver = solver_of(columns, self.rows, {**limits, **(options or {})})
        if start:
            solver.setSolution(len(start), np.array(list(start), np.int32), np.array(list(start.values()), float))
        solver.run()
        info = solver.getInfo()
        status = solver.getModelStatus()
        is_optimal, is_cut = (
            status == highspy.HighsModelStatus.kOptimal,
            status == highspy.HighsModelStatus.kTimeLimit,
        )
        values = np.array(solver.getSolution().col_value)
        is_feasible = info.primal_solution_status == 2
        bound = info.mip_dual_bound if any(self.is_integer) else info.objective_function_value
        return MixedIntegerSolution(
            values if is_feasible else np.empty(0), info.objective_function_value, bound, is_optimal, is_cut
        )
