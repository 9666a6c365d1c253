"""The linear program of a factor graph within memory budgets at some moments, over a few strategies per node.

A node of several isomorphic clusters may take several strategies, each for some of its clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hloom.distribute.planner.solvers.factor_graph import FactorGraph
from hloom.distribute.planner.solvers.factors import PairFactor
from hloom.distribute.planner.solvers.ilp_model import LARGEST, add_reshard, add_table
from hloom.distribute.planner.solvers.mixed_integer_program import MixedIntegerProgram
from hloom.distribute.planner.solvers.reshard_factor import ReshardFactor

MOST_NODES = 200
"""The maximum number of branch-and-bound nodes: the best choice found by then is good enough for a search that
simulates.
"""
CLOSED = 1e-3
"""A choice that is proven to be so near to the best is good enough, for the same reason."""
MOST_OPTIONS = 1000
"""For programs with more additional strategies than this, only the linear relaxation is solved."""
OPTIONS = {
    "mip_allow_restart": False,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_heuristic_run_shifting": False,
    "mip_heuristic_run_zi_round": False,
}
"""Programs of some hundred strategies have a few dozen branch nodes: features for large trees cost more than they save.
"""
SLACK = 1e-6
"""The share of the budget by which bytes may exceed the minimum: the solver's tolerance."""


@dataclass(frozen=True, slots=True)
class MomentUse:
    """The bytes at some moments: constants, and by node a row per strategy."""

    constants: np.ndarray
    unary: Mapping[int, np.ndarray]


@dataclass(frozen=True, slots=True)
class FractionalChoice:
    """The share of each strategy by node; what no choice of the program costs less than; the bytes that are missing."""

    shares: dict[int, np.ndarray]
    bound: float
    missing: float


def solve_within_moments(
    graph: FactorGraph,
    use: MomentUse,
    budget: float,
    known: float,
    counts: Mapping[int, int],
    most: float = math.inf,
) -> FractionalChoice | None:
    """The cheapest fractional choice within the budget, or where there is none the cheapest that is least above it.

    `counts` are the clusters of each node. `known` is about what a choice costs. Where `most` is given, None unless one
    within the budget costs no more. None where the solver finds nothing.
    """
    result = _solved(graph, use, budget, known, counts, most)
    if result is not None or math.isfinite(most):
        return result
    least = _solved(graph, use, budget, known, counts, is_lightest=True)
    if least is None:
        return None
    again = _solved(graph, use, budget + least.missing + SLACK * budget, known, counts)
    return FractionalChoice((again or least).shares, (again or least).bound, least.missing)


def _solved(
    graph: FactorGraph,
    use: MomentUse,
    budget: float,
    known: float,
    counts: Mapping[int, int],
    most: float = math.inf,
    *,
    is_lightest: bool = False,
) -> FractionalChoice | None:
    scale = LARGEST / known if known > 0 else 1.0
    weight = 0.0 if is_lightest else scale
    program = MixedIntegerProgram()
    is_integral = graph.size - len(graph.unary) <= MOST_OPTIONS
    chosen = {
        node: program.columns(costs[0] * weight, is_integer=is_integral and counts[node] == 1 and costs.shape[1] > 1)
        for node, costs in graph.unary.items()
    }
    for node, columns in chosen.items():
        program.row(1, 1, columns, 1.0)
        if is_integral and counts[node] > 1 and len(columns) > 1:
            _add_counts(program, columns, counts[node])
    for factor in graph.factors:
        if is_lightest or all(argument.size == 1 for argument in factor.arguments):
            continue
        if isinstance(factor, PairFactor):
            add_table(program, chosen, factor.arguments, factor.table * scale)
        elif isinstance(factor, ReshardFactor):
            add_reshard(program, chosen, factor, scale)
    fixed = 0.0 if is_lightest else _fixed(graph)
    excess = program.columns([LARGEST], upper=math.inf) if is_lightest else np.zeros(0, int)
    nodes = list(chosen)
    columns = np.concatenate([chosen[node] for node in nodes])
    for moment, constant in enumerate(use.constants):
        entries = np.concatenate([use.unary[node][:, moment] for node in nodes]) / budget
        present = np.flatnonzero(entries)
        program.row(
            -math.inf,
            (budget - constant) / budget,
            np.concatenate([columns[present], excess]),
            np.concatenate([entries[present], -np.ones(len(excess))]),
        )
    solved = program.solve(math.inf, gap=CLOSED, nodes=MOST_NODES, most=(most - fixed) * scale, options=OPTIONS)
    if not len(solved.values):
        return None
    shares = {node: np.clip(solved.values[own], 0.0, 1.0) for node, own in chosen.items()}
    missing = float(solved.values[excess[0]]) * budget if is_lightest else 0.0
    bound = -math.inf if is_lightest else solved.bound / scale + fixed
    return FractionalChoice(shares, bound, missing)


def _add_counts(program: MixedIntegerProgram, columns: np.ndarray, count: int) -> None:
    """Let each strategy be that of a whole number of clusters."""
    clusters = program.columns(np.zeros(len(columns)), is_integer=True, upper=count)
    for column, own in zip(columns, clusters, strict=True):
        program.row(0, 0, np.array([column, own]), np.array([float(count), -1.0]))


def _fixed(graph: FactorGraph) -> float:
    """The cost of factors whose nodes have one look each."""
    fixed = [factor for factor in graph.factors if all(argument.size == 1 for argument in factor.arguments)]
    return sum(float(factor.given(0, [0] * len(factor.arguments))[0]) for factor in fixed)
