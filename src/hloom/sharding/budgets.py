"""Choices within a budget of bytes: solve, look at the moments at which too much is held, forbid them, solve again.

What a choice holds is no sum of what its clusters hold: when instructions run, what is fused and what is copied all
depend on the choice. The rows of one choice say what others would hold at its moments, and each choice that does not
fit adds its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hloom.sharding.footprint import Footprint, footprint_of
from hloom.sharding.peaks import peak_rows
from hloom.sharding.planners.choice import Choice
from hloom.sharding.problem import Problem
from hloom.sharding.rows import MemoryRow
from hloom.sharding.sinking import sunk

ROUNDS = 12
"""How often a problem is solved before what holds least is taken."""
SLACK = 0.02
"""Bytes below the budget that are not worth another solution, as a share of it."""


@dataclass(slots=True)
class Within:
    """A solution, what it holds as far as is known, how much that is too much, and the rows that were met on the way.

    `bytes` are the expected ones times `scale`.
    """

    solution: Choice
    bytes: float
    missing: float = 0.0
    rows: list[MemoryRow] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether the budget is kept."""
        return self.missing <= 0


def solve_within(
    problem: Problem,
    budget: float,
    solve: Callable[[Problem, Sequence[MemoryRow], float | None], Choice | None],
    *,
    scale: float = 1.0,
    rounds: int = ROUNDS,
    rows: Sequence[MemoryRow] = (),
) -> Within:
    """The cheapest solution that is found to keep a budget, or else the one that holds least.

    `solve` gives the cheapest choice whose rows all stay below a budget, and None (or what holds least) where there is
    none. `scale` is what was measured of a plan beside what was expected. `rows` are those of an earlier search of the
    same problem.
    """
    known = list(rows)
    limit = budget / scale
    solution = solve(problem, known, limit if known else None)
    if solution is None:
        solution = solve(problem, (), None)
    assert solution is not None, "without a budget every problem has a solution"
    best: Within | None = None
    seen: set[tuple[int, ...]] = set()
    for _ in range(rounds):
        held = _footprint(problem, solution.strategies)
        here = Within(solution, held.bytes * scale, max(0.0, held.bytes * scale - budget), known)
        best = here if best is None or here.missing < best.missing else best
        key = tuple(solution.strategies[number] for number in sorted(solution.strategies))
        if here.fits or key in seen:
            return best
        seen.add(key)
        known += peak_rows(problem, solution.strategies, held)
        again = solve(problem, known, limit)
        if again is None:
            return best
        solution = again
    assert best is not None
    return best


def _footprint(problem: Problem, choice: Mapping[int, int]) -> Footprint:
    return footprint_of(problem, choice, sunk(problem, dict(choice)))
