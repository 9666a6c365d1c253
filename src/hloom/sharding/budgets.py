"""Choices within a budget of bytes: solve, look at the moments at which too much is held, forbid them, solve again.

What a choice holds is no sum of what its clusters hold: when instructions run, what is fused and what is copied all
depend on the choice. The rows of one choice say what others would hold at its moments, and each choice that does not
fit adds its own; where rows foretold less than a choice holds, later ones must stay as much below the budget.
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
HALVINGS = 4
"""How often a limit that leaves no choice is moved towards what is known to be possible."""


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


Solve = Callable[[Problem, Sequence[MemoryRow], float | None], Choice | None]
"""From a problem, rows and the bytes that each of them may have to a choice; None where there is none."""


def solve_within(
    problem: Problem,
    budget: float,
    solve: Solve,
    *,
    scale: float = 1.0,
    rounds: int = ROUNDS,
    rows: Sequence[MemoryRow] = (),
) -> Within:
    """The cheapest solution that is found to keep a budget, or else the one that holds least.

    `solve` may also give what holds least where nothing fits. `scale` is what was measured of a plan beside what was
    expected. `rows` are those of an earlier search of the same problem.
    """
    known, margin = list(rows), 0.0
    solution = solve(problem, known, budget / scale if known else None) or solve(problem, (), None)
    assert solution is not None, "without a budget every problem has a solution"
    best: Within | None = None
    seen: set[tuple[int, ...]] = set()
    for _ in range(rounds):
        choice = solution.strategies
        held = _footprint(problem, choice)
        here = Within(solution, held.bytes * scale, max(0.0, held.bytes * scale - budget), known)
        best = here if best is None or here.missing < best.missing else best
        key = tuple(choice[number] for number in sorted(choice))
        if here.fits or key in seen:
            return best
        seen.add(key)
        if known:
            margin = max(margin, held.bytes - max(row.bytes(choice) for row in known))
        known += peak_rows(problem, choice, held)
        again = _solved(problem, solve, known, budget / scale - margin, best.bytes / scale)
        if again is None:
            return best
        solution = again
    assert best is not None
    return best


def _solved(problem: Problem, solve: Solve, rows: Sequence[MemoryRow], limit: float, known: float) -> Choice | None:
    """A solution within a limit or, where the rows leave none, within more of the bytes that are known to do."""
    for _ in range(HALVINGS):
        found = solve(problem, rows, limit)
        if found is not None or limit >= known:
            return found
        limit = (limit + known) / 2
    return None


def _footprint(problem: Problem, choice: Mapping[int, int]) -> Footprint:
    return footprint_of(problem, choice, sunk(problem, dict(choice)))
