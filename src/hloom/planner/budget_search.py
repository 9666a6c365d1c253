"""Choices within a budget of bytes: solve, look at the moments at which too much is held, forbid them, solve again.

What a choice holds is no sum of what its clusters hold: when instructions run, what is fused and what is copied all
depend on the choice. The rows of one choice say what others would hold at its moments, and are exact for that choice
alone. So each choice that is looked at adds its own, and the limit that rows must keep is itself searched for: lower
where they predict too little, higher where they leave nothing, and in between once something fits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hloom.planner.memory_constraints import peak_rows
from hloom.planner.memory_footprint import footprint_of
from hloom.planner.memory_row import MemoryRow
from hloom.planner.problem import Problem
from hloom.planner.reshard_placement import hoist_reshards
from hloom.planner.solvers.assignment import Assignment
from hloom.planner.solvers.factor_graph import quotient_graph
from hloom.planner.solvers.lagrangian import repaired
from hloom.planner.solvers.memory_prices import memory_use

ROUNDS = 12
"""How often a problem is solved, at most, before the best of what was met is taken; SECONDS mostly ends it before."""
SECONDS = 8.0
"""Seconds of the processor's time after which no further round begins where something fits: of the process, so that
other programs do not change the plan."""
LEAST_ROUNDS = 6
"""So many rounds there are in any case as long as nothing fits."""
AGAIN = 0.3
"""Where an earlier search has left rows, this share of the time is enough."""
CLOSE = 0.004
"""Limits that differ by less than this share of the budget are the same."""
WORTH = 0.01
"""What fits is good enough where it costs no more than this share above what is proven."""
STEP = 0.5
"""The limit is lowered by this share of the bytes that are too many."""
NEAR = 0.05
"""What holds so large a share of the budget too much shows that rows predict too little, else that one is missing."""
REPAIRS = 4
"""How often a choice that does not fit is repaired node by node before the problem is solved again."""


@dataclass(slots=True)
class BudgetResult:
    """A solution, what it holds as far as is known, how much that is too much, and the rows that were met on the way.

    `bytes` are the expected ones times `scale`. The solution's bound is of all choices, whatever they hold.
    """

    solution: Assignment
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


Solve = Callable[[Problem, Sequence[MemoryRow], float | None], Assignment | None]
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
) -> BudgetResult:
    """The cheapest solution that is found to keep a budget, or else the one that holds least.

    `scale` is what was measured of a plan beside what was expected. `rows` are those of an earlier search of the same
    problem.
    """
    free = solve(problem, (), None)
    assert free is not None, "without a budget every problem has a solution"
    search = _Search(problem, budget / scale, free, list(rows))
    search.begin()
    ends = time.process_time() + SECONDS * (AGAIN if rows else 1)
    for count in range(1, rounds):
        is_needed = count < LEAST_ROUNDS and not search.fits
        if search.is_done or (time.process_time() > ends and not is_needed):
            break
        search.advance(solve(problem, search.rows, search.limit))
    best = search.best
    assert best is not None
    bound = replace(best.solution, bound=free.bound, is_shared=free.is_shared, shared_bound=free.shared_bound)
    return BudgetResult(bound, best.bytes * scale, best.missing * scale, search.rows)


@dataclass(slots=True)
class _Search:
    """The search for a limit above `low`, where rows leave nothing or what fits.

    `bound` is the least that anything costs that fits by its rows.
    """

    problem: Problem
    budget: float
    free: Assignment
    rows: list[MemoryRow]
    best: BudgetResult | None = None
    limit: float = field(init=False)
    low: float = 0.0
    bound: float = field(init=False)
    is_done: bool = False
    seen: dict[tuple[int, ...], BudgetResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limit, self.bound = self.budget, self.free.bound

    @property
    def fits(self) -> bool:
        """Whether something was met that fits."""
        return self.best is not None and self.best.fits

    def begin(self) -> None:
        """Look at the solution without a budget."""
        self.is_done = self._look(self.free, is_teaching=True).fits

    def advance(self, solution: Assignment | None) -> None:
        """Take what was found at the limit, and move the limit."""
        if solution is None or solution.missing > 0:
            self._raise(solution)
            return
        if self.limit >= self.budget:
            self.bound = max(self.bound, solution.bound)
        here = self._look(solution, is_teaching=True)
        self._repair(here)
        if here.fits:
            self.low = max(self.low, self.limit)
            self._between()
        else:
            self._lower(here)

    def _raise(self, least_memory: Assignment | None) -> None:
        """The rows leave nothing: look at what holds least by them, which may hold less, and ask for less."""
        if least_memory is not None:
            here = self._look(least_memory, is_teaching=False)
            self._relax(least_memory, here.bytes)
            self.low = max(self.low, max(row.bytes(least_memory.strategies) for row in self.rows))
        self.low = max(self.low, self.limit)
        self._between()

    def _lower(self, here: BudgetResult) -> None:
        """The rows predicted too little. They know this choice now; where little was missing, stay lower."""
        best = self.best
        assert best is not None
        if best.fits:
            self.low = max(self.low, min(self.limit, best.bytes))
            self.limit = (self.low + self.budget) / 2
            self.is_done = best.solution.cost <= self.bound * (1 + WORTH)
        elif self.low >= self.budget:
            self._between()
        elif here.missing < NEAR * self.budget:
            self.limit = max(self.limit - STEP * here.missing, (self.low + self.limit) / 2)

    def _between(self) -> None:
        """Go on between what leaves too little and what leaves too much."""
        best = self.best
        assert best is not None
        is_enough = best.fits and best.solution.cost <= self.bound * (1 + WORTH)
        top = max(self.budget, best.bytes)
        self.is_done = is_enough or top - self.low < CLOSE * self.budget
        self.limit = (self.low + top) / 2

    def _repair(self, here: BudgetResult) -> None:
        """Change a choice that does not fit one cluster at a time, until its rows say that it does."""
        for _ in range(REPAIRS):
            changed = None if here.fits else _changed(self.problem, self.rows, self.budget, here.solution)
            if changed is None or self._is_costlier(changed):
                return
            before, here = here, self._look(changed, is_teaching=True)
            if here.missing >= before.missing:
                return

    def _is_costlier(self, solution: Assignment) -> bool:
        best = self.best
        return best is not None and best.fits and solution.cost >= best.solution.cost

    def _relax(self, choice: Assignment, held: float) -> None:
        """Rows that say more than a choice holds are wrong about it: they say less from now on."""
        for row in self.rows:
            row.constant -= max(0.0, row.bytes(choice.strategies) - held)

    def _look(self, solution: Assignment, *, is_teaching: bool) -> BudgetResult:
        """What a solution holds; its moments become rows."""
        choice = solution.strategies
        key = tuple(choice[number] for number in sorted(choice))
        if key not in self.seen:
            held = footprint_of(self.problem, choice, hoist_reshards(self.problem, dict(choice)))
            self.seen[key] = BudgetResult(solution, held.bytes, max(0.0, held.bytes - self.budget))
            if is_teaching and held.bytes > self.budget:
                self.rows += peak_rows(self.problem, choice, held)
        here = self.seen[key]
        self.best = here if self.best is None else min(self.best, here, key=lambda candidate: candidate.rank)
        return here


def _changed(problem: Problem, rows: Sequence[MemoryRow], budget: float, solution: Assignment) -> Assignment | None:
    """A solution after changes of a cluster at a time that make it fit by its rows, if there are any."""
    graph = quotient_graph(problem)
    start = graph.numbered(solution.strategies)
    if start is None:
        return None
    held = memory_use(problem, graph, rows)
    repaired_choice = repaired(graph, held, budget, start)
    if held.of(repaired_choice).max() > budget:
        return None
    strategies = graph.named(problem, repaired_choice)
    return replace(solution, strategies=strategies, cost=problem.cost(strategies))
