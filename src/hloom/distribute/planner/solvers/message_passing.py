"""Lower bounds by passing costs between nodes and factors, and choices suggested by the messages.

Each node in turn collects from its factors everything they are certain to cost, and returns it in equal parts, first to
those later in the order, then, on the way back, to those before. Every sweep raises the bound, which converges to that
of a linear relaxation or slightly less. A strategy's cost beyond the best of its node, after all messages, is what any
choice with it costs beyond the bound.

Source: V. Kolmogorov, "A new look at reweighted message passing", IEEE PAMI 37 (2015), sequential reweighted message
passing (SRMP).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from hloom.distribute.planner.solvers.factor_graph import FactorGraph, given
from hloom.distribute.planner.solvers.factors import Argument, CostFactor, least

FactorPosition = tuple[CostFactor, int, Argument]


class MessagePassing:
    """The messages of a factor graph; they stand in the arguments of its factors' parts.

    On the way forth the messages of factors that a node comes first in are still what they would become: these factors
    were given nothing on the way back, and since then no other node of theirs was passed. On the way back the same is
    true of factors that it comes last in.
    """

    def __init__(self, graph: FactorGraph) -> None:
        self.graph = graph
        self.parts = [part for factor in graph.factors for part in factor.parts]
        self._touching: dict[int, list[FactorPosition]] = {node: [] for node in graph.unary}
        for part in self.parts:
            for position, argument in enumerate(part.arguments):
                if argument.size == 1:
                    argument.message[:] = 0.0  # a constant over all strategies need not be passed
                else:
                    self._touching[argument.node].append((part, position, argument))
        self._order = sorted(graph.unary)
        self._later = {
            node: [entry for entry in positions if max(argument.node for argument in entry[0].arguments) > node]
            for node, positions in self._touching.items()
        }
        self._earlier = {
            node: [entry for entry in positions if min(argument.node for argument in entry[0].arguments) < node]
            for node, positions in self._touching.items()
        }
        self._share = {node: self._share_of(node) for node in self._order}
        self._changed_forth = {node: self._changed(node, self._earlier[node]) for node in self._order}
        self._changed_back = {node: self._changed(node, self._later[node]) for node in self._order}
        self._is_begun = False

    def _share_of(self, node: int) -> np.ndarray:
        """What part of its costs each copy of a node gives to each of its factors."""
        copies = len(self.graph.unary[node])
        counts = [np.zeros(copies), np.zeros(copies)]
        for count, positions in zip(counts, (self._later[node], self._earlier[node]), strict=True):
            for _, _, argument in positions:
                count += np.bincount(argument.copies, minlength=copies)
        return 1.0 / np.maximum(np.maximum(*counts), 1.0)

    def _changed(self, node: int, others: list[FactorPosition]) -> list[FactorPosition]:
        """The factors of a node that one of some others or the node itself, at another argument, changes before it."""
        moved = {id(entry[2]) for entry in others}
        return [
            entry
            for entry in self._touching[node]
            if id(entry[2]) in moved or sum(argument.node == node for argument in entry[0].arguments) > 1
        ]

    def sweep(self) -> None:
        """Pass once through all nodes and back."""
        for node in self._order:
            changed = self._changed_forth if self._is_begun else self._touching
            self._pass(node, changed[node], self._later[node])
        for node in reversed(self._order):
            self._pass(node, self._changed_back[node], self._earlier[node])
        self._is_begun = True

    def _pass(self, node: int, changed: list[FactorPosition], receivers: list[FactorPosition]) -> None:
        if not self._touching[node]:
            return
        for part, position, argument in changed:
            argument.message = part.marginal(position)
        costs = self.charged(node)
        share = self._share[node]
        for _, _, argument in receivers:
            own = share[0] if len(share) == 1 else share[argument.copies][:, None]
            argument.message = argument.message - own * argument.least(costs)

    def charged(self, node: int) -> np.ndarray:
        """The costs of a node's strategies with all messages, a row per copy."""
        costs = self.graph.unary[node].copy()
        for _, _, argument in self._touching[node]:
            argument.charge(costs)
        return costs

    def bound(self) -> float:
        """A lower bound on the cost of any choice."""
        alone = sum(float(self.charged(node).min(axis=1).sum()) for node in self._order)
        return alone + sum(float(least(part).sum()) for part in self.parts)

    def possible(self, slack: float, choice: Mapping[int, int]) -> dict[int, np.ndarray]:
        """The strategies of a choice, and those that may be part of one which costs at most `slack` above the bound."""
        kept: dict[int, np.ndarray] = {}
        for node in self._order:
            costs = self.charged(node)[0]
            may_be = costs <= costs.min() + slack
            may_be[choice[node]] = True
            kept[node] = np.flatnonzero(may_be)
        return kept

    def suggested(self) -> dict[int, int]:
        """A choice made node by node: the best given earlier choices, with messages in place of later ones."""
        choice: dict[int, int] = {}
        for node in self._order:
            costs = self.graph.unary[node][0].copy()
            for factor, positions in self.graph.touching(node):
                if all(argument.node in choice or argument.node == node for argument in factor.arguments):
                    costs += given(factor, positions, choice)
                else:
                    for part in factor.parts:
                        for argument in part.arguments:
                            if argument.node == node:
                                argument.charge(costs[None])
            choice[node] = int(np.argmin(costs))
        return choice


def descend(graph: FactorGraph, choice: Mapping[int, int]) -> dict[int, int]:
    """A choice after changes of one node at a time, until none makes it cheaper."""
    result = dict(choice)
    waiting = dict.fromkeys(graph.unary)
    while waiting:
        node = next(iter(waiting))
        del waiting[node]
        costs = graph.given(node, result)
        best = int(np.argmin(costs))
        if costs[best] < costs[result[node]] - 1e-12 * abs(costs[result[node]]):
            result[node] = best
            waiting.update((argument.node, None) for factor, _ in graph.touching(node) for argument in factor.arguments)
    return result


def warm_start(graph: FactorGraph, before: FactorGraph) -> None:
    """Begin with the messages of a factor graph over the same nodes, as far as its factors are found again."""
    known = dict(_known(before))
    for key, factor in _known(graph):
        if key in known:
            for part, like in zip(factor.parts, known[key].parts, strict=True):
                copy_messages(part, like, 1.0, graph, before)


def copy_messages(part: CostFactor, like: CostFactor, share: float, graph: FactorGraph, before: FactorGraph) -> None:
    """Give a factor a share of the messages of the one that relates the same nodes in another factor graph."""
    for argument, other in zip(part.arguments, like.arguments, strict=True):
        kept = before.kept[argument.node]
        message = np.zeros(1 + max(int(kept[-1]), int(graph.kept[argument.node][-1])))
        message[kept] = other.message[0][other.of] * share
        argument.message[:] = message[graph.kept[argument.node]][argument.firsts]


def _known(graph: FactorGraph) -> Iterator[tuple[tuple, CostFactor]]:
    """Factors by the nodes that they relate, and the position among those that relate the same ones."""
    count: Counter[tuple[int, ...]] = Counter()
    for factor in graph.factors:
        nodes = tuple(argument.node for argument in factor.arguments)
        yield (nodes, count[nodes]), factor
        count[nodes] += 1
