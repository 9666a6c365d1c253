"""Improves a choice and its lower bound alternately, until they meet or hardly change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.factor_graph import FactorGraph
from hloom.distribute.planner.solvers.message_passing import MessagePassing, descend

CLOSED = 1e-6
"""The share of the cost below which a gap counts as closed: costs are sums of doubles, right to about 1e-12."""
SWEEPS = 600
"""How often messages are passed, at most: SLOW ends a search that gets nowhere much earlier, this one that creeps."""
EVERY = 10
"""Sweeps between suggesting a choice and dropping dominated strategies: both cost about as much as a sweep."""
SLOW = 0.02
"""Stop if the last round has closed less than this share of the gap, and the bound has stalled."""
STALLED = 1e-3
"""The bound has stalled if it rose by less than this share: next to a bad choice, the gap hides its progress."""
FEWER = 0.8
"""Strategies are dropped once at most this share of them is left: smaller tables must repay their construction."""


@dataclass(slots=True)
class Ascent:
    """The cheapest choice met, in the numbers of `graph`; its cost; the bound; and the messages that prove it.

    Strategies that are not in the factor graph are part of no choice cheaper than this one.
    """

    graph: FactorGraph
    choice: dict[int, int]
    cost: float
    bound: float
    messages: MessagePassing

    @property
    def gap(self) -> float:
        """How far the cost may be above the optimum, as a share of it."""
        return (self.cost - self.bound) / self.cost if self.cost > 0 else 0.0

    def follow(self, suggested: Mapping[int, int]) -> None:
        """Adopt a choice, improved node by node, if it is cheaper."""
        choice = descend(self.graph, suggested)
        cost = self.graph.cost(choice)
        if cost < self.cost:
            self.choice, self.cost = choice, cost

    def narrow(self) -> None:
        """Drop strategies that make any choice cost more than the current one."""
        kept = self.messages.possible(self.cost - self.messages.bound(), self.choice)
        if sum(map(len, kept.values())) <= FEWER * self.graph.size:
            self.choice = {node: int(kept[node].searchsorted(strategy)) for node, strategy in self.choice.items()}
            self.graph = self.graph.restricted(kept)
            self.messages = MessagePassing(self.graph)


def ascend(
    graph: FactorGraph,
    deadline: Deadline,
    starts: Sequence[Mapping[int, int]] = (),
    sweeps: int = SWEEPS,
    enough: float = CLOSED,
    *,
    is_narrowed: bool = True,
) -> Ascent:
    """Pass messages, and follow the choices they suggest; `starts` are choices to begin with.

    Messages that stand in the factor graph already are gone on from, and a gap of `enough` is not narrowed further. It
    ends before the deadline, though not before the first round. Unless `is_narrowed`, no strategy is left out.
    """
    result = _begun(graph, starts)
    for _ in range(0, sweeps, EVERY):
        before = result.bound
        for _ in range(EVERY):
            result.messages.sweep()
        result.bound = max(result.bound, min(result.messages.bound(), result.cost))
        result.follow(result.messages.suggested())
        is_slow = result.bound - before < min(SLOW * (result.cost - result.bound), STALLED * result.cost)
        if result.gap <= enough or is_slow or deadline.cuts():
            break
        if is_narrowed:
            result.narrow()
    return result


def _begun(graph: FactorGraph, starts: Sequence[Mapping[int, int]]) -> Ascent:
    messages = MessagePassing(graph)
    choices = [descend(graph, start) for start in (*starts, messages.suggested())]
    costs = [graph.cost(choice) for choice in choices]
    best = costs.index(min(costs))
    return Ascent(graph, choices[best], costs[best], min(messages.bound(), costs[best]), messages)
