"""A bound by passing costs between nodes and terms, and choices that the passing suggests.

Each node in turn takes from its terms all they are sure to cost, and gives it back in even parts, to those first that
come later in the order, then, on the way back, to those before (Kolmogorov's sequential reweighted message passing).
Every sweep raises the bound, which is that of a linear relaxation in the end or a little less. What a strategy costs
beyond the best of its node, after all messages, is what any choice with it costs beyond the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from hloom.planner.solvers.factor_graph import FactorGraph, given
from hloom.planner.solvers.factors import Factor, least

Place = tuple[Factor, int]


class MessagePassing:
    """The messages of a network; they stand in the sides of its terms' parts."""

    def __init__(self, network: FactorGraph) -> None:
        self.network = network
        self.parts = [part for term in network.terms for part in term.parts]
        self._touching: dict[int, list[Place]] = {node: [] for node in network.unary}
        for part in self.parts:
            for position, side in enumerate(part.sides):
                if side.size == 1:
                    side.message[:] = 0.0  # what is the same for all strategies need not be passed
                else:
                    self._touching[side.node].append((part, position))
        self._order = sorted(network.unary)
        self._later = {
            node: [place for place in places if max(side.node for side in place[0].sides) > node]
            for node, places in self._touching.items()
        }
        self._earlier = {
            node: [place for place in places if min(side.node for side in place[0].sides) < node]
            for node, places in self._touching.items()
        }
        self._share = {node: self._share_of(node) for node in self._order}

    def _share_of(self, node: int) -> np.ndarray:
        """What part of its costs each copy of a node gives to each of its terms."""
        copies = len(self.network.unary[node])
        counts = [np.zeros(copies), np.zeros(copies)]
        for count, places in zip(counts, (self._later[node], self._earlier[node]), strict=True):
            for part, position in places:
                count += np.bincount(part.sides[position].copies, minlength=copies)
        return 1.0 / np.maximum(np.maximum(*counts), 1.0)

    def sweep(self) -> None:
        """Pass once through all nodes and back."""
        for node in self._order:
            self._pass(node, self._later[node])
        for node in reversed(self._order):
            self._pass(node, self._earlier[node])

    def _pass(self, node: int, receivers: list[Place]) -> None:
        if not self._touching[node]:
            return
        costs = self.network.unary[node].copy()
        for part, position in self._touching[node]:
            side = part.sides[position]
            side.message = part.marginal(position)
            side.charge(costs)
        for part, position in receivers:
            side = part.sides[position]
            side.message = side.message - self._share[node][side.copies][:, None] * side.least(costs)

    def charged(self, node: int) -> np.ndarray:
        """The costs of a node's strategies with all messages, a row per copy."""
        costs = self.network.unary[node].copy()
        for part, position in self._touching[node]:
            part.sides[position].charge(costs)
        return costs

    def bound(self) -> float:
        """What no choice can cost less than."""
        alone = sum(float(self.charged(node).min(axis=1).sum()) for node in self._order)
        return alone + sum(float(least(part).sum()) for part in self.parts)

    def possible(self, room: float, choice: Mapping[int, int]) -> dict[int, np.ndarray]:
        """The strategies of a choice, and those that may be part of one which costs at most `room` above the bound."""
        kept: dict[int, np.ndarray] = {}
        for node in self._order:
            costs = self.charged(node)[0]
            may_be = costs <= costs.min() + room
            may_be[choice[node]] = True
            kept[node] = np.flatnonzero(may_be)
        return kept

    def suggested(self) -> dict[int, int]:
        """A choice made node by node: the best with those chosen before, messages standing for those to come."""
        choice: dict[int, int] = {}
        for node in self._order:
            costs = self.network.unary[node][0].copy()
            for term, places in self.network.touching(node):
                if all(side.node in choice or side.node == node for side in term.sides):
                    costs += given(term, places, choice)
                else:
                    for part in term.parts:
                        for side in part.sides:
                            if side.node == node:
                                side.charge(costs[None])
            choice[node] = int(np.argmin(costs))
        return choice


def descend(network: FactorGraph, choice: Mapping[int, int]) -> dict[int, int]:
    """A choice after changes of one node at a time, until none makes it cheaper."""
    result = dict(choice)
    waiting = dict.fromkeys(network.unary)
    while waiting:
        node = next(iter(waiting))
        del waiting[node]
        costs = network.given(node, result)
        best = int(np.argmin(costs))
        if costs[best] < costs[result[node]] * (1 - 1e-12):
            result[node] = best
            waiting.update((side.node, None) for term, _ in network.touching(node) for side in term.sides)
    return result


def warm_start(network: FactorGraph, before: FactorGraph) -> None:
    """Begin with the messages of a network over the same nodes, as far as its terms are found again."""
    known = dict(_known(before))
    for key, term in _known(network):
        if key in known:
            for part, like in zip(term.parts, known[key].parts, strict=True):
                copy_messages(part, like, 1.0, network, before)


def copy_messages(part: Factor, like: Factor, share: float, network: FactorGraph, before: FactorGraph) -> None:
    """Give a term of a network a share of the messages of one that relates the same nodes in another network."""
    for side, other in zip(part.sides, like.sides, strict=True):
        kept = before.kept[side.node]
        whole = np.zeros(1 + max(int(kept[-1]), int(network.kept[side.node][-1])))
        whole[kept] = other.message[0][other.of] * share
        side.message[:] = whole[network.kept[side.node]][side.firsts]


def _known(network: FactorGraph) -> Iterator[tuple[tuple, Factor]]:
    """Terms by the nodes that they relate, and the how manieth it is that does."""
    count: Counter[tuple[int, ...]] = Counter()
    for term in network.terms:
        nodes = tuple(side.node for side in term.sides)
        yield (nodes, count[nodes]), term
        count[nodes] += 1
