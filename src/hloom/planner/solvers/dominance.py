"""Strategies that look alike to all terms of their node: of these the cheapest are enough."""

from __future__ import annotations

import numpy as np

from hloom.planner.solvers.factor_graph import Network
from hloom.planner.solvers.memory_prices import Holding


def undominated(network: Network, held: Holding | None = None) -> dict[int, np.ndarray]:
    """By node the strategies that are left when those go which another one equals to the terms and betters alone.

    One betters another if it costs no more and holds no more at any moment; of equal ones the first stays.
    """
    return {node: _undominated(network, node, held) for node in network.unary}


def _undominated(network: Network, node: int, held: Holding | None) -> np.ndarray:
    costs = network.unary[node][0]
    looks = [term.sides[place].of for term, places in network.touching(node) for place in places]
    alone = costs[:, None]
    if held is not None:
        looks += held.looks(node)
        alone = np.concatenate([alone, held.unary[node]], axis=1)
    _, kinds = np.unique(np.stack(looks or [np.zeros(len(costs), int)], axis=1), axis=0, return_inverse=True)
    kept: list[int] = []
    for kind in range(int(kinds.max()) + 1):
        members = np.flatnonzero(np.ravel(kinds) == kind)
        best: list[int] = []
        for each in members[np.lexsort(alone[members].T[::-1])]:  # who betters another comes before it
            if not any((alone[other] <= alone[each]).all() for other in best):
                best.append(int(each))
        kept += best
    return np.array(sorted(kept))
