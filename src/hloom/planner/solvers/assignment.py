"""What a planner gives: a strategy for each cluster, what that costs, and what is known of the optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hloom.planner.problem import Problem


@dataclass(frozen=True, slots=True)
class Assignment:
    """One strategy per cluster, its cost in seconds, and a bound: the least that any choice could cost.

    `is_shared` says that the bound holds only for choices that give isomorphic clusters the same strategy;
    `shared_bound` is that bound in any case. It `is_cut` where the seconds
    ended the search before its steps did. `notes` say what a reader should know of how the choice was found.
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
    """From a problem to a choice, within so many seconds, as far as these can be kept; `starts` are known choices."""

    def __call__(
        self,
        problem: Problem,
        *,
        seconds: float = math.inf,
        starts: Sequence[Mapping[int, int]] = (),
    ) -> Assignment: ...
