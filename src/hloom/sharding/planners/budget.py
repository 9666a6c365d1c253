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

from hloom.sharding.planners.ascent import CLOSED, EVERY
from hloom.sharding.planners.holding import Holding
from hloom.sharding.planners.linear import solve_exactly
from hloom.sharding.planners.messages import Messages
from hloom.sharding.planners.network import Network

ROUNDS = 60
"""How often prices are changed."""
LIGHT_ROUNDS = 20
SHARPNESS = 8.0
"""How fast weights move to the moments at which most is held."""
STALLED = 10
"""After so many rounds without a better bound the steps get shorter."""


@dataclass(slots=True)
class Within:
    """A choice, its cost, what none within the budget costs less than, and the bytes that the budget is short of."""

    choice: dict[int, int]
    cost: float
    bound: float
    missing: float = 0.0
    least: float = -math.inf
    """Bytes that every choice holds at some moment."""


def within(
    network: Network, held: Holding, budget: float, deadline: float, starts: Sequence[Mapping[int, int]] = ()
) -> Within:
    """The cheapest choice within a budget; where none is found, one that holds little, with what is missing."""
    light = lightest(network, held, deadline, budget, starts)
    if light.missing > 0:
        return light
    choices = [light.choice, *(fitted(network, held, budget, each) for each in starts)]
    fitting = [each for each in choices if held.of(each).max() <= budget]
    best = min(fitting, key=network.cost)
    found = Within(best, network.cost(best), -math.inf, least=light.least)
    prices = _search(network, held, budget, deadline, found)
    if _gap(found) > CLOSED:
        _settle(network, held, budget, deadline, found, prices)
    return found


def lightest(
    network: Network,
    held: Holding,
    deadline: float,
    budget: float = 0.0,
    starts: Sequence[Mapping[int, int]] = (),
) -> Within:
    """A choice whose largest moment holds as little as can be, or no more than the budget.

    Its bound is of the cost of choices that hold no more, which is not known; `least` are the bytes that are proven.
    """
    weights = np.full(len(held.constants), 1.0 / len(held.constants))
    best = min((dict(each) for each in starts), key=lambda each: held.of(each).max(), default=None)
    least = -math.inf
    messages = Messages(held.alone(network, weights))
    for _ in range(LIGHT_ROUNDS):
        for _ in range(EVERY):
            messages.sweep()
        least = max(least, messages.bound() + float(weights @ held.constants))
        choice = fitted(network, held, budget, messages.suggested())
        if best is None or held.of(choice).max() < held.of(best).max():
            best = choice
        most = held.of(best).max()
        if most <= max(budget, least * (1 + CLOSED)) or time.monotonic() > deadline:
            break
        weights = weights * np.exp(SHARPNESS * (held.of(choice) / held.of(choice).max() - 1))
        weights = weights / weights.sum()
        messages = Messages(held.alone(network, weights))
    assert best is not None
    most = float(held.of(best).max())
    best = fitted(network, held, max(budget, most), best)
    return Within(best, network.cost(best), -math.inf, max(0.0, most - budget), min(least, most))


def fitted(network: Network, held: Holding, budget: float, choice: Mapping[int, int]) -> dict[int, int]:
    """A choice after changes of one node at a time that make it fit a budget, and then cheaper."""
    found, waiting = dict(choice), dict.fromkeys(network.unary)
    total = held.of(found)
    while waiting:
        node = next(iter(waiting))
        del waiting[node]
        costs, own = network.given(node, found), held.given(node, found)
        excess = np.maximum(total - own[found[node]] + own - budget, 0.0).max(axis=1)
        best = int(np.lexsort((costs, excess))[0])
        now = found[node]
        is_lighter = excess[best] < excess[now] * (1 - 1e-9) - 1e-6
        is_cheaper = excess[best] <= excess[now] and costs[best] < costs[now] * (1 - 1e-12)
        if is_lighter or is_cheaper:
            found[node] = best
            total = held.of(found)
            waiting.update(dict.fromkeys(network.unary))
    return found


def _search(network: Network, held: Holding, budget: float, deadline: float, found: Within) -> np.ndarray:
    """Look for the prices whose bound is highest, and for cheap choices that fit; the best prices."""
    prices = best_prices = np.zeros(len(held.constants))
    length, stalled = 1.0, 0
    for _ in range(ROUNDS):
        messages = Messages(held.priced(network, prices))
        for _ in range(EVERY):
            messages.sweep()
        suggested = messages.suggested()
        bound = messages.bound() + float(prices @ (held.constants - budget))
        stalled = stalled + 1 if bound <= found.bound * (1 + 1e-6) else 0
        if bound > found.bound:
            found.bound, best_prices = min(bound, found.cost), prices
        _keep(network, held, budget, found, fitted(network, held, budget, suggested))
        excess = held.of(suggested) - budget
        uphill = np.where((prices > 0) | (excess > 0), excess, 0.0)
        if _gap(found) <= CLOSED or (stalled and not uphill.any()) or time.monotonic() > deadline:
            break
        if stalled == STALLED:
            length, stalled, prices = length / 2, 0, best_prices
        step = length * max(found.cost - bound, 0.0) / max(float(uphill @ uphill), 1e-300)
        prices = np.maximum(0.0, prices + step * uphill)
    return best_prices


def _settle(network: Network, held: Holding, budget: float, deadline: float, found: Within, prices: np.ndarray) -> None:
    """Let the solver look at what may still be better."""
    messages = Messages(held.priced(network, prices))
    for _ in range(EVERY):
        messages.sweep()
    bound = messages.bound() + float(prices @ (held.constants - budget))
    kept = messages.possible(max(found.cost - bound, 0.0), found.choice)
    start = {node: int(kept[node].searchsorted(strategy)) for node, strategy in found.choice.items()}
    fewer, less = network.restricted(kept), held.restricted(kept)
    exact = solve_exactly(fewer, found.cost, deadline - time.monotonic(), less, budget, start)
    if exact is None:
        return
    found.bound = max(found.bound, min(exact.bound, found.cost))
    if exact.choice is not None:
        choice = {node: int(kept[node][strategy]) for node, strategy in exact.choice.items()}
        _keep(network, held, budget, found, choice)
    found.bound = min(found.bound, found.cost)


def _keep(network: Network, held: Holding, budget: float, found: Within, choice: dict[int, int]) -> None:
    cost = network.cost(choice)
    if cost < found.cost and held.of(choice).max() <= budget:
        found.choice, found.cost = choice, cost


def _gap(found: Within) -> float:
    return (found.cost - found.bound) / found.cost if found.cost > 0 else 0.0
