"""Finds the best cuts of a chain into stages, with devices and recomputation for each, by dynamic programming.

What is searched: contiguous stages on neighbouring devices in order, each on as many as divide the microbatch, and for
each whether it recomputes its activations. What is minimised is X + (m - 1) M + A (`step_bound`), with X the sum of the
stages' seconds, M the largest of them and A the most that an all-reduce comes late. For given bounds on M and A
the least X is a dynamic program over (stages to the end, first layer, first device, width of the stage), as in
PipeDream (Narayanan et al. 2019, section 3.1), DAPPLE (Fan et al. 2021, section 4) and Alpa (Zheng et al. 2022,
section 5); 1F1B keeps as many microbatches live in a stage as there are stages to the end, so memory is known in each
state. The bounds come down from one solution to the next (the epsilon-constraint method), until no better one is left:
the result is the optimum. By `Pace` M is with or without the transfers of a stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from hloom.distribute.pipeline.plan import PipelinePlan, Schedule, Stage
from hloom.distribute.pipeline.stage_costs import Pace, StageCosts, live_bound
from hloom.text import HloomError

MOST_STATES = 2**24
"""The maximum number of candidate stages: all runs of layers, times devices, times widths."""
MOST_SOLUTIONS = 1000
"""How often the dynamic program is run for one search; a handful is usual."""


class SearchTooLarge(HloomError):
    """More layers, devices and widths than the dynamic program takes."""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The best stages for a schedule and a number of microbatches, and the bound on their step in seconds.

    `is_optimal` is false where the search ended at its limit of steps: then they are the best that were found.
    """

    plan: PipelinePlan
    bound_seconds: float
    is_optimal: bool = True


@dataclass(frozen=True, slots=True)
class _Solution:
    """The stages with the least sum of seconds within bounds, and what bounds have to fall below."""

    plan: PipelinePlan
    total_seconds: float
    slowest_seconds: float
    all_reduce_seconds: float

    @property
    def pipeline_seconds(self) -> float:
        """The bound without the all-reduce."""
        return self.total_seconds + (self.plan.microbatches - 1) * self.slowest_seconds

    @property
    def bound_seconds(self) -> float:
        """`StageCosts.step_seconds`, from the sums of the program: those that are compared are rounded alike."""
        return self.pipeline_seconds + self.all_reduce_seconds


def best_stages(
    costs: StageCosts,
    microbatches: int,
    schedule: Schedule = Schedule.ONE_F_ONE_B,
    *,
    pace: Pace = Pace.WITH_TRANSFERS,
    stage_counts: Iterable[int] | None = None,
    below: float = math.inf,
) -> StagePlan | None:
    """The stages of least `StageCosts.step_seconds`; None where none fits in memory, or none has less than `below`.

    `stage_counts` restricts how many stages there may be. Memory is that of the schedule, which is not the interleaved
    one. Raises SearchTooLarge for more than the dynamic program takes.
    """
    tables = _Tables(costs, microbatches, schedule, pace)
    counts = sorted(stage_counts) if stage_counts is not None else list(range(1, tables.most_stages + 1))
    counts = [count for count in counts if 1 <= count <= tables.most_stages]
    groups = [[count] for count in counts]
    if schedule is not Schedule.ZERO_BUBBLE and len(counts) > 1:
        groups = [counts[:1], counts]  # the fewest stages first: a bound that the others have to fall below
    best: StagePlan | None = None
    for group in groups:
        better = _best(tables, group, best.bound_seconds if best else below)
        best = better or best
    return replace(best, is_optimal=not tables.is_exhausted) if best is not None else None


def _best(tables: _Tables, counts: list[int], below: float) -> StagePlan | None:
    """Lower the bound on the all-reduce from one solution to the next, as long as the rest can be less."""
    if not tables.fits(counts):
        return None
    best = _balanced(tables, counts, below)
    all_reduce_bound = math.inf
    while not tables.is_exhausted:
        limit = best.bound_seconds if best else below
        solution = _least_without_all_reduce(tables, counts, all_reduce_bound, limit)
        if solution is None:
            return best
        if solution.bound_seconds < limit:
            best = StagePlan(solution.plan, solution.bound_seconds)
        if not solution.all_reduce_seconds:
            return best
        all_reduce_bound = math.nextafter(solution.all_reduce_seconds, -math.inf)
    return best


def _balanced(tables: _Tables, counts: list[int], below: float) -> StagePlan | None:
    """Stages that are nearly as equal as can be, if their bound is below a limit: what the best have to fall below."""
    for bound in tables.slowest_bounds():
        if bound * tables.microbatches >= below:
            return None
        solution = _Program(tables, counts, bound, math.inf).solve()
        if solution is not None:
            return StagePlan(solution.plan, solution.bound_seconds) if solution.bound_seconds < below else None
    return None


def _least_without_all_reduce(
    tables: _Tables, counts: list[int], all_reduce_bound: float, below: float
) -> _Solution | None:
    """The least X + (m - 1) M below a limit with all-reduces within a bound, by lowering the bound on M."""
    best: _Solution | None = None
    slowest_bound = below / tables.microbatches  # X is M or more
    while not tables.is_exhausted:
        solution = _Program(tables, counts, slowest_bound, all_reduce_bound).solve()
        if solution is None:
            return best
        repeats = tables.microbatches - 1
        value = solution.pipeline_seconds
        if value < below:
            best, below = solution, value
        if not repeats or solution.total_seconds >= below:
            return best
        slowest_bound = math.nextafter(solution.slowest_seconds, -math.inf)
        if below < math.inf:
            slowest_bound = min(slowest_bound, (below - solution.total_seconds) / repeats)
    return best


@dataclass(slots=True)
class _Tables:
    """What the dynamic program looks up: seconds by live microbatches and width, all-reduces, transfers.

    The program's state is (k, o, w): the first layer of the rest, its first device, the index of its stage's width.
    """

    costs: StageCosts
    microbatches: int
    schedule: Schedule
    pace: Pace
    solutions: int = field(init=False, default=0)
    widths: list[int] = field(init=False)
    transfers: list[np.ndarray] = field(init=False)
    all_reduces: list[np.ndarray] = field(init=False)
    _seconds: dict[tuple[int, int], np.ndarray] = field(init=False, default_factory=dict)
    _least_devices: dict[int, list[np.ndarray]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        devices, layers = self.costs.machine.count, len(self.costs.chain.layers)
        self.widths = [width for width in range(1, devices + 1) if self.costs.microbatch % width == 0]
        if layers * (layers + 1) // 2 * devices * len(self.widths) > MOST_STATES:
            raise SearchTooLarge(
                f"{layers} layers on {devices} devices in {len(self.widths)} widths are too many to search",
                hint="merge layers (merge_layers) or choose microbatches with fewer divisors",
            )
        self.transfers = [self._transfers(width) for width in self.widths]
        self.all_reduces = [self._all_reduces(width) for width in self.widths]

    @property
    def is_exhausted(self) -> bool:
        """Whether the dynamic program was run as often as it may."""
        return self.solutions >= MOST_SOLUTIONS

    @property
    def most_stages(self) -> int:
        return min(len(self.costs.chain.layers), self.costs.machine.count)

    def slowest_bounds(self) -> Iterator[float]:
        """Bounds on the slowest stage, from what no plan can be below, in steps that get larger."""
        costs, count = self.costs, self.costs.machine.count
        alone = costs.seconds(max(self.widths), False).diagonal()
        work = float(costs.forward[0, -1] + costs.backward[0, -1])
        bound = max(work / count, float(alone.max()))
        for step in range(_BALANCED_STEPS):
            bound *= 1.125**step
            yield bound

    def live(self, to_end: int, counts: list[int]) -> int:
        """The most live microbatches of a stage, by how many stages there are to the end."""
        return live_bound(self.schedule, to_end, counts[-1], self.microbatches)

    def fits(self, counts: list[int]) -> bool:
        """Whether the devices can hold any of these numbers of stages."""
        least = self.least_devices(counts)
        return any(least[count - 1][0] <= self.costs.machine.count for count in counts)

    def least_devices(self, counts: list[int]) -> list[np.ndarray]:
        """On how many devices exactly n stages to the end fit at least, by first layer: [n - 1][k]."""
        key = counts[-1] if counts else 0
        if key not in self._least_devices:
            layers = len(self.costs.chain.layers)
            rest = np.full(layers + 1, np.inf)
            rest[-1] = 0.0
            tables = []
            for to_end in range(1, key + 1):
                least = np.full(layers + 1, np.inf)
                for width in self.widths:
                    fits = np.isfinite(self.seconds(width, self.live(to_end, counts)))
                    needed = np.where(fits, rest[None, 1:], np.inf).min(axis=1) + width
                    least[:-1] = np.minimum(least[:-1], needed)
                tables.append(least)
                rest = least
            self._least_devices[key] = tables
        return self._least_devices[key]

    def recomputes(self, width: int, live: int) -> np.ndarray:
        """Where a stage has to recompute: whatever fits does not, as that is faster, [k, l]."""
        return self.costs.memory_bytes(width, live, False) > self.costs.machine.memory_bytes

    def seconds(self, width: int, live: int) -> np.ndarray:
        """Seconds of the stage from layer k to layer l; infinite where it fits in no way, [k, l]."""
        if (width, live) not in self._seconds:
            costs = self.costs
            fits = costs.memory_bytes(width, live, True) <= costs.machine.memory_bytes
            least = np.where(fits, costs.seconds(width, True), np.inf)
            table = np.where(self.recomputes(width, live), least, costs.seconds(width, False))
            self._seconds[width, live] = np.where(np.tri(len(table), k=-1, dtype=bool), np.inf, table)
        return self._seconds[width, live]

    def _transfers(self, width: int) -> np.ndarray:
        """Twice the seconds from a stage that ends with layer l, from devices o and on to each width: [l, o, w]."""
        devices, outputs = self.costs.machine.count, self.costs.outputs
        table = np.full((len(outputs), devices + 1 - width, len(self.widths)), np.inf)
        for offset in range(devices + 1 - width):
            sources = range(offset, offset + width)
            for index, target_width in enumerate(self.widths):
                if offset + width + target_width <= devices:
                    targets = range(offset + width, offset + width + target_width)
                    table[:, offset, index] = 2 * self.costs.transfer_seconds(sources, targets)
        return table

    def _all_reduces(self, width: int) -> np.ndarray:
        """What of the all-reduce of the stage of layers k to l, on the devices o and on, comes late: [o, k, l]."""
        late, layers = [], range(len(self.costs.chain.layers))
        for offset in range(self.costs.machine.count + 1 - width):
            drains = np.array([self.costs.drain_seconds(first, offset) if offset else 0.0 for first in layers])
            late.append(self.costs.exposed_all_reduce(width, offset) - drains[:, None])
        return np.maximum(np.stack(late), 0.0)

    def offset_bounds(self, slowest_bound: float) -> tuple[np.ndarray, np.ndarray]:
        """The first and last device that the rest from layer k on may begin with, so that both sides can keep a bound.

        Stages within a bound M do at most M times their devices of work.
        """
        devices = self.costs.machine.count
        work = self.costs.forward[0] + self.costs.backward[0]
        before = np.concatenate(([0.0], work))
        if slowest_bound == math.inf:
            lowest, highest = np.zeros(len(before)), np.full(len(before), float(devices))
        elif slowest_bound <= 0:
            return np.ones(len(before), int), np.zeros(len(before), int)
        else:
            lowest = np.ceil(before / slowest_bound * (1 - _ROUNDING))
            highest = np.floor(devices - (before[-1] - before) / slowest_bound * (1 - _ROUNDING))
        lowest[1:] = np.maximum(lowest[1:], 1)
        highest[0] = min(highest[0], 0)
        return np.minimum(lowest, devices + 1).astype(int), np.maximum(highest, -1).astype(int)


_BALANCED_STEPS = 16
"""The number of bounds to try for nearly equal stages; the last is a million times the first."""
_ROUNDING = 1e-9
"""The relative tolerance for sums in a different order."""


@dataclass(slots=True)
class _Program:
    """The least sum of the stages' seconds, with each stage and each all-reduce within a bound.

    `values[n - 1]` has the least sums of exactly n stages to the end, by first layer, first device and width's index.
    """

    tables: _Tables
    counts: list[int]
    slowest_bound: float
    all_reduce_bound: float
    values: list[np.ndarray] = field(init=False, default_factory=list)

    def solve(self) -> _Solution | None:
        """The best of all allowed numbers of stages; None where bounds or memory admit none."""
        self.tables.solutions += 1
        for to_end in range(1, max(self.counts, default=0) + 1):
            self.values.append(self._extended(to_end))
            if not np.isfinite(self.values[-1]).any():
                break
        counts = [count for count in self.counts if count <= len(self.values)]
        starts = [
            (float(value), count, index)
            for count in counts
            for index, value in enumerate(self.values[count - 1][0, 0])
            if math.isfinite(value)
        ]
        return self._traced(*min(starts)) if starts else None

    def _extended(self, to_end: int) -> np.ndarray:
        tables = self.tables
        layers, devices = len(tables.costs.chain.layers), tables.costs.machine.count
        least = np.full((len(tables.widths), layers + 1, devices + 1), np.inf)
        lowest, highest = tables.offset_bounds(self.slowest_bound)
        highest = np.minimum(highest, devices - tables.least_devices(self.counts)[to_end - 1])
        for index, width in enumerate(tables.widths):
            within = tables.seconds(width, tables.live(to_end, self.counts)) <= self.slowest_bound
            if to_end == 1:
                within[:, :-1] = False
            first, last = np.nonzero(within)
            offsets = np.arange(devices + 1 - width)
            stage, offset = np.nonzero((lowest[first, None] <= offsets) & (offsets <= highest[first, None]))
            if len(stage):
                first, last = first[stage], last[stage]
                sums, _ = self._sums(to_end, index, first, last, offset)
                np.minimum.at(least[index].reshape(-1), first * (devices + 1) + offset, sums.min(axis=1))
        return np.moveaxis(least, 0, -1)

    def _sums(
        self, to_end: int, index: int, first: np.ndarray, last: np.ndarray, offset: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """For stages of layers `first` to `last` from device `offset` on: sums with the best rest, own pace: [s, w].

        w is the index of the next stage's width; sums out of bounds are infinite.
        """
        tables, width = self.tables, self.tables.widths[index]
        own = tables.seconds(width, tables.live(to_end, self.counts))[first, last][:, None]
        sums = own
        if to_end > 1:
            sent = own + tables.transfers[index][last, offset]
            sums = sent + self.values[to_end - 2][last + 1, offset + width]
            own = sent if tables.pace is Pace.WITH_TRANSFERS else np.broadcast_to(own, sums.shape)
        sums = np.where(own <= self.slowest_bound, sums, np.inf)
        if width > 1 and self.all_reduce_bound < math.inf:
            sums[tables.all_reduces[index][offset, first, last] > self.all_reduce_bound] = np.inf
        return sums, own

    def _traced(self, total: float, count: int, index: int) -> _Solution:
        """The stages behind a least sum, from the first to the last."""
        tables = self.tables
        layers = len(tables.costs.chain.layers)
        first, offset, stages, recompute, slowest, all_reduce = 0, 0, [], [], 0.0, 0.0
        for to_end in range(count, 0, -1):
            width = tables.widths[index]
            lasts = np.arange(first, layers - 1) if to_end > 1 else np.array([layers - 1])
            sums, own = self._sums(to_end, index, np.full_like(lasts, first), lasts, np.full_like(lasts, offset))
            stage, following = np.unravel_index(sums.argmin(), sums.shape)
            last = int(lasts[stage])
            stages.append(Stage(first, last, tuple(range(offset, offset + width))))
            recompute.append(bool(tables.recomputes(width, tables.live(to_end, self.counts))[first, last]))
            slowest = max(slowest, float(own[stage, following]))
            all_reduce = max(all_reduce, float(tables.all_reduces[index][offset, first, last]))
            first, offset, index = last + 1, offset + width, int(following)
        plan = PipelinePlan(tuple(stages), tables.microbatches, tables.schedule, tuple(recompute))
        return _Solution(plan, total, slowest, all_reduce)
