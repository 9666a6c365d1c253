"""Choices within a budget of bytes: solve, look at the moments at which too much is held, forbid them, solve again.

What a choice holds is no sum of what its clusters hold: when instructions run, what is fused and what is copied all
depend on the choice. The rows of one choice say what others would hold at its moments, and are right about that choice
alone. So each choice that is looked at adds its own, and the limit that rows must keep is itself searched for: lower
where they foretell too little, higher where they leave nothing, and in between once something fits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hloom.sharding.footprint import Footprint, footprint_of
from hloom.sharding.peaks import peak_rows
from hloom.sharding.planners.choice import Choice
from hloom.sharding.problem import Problem
from hloom.sharding.rows import MemoryRow
from hloom.sharding.sinking import sunk

ROUNDS = 12
"""How often a problem is solved before the best of what was met is taken."""
SECONDS = 12.0
"""After so long no further round begins."""
CLOSE = 0.004
"""Limits that differ by less than this share of the budget are the same."""
WORTH = 0.01
"""What fits is good enough where it costs no more than this share above what does not."""
STEP = 0.5
"""The limit is lowered by this share of the bytes that are too many."""


@dataclass(slots=True)
class Within:
    """A solution, what it holds as far as is known, how much that is too much, and the rows that were met on the way.

    `bytes` are the expected ones times `scale`. The solution's bound is of all choices, whatever they hold.
    """

    solution: Choice
    bytes: float
    missing: float = 0.0
    rows: list[MemoryRow] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether the budget is kept."""
        return self.missing <= 0

    @property
    def rank(self) -> tuple[float, float]:
        """The least is best: what is missing, then the cost."""
        return self.missing, self.solution.cost


Solve = Callable[[Problem, Sequence[MemoryRow], float | None], Choice | None]
"""From a problem, rows and the bytes that each of them may have to a choice; None where there is none.

It may also give what holds least, with what is missing.
"""


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

    `scale` is what was measured of a plan beside what was expected. `rows` are those of an earlier search of the same
    problem.
    """
    free = solve(problem, (), None)
    assert free is not None, "without a budget every problem has a solution"
    search = _Search(problem, budget / scale, free, list(rows))
    search.begin()
    ends = time.monotonic() + SECONDS
    for _ in range(rounds - 1):
        if search.is_done or time.monotonic() > ends:
            break
        search.advance(solve(problem, search.rows, search.limit))
    found = search.best
    assert found is not None
    bound = replace(found.solution, bound=free.bound, is_tied=free.is_tied, tied_bound=free.tied_bound)
    return Within(bound, found.bytes * scale, found.missing * scale, search.rows)


@dataclass(slots=True)
class _Search:
    """The search for a limit: at `low` rows leave nothing, at `high` they leave what does not fit.

    `cheapest` is the cost of what does not fit at `high`: what fits costs at least about as much.
    """

    problem: Problem
    budget: float
    free: Choice
    rows: list[MemoryRow]
    best: Within | None = None
    limit: float = field(init=False)
    low: float = 0.0
    high: float = math.inf
    cheapest: float = field(init=False)
    is_done: bool = False
    seen: dict[tuple[int, ...], Within] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limit, self.cheapest = self.budget, self.free.cost

    def begin(self) -> None:
        """Look at the solution without a budget."""
        self.is_done = self._look(self.free, is_teaching=True).fits

    def advance(self, solution: Choice | None) -> None:
        """Take what was found at the limit, and move the limit."""
        if solution is None or solution.missing > 0:
            self._raise(solution)
            return
        here = self._look(solution, is_teaching=True)
        if here.fits:
            self.low = max(self.low, self.limit)
            self._between(is_enough=solution.cost <= self.cheapest * (1 + WORTH))
        else:
            self._lower(here)

    def _raise(self, lightest: Choice | None) -> None:
        """The rows leave nothing: look at what holds least by them, which may hold less, and ask for less."""
        if lightest is not None:
            here = self._look(lightest, is_teaching=False)
            self._relax(lightest, here.bytes)
        self.low = max(self.low, self.limit)
        self._between(is_enough=False)

    def _lower(self, here: Within) -> None:
        """The rows foretold too little: they know this choice now, and must stay further below the budget."""
        self.high, self.cheapest = min(self.high, self.limit), max(self.cheapest, here.solution.cost)
        best = self.best
        if best is not None and best.fits:
            self._between(is_enough=best.solution.cost <= self.cheapest * (1 + WORTH))
            return
        self.limit = max(self.limit - STEP * here.missing, (self.low + self.limit) / 2)
        self.is_done = self.limit - self.low < CLOSE * self.budget

    def _between(self, *, is_enough: bool) -> None:
        """Go on between what leaves too little and what leaves too much."""
        best = self.best
        assert best is not None
        top = min(self.high, self.budget if best.fits else best.bytes)
        self.is_done = is_enough or top - self.low < CLOSE * self.budget
        self.limit = (self.low + top) / 2

    def _relax(self, choice: Choice, held: float) -> None:
        """Rows that say more than a choice holds are wrong about it: they say less from now on."""
        for row in self.rows:
            row.constant -= max(0.0, row.bytes(choice.strategies) - held)

    def _look(self, solution: Choice, *, is_teaching: bool) -> Within:
        """What a solution holds; its moments become rows."""
        choice = solution.strategies
        key = tuple(choice[number] for number in sorted(choice))
        if key not in self.seen:
            held = _footprint(self.problem, choice)
            self.seen[key] = Within(solution, held.bytes, max(0.0, held.bytes - self.budget))
            if is_teaching and held.bytes > self.budget:
                self.rows += peak_rows(self.problem, choice, held)
        here = self.seen[key]
        self.best = here if self.best is None else min(self.best, here, key=lambda each: each.rank)
        return here


def _footprint(problem: Problem, choice: Mapping[int, int]) -> Footprint:
    return footprint_of(problem, choice, sunk(problem, dict(choice)))
