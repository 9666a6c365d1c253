"""A mixed integer program built row by row, and solved by HiGHS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np

MOST_NODES = 100_000
"""How many nodes the solver's tree of branches may have: a bound on work that is the same on every machine."""


@dataclass(frozen=True, slots=True)
class MixedIntegerSolution:
    """The values of all columns (none where nothing was found), their cost, and the bound that was proven.

    It `is_cut` where the seconds ended the search, and not its steps.
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
    row_bounds: list[tuple[float, float]] = field(default_factory=list)
    rows: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

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
        self.row_bounds.append((low, high))
        self.rows.append((np.asarray(columns), np.broadcast_to(np.asarray(entries, float), np.shape(columns))))

    def solve(
        self, seconds: float, start: Mapping[int, float] | None = None, gap: float = 1e-4, nodes: int = MOST_NODES
    ) -> MixedIntegerSolution:
        """Minimise, from the known values of some columns if there are any, until the gap is closed.

        It ends after so many nodes, which is the same everywhere, or after so many seconds, which is not.
        """
        solver = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("time_limit", seconds),
            ("mip_rel_gap", gap),
            ("mip_max_nodes", nodes),
            ("threads", 1),
            ("random_seed", 1),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(self._model())
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

    def _model(self) -> highspy.HighsLp:
        model = highspy.HighsLp()
        infinity = highspy.kHighsInf
        model.num_col_, model.num_row_ = len(self.costs), len(self.rows)
        model.col_cost_ = np.array(self.costs)
        model.col_lower_ = np.zeros(len(self.costs))
        model.col_upper_ = np.array(self.uppers)
        model.row_lower_ = np.array([max(low, -infinity) for low, _ in self.row_bounds])
        model.row_upper_ = np.array([min(high, infinity) for _, high in self.row_bounds])
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[is_integer] for is_integer in self.is_integer]
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = np.cumsum([0, *(len(columns) for columns, _ in self.rows)])
        matrix.index_ = np.concatenate([columns for columns, _ in self.rows] or [np.empty(0, int)])
        matrix.value_ = np.concatenate([entries for _, entries in self.rows] or [np.empty(0)])
        return model
