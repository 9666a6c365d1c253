"""The default planner: bounds and choices from message passing, and an integer program for what remains.

The linear relaxation of the program (a column for each strategy, edge columns linked by row and column sums) is nearly
always integral, and message passing solves its dual in a fraction of a simplex method's time. A strategy's cost beyond
the bound excludes most strategies from any better choice, and the rest, if any, goes to HiGHS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers.assignment import Assignment
from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.decoupled_bound import decoupled_bound
from hloom.distribute.planner.solvers.dual_ascent import EVERY, Ascent, ascend
from hloom.distribute.planner.solvers.factor_graph import FactorGraph, quotient_graph
from hloom.distribute.planner.solvers.ilp_model import columns_of, solve_exactly
from hloom.distribute.planner.solvers.message_passing import warm_start

PROVEN = 1e-4
"""The share of the cost below which a gap is not worth the solver's time."""
FEW_COLUMNS = 12_000
"""Programs with at most this many columns are solved faster than many messages can be passed."""
PROMISING = 3
"""So many strategies per node, those that cost least with all messages, are looked among for a better choice."""
NEARLY = 5e-3
"""In large programs, message passing stops at a gap of this share of the cost: the tables' errors are larger."""
ROUGH = 3 * EVERY
"""How often messages are passed where a good choice is enough."""

Solver = Callable[[FactorGraph, Deadline, Sequence[Mapping[int, int]]], Ascent]
"""What solves a factor graph, beginning with some choices."""


def plan(
    problem: Problem,
    seconds: float = math.inf,
    *,
    starts: Sequence[Mapping[int, int]] = (),
) -> Assignment:
    """The cheapest choice of strategies, with the bound that is proven: of all choices, unless there was no time."""
    deadline = Deadline(seconds)
    graph = _warm_graph(problem)
    result = _solve_shared(problem, graph, deadline, starts)
    bound = decoupled_bound(problem, graph, result.cost, deadline)
    result = result if bound is None else replace(result, bound=bound, is_shared=False)
    return replace(result, is_cut=deadline.has_cut)


def prove_apart(problem: Problem, solution: Assignment, seconds: float = math.inf) -> Assignment:
    """A solution of a problem with unchanged costs, with the bound proven for all choices."""
    deadline = Deadline(seconds)
    graph = _warm_graph(problem)
    ascend(graph, deadline, [graph.chosen(solution.strategies)], sweeps=EVERY)
    bound = decoupled_bound(problem, graph, solution.cost, deadline)
    result = solution if bound is None else replace(solution, bound=bound, is_shared=False)
    return replace(result, is_cut=solution.is_cut or deadline.has_cut)


def plan_shared(
    problem: Problem,
    seconds: float = math.inf,
    *,
    starts: Sequence[Mapping[int, int]] = (),
) -> Assignment:
    """The same choice in half the time: its bound only covers choices that give isomorphic clusters the same strategy.
    """
    return _solve_shared(problem, _warm_graph(problem), Deadline(seconds), starts)


def plan_roughly(
    problem: Problem,
    seconds: float = math.inf,
    *,
    starts: Sequence[Mapping[int, int]] = (),
) -> Assignment:
    """A good choice with less effort where the program is large."""
    return _solve_shared(problem, _warm_graph(problem), Deadline(seconds), starts, solve_roughly)


def complete(problem: Problem) -> dict[int, int]:
    """A cheap choice from one round of messages, for problems that leave little open."""
    graph = quotient_graph(problem)
    ascent = ascend(graph, Deadline(), sweeps=EVERY)
    return ascent.graph.named(problem, ascent.choice)


def _solve_shared(
    problem: Problem,
    graph: FactorGraph,
    deadline: Deadline,
    starts: Sequence[Mapping[int, int]],
    solver: Solver | None = None,
) -> Assignment:
    known = [numbered for start in starts if (numbered := graph.numbered(start)) is not None]
    ascent = (solver or solve)(graph, deadline, known)
    strategies = ascent.graph.named(problem, ascent.choice)
    cost = problem.cost(strategies)
    return Assignment(strategies, cost, ascent.bound, shared_bound=ascent.bound, is_cut=deadline.has_cut)


def _warm_graph(problem: Problem) -> FactorGraph:
    """The factor graph of a problem with the messages of the one before it."""
    graph = quotient_graph(problem)
    if isinstance(problem.solver_state, FactorGraph):
        warm_start(graph, problem.solver_state)
    problem.solver_state = graph
    return graph


def solve(graph: FactorGraph, deadline: Deadline, starts: Sequence[Mapping[int, int]] = ()) -> Ascent:
    """The cheapest choice of a factor graph, and its bound."""
    ascent = ascend(graph, deadline, starts, sweeps=EVERY)
    if columns_of(ascent.graph) > FEW_COLUMNS:
        ascent = ascend(ascent.graph, deadline, [ascent.choice], enough=NEARLY)
        if ascent.gap > NEARLY:
            _follow_promising(ascent, deadline)
    return ascent if ascent.gap <= PROVEN else _finished(ascent, deadline)


def solve_roughly(graph: FactorGraph, deadline: Deadline, starts: Sequence[Mapping[int, int]] = ()) -> Ascent:
    """The same, but where the program is large only a good choice, and a bound that may be far from it."""
    ascent = ascend(graph, deadline, starts, sweeps=EVERY)
    if columns_of(ascent.graph) <= FEW_COLUMNS:
        return ascent if ascent.gap <= PROVEN else _finished(ascent, deadline)
    ascent = ascend(ascent.graph, deadline, [ascent.choice], sweeps=ROUGH)
    _follow_promising(ascent, deadline)
    return ascent


def _finished(ascent: Ascent, deadline: Deadline) -> Ascent:
    """The ascent after an integer program of the strategies that a better choice may have, unless it is too large."""
    ascent.narrow()
    exact = solve_exactly(ascent.graph, ascent.cost, deadline, start=ascent.choice)
    if exact is not None:
        if exact.choice is not None:
            ascent.follow(exact.choice)
        ascent.bound = min(max(ascent.bound, exact.bound), ascent.cost)
    return ascent


def _follow_promising(ascent: Ascent, deadline: Deadline) -> None:
    """Take the cheapest choice among a few strategies of each node, those that messages make cheapest.

    The bound is good long before good choices are suggested, and strategies can only be dropped next to a good choice.
    """
    charged = {node: ascent.messages.charged(node)[0] for node in ascent.graph.unary}
    extra = {node: costs - costs.min() for node, costs in charged.items()}
    ranked = np.sort(np.concatenate(list(extra.values())))
    most = ranked[min(PROMISING * len(extra), len(ranked)) - 1]
    kept: dict[int, np.ndarray] = {}
    for node, costs in extra.items():
        is_kept = costs <= most
        is_kept[ascent.choice[node]] = True
        kept[node] = np.flatnonzero(is_kept)
    few = ascent.graph.restricted(kept)
    start = {node: int(kept[node].searchsorted(strategy)) for node, strategy in ascent.choice.items()}
    exact = solve_exactly(few, ascent.cost, deadline, start=start)
    if exact is not None and exact.choice is not None:
        ascent.follow({node: int(kept[node][strategy]) for node, strategy in exact.choice.items()})
