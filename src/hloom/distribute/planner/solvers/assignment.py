"""The result of a solver: a strategy for each cluster, its cost, and a bound on the optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hloom.distribute.planner.problem import Problem


@dataclass(frozen=True, slots=True)
class Assignment:
    """One strategy per cluster, its cost in seconds, and a lower bound on the cost of any choice.

    `is_shared` says that the bound only holds for choices that give isomorphic clusters the same strategy;
    `shared_bound` is that bound in any case. `is_cut` says that time ran out before the search's step limits. `notes`
    tell a reader how the choice was found.
    """

    strategies: dict[int, int]
    cost: float
    bound: float
    is_shared: bool = True
    planner: str = "ilp"
    notes: tuple[str, ...] = ()
    shared_bound: float = -math.inf
    is_cut: bool = False

    @property
    def gap(self) -> float:
        """How far the cost may be above the optimum, as a share of it."""
        return (self.cost - self.bound) / self.cost if self.cost > 0 else 0.0


class Planner(Protocol):
    """Solves a problem within a number of seconds, as far as possible; `starts` are known choices."""

    def __call__(
        self,
        problem: Problem,
        *,
        seconds: float = math.inf,
        starts: Sequence[Mapping[int, int]] = (),
    ) -> Assignment: ...
