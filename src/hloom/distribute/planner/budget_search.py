"""Finds the Pareto front of time over memory: the cheapest choices for all memory budgets at once.

The memory of a choice is not the sum of its clusters' memory: when instructions run, what is fused and what is copied
all depend on the choice. But near a given choice, the savings of single changes of strategy at a moment add up well. So
the memory of single changes is simulated, and for several budgets between the largest and the smallest a linear program
(`moment_program`) chooses among them, including the share of repeated layers to change; its answers are simulated in
turn: if one uses too much memory, that moment becomes a row of the program and the rows are corrected, as in a
cutting-plane method. The search then restarts from another choice of the front.

The search does not know the requested budget, which only selects from what was found. So a larger budget never gets a
slower plan than a smaller one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.distribute.planner.layer_order import layer_positions
from hloom.distribute.planner.layered_choices import Layers, MomentStage
from hloom.distribute.planner.memory_front import MemoryFront, MomentModel, Point
from hloom.distribute.planner.memory_profile import Choice, MemoryProfile, MemoryProfiler, choice_key
from hloom.distribute.planner.moment_savings import MomentSavings
from hloom.distribute.planner.neighbourhood import (
    Move,
    buffer_pairs,
    expected_change,
    held_at_peak,
    moves,
    paired_changes,
    single_changes,
)
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers.factor_graph import FactorGraph, quotient_graph
from hloom.distribute.planner.solvers.moment_program import solve_within_moments

WORK = 288_000
"""The maximum number of instructions to simulate: a hundred choices of a program of a few thousand instructions."""
MOST, FEWEST = 1300, 24
"""The maximum number of choices to simulate, and the number allowed for programs of any length."""
MANY = 600
"""If more choices than this may be simulated, changes of pairs get twice as many instructions."""
STAGES = 40
"""The maximum number of restarts from another choice of the front."""
SHARE, FEWEST_MOVES, MOST_MOVES = 5, 6, 24
"""The changes around one choice get 1 / SHARE of the simulations, within these limits."""
POOL = 4
"""Changes examined per change that is simulated."""
TARGETS = 8
"""Budgets, between the smallest and largest memory on the front, for which each stage solves the linear program."""
STEEP, EDGE = 0.02, 0.05
"""Steps of the front that cost more than STEEP are divided: in the middle, and at this fraction below the upper end."""
FILLED = 6
"""Dividing steps gets 1 / FILLED of the simulations at a time."""
BELOW = 0.01
"""Also search for a plan below the smallest memory found, by this fraction or the distance of budgets."""
ROUNDS = 3
"""The maximum number of times a stage solves the program for one budget."""
DIVIDED = 3
"""In each stage, this many changes of all layers are tried in the first half alone and in the last half alone."""
STEP, LEAST = 0.25, 0.002
"""If the program's answer is known to exceed the budget, the next budget is lower by STEP of the excess, and by at
least LEAST of the budget.
"""
GAIN = 1e-3
"""A choice that is cheaper by less than this fraction is not worth a simulation."""
IDLE = 4
"""The search ends after more than this many stages in a row that gained nothing."""
FLAT = 0.002
"""At the end, changes are tried around every choice within this fraction of the minimum memory, cheapest first."""
DESCENT = 4
"""That gets 1 / DESCENT of the simulations at a time."""
MOST_CHEAPER = 96
"""The maximum number of cheaper choices examined around one choice of the front."""
PEAKS, NEAR = 6, 0.9
"""Up to PEAKS of a profile's maxima, those of at least NEAR times its peak, are rows from the start."""
SPACING = 8
"""Maxima closer than this many moments count as one."""

RISE = 0.08
"""The maximum fraction by which a pair of changes may raise the cost."""
CLOSE = 0.06
"""A choice that the tables may overrate by less than this fraction is forecast before it is dropped."""

Price = Callable[[Choice], float]
"""The forecast cost of a choice."""
Correct = Callable[[Choice], bool]
"""Corrects the tables if they underestimate a choice; returns whether that changed them."""


def memory_front(
    problem: Problem,
    free: Choice,
    profiler: MemoryProfiler,
    *,
    price: Price | None = None,
    correct: Correct | None = None,
    seeds: Iterable[Choice] = (),
    work: int = WORK,
) -> MemoryFront:
    """The cheapest choices that are found, each for the memory that it takes.

    `free` is the solution without a budget, `seeds` are more choices to examine. `price` forecasts a choice's cost;
    without it, the problem's tables are used. `correct` corrects these.
    """
    search = _Search(problem, profiler, work, price or problem.cost, correct or (lambda _: False))
    for choice in {choice_key(choice): choice for choice in (free, *seeds)}.values():
        search.add(choice)
    search.run()
    return MemoryFront(search.front(), list(search.points.values()), search.models)


@dataclass(slots=True)
class _Search:
    """Stages of the search."""

    problem: Problem
    profiler: MemoryProfiler
    work: int
    price: Price
    correct: Correct
    graph: FactorGraph = field(init=False)
    layers: Layers = field(init=False)
    savings: MomentSavings = field(init=False)
    points: dict[bytes, Point] = field(default_factory=dict)
    priced: set[bytes] = field(default_factory=set)
    models: list[MomentModel] = field(default_factory=list)
    stages: list[MomentStage] = field(default_factory=list)
    overrated: float = 0.0
    _first: int = field(init=False)

    def __post_init__(self) -> None:
        self.graph = quotient_graph(self.problem)
        members: dict[int, list[int]] = {node: [] for node in self.graph.unary}
        for number, node in self.problem.representative.items():
            members[node].append(number)
        self.savings = MomentSavings(members)
        self.layers = Layers(members, layer_positions(self.problem), self.problem.representative)
        self._first = self.profiler.simulated

    @property
    def members(self) -> Mapping[int, Sequence[int]]:
        """The clusters of each node."""
        return self.savings.members

    @property
    def has_work(self) -> bool:
        """Whether another choice may be simulated."""
        count = len(self.points)
        return count < FEWEST or (count < MOST and self.profiler.simulated - self._first < self.work)

    @property
    def allowed(self) -> int:
        """An estimate of the number of choices that may be simulated in total."""
        length = max(1, (self.profiler.simulated - self._first) // max(1, len(self.points)))
        return max(FEWEST, min(MOST, self.work // length))

    def add(self, choice: Choice) -> Point:
        """Simulate a choice."""
        key = choice_key(choice)
        if key not in self.points:
            self.points[key] = Point(dict(choice), self.problem.cost(choice), self.profiler.profile(choice))
        return self.points[key]

    def front(self) -> list[Point]:
        """The points of which none is beaten by another in cost and memory, the smallest first."""
        least, front = math.inf, list[Point]()
        for point in sorted(self.points.values(), key=lambda point: (point.bytes, point.cost)):
            if point.cost < least:
                front.append(point)
                least = point.cost
        return front

    def cheapest(self, budget: float) -> float:
        """The cost of the cheapest point within a budget."""
        return min((point.cost for point in self.points.values() if point.bytes <= budget), default=math.inf)

    def run(self) -> None:
        """Stages until nothing is gained, single changes of the smallest choices, and cheaper ones along the front."""
        uses: dict[bytes, int] = {}
        self._price_front()
        while self.has_work:
            work = self.work
            self.work -= work // FILLED
            self._stages(uses)
            self.work = work
            before = self.front()
            self._fill()
            self._descend()
            self._cheapen()
            self._pair()
            if not self._has_gained(before):
                return

    def _stages(self, uses: dict[bytes, int]) -> None:
        """Run stages that start alternately from the smallest choice of the front and from its steepest step."""
        idle = 0
        for stage in range(STAGES):
            base = self._base(uses, is_smallest=stage % 2 == 1)
            if base is None or not self.has_work or idle > IDLE:
                return
            key, count = choice_key(self.graph.named(self.problem, base)), len(self.points)
            before = self.front()
            self._stage(base)
            self._price_front()
            uses[key] = uses.get(key, 0) + 1 if len(self.points) > count else STAGES
            idle = 0 if self._has_gained(before) else idle + 1

    def _has_gained(self, before: Sequence[Point]) -> bool:
        """Whether a point of the front is clearly cheaper than all earlier ones of about the same memory."""
        return any(
            point.cost
            < (1 - GAIN) * min((old.cost for old in before if old.bytes <= point.bytes * (1 + GAIN)), default=math.inf)
            for point in self.front()
        )

    def _fill(self) -> None:
        """Divide the steps of the front, steepest first, with the answers of the stages' programs for budgets in
        between.

        Changing a few layers saves little memory: evenly spaced budgets would miss cheaper choices there.
        """
        exhausted: set[tuple[int, int]] = set()
        most = len(self.points) + self.allowed // FILLED
        while self.has_work and len(self.points) < most:
            steps = [
                (1 - larger.cost / smaller.cost, larger.bytes, smaller.bytes)
                for smaller, larger in itertools.pairwise(self.front())
                if larger.cost < (1 - STEEP) * smaller.cost and (smaller.bytes, larger.bytes) not in exhausted
            ]
            if not steps:
                break
            _, above, below = max(steps)
            exhausted.add((below, above))
            for target in ((above + below) / 2, above - EDGE * (above - below)):
                self._divide_step(target, most)
        self._price_front()

    def _divide_step(self, target: float, most: int) -> None:
        """Simulate the answers of the stages' programs for a budget, latest first, until one is cheaper."""
        known = self.cheapest(target)
        for stage in reversed(self.stages):
            margin: float | None = 0.0
            for _ in range(ROUNDS):
                if margin is None or not self.has_work or len(self.points) >= most:
                    break
                margin = self._aim(stage, target, margin)
            self._price_front()
            if self.cheapest(target) < known * (1 - GAIN):
                return

    def _cheapen(self) -> None:
        """Look for cheaper choices with no more memory around each choice of the front, largest gap first: the product
        of the shares by which the next larger one costs less and holds more.

        Changes predicted not to need more memory are simulated first, cheapest first.
        """
        exhausted: set[bytes] = set()
        most = len(self.points) + self.allowed // DESCENT
        while self.has_work and len(self.points) < most:
            front = self._shared_front()
            larger = [point for point, _, _ in front[1:]]
            left = [
                ((1 - point.bytes / other.bytes) * (1 - other.cost / point.cost), key, point, base)
                for (point, base, _), other in zip(front, larger, strict=False)
                if (key := choice_key(point.choice)) not in exhausted
            ]
            if not left:
                break
            _, key, point, base = max(left, key=lambda entry: entry[:2])
            for choice in self._cheaper(point, base):
                if not self.has_work or len(self.points) >= most:
                    break
                if self.add(choice).bytes <= point.bytes:
                    break
            else:
                exhausted.add(key)
            self._price_front()

    def _cheaper(self, point: Point, base: dict[int, int]) -> list[dict[int, int]]:
        """The cheaper choices around one that have not been simulated, in trial order."""
        footprint = self.profiler.footprint(point.choice)
        held = held_at_peak(self.problem, point.choice, footprint)
        limit = self.problem.cost(point.choice) * (1 - GAIN)
        ranked: list[tuple[bool, float, int, dict[int, int]]] = []
        around = moves(self.problem, self.graph, base, footprint, limit, frozenset[tuple[int, int]]())
        for number, move in enumerate(itertools.islice(around, MOST_CHEAPER)):
            choice = self.graph.named(self.problem, move.choice)
            if not self.profiler.is_known(choice):
                is_larger = expected_change(self.problem, held, point.choice, choice) > FLAT * point.bytes
                ranked.append((is_larger, move.cost, number, choice))
        return [choice for *_, choice in sorted(ranked, key=lambda entry: entry[:3])]

    def _descend(self) -> None:
        """Try single changes of the choices near the minimum memory, cheapest first, until none saves memory; their
        effect on the order of instructions cannot be predicted.
        """
        exhausted: set[bytes] = set()
        most = len(self.points) + self.allowed // DESCENT
        while self.has_work and len(self.points) < most:
            least = min(point.bytes for point in self.points.values())
            near = [
                (point.cost, key, base)
                for key, point in self.points.items()
                if key not in exhausted
                and point.bytes <= least * (1 + FLAT)
                and (base := self._shared(point.choice)) is not None
            ]
            if not near:
                break
            _, key, base = min(near, key=lambda entry: entry[:2])
            footprint = self.profiler.footprint(self.points[key].choice)
            for change in single_changes(self.problem, self.graph, base, footprint):
                choice = self.graph.named(self.problem, change)
                if self.profiler.is_known(choice):
                    continue
                if not self.has_work or len(self.points) >= most or self.add(choice).bytes < least * (1 - GAIN):
                    break
            else:
                exhausted.add(key)
        self._price_front()

    def _pair(self) -> None:
        """Change a parameter together with the output that takes its buffer, around choices of the front, largest gap
        below first: splitting a weight differently saves memory only if its update is split likewise.
        """
        pairs, work = buffer_pairs(self.problem), self.work
        if self.allowed > MANY:
            self.work += work
        exhausted: set[bytes] = set()
        most = len(self.points) + self.allowed // DESCENT
        while pairs and self.has_work and len(self.points) < most:
            fresh = [
                (left_open if math.isfinite(left_open) else 0.0, key, base)
                for point, base, left_open in self._shared_front()
                if (key := choice_key(point.choice)) not in exhausted
            ]
            if not fresh:
                break
            _, key, base = max(fresh, key=lambda entry: entry[:2])
            exhausted.add(key)
            for change in paired_changes(self.graph, base, pairs, RISE):
                choice = self.graph.named(self.problem, change)
                if self.has_work and len(self.points) < most and not self.profiler.is_known(choice):
                    self.add(choice)
            self._price_front()
        self.work = work

    def _price_front(self) -> None:
        """Forecast the costs of the front's choices, and of those that would be on it if the tables overrate them
        equally; if that changes the tables, repeat, as other costs change.
        """
        probe = self._unpriced(CLOSE)[:1]
        for _ in range(MOST):
            waiting = [*probe, *self._unpriced(min(self.overrated, CLOSE))]
            if not waiting:
                return
            on_front = {choice_key(point.choice) for point in self.front()}
            is_changed, probe = False, list[bytes]()
            for key in dict.fromkeys(waiting):
                point = self.points[key]
                cost = self.price(point.choice)
                if point.cost > 0:
                    self.overrated = max(self.overrated, 1 - cost / point.cost)
                self.points[key] = Point(point.choice, cost, point.profile)
                self.priced.add(key)
                if key in on_front:
                    is_changed = self.correct(point.choice) or is_changed
            if is_changed:
                self.graph = quotient_graph(self.problem)
                for key, point in self.points.items():
                    if key not in self.priced:
                        self.points[key] = Point(point.choice, self.problem.cost(point.choice), point.profile)

    def _unpriced(self, share: float) -> list[bytes]:
        """What was not forecast, and is on the front, or would be if it cost so much less; the nearest first."""
        least, waiting = math.inf, list[tuple[float, int, bytes]]()
        for key, point in sorted(self.points.items(), key=lambda item: (item[1].bytes, item[1].cost)):
            if key not in self.priced and (point.cost < least or point.cost * (1 - share) < least * (1 - GAIN)):
                waiting.append((point.cost - min(least, point.cost), point.bytes, key))
            least = min(least, point.cost)
        return [key for *_, key in sorted(waiting)]

    def _base(self, uses: Mapping[bytes, int], *, is_smallest: bool) -> dict[int, int] | None:
        """A choice in which isomorphic clusters have one strategy, from the front of such choices.

        Of those that were a base least often it is the smallest, or that below which most is left open: the product of
        the shares that it costs less than the next smaller one and that it holds more. The solution without a budget
        comes first, also where another is forecast to be a little cheaper. None where all were looked around.
        """
        front = self._shared_front()
        if not uses:
            return self._shared(next(iter(self.points.values())).choice) or front[-1][1]
        used = [uses.get(choice_key(point.choice), 0) for point, _, _ in front]
        if min(used) >= STAGES:
            return None
        fresh = [entry for entry, count in zip(front, used, strict=True) if count == min(used)]
        return fresh[0][1] if is_smallest else max(fresh[1:] or fresh, key=lambda entry: entry[2])[1]

    def _shared_front(self) -> list[tuple[Point, dict[int, int], float]]:
        """The front of choices in which isomorphic clusters have one strategy, the smallest first; these by node, and
        what is left open below each one.
        """
        front: list[tuple[Point, dict[int, int], float]] = []
        smaller: Point | None = None
        for point in sorted(self.points.values(), key=lambda point: (point.bytes, point.cost)):
            choice = self._shared(point.choice)
            if choice is None or (smaller is not None and point.cost >= smaller.cost):
                continue
            left_open = math.inf
            if smaller is not None:
                left_open = (1 - smaller.bytes / point.bytes) * (1 - point.cost / smaller.cost)
            front.append((point, choice, left_open))
            smaller = point
        return front

    def _shared(self, choice: Choice) -> dict[int, int] | None:
        """A choice by node; None where isomorphic clusters have several strategies."""
        if any(choice[number] != choice[node] for number, node in self.problem.representative.items()):
            return None
        return {node: choice[node] for node in self.graph.unary}

    def _stage(self, base: dict[int, int]) -> None:
        """Simulate the changes around a choice, and the linear program's combinations of them."""
        point = self.add(self.graph.named(self.problem, base))
        self.savings.start(base, point.profile)
        options: dict[int, set[int]] = {node: {strategy} for node, strategy in base.items()}
        for node in base:
            options[node].update(self.savings.by_node[node])
        for other in self.front():
            for number, strategy in other.choice.items():
                options[self.problem.representative[number]].add(strategy)
        peaks: set[int] = set(_maxima(point.profile))
        tried: list[Move] = []
        for move in self._moves(base, point, min(max(FEWEST_MOVES, self.allowed // SHARE), MOST_MOVES)):
            if not self.has_work:
                break
            changed = self.add(self.graph.named(self.problem, move.choice))
            self.savings.learn(base, point.profile, move.node, move.strategy, changed.profile)
            tried.append(move)
            for node, strategy in move.choice.items():
                options[node].add(strategy)
            if changed.bytes > point.bytes * (1 - LEAST):
                peaks.add(int(np.argmax(changed.profile.moments)))
        self._divide(base, point, tried)
        self._interpolate(base, point, options, peaks)

    def _divide(self, base: dict[int, int], point: Point, tried: Sequence[Move]) -> None:
        """Make the changes with the best savings per cost in half of the layers, and find out in which half.

        Those of the first layers or those of the last ones are changed from then on.
        """
        saving: list[tuple[float, Move]] = []
        for move in tried:
            changed = self.add(self.graph.named(self.problem, move.choice))
            saved, extra = point.bytes - changed.bytes, changed.cost - point.cost
            if saved > LEAST * point.bytes and len(self.members[move.node]) > 1:
                saving.append((max(extra, GAIN * point.cost) / saved, move))
        for number, (_, move) in enumerate(sorted(saving, key=lambda item: item[0])[:DIVIDED]):
            if not self.has_work:
                return
            last, first = (self.add(self.layers.half(base, move, is_first=is_first)) for is_first in (False, True))
            if not number:
                self.layers.is_first_changed = first.bytes < last.bytes

    def _moves(self, base: dict[int, int], point: Point, count: int) -> list[Move]:
        """`count` changes not simulated yet: alternately by predicted savings per cost, and by order in the
        neighbourhood.
        """
        footprint = self.profiler.footprint(point.choice)
        known = {(node, strategy) for node, own in self.savings.by_node.items() for strategy in own}
        held = held_at_peak(self.problem, point.choice, footprint)
        fresh: list[Move] = []
        saving: list[tuple[float, int]] = []
        seen: set[bytes] = set()
        for move in itertools.chain.from_iterable(
            moves(self.problem, self.graph, base, footprint, math.inf, strategies)
            for strategies in (known, frozenset[tuple[int, int]]())
        ):
            choice = self.graph.named(self.problem, move.choice)
            key = choice_key(choice)
            if key in seen or self.profiler.is_known(choice):
                continue
            seen.add(key)
            saved = -expected_change(self.problem, held, point.choice, choice)
            if saved > 0:
                saving.append((max(move.cost - point.cost, GAIN * point.cost) / saved, len(fresh)))
            fresh.append(move)
            if len(fresh) == POOL * count:
                break
        promising = [number for _, number in sorted(saving)]
        order = dict.fromkeys(
            number
            for pair in itertools.zip_longest(promising, range(len(fresh)))
            for number in pair
            if number is not None
        )
        return [fresh[number] for number in itertools.islice(order, count)]

    def _interpolate(
        self, base: dict[int, int], point: Point, options: Mapping[int, set[int]], peaks: set[int]
    ) -> None:
        """For several budgets, solve the linear program, simulate its answer, and correct its rows, for a few rounds.
        """
        kept = {node: np.array(sorted(strategies)) for node, strategies in options.items()}
        stage = MomentStage(base, point, kept, self.graph.restricted(kept), self.savings.copy(), peaks)
        self.stages.append(stage)
        waiting = dict.fromkeys(self._targets(), 0.0)
        is_cut = False
        for _ in range(ROUNDS):
            for target, margin in list(waiting.items()):
                is_cut = not self.has_work
                if is_cut:
                    break
                more = self._aim(stage, target, margin)
                if more is None:
                    del waiting[target]
                else:
                    waiting[target] = more
        if is_cut and self.models:
            return  # its answers were not all simulated, so its rows were not corrected
        rows = sorted(stage.peaks)
        use = stage.savings.use(base, point.profile, kept, rows)
        self.models.append(MomentModel(stage.graph, use, point.cost, self._counts(), self.problem.representative))

    def _targets(self) -> list[float]:
        """Budgets from the minimum memory on the front to the maximum, middle ones first, and one below the minimum."""
        front = self.front()
        least, most = front[0].bytes, front[-1].bytes
        apart = (most - least) / TARGETS
        order = sorted(range(TARGETS), key=lambda number: (_trailing_zeros(number, TARGETS), number), reverse=True)
        return [*(least + apart * number for number in order), least - max(apart, BELOW * least)]

    def _counts(self) -> dict[int, int]:
        return {node: len(numbers) for node, numbers in self.members.items()}

    def _aim(self, stage: MomentStage, target: float, margin: float) -> float | None:
        """Simulate the linear program's answer for a budget; returns how much less to request next, None when done."""
        rows = sorted(stage.peaks)
        use = stage.savings.use(stage.base, stage.point.profile, stage.kept, rows)
        limit = self.cheapest(target) * (1 - GAIN)
        answer = solve_within_moments(stage.graph, use, target - margin, stage.point.cost, self._counts(), limit)
        if answer is None:
            return None
        choice = self.layers.rounded(stage, answer, target + answer.missing, rows)
        if self.problem.cost(choice) > limit:
            return None
        before = len(self.points)
        reached = self.add(choice)
        if answer.missing > 0 and self.has_work:
            self.add(self.layers.layered(stage, answer, 0.0, is_shared=True))
        if len(self.points) == before:
            if reached.bytes <= target or answer.missing > 0:
                return None
            margin += max(STEP * (reached.bytes - target), LEAST * target)
        if reached.bytes > target:
            stage.peaks.update(_maxima(reached.profile))
        stage.savings.correct(stage.base, stage.point.profile, reached.choice, reached.profile, sorted(stage.peaks))
        return margin

def _trailing_zeros(number: int, most: int) -> int:
    """How often a number can be halved."""
    count = 0
    while number and number % 2 == 0 and 1 << count < most:
        number, count = number // 2, count + 1
    return count


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
