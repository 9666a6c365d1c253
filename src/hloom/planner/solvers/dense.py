"""What stays dense when a cost graph has been shrunk: tables as an integer program, solved by HiGHS."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.planner.solvers.mixed_integer_program import Program
from hloom.planner.solvers.tables import Table


@dataclass(frozen=True, slots=True)
class Dense:
    """A strategy for each node and a state for each table; none at all if nothing was found within the budget."""

    strategies: dict[int, int]
    states: dict[int, int]
    is_optimal: bool
    is_possible: bool = True


def solve_dense(tables: Mapping[int, Table], sizes: Sequence[int], budget: np.ndarray | None, seconds: float) -> Dense:
    """The least sum of tables, the bytes of their states within a budget.

    A column for each strategy of each node, and one for each possible state of each cell of each table; the cells of
    a table that agree with a strategy of one of its nodes add up to that strategy.
    """
    nodes = sorted({node for table in tables.values() for node in table.scope})
    program = Program()
    chosen = {node: program.columns(np.zeros(sizes[node]), whole=True) for node in nodes}
    for columns in chosen.values():
        program.row(1, 1, columns, 1.0)
    scale = _scale(tables.values())
    cells = {number: _add_table(program, table, chosen, scale) for number, table in tables.items()}
    if budget is not None:
        _add_budget(program, tables, cells, budget)
    if any(not len(columns) for columns, _ in cells.values()):
        return Dense({}, {}, is_optimal=True, is_possible=False)
    solved = program.solve(seconds, gap=0.0)
    if not len(solved.values):
        return Dense({}, {}, solved.bound == math.inf, is_possible=False)
    strategies = {node: int(np.argmax(solved.values[columns])) for node, columns in chosen.items()}
    states = {number: _state(table, *cells[number], strategies, solved.values) for number, table in tables.items()}
    return Dense(strategies, states, solved.is_optimal)


def _scale(tables: Iterable[Table]) -> float:
    """What makes the largest time a thousand: HiGHS's tolerances are absolute."""
    largest = max(float(np.abs(table.time[np.isfinite(table.time)]).max(initial=0.0)) for table in tables)
    return 1e3 / largest if largest else 1.0


def _add_table(
    program: Program, table: Table, chosen: dict[int, np.ndarray], scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Columns for a table's possible states, and the place of each in the table."""
    places = np.argwhere(np.isfinite(table.time))
    times = table.time[np.isfinite(table.time)]
    columns = program.columns(times * scale, whole=table.memory is not None)
    for axis, node in enumerate(table.scope):
        for strategy, column in enumerate(chosen[node]):
            agree = columns[places[:, axis] == strategy]
            entries = np.append(np.ones(len(agree)), -1.0)
            program.row(0, 0, np.append(agree, column), entries)
    if not table.scope:
        program.row(1, 1, columns, 1.0)
    return columns, places


def _add_budget(
    program: Program,
    tables: Mapping[int, Table],
    cells: Mapping[int, tuple[np.ndarray, np.ndarray]],
    budget: np.ndarray,
) -> None:
    for peak, most in enumerate(budget):
        columns, held = [], []
        for number, (own, _) in cells.items():
            memory = tables[number].memory
            assert memory is not None
            columns.append(own)
            held.append(memory[np.isfinite(tables[number].time)][:, peak])
        unit = max(float(most), 1.0)
        program.row(-math.inf, most / unit, np.concatenate(columns), np.concatenate(held) / unit)


def _state(
    table: Table, columns: np.ndarray, places: np.ndarray, strategies: dict[int, int], values: np.ndarray
) -> int:
    if table.memory is None:
        return 0
    here = np.ones(len(columns), bool)
    for axis, node in enumerate(table.scope):
        here &= places[:, axis] == strategies[node]
    inside = np.flatnonzero(here)
    return int(places[inside[np.argmax(values[columns[inside]])], -1])
