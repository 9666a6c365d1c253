"""The cheapest choice if work and collectives overlap, so that the longer one counts.

For every share s between 0 and 1, max(work, sending) is at least s * work + (1 - s) * sending, which messages bound.
The bounds are concave in s: the next share to look at is where the lines of the choices met so far cross (Kelley's
cutting planes in one dimension). What no choice can contain that is better than the best one met is left out, and the
rest is an integer program with a row for work and a row for sending.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers.assignment import Assignment
from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.dual_ascent import Ascent, ascend
from hloom.distribute.planner.solvers.factor_graph import FactorGraph, quotient_graph
from hloom.distribute.planner.solvers.factors import PairFactor
from hloom.distribute.planner.solvers.ilp_model import LARGEST, MOST_COLUMNS, add_reshard, add_table, columns_of
from hloom.distribute.planner.solvers.mixed_integer_program import MixedIntegerProgram
from hloom.distribute.planner.solvers.reshard_factor import ReshardFactor

LOW = 0.25
"""The weight of work in one of the two problems that separate work from communication; the other one uses the
complement.
"""
SHARES = 8
"""The maximum number of weights of work to try."""
NODE_COLUMNS = 8_000_000
"""The maximum number of branch-and-bound nodes times columns."""
NARROW = 1e-4
"""A choice within this share of the bound is accepted."""


@dataclass(frozen=True, slots=True)
class _Times:
    """The seconds of work by node and strategy, and a factor graph of the seconds of collectives."""

    work: Mapping[int, np.ndarray]
    sending: FactorGraph

    def of(self, choice: Mapping[int, int]) -> tuple[float, float]:
        """The seconds of both under a choice."""
        return sum(float(costs[choice[node]]) for node, costs in self.work.items()), self.sending.cost(choice)

    def weighted(self, share: float) -> FactorGraph:
        """The factor graph of a sum in which work has this share."""
        unary = {node: share * self.work[node][None] + (1 - share) * own for node, own in self.sending.unary.items()}
        return FactorGraph(unary, [factor.scaled(1 - share) for factor in self.sending.factors], self.sending.kept)

    def restricted(self, kept: Mapping[int, np.ndarray]) -> _Times:
        """The same with fewer strategies."""
        return _Times({node: costs[kept[node]] for node, costs in self.work.items()}, self.sending.restricted(kept))


@dataclass(frozen=True, slots=True)
class Balance:
    """The best choice of some sums of work and sending; the share of work in the sum whose bound is highest, that
    bound, and the ascent that gave it, on all strategies.
    """

    choice: dict[int, int]
    share: float
    bound: float
    ascent: Ascent


def plan_balanced(low: Problem, high: Problem, seconds: float = math.inf) -> tuple[Assignment, float]:
    """The best choice that sums of work and sending give, without an integer program, and the share of work in the sum
    that bounds the longer one best.

    The problems are those of `plan_overlapped`.
    """
    deadline = Deadline(seconds)
    times = _times(low, high)
    balance = _balanced(times, deadline)
    strategies, cost = times.sending.named(low, balance.choice), max(times.of(balance.choice))
    bound = min(balance.bound, cost)
    return Assignment(strategies, cost, bound, shared_bound=bound, is_cut=deadline.has_cut), balance.share


def plan_overlapped(low: Problem, high: Problem, seconds: float = math.inf) -> Assignment:
    """The choice that minimises the longer of work and communication, and a lower bound.

    The problems are one with costs of `Rates.weighted(LOW)` and of `Rates.weighted(1 - LOW)`. Isomorphic clusters take
    the same strategy.
    """
    deadline = Deadline(seconds)
    times = _times(low, high)
    balance = _balanced(times, deadline)
    choice, bound = balance.choice, balance.bound
    cost = max(times.of(choice))
    if cost - bound > NARROW * cost:
        messages = balance.ascent.messages
        kept = messages.possible(cost - messages.bound(), choice)
        few = times.restricted(kept)
        solved = _solve(few, {node: int(kept[node].searchsorted(own)) for node, own in choice.items()}, cost, deadline)
        if solved is not None:
            better, least = solved
            named = {node: int(kept[node][own]) for node, own in better.items()}
            choice = min(choice, named, key=lambda own: max(times.of(own)))
            cost = max(times.of(choice))
            bound = min(max(bound, least), cost)
    strategies = times.sending.named(low, choice)
    return Assignment(strategies, cost, bound, shared_bound=bound, is_cut=deadline.has_cut)


def _times(low: Problem, high: Problem) -> _Times:
    """Work and sending told apart: sums of both in two shares are known, and factors are of sending alone."""
    few, much = quotient_graph(low), quotient_graph(high)
    rest = 1 - LOW
    work = {node: (rest * much.unary[node] - LOW * few.unary[node]) / (rest - LOW) for node in few.unary}
    sending = {node: (rest * few.unary[node] - LOW * much.unary[node]) / (rest - LOW) for node in few.unary}
    graph = FactorGraph(sending, [factor.scaled(1 / rest) for factor in few.factors], few.kept)
    return _Times({node: np.maximum(costs[0], 0.0) for node, costs in work.items()}, graph)


def _balanced(times: _Times, deadline: Deadline) -> Balance:
    """Look at sums of work and sending until the bound of the longer one is highest."""
    lines: list[tuple[float, float]] = []
    best: dict[int, int] | None = None
    highest: tuple[float, float, Ascent] | None = None
    share = 0.5
    for _ in range(SHARES):
        graph = times.weighted(share)
        ascent = ascend(graph, deadline, [] if best is None else [best], is_narrowed=False)
        work, sending = times.of(ascent.choice)
        if best is None or max(work, sending) < max(times.of(best)):
            best = ascent.choice
        if highest is None or ascent.bound > highest[0]:
            highest = ascent.bound, share, ascent
        lines.append((work, sending))
        following = _crossing(lines)
        if following is None or abs(following - share) < NARROW or deadline.cuts():
            break
        share = following
    assert best is not None and highest is not None
    bound, share, ascent = highest
    return Balance(best, share, bound, ascent)


def _crossing(lines: list[tuple[float, float]]) -> float | None:
    """The share at which the least of s * work + (1 - s) * sending over all lines is highest."""
    shares = {0.0, 1.0}
    for number, (work, sending) in enumerate(lines):
        for other_work, other_sending in lines[:number]:
            slope = (work - sending) - (other_work - other_sending)
            if slope:
                shares.add(min(1.0, max(0.0, (other_sending - sending) / slope)))
    best = max(shares, key=lambda share: min(share * work + (1 - share) * sending for work, sending in lines))
    return min(max(best, NARROW), 1 - NARROW)


def _solve(
    times: _Times, start: Mapping[int, int], known: float, deadline: Deadline
) -> tuple[dict[int, int], float] | None:
    """The choice of the integer program, and its bound; None where it is too large or nothing is found."""
    if columns_of(times.sending) > MOST_COLUMNS or deadline.cuts():
        return None
    scale = LARGEST / known if known > 0 else 1.0
    program = MixedIntegerProgram()
    chosen = {node: program.columns(own[0] * scale, is_integer=True) for node, own in times.sending.unary.items()}
    for columns in chosen.values():
        program.row(1, 1, columns, 1.0)
    for factor in times.sending.factors:
        if isinstance(factor, PairFactor):
            add_table(program, chosen, factor.arguments, factor.table * scale)
        elif isinstance(factor, ReshardFactor):
            add_reshard(program, chosen, factor, scale)
    sending = np.array(program.costs)
    program.costs = [0.0] * len(sending)
    longest = program.columns([1.0], upper=math.inf)
    columns = np.concatenate([*chosen.values()])
    work = np.concatenate([times.work[node] * scale for node in chosen])
    present = np.flatnonzero(sending)
    program.row(-math.inf, 0, np.append(present, longest), np.append(sending[present], -1.0))
    program.row(-math.inf, 0, np.append(columns, longest), np.append(work, -1.0))
    begun = {int(columns[start[node]]): 1.0 for node, columns in chosen.items()}
    nodes = max(NODE_COLUMNS // len(program.costs), 20)
    solved = program.solve(deadline.remaining, start=begun, nodes=nodes)
    deadline.has_cut = deadline.has_cut or solved.is_cut
    if not len(solved.values):
        return dict(start), solved.bound / scale
    return {node: int(np.argmax(solved.values[columns])) for node, columns in chosen.items()}, solved.bound / scale
