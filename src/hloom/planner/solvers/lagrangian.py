"""Choices within a budget of bytes: bytes get a price, raised where too many are held and lowered where few are.

Lagrange's relaxation: whatever the prices, the least of cost + prices * (bytes - budget) is at most the least cost
within the budget. Choices that are met on the way are repaired, one node at a time, until they fit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.planner.solvers.dual_ascent import CLOSED, SLOW
from hloom.planner.solvers.factor_graph import FactorGraph
from hloom.planner.solvers.ilp_model import solve_exactly
from hloom.planner.solvers.memory_prices import MemoryUse
from hloom.planner.solvers.message_passing import MessagePassing

ROUNDS = 16
"""How often prices are changed: a good choice comes early, and the solver proves the rest faster."""
LIGHT_ROUNDS = 20
"""How often weights of moments are changed in the search for what holds least: the bound on bytes is best after most of
them, and a round costs SWEEPS sweeps."""
SWEEPS = 5
"""How often messages are passed at the same prices: they are wrong at first, so an exact answer is not worth it."""
SHARPNESS = 8.0
"""The rate of the multiplicative weights: the weight of a moment that holds a share s of the most is multiplied by
exp(-SHARPNESS (1 - s)), a third at s = 0.86."""
STALLED = 2
"""After so many rounds without a better bound the steps are halved."""
SHORTEST = 1 / 8
"""The factor of Polyak's step, 1 at first and halved where the search stalls, below which it ends."""
SECONDS = 2.0
"""For how many seconds the integer program over the strategies that are left may be solved, at most."""
FEWER = 0.9
"""Strategies are left out once no more than this share of them is left: smaller tables have to repay their making."""


@dataclass(slots=True)
class LagrangianResult:
    """A choice, in the numbers of `graph`; its cost; what none within the budget costs less than.

    `missing` are the bytes that the budget is short of, `least` those that every choice holds at some moment.
    Strategies that are not in the factor graph are part of no cheaper choice within the budget.
    """

    graph: FactorGraph
    memory: MemoryUse
    budget: float
    choice: dict[int, int]
    cost: float
    bound: float = -math.inf
    missing: float = 0.0
    least: float = -math.inf

    @property
    def gap(self) -> float:
        """How far the cost may be above the optimum, as a share of it."""
        return (self.cost - self.bound) / self.cost if self.cost > 0 else 0.0

    def follow(self, choice: Mapping[int, int]) -> None:
        """Take a choice, changed until it fits, where it is cheaper."""
        better = repaired(self.graph, self.memory, self.budget, choice)
        cost = self.graph.cost(better)
        if cost < self.cost and self.memory.of(better).max() <= self.budget:
            self.choice, self.cost = better, cost

    def narrow(self, messages: MessagePassing, bound: float) -> None:
        """Leave out what costs more than the choice, at the prices of the messages, whatever the rest does."""
        kept = messages.possible(max(self.cost - bound, 0.0), self.choice)
        if sum(map(len, kept.values())) <= FEWER * self.graph.size:
            self.choice = {node: int(kept[node].searchsorted(strategy)) for node, strategy in self.choice.items()}
            self.graph, self.memory = self.graph.restricted(kept), self.memory.restricted(kept)


def solve_within_budget(
    graph: FactorGraph, memory: MemoryUse, budget: float, deadline: float, starts: Sequence[Mapping[int, int]] = ()
) -> LagrangianResult:
    """The cheapest choice within a budget; where none is found, one that holds little, with what is missing."""
    result = least_memory(graph, memory, deadline, budget, starts)
    if result.missing > 0:
        return result
    for start in starts:
        result.follow(start)
    _search(result, deadline)
    if result.gap > CLOSED:
        _settle(result, deadline)
    return result


def least_memory(
    graph: FactorGraph,
    memory: MemoryUse,
    deadline: float,
    budget: float = 0.0,
    starts: Sequence[Mapping[int, int]] = (),
) -> LagrangianResult:
    """A choice whose largest moment holds as little as can be, or no more than the budget.

    Its cost has no bound; `least` are the bytes that are proven.
    """
    weights = np.full(len(memory.constants), 1.0 / len(memory.constants))
    best = min((dict(start) for start in starts), key=lambda start: memory.of(start).max(), default=None)
    least = -math.inf
    for _ in range(LIGHT_ROUNDS):
        messages = MessagePassing(memory.alone(graph, weights))
        for _ in range(SWEEPS):
            messages.sweep()
        least = max(least, messages.bound() + float(weights @ memory.constants))
        choice = repaired(graph, memory, budget, messages.suggested())
        if best is None or memory.of(choice).max() < memory.of(best).max():
            best = choice
        if memory.of(best).max() <= max(budget, least * (1 + CLOSED)) or time.monotonic() > deadline:
            break
        weights = weights * np.exp(SHARPNESS * (memory.of(choice) / memory.of(choice).max() - 1))
        weights = weights / weights.sum()
    assert best is not None
    best = repaired(graph, memory, max(budget, memory.of(best).max()), best)
    most = float(memory.of(best).max())
    missing = max(0.0, most - budget)
    return LagrangianResult(graph, memory, budget, best, graph.cost(best), missing=missing, least=min(least, most))


def repaired(graph: FactorGraph, memory: MemoryUse, budget: float, choice: Mapping[int, int]) -> dict[int, int]:
    """A choice after changes of one node at a time that make it fit a budget, and then cheaper."""
    repaired_choice, waiting = dict(choice), dict.fromkeys(graph.unary)
    total = memory.of(repaired_choice)
    while waiting:
        node = next(iter(waiting))
        del waiting[node]
        costs, own, now = graph.given(node, repaired_choice), memory.given(node, repaired_choice), repaired_choice[node]
        excess = np.maximum(total - own[now] + own - budget, 0.0).max(axis=1)
        best = int(np.lexsort((costs, excess))[0])
        is_lighter = excess[best] < excess[now] * (1 - 1e-9) - 1e-6
        is_cheaper = excess[best] <= excess[now] and costs[best] < costs[now] * (1 - 1e-12)
        if is_lighter or is_cheaper:
            repaired_choice[node] = best
            total = memory.of(repaired_choice)
            waiting.update(dict.fromkeys(graph.unary))
    return repaired_choice


def _search(result: LagrangianResult, deadline: float) -> None:
    """Look for the prices whose bound is highest, and for cheap choices that fit."""
    prices = best = np.zeros(len(result.memory.constants))
    length, stalled = 1.0, 0
    for _ in range(ROUNDS):
        messages = MessagePassing(result.memory.priced(result.graph, prices))
        for _ in range(SWEEPS):
            messages.sweep()
        suggested = messages.suggested()
        bound = messages.bound() + float(prices @ (result.memory.constants - result.budget))
        excess = result.memory.of(suggested) - result.budget
        result.follow(suggested)
        stalled = 0 if bound > result.bound + SLOW * (result.cost - result.bound) else stalled + 1
        if bound > result.bound:
            result.bound, best = min(bound, result.cost), prices
        result.narrow(messages, bound)
        uphill = np.where((prices > 0) | (excess > 0), excess, 0.0)
        if result.gap <= CLOSED or length < SHORTEST or not uphill.any() or time.monotonic() > deadline:
            break
        if stalled == STALLED:
            length, stalled, prices = length / 2, 0, best
        step = length * max(result.cost - bound, 0.0) / float(uphill @ uphill)
        prices = np.maximum(0.0, prices + step * uphill)


def _settle(result: LagrangianResult, deadline: float) -> None:
    """Let the solver look at what may still be better."""
    seconds = min(SECONDS, deadline - time.monotonic())
    exact = solve_exactly(result.graph, result.cost, seconds, result.memory, result.budget, result.choice)
    if exact is None:
        return
    if exact.choice is not None:
        result.follow(exact.choice)
    result.bound = min(max(result.bound, exact.bound), result.cost)
