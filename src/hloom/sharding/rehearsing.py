"""Solutions of a problem, corrected by what the partitioner is foreseen to make of them.

The tables of a problem know pairs of instructions. What a plan will really send, its forecast says; where that is more
than the tables expected, they are corrected and the problem is solved again, before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hloom.ir import Node
from hloom.sharding.feedback import learn
from hloom.sharding.forecast import Forecast, forecast
from hloom.sharding.problem import Problem
from hloom.sharding.sinking import sunk
from hloom.sharding.spec import Spec

SETTLED = 0.005
"""Where less than this share of what will be sent was not expected, the tables are taken to be right."""

Solve = Callable[[Problem], dict[int, int]]


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A choice, the specs that are handed over for it, and what they will cost."""

    choice: dict[int, int]
    specs: dict[Node, Spec]
    forecast: Forecast

    def seconds(self, problem: Problem) -> float:
        """The time of a step."""
        return self.forecast.flops / problem.rates.flops + self.forecast.wire / problem.rates.wire


def rehearsed(problem: Problem, solve: Solve, rounds: int = 5) -> Rehearsed:
    """The best of some solutions of a problem by their forecasts; its tables are corrected after each."""
    best: Rehearsed | None = None
    for _ in range(rounds):
        choice = solve(problem)
        specs = sunk(problem, choice)
        found = Rehearsed(choice, specs, forecast(problem, choice, specs))
        if best is None or found.seconds(problem) < best.seconds(problem):
            best = found
        if learn(problem, choice, found.forecast.wire_by_origin) <= SETTLED * found.forecast.wire:
            break
    assert best is not None
    return best
