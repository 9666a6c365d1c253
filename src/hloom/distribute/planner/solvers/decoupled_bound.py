"""A lower bound on all plans: every cluster chooses independently, isomorphic or not."""

from __future__ import annotations

from collections.abc import Iterator

from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.factor_graph import FactorGraph, full_graph
from hloom.distribute.planner.solvers.factors import CostFactor
from hloom.distribute.planner.solvers.message_passing import MessagePassing, copy_messages
from hloom.distribute.planner.solvers.reshard_factor import ReshardFactor

ROUNDS = 40
"""How often the bound is looked at, at most, after EVERY sweeps each: SLOW or the deadline mostly end it before."""
ENOUGH = 1e-3
"""A gap of this share of the cost is small enough: the tables' errors are larger."""
EVERY = 5
"""Sweeps between evaluations of the bound, which cost about as much as a sweep."""
SLOW = 0.05
"""Stop if a round has closed less than this share of the gap."""


def decoupled_bound(problem: Problem, graph: FactorGraph, cost: float, deadline: Deadline) -> float | None:
    """What no choice costs less than, `cost` being that of one; None where the deadline has passed before.

    The messages begin as those of the quotient graph, evenly among all clusters that a node represents there.
    """
    if deadline.cuts():
        return None
    apart = full_graph(problem)
    _begin(apart, graph)
    messages = MessagePassing(apart)
    bound = messages.bound()
    for _ in range(ROUNDS):
        before = bound
        for _ in range(EVERY):
            messages.sweep()
        bound = max(bound, messages.bound())
        if cost - bound <= ENOUGH * cost or bound - before < SLOW * (cost - bound) or deadline.cuts():
            break
    return min(bound, cost)


def _begin(apart: FactorGraph, graph: FactorGraph) -> None:
    """Share the messages of the quotient graph out among the factors that were added up in it."""
    known = dict(_known(graph))
    rows: dict[tuple, int] = {}
    for key, factor in _known(apart):
        rows[key] = rows.get(key, 0) + len(factor.arguments[0].copies)
    for key, factor in _known(apart):
        if key in known:
            for part, like in zip(factor.parts, known[key].parts, strict=True):
                copy_messages(part, like, 1.0 / rows[key], apart, graph)


def _known(graph: FactorGraph) -> Iterator[tuple[tuple, CostFactor]]:
    """Factors by what they relate: two nodes, or the position among reshard factors."""
    fans = 0
    for factor in graph.factors:
        fans += isinstance(factor, ReshardFactor)
        yield (
            (fans,) if isinstance(factor, ReshardFactor) else tuple(argument.node for argument in factor.arguments),
            factor,
        )
