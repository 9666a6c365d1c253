"""The default planner: the tables of a problem as an integer program, solved with a proven gap."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hloom.sharding.planners.program import Program
from hloom.sharding.problem import Problem, Shared, add_pair
from hloom.sharding.spec import Spec

SCALE = 1e6
"""Costs are in microseconds inside the program: HiGHS's tolerances are absolute."""
NEGLIGIBLE = 1e-5
"""Tables whose largest entry is below this share of all work stay out of the program."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One strategy per cluster, its cost in seconds, and the least that any could cost."""

    strategies: dict[int, int]
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """How far the cost may be above the optimum, as a share of it."""
        return (self.cost - self.bound) / self.cost if self.cost > 0 else 0.0


def plan(problem: Problem, seconds: float = 20.0) -> Choice:
    """The cheapest choice of strategies, within so many seconds."""
    program, chosen = _program(problem)
    solved = program.solve(seconds)
    picked = {number: int(np.argmax(solved.values[columns])) for number, columns in chosen.items()}
    full = {number: picked[problem.tie[number]] for number in problem.options}
    return Choice(full, problem.cost(full), solved.bound / SCALE)


def _program(problem: Problem) -> tuple[Program, dict[int, np.ndarray]]:
    """The program over the representatives of tied clusters."""
    program, tie = Program(), problem.tie
    chosen: dict[int, np.ndarray] = {}
    unary: dict[int, np.ndarray] = {}
    pairs: dict[tuple[int, int], np.ndarray] = {}
    for number, costs in problem.unary.items():
        unary[tie[number]] = unary[tie[number]] + costs if tie[number] in unary else costs
    for (a, b), table in problem.pairs.items():
        if tie[a] == tie[b]:
            unary[tie[a]] = unary[tie[a]] + np.diagonal(table)
        else:
            add_pair(pairs, tie[a], tie[b], table)
    for number, costs in unary.items():
        chosen[number] = program.columns(np.asarray(costs) * SCALE, whole=True)
        program.row(1, 1, chosen[number], 1.0)
    least = NEGLIGIBLE * sum(float(costs.min()) for costs in unary.values())
    for (a, b), table in pairs.items():
        if table.max() > least:
            _add_pair(program, chosen[a], chosen[b], table * SCALE)
    for each, times in _alike(problem):
        if max(float(cost.max()) for cost in each.costs) * times > least:
            _add_shared(program, chosen, problem, each, times)
    return program, chosen


def _alike(problem: Problem) -> Iterator[tuple[Shared, int]]:
    """Shared tables that are the same between tied clusters as one, with how many they are."""
    found: dict[tuple, list[Shared]] = {}
    for each in problem.shared:
        readers = tuple((problem.tie[number], id(demand)) for number, demand in each.readers)
        key = (problem.tie[each.cluster], id(each.source), readers, tuple(map(id, each.costs)))
        found.setdefault(key, []).append(each)
    return ((group[0], len(group)) for group in found.values())


def _groups(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are equal as one: the group of each row, and one row per group."""
    rows, inverse = np.unique(table, axis=0, return_inverse=True)
    return np.ravel(inverse), rows


def _add_pair(program: Program, first: np.ndarray, second: np.ndarray, table: np.ndarray) -> None:
    row_of, rows = _groups(table)
    column_of, columns = _groups(rows.T)
    small = columns.T
    edges = program.columns(small.ravel()).reshape(small.shape)
    _link(program, edges, first, row_of)
    _link(program, edges.T, second, column_of)


def _link(program: Program, edges: np.ndarray, chosen: np.ndarray, group_of: np.ndarray) -> None:
    """The edges of each group add up to the strategies in it."""
    for group, row in enumerate(edges):
        members = chosen[group_of == group]
        entries = np.concatenate([np.ones(len(row)), -np.ones(len(members))])
        program.row(0, 0, np.concatenate([row, members]), entries)


def _add_shared(program: Program, chosen: dict[int, np.ndarray], problem: Problem, shared: Shared, times: int) -> None:
    """One-hot edges per reader without a cost, and for each change of spec one column that pays for all of them."""
    paid: dict[tuple[int, Spec], int] = {}
    for (number, demand), cost in zip(shared.readers, shared.costs, strict=True):
        edges = program.columns(np.zeros(cost.size)).reshape(cost.shape)
        _link(program, edges, chosen[problem.tie[shared.cluster]], shared.source.of)
        _link(program, edges.T, chosen[problem.tie[number]], demand.of)
        for row, column in zip(*np.nonzero(cost), strict=True):
            key = (int(row), demand.specs[column])
            if key not in paid:
                paid[key] = int(program.columns([float(cost[row, column]) * SCALE * times], upper=math.inf)[0])
            program.row(-math.inf, 0, np.array([edges[row, column], paid[key]]), np.array([1.0, -1.0]))
