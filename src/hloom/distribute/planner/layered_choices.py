"""Choices in which some of the repeated layers, the first or the last, use another strategy.

A linear program gives the share of repeated layers for each strategy; this module decides which layers these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.distribute.planner.memory_front import Point
from hloom.distribute.planner.moment_savings import MomentSavings
from hloom.distribute.planner.neighbourhood import Move
from hloom.distribute.planner.solvers.factor_graph import FactorGraph
from hloom.distribute.planner.solvers.moment_program import FractionalChoice


@dataclass(slots=True)
class MomentStage:
    """A choice by node, its point, the strategies that were simulated around it, and what is known of their memory."""

    base: dict[int, int]
    point: Point
    kept: dict[int, np.ndarray]
    graph: FactorGraph
    savings: MomentSavings
    peaks: set[int]


@dataclass(slots=True)
class Layers:
    """The clusters of each node, where each cluster stands among the layers (from 0 to 1), and the node of each.

    With `is_first_changed` the first layers take the other strategy, else the last ones.
    """

    members: Mapping[int, Sequence[int]]
    positions: Mapping[int, float]
    representative: Mapping[int, int]
    is_first_changed: bool = False

    def half(self, base: dict[int, int], move: Move, *, is_first: bool) -> dict[int, int]:
        """A choice with a change in half of the layers."""
        return {
            number: move.choice[node] if (self.positions[number] < 0.5) == is_first else base[node]
            for number, node in self.representative.items()
        }

    def rounded(
        self, stage: MomentStage, answer: FractionalChoice, target: float, rows: Sequence[int]
    ) -> dict[int, int]:
        """The choice in which so many layers take a strategy as the answer says, or more where that holds too much."""
        choice = self.layered(stage, answer, 0.0)
        for shift in (0.125, 0.25, 0.375, 0.5, 1.0):
            predicted = stage.savings.predicted(stage.base, stage.point.profile, choice, rows)
            if max(predicted) <= target * (1 + 1e-6):
                break
            choice = self.layered(stage, answer, shift)
        return choice

    def layered(
        self, stage: MomentStage, answer: FractionalChoice, shift: float, *, is_shared: bool = False
    ) -> dict[int, int]:
        """The strategies of clusters by where they stand among the layers."""
        choice: dict[int, int] = {}
        for node, numbers in self.members.items():
            shares, kept = answer.shares[node], stage.kept[node]
            order = sorted(range(len(shares)), key=lambda index: (kept[index] != stage.base[node], index))
            ends = np.cumsum(shares[order])
            own = shares[order[0]]
            if 1e-6 < own < 1 - 1e-6:
                ends = np.maximum(ends - shift, 0.0) if shift < 1 else np.where(np.arange(len(order)), ends, 0.0)
                ends[-1] = 1.0
            for number in numbers:
                position = self.positions[number]
                at = 0.5 if is_shared else 1 - position if self.is_first_changed else position
                index = min(int(np.searchsorted(ends, at, side="left")), len(order) - 1)
                choice[number] = int(kept[order[index]])
        return choice
