"""The Pareto front of time over memory, and lower bounds from integer programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hloom.distribute.planner.memory_profile import Choice, MemoryProfile
from hloom.distribute.planner.solvers.factor_graph import FactorGraph
from hloom.distribute.planner.solvers.moment_program import MomentUse, solve_within_moments


@dataclass(frozen=True, slots=True)
class Point:
    """A choice that was simulated, its cost as forecast, and its memory."""

    choice: Choice
    cost: float
    profile: MemoryProfile

    @property
    def bytes(self) -> int:
        """The bytes at the peak."""
        return self.profile.bytes


@dataclass(frozen=True, slots=True)
class MomentModel:
    """The linear program of one stage as it was corrected last."""

    graph: FactorGraph
    use: MomentUse
    known: float
    counts: Mapping[int, int]
    representative: Mapping[int, int]

    def has(self, choice: Choice) -> bool:
        """Whether the choice is one of the program's: it has all of its strategies."""
        kept = {node: set(strategies.tolist()) for node, strategies in self.graph.kept.items()}
        return all(strategy in kept[self.representative[number]] for number, strategy in choice.items())

    def bound(self, budget: float, most: float) -> float:
        """What none of its choices that keep the budget costs less than; infinite where that is more than `most`."""
        answer = solve_within_moments(self.graph, self.use, budget, self.known, self.counts, most)
        return math.inf if answer is None or answer.missing > 0 else answer.bound


@dataclass(slots=True)
class MemoryFront:
    """Choices of which none is beaten in both cost and memory, the smallest first; and all that were simulated."""

    points: list[Point]
    simulated: list[Point]
    models: list[MomentModel] = field(default_factory=list)

    def within(self, budget: float) -> list[Point]:
        """Those that keep a budget, the cheapest first."""
        return sorted((point for point in self.points if point.bytes <= budget), key=lambda point: point.cost)

    @property
    def smallest(self) -> Point:
        """The choice with the least memory."""
        return self.points[0]

    def bound(self, budget: float) -> float:
        """The linear programs' lower bound on the cost of choices within a budget; no known choice is below it.

        Only programs count that have the cheapest choice known within the budget among theirs: others know too little.
        """
        known = self.within(budget)
        if not known:
            return -math.inf
        least, models = known[0].cost, [model for model in self.models if model.has(known[0].choice)]
        for model in models:
            least = min(least, model.bound(budget, least))
        return least if models else -math.inf
