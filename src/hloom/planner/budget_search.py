"""The cheapest choice within a budget of bytes, found by simulating the memory of few choices and interpolating.

What a choice holds is no sum of what its clusters hold: when instructions run, what is fused and what is copied all
depend on the choice. But near one choice, what a change of strategy saves at a moment adds up well. So the memory of
single changes is simulated, a linear program over them (`moment_program`) says which to make, with what share of
repeated layers, and its answer is simulated in turn: where that holds too much, its moment becomes a row of the program
and the rows are corrected, as in a cutting-plane method. Then the same begins from the best that fits.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hloom.planner.layer_order import layer_positions
from hloom.planner.memory_profile import Choice, MemoryProfile, MemoryProfiler, choice_key
from hloom.planner.neighbourhood import Move, moves
from hloom.planner.problem import Problem
from hloom.planner.solvers.assignment import Assignment
from hloom.planner.solvers.factor_graph import FactorGraph, quotient_graph
from hloom.planner.solvers.moment_program import FractionalChoice, MomentUse, solve_within_moments

WORK = 280_000
"""How many instructions are simulated at most: a hundred choices of a program of some thousands."""
MOST, FEWEST = 240, 24
"""How many choices are simulated at most, and how many may be however long the program is."""
STAGES = 12
"""How often the search begins anew from the best that it has."""
SHARE = 3
"""One part in so many of the simulations may go into the changes around one choice."""
ROUNDS = 12
"""How often the linear program is solved in one stage, at most."""
SMALL = 1e-3
"""The share of the budget that all changes of a choice count together at least, where errors are put down to them."""
EXACT = 0.25
"""The part of an error that changes take which were simulated beside the same choice, beside those that were not."""
DIVIDED = 6
"""So many choices that make a change of all layers for some of them alone are tried in each stage."""
NEARLY = 0.02
"""One layer fewer is tried than needed if each saved the same, where no more than this share of a budget is missing."""
SHORT = 2
"""So many answers that keep no budget are simulated in a stage: a new stage around the last one gains more."""
STEP, LEAST = 0.25, 0.002
"""Where its answer is one that is known to hold too much, so much of the excess less is asked for, and no less than
this share of the budget."""
GAIN = 1e-3
"""What is cheaper by less than this share is not worth a simulation."""
WORTH = 0.01
"""A choice this near to its bound is good enough."""
IDLE = 2
"""After so many stages and one that gained nothing the search ends."""
PEAKS, NEAR = 6, 0.9
"""So many of a profile's maxima, of this share of the peak, are rows from the beginning."""
SPACING = 8
"""Maxima that are fewer moments apart are one."""


@dataclass(frozen=True, slots=True)
class Point:
    """A choice that was simulated, its cost, and its memory."""

    choice: Choice
    cost: float
    profile: MemoryProfile

    @property
    def bytes(self) -> int:
        """The bytes at the peak."""
        return self.profile.bytes


@dataclass(slots=True)
class BudgetResult:
    """A solution, what it holds as far as is known, how much that is too much, and all that was simulated.

    `bytes` are the expected ones times the search's scale. The solution's bound is of all choices, whatever they hold;
    `model_bound` is what no choice costs less than that the last linear program has.
    """

    solution: Assignment
    bytes: float
    missing: float = 0.0
    points: list[Point] = field(default_factory=list)
    model_bound: float = -math.inf

    @property
    def fits(self) -> bool:
        """Whether the budget is kept."""
        return self.missing <= 0


def solve_within(
    problem: Problem,
    budget: float,
    free: Assignment,
    profiler: MemoryProfiler,
    *,
    scale: float = 1.0,
    seeds: Iterable[Choice] = (),
    work: int = WORK,
) -> BudgetResult:
    """The cheapest choice that is found to keep a budget, or else the one that holds least.

    `free` is the solution without a budget; `scale` is what was measured of a plan beside what was expected; `seeds`
    are choices to look at beside, of which those that are cheaper than what was found are simulated.
    """
    search = _Search(problem, budget / scale, profiler, work)
    search.add(free.strategies)
    for choice in profiler_choices(seeds):
        search.add(choice)
    search.run()
    best = search.best()
    missing = max(0.0, best.bytes - search.budget)
    notes = free.notes if missing <= 0 else (*free.notes, "no plan was found that holds less")
    solution = replace(free, strategies=dict(best.choice), cost=best.cost, missing=missing * scale, notes=notes)
    return BudgetResult(solution, best.bytes * scale, missing * scale, list(search.points.values()), search.model_bound)


def profiler_choices(seeds: Iterable[Choice]) -> Sequence[Choice]:
    """Different choices, each once."""
    return list({choice_key(seed): seed for seed in seeds}.values())


@dataclass(slots=True)
class _Search:
    """Stages of the search.

    `savings` has the bytes of a node's strategies at each moment beside one another, `learned` beside which choice
    these were simulated.
    """

    problem: Problem
    budget: float
    profiler: MemoryProfiler
    work: int
    graph: FactorGraph = field(init=False)
    positions: dict[int, float] = field(init=False)
    members: dict[int, list[int]] = field(init=False)
    points: dict[bytes, Point] = field(default_factory=dict)
    savings: dict[int, dict[int, np.ndarray]] = field(default_factory=dict)
    learned: dict[tuple[int, int], bytes] = field(default_factory=dict)
    model_bound: float = -math.inf
    _first: int = field(init=False)

    def __post_init__(self) -> None:
        self.graph, self.positions = quotient_graph(self.problem), layer_positions(self.problem)
        self.members = {node: [] for node in self.graph.unary}
        for number, node in self.problem.representative.items():
            self.members[node].append(number)
        self._first = self.profiler.simulated

    @property
    def has_work(self) -> bool:
        """Whether another choice may be simulated."""
        count = len(self.points)
        return count < FEWEST or (count < MOST and self.profiler.simulated - self._first < self.work)

    @property
    def allowed(self) -> int:
        """How many choices may be simulated in all, as far as can be told."""
        length = max(1, (self.profiler.simulated - self._first) // max(1, len(self.points)))
        return max(FEWEST, min(MOST, self.work // length))

    def add(self, choice: Choice) -> Point:
        """Simulate a choice."""
        key = choice_key(choice)
        if key not in self.points:
            cost = self.problem.cost(choice)
            self.points[key] = Point(dict(choice), cost, self.profiler.profile(choice))
        return self.points[key]

    def fitting(self) -> Point | None:
        """The cheapest that fits."""
        points = (point for point in self.points.values() if point.bytes <= self.budget)
        return min(points, key=lambda point: point.cost, default=None)

    def best(self) -> Point:
        """The cheapest that fits, or the one that holds least."""
        return self.fitting() or min(self.points.values(), key=lambda point: (point.bytes, point.cost))

    def run(self) -> None:
        """Stages that begin in turn from a choice that holds a little too much and from the best that fits."""
        idle, spent = 0, set[bytes]()
        for stage in range(STAGES):
            base = self._base(spent, is_above=stage % 2 == 0)
            if base is None or not self.has_work or self._is_done() or idle > IDLE:
                return
            before, count = self.best(), len(self.points)
            self._stage(base)
            if len(self.points) == count:
                spent.add(choice_key(base))
            is_better = before.bytes > self.budget or self.best().cost < before.cost
            idle = 0 if is_better else idle + 1

    def _is_done(self) -> bool:
        fitting = self.fitting()
        least = min(point.cost for point in self.points.values())
        return fitting is not None and fitting.cost <= least * (1 + WORTH)

    def _base(self, spent: Collection[bytes], *, is_above: bool) -> dict[int, int] | None:
        """A choice in which isomorphic clusters have one strategy: the cheapest that fits, or one hardly too large.

        Around those that are `spent` there is nothing new.
        """
        shared = [
            (point, choice)
            for point in self.points.values()
            if (choice := self._shared(point.choice)) and choice_key(choice) not in spent
        ]
        above = [pair for pair in shared if pair[0].bytes > self.budget]
        below = [pair for pair in shared if pair[0].bytes <= self.budget]
        if below and not (is_above and above):
            return min(below, key=lambda pair: pair[0].cost)[1]
        nearest = min(above, key=lambda pair: (round(pair[0].bytes / self.budget, 2), pair[0].cost), default=None)
        return None if nearest is None else nearest[1]

    def _shared(self, choice: Choice) -> dict[int, int] | None:
        """A choice by node; None where isomorphic clusters have several strategies."""
        if any(choice[number] != choice[node] for number, node in self.problem.representative.items()):
            return None
        return {node: choice[node] for node in self.graph.unary}

    def _stage(self, base: dict[int, int]) -> None:
        """Simulate the changes around a choice, and what the linear program makes of them."""
        point = self.add(self.graph.named(self.problem, base))
        options: dict[int, set[int]] = {node: {strategy} for node, strategy in base.items()}
        for node, strategy in base.items():
            self.savings.setdefault(node, {}).setdefault(strategy, np.zeros(len(point.profile.moments)))
            options[node].update(self.savings[node])
        peaks: set[int] = set(_maxima(point.profile))
        tried: list[Move] = []
        for move in itertools.islice(self._moves(base, point), max(6, self.allowed // SHARE)):
            if not self.has_work:
                break
            changed = self._learn(base, point, move)
            tried.append(move)
            for node, strategy in move.choice.items():
                options[node].add(strategy)
            if changed.bytes > self.budget:
                peaks.add(int(np.argmax(changed.profile.moments)))
        self._divide(base, point, tried)
        exact = {node: dict(own) for node, own in self.savings.items()}
        self._interpolate(base, point, options, peaks)
        self.savings = exact

    def _divide(self, base: dict[int, int], point: Point, tried: Sequence[Move]) -> None:
        """Make the cheapest changes for so many layers alone as are needed to keep the budget, or hardly fewer.

        It matters whether these are the first or the last layers: both are tried.
        """
        divided: dict[bytes, tuple[float, dict[int, int]]] = {}
        for move in tried:
            saved = point.bytes - self.add(self.graph.named(self.problem, move.choice)).bytes
            count, missing = len(self.members[move.node]), point.bytes - self.budget
            needed = math.ceil(missing / saved * count) if saved > 0 else 0
            for layers in (needed - 1, needed):
                is_hopeless = missing - layers * saved / count > NEARLY * self.budget
                if not 0 < layers < count or is_hopeless:
                    continue
                for is_first in (True, False):
                    choice = self._changed_layers(base, move, layers / count, is_first=is_first)
                    divided[choice_key(choice)] = self.problem.cost(choice), choice
        for cost, choice in sorted(divided.values(), key=lambda item: item[0])[:DIVIDED]:
            fitting = self.fitting()
            if self.has_work and (fitting is None or cost < fitting.cost * (1 - GAIN)):
                self.add(choice)

    def _changed_layers(self, base: dict[int, int], move: Move, share: float, *, is_first: bool) -> dict[int, int]:
        """A choice with a change in a share of the layers, the first or the last ones."""
        return {
            number: move.choice[node]
            if (self.positions[number] if is_first else 1 - self.positions[number]) < share
            else base[node]
            for number, node in self.problem.representative.items()
        }

    def _moves(self, base: dict[int, int], point: Point) -> Iterator[Move]:
        """Changes of strategies that were not simulated beside another choice, then of those that were."""
        fitting = self.fitting()
        is_within = point.bytes <= self.budget
        most = math.inf if fitting is None or is_within else fitting.cost * (1 - GAIN)
        footprint = self.profiler.footprint(point.choice)
        known = {(node, strategy) for node, own in self.savings.items() for strategy in own}
        yield from moves(self.problem, self.graph, base, footprint, most, known)
        for move in moves(self.problem, self.graph, base, footprint, most, set()):
            if not self.profiler.is_known(self.graph.named(self.problem, move.choice)):
                yield move

    def _learn(self, base: dict[int, int], point: Point, move: Move) -> Point:
        """Simulate a change; what it adds at each moment is put down to the node that was changed first."""
        changed = self.add(self.graph.named(self.problem, move.choice))
        own = self.savings[move.node]
        own[move.strategy] = own[base[move.node]] + changed.profile.moments - point.profile.moments
        self.learned[move.node, move.strategy] = choice_key(base)
        return changed

    def _interpolate(
        self, base: dict[int, int], point: Point, options: Mapping[int, set[int]], peaks: set[int]
    ) -> None:
        """Solve the linear program, simulate its answer, and correct its rows, until nothing is to be gained."""
        kept = {node: np.array(sorted(strategies)) for node, strategies in options.items()}
        graph = self.graph.restricted(kept)
        counts = {node: len(numbers) for node, numbers in self.members.items()}
        margin, short = 0.0, 0
        for count in range(ROUNDS):
            if not self.has_work:
                return
            rows = sorted(peaks)
            use = self._use(base, point, kept, rows)
            answer = solve_within_moments(graph, use, self.budget - margin, point.cost, counts)
            if answer is None:
                return
            if not count:
                self.model_bound = answer.bound if answer.missing <= 0 else -math.inf
            short += answer.missing > 0
            if short > SHORT:
                return
            before = len(self.points)
            reached = self._rounded(base, point, kept, answer, rows)
            if reached is None:
                return
            if len(self.points) == before:
                if reached.bytes <= self.budget or answer.missing > 0:
                    return
                margin += max(STEP * (reached.bytes - self.budget), LEAST * self.budget)
            self._correct(base, point, reached, peaks)

    def _rounded(
        self,
        base: dict[int, int],
        point: Point,
        kept: Mapping[int, np.ndarray],
        answer: FractionalChoice,
        rows: Sequence[int],
    ) -> Point | None:
        """Simulate the choice in which so many layers take a strategy as the answer says; where none fits, also all."""
        fitting = self.fitting()
        limit = math.inf if fitting is None else fitting.cost * (1 - GAIN)
        target = self.budget + answer.missing
        choice = self._layered(base, kept, answer, 0.0)
        for shift in (0.125, 0.25, 0.375, 0.5, 1.0):
            if max(self._predicted(base, point, choice, rows)) <= target * (1 + 1e-6):
                break
            choice = self._layered(base, kept, answer, shift)
        if self.problem.cost(choice) > limit:
            return None
        reached = self.add(choice)
        shared = self._layered(base, kept, answer, 0.0, is_shared=True)
        if answer.missing > 0 and choice_key(shared) not in self.points and self.has_work:
            self.add(shared)
        return reached

    def _layered(
        self,
        base: dict[int, int],
        kept: Mapping[int, np.ndarray],
        answer: FractionalChoice,
        shift: float,
        *,
        is_shared: bool = False,
    ) -> dict[int, int]:
        """The strategies of clusters by where they stand among the layers: the first layers keep the base's."""
        choice: dict[int, int] = {}
        for node, numbers in self.members.items():
            shares = answer.shares[node]
            order = sorted(range(len(shares)), key=lambda index: (kept[node][index] != base[node], index))
            ends = np.cumsum(shares[order])
            own = shares[order[0]]
            if 1e-6 < own < 1 - 1e-6:
                ends = np.maximum(ends - shift, 0.0) if shift < 1 else np.where(np.arange(len(order)), ends, 0.0)
                ends[-1] = 1.0
            for number in numbers:
                at = 0.5 if is_shared else self.positions[number]
                index = min(int(np.searchsorted(ends, at, side="left")), len(order) - 1)
                choice[number] = int(kept[node][order[index]])
        return choice

    def _use(
        self,
        base: dict[int, int],
        point: Point,
        kept: Mapping[int, np.ndarray],
        rows: Sequence[int],
    ) -> MomentUse:
        constants = point.profile.moments[rows]
        unary = {
            node: np.stack([self._saving(base, node, int(strategy), rows) for strategy in strategies])
            for node, strategies in kept.items()
        }
        return MomentUse(constants, unary)

    def _saving(self, base: Mapping[int, int], node: int, strategy: int, rows: Sequence[int]) -> np.ndarray:
        """What a strategy adds to the base at some moments; nothing where it was not simulated."""
        own = self.savings[node]
        return own[strategy][rows] - own[base[node]][rows] if strategy in own else np.zeros(len(rows))

    def _predicted(
        self,
        base: dict[int, int],
        point: Point,
        choice: Choice,
        rows: Sequence[int],
    ) -> np.ndarray:
        """The bytes of a choice at some moments, by what single changes add."""
        total = point.profile.moments[rows]
        for node, numbers in self.members.items():
            for number in numbers:
                if choice[number] != base[node]:
                    total = total + self._saving(base, node, choice[number], rows) / len(numbers)
        return total

    def _correct(self, base: dict[int, int], point: Point, reached: Point, peaks: set[int]) -> None:
        """Put down to the changes of a choice what it holds beside what was predicted, most to those that count most.

        Where it holds too much, its peaks become rows.
        """
        if reached.bytes > self.budget:
            peaks.update(_maxima(reached.profile))
        rows = sorted(peaks)
        wrong = reached.profile.moments[rows] - self._predicted(base, point, reached.choice, rows)
        parts: list[tuple[int, int, float]] = []
        for node, numbers in self.members.items():
            for strategy, count in Counter(reached.choice[number] for number in numbers).items():
                if strategy != base[node]:
                    parts.append((node, strategy, count / len(numbers)))
        if not parts:
            return
        here = choice_key(base)
        trust = [EXACT if self.learned.get((node, strategy)) == here else 1.0 for node, strategy, _ in parts]
        shares = np.stack(
            [
                share * own * np.abs(self._saving(base, node, strategy, rows))
                for own, (node, strategy, share) in zip(trust, parts, strict=True)
            ]
        )
        shares += SMALL * self.budget / len(parts)
        shares /= shares.sum(axis=0)
        for (node, strategy, share), own in zip(parts, shares, strict=True):
            known = self.savings[node]
            changed = known.get(strategy, known[base[node]]).copy()
            changed[rows] += wrong * own / share
            known[strategy] = changed


def _maxima(profile: MemoryProfile) -> list[int]:
    """The highest moments of a profile, some way apart."""
    line = profile.moments
    highest: list[int] = []
    for moment in np.argsort(-line, kind="stable").tolist():
        if line[moment] < NEAR * line[highest[0] if highest else moment] or len(highest) == PEAKS:
            break
        if all(abs(moment - other) > SPACING for other in highest):
            highest.append(moment)
    return highest
