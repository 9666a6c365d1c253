"""A factor graph as an integer program: a column for each strategy, and edge columns linked to them by sums.

The columns of a factor's groups add up to the strategies in them; weaker links would never let the solver prove
anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.factor_graph import FactorGraph
from hloom.distribute.planner.solvers.factors import Argument, PairFactor
from hloom.distribute.planner.solvers.mixed_integer_program import MOST_NODES, MixedIntegerProgram
from hloom.distribute.planner.solvers.reshard_factor import ReshardFactor

LARGEST = 1e3
"""The scale of a choice's cost: HiGHS's tolerances are absolute."""
MOST_COLUMNS = 30_000
"""Programs with more columns are not tried: one relaxation of such takes many seconds."""
NODE_COLUMNS, FEWEST_NODES = 4_000_000, 20
"""The maximum number of branch-and-bound nodes times columns, and a minimum number of nodes: takes about the same time
everywhere.
"""

Columns = dict[int, np.ndarray]
"""By node the columns of its strategies."""


@dataclass(frozen=True, slots=True)
class ExactSolution:
    """The cheapest choice (None if none was found) and a lower bound on the cost."""

    choice: dict[int, int] | None
    bound: float


def solve_exactly(
    graph: FactorGraph,
    known: float,
    deadline: Deadline,
    start: Mapping[int, int] | None = None,
    most: int = MOST_COLUMNS,
) -> ExactSolution | None:
    """The cheapest choice, `known` being about its cost; None where the program is too large."""
    if columns_of(graph) > most or deadline.cuts():
        return None
    scale = LARGEST / known if known > 0 else 1.0
    program = MixedIntegerProgram()
    chosen = {node: program.columns(costs[0] * scale, is_integer=True) for node, costs in graph.unary.items()}
    for columns in chosen.values():
        program.row(1, 1, columns, 1.0)
    begun: dict[int, float] = {}
    for factor in graph.factors:
        if isinstance(factor, PairFactor):
            add_table(program, chosen, factor.arguments, factor.table * scale)
        elif isinstance(factor, ReshardFactor):
            add_reshard(program, chosen, factor, scale)
    if start is not None:
        begun = {int(columns[strategy]): 1.0 for columns, strategy in _at(chosen, start)}
    nodes = min(max(NODE_COLUMNS // len(program.costs), FEWEST_NODES), MOST_NODES)
    solved = program.solve(deadline.remaining, start=begun, nodes=nodes)
    deadline.has_cut = deadline.has_cut or solved.is_cut
    bound = solved.bound / scale
    if not len(solved.values):
        return ExactSolution(None, bound)
    return ExactSolution({node: int(np.argmax(solved.values[columns])) for node, columns in chosen.items()}, bound)


def columns_of(graph: FactorGraph) -> int:
    """How many columns the program of a factor graph has."""
    count = graph.size
    for factor in graph.factors:
        sizes = [argument.size for argument in factor.arguments]
        count += sizes[0] * sum(sizes[1:]) + (factor.costs.size if isinstance(factor, ReshardFactor) else 0)
    return count


def _at(chosen: Columns, choice: Mapping[int, int]) -> Sequence[tuple[np.ndarray, int]]:
    return [(columns, choice[node]) for node, columns in chosen.items()]


def add_table(
    program: MixedIntegerProgram, chosen: Columns, arguments: Sequence[Argument], table: np.ndarray
) -> np.ndarray:
    """Add edge columns for a table of groups."""
    edges = program.columns(table.ravel()).reshape(table.shape)
    _link(program, edges, chosen, arguments[0])
    _link(program, edges.T, chosen, arguments[1])
    return edges


def _link(program: MixedIntegerProgram, edges: np.ndarray, chosen: Columns, argument: Argument) -> None:
    """The edges of each group add up to the strategies in it."""
    for group, row in enumerate(edges):
        members = chosen[argument.node][argument.of == group]
        entries = np.concatenate([np.ones(len(row)), -np.ones(len(members))])
        program.row(0, 0, np.concatenate([row, members]), entries)


def add_reshard(program: MixedIntegerProgram, chosen: Columns, reshard: ReshardFactor, scale: float) -> None:
    """Add edges without a cost for each reader, and for each change of spec one column that pays for all of them."""
    source, *readers = reshard.arguments
    paid = program.columns(reshard.costs.ravel() * scale).reshape(reshard.costs.shape)
    for argument, specs in zip(readers, reshard.specs, strict=True):
        edges = add_table(program, chosen, (source, argument), np.zeros((source.size, argument.size)))
        for row, column in zip(*np.nonzero(reshard.costs[:, specs]), strict=True):
            pays = paid[row, specs[column]]
            program.row(-math.inf, 0, np.array([edges[row, column], pays]), np.array([1.0, -1.0]))
