"""Chooses what to recompute at minimum cost so that memory stays within a bound: an integer program.

For each value made before the peak, `available` says that the backward part has it and `recomputed` that it computes
it again; what is available and not recomputed is kept. The backward part needs what it reads; recomputing a value needs
its operands. Memory at the peak is what is kept; at later times where a choice turned out to need too much, a row is
added with what that choice holds there.

Sources: Jain et al., Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization (MLSys 2020), for the
program; Bartan et al., Moccasin: Efficient Tensor Rematerialization for Neural Networks (ICML 2023), for intervals of
retention in one order in place of one variable for each time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hloom.distribute.remat.live_ranges import LiveRanges, live_ranges
from hloom.distribute.remat.stored_values import StoredValue, StoredValues
from hloom.solver import Constraint, minimize

MOST_ROUNDS = 12
"""How often the program is solved with a further row."""


@dataclass(slots=True)
class RecomputationChoice:
    """The values to recompute, the cost by the program's measure, and a lower bound on any choice that fits at the
    peak.
    """

    recomputed: list[StoredValue]
    ranges: LiveRanges
    cost: float
    bound: float
    fits: bool


def choose(stored: StoredValues, limit: float, time: int | None = None) -> RecomputationChoice:
    """The cheapest choice found whose temporaries take at most `limit` bytes; the smallest found where none fits."""
    free = live_ranges(stored, int(stored.usage.argmax()) if time is None else time, ())
    time = free.time
    program = _Program(stored, free)
    rows: list[tuple[np.ndarray, np.ndarray, float]] = []
    ranges, best, bound = free, RecomputationChoice([], free, 0.0, 0.0, free.peak <= limit), 0.0
    if best.fits:
        return best
    chosen: set[StoredValue] = set()
    tried: list[set[StoredValue]] = []
    for round_number in range(MOST_ROUNDS):
        at = ranges.peak_time
        rows.append(program.row(ranges, chosen, at))
        solution = program.solve(rows, limit)
        if round_number == 0:
            bound = solution.bound
        chosen = solution.chosen
        ranges = live_ranges(stored, time, chosen)
        cost = sum(value.flops for value in chosen)
        in_order = sorted(chosen, key=lambda value: value.index)
        made = RecomputationChoice(in_order, ranges, cost, bound, ranges.peak <= limit)
        better = (made.fits and not best.fits) or (
            made.fits == best.fits and (made.cost < best.cost if made.fits else made.ranges.peak < best.ranges.peak)
        )
        if better:
            best = made
        if made.fits:
            break
        if chosen in tried:
            break
        tried.append(chosen)
    best.bound = min(bound, best.cost) if best.fits else bound
    return best


@dataclass(slots=True)
class _Solution:
    chosen: set[StoredValue]
    bound: float


class _Program:
    """The columns of the integer program: `available` of each value, then `recomputed` of each."""

    def __init__(self, stored: StoredValues, free: LiveRanges) -> None:
        self.stored = stored
        self.free = free
        self.time = free.time
        self.values = self._relevant()
        self.columns = {value: column for column, value in enumerate(self.values)}

    def _relevant(self) -> list[StoredValue]:
        """The values that the backward part needs, or that recomputing them may need."""
        seen: dict[StoredValue, None] = {}
        pending = list(self.free.needed)
        while pending:
            value = pending.pop()
            if value in seen or value.made > self.time:
                continue
            seen[value] = None
            if value.may_recompute:
                pending += value.operands
        return sorted(seen, key=lambda value: value.index)

    def _needs(self, ranges: LiveRanges) -> dict[StoredValue, set[int]]:
        """When each value is needed under a choice; of those that are not, when they would be if all readers were."""
        needs: dict[StoredValue, set[int]] = {}
        for value in reversed(self.values):
            times = ranges.reads.get(value)
            if times is None:
                readers = {reader for _, reader in value.reads if reader is not None}
                times = {min(needs[reader]) for reader in readers if needs.get(reader)}
            needs[value] = times
        return needs

    def row(self, ranges: LiveRanges, chosen: set[StoredValue], at: int) -> tuple[np.ndarray, np.ndarray, float]:
        """The memory of each value at a time if it is kept, and if it is recomputed; and the memory of everything else.
        """
        count = len(self.values)
        kept, recomputed = np.zeros(count), np.zeros(count)
        assumed = self._needs(ranges)
        rest = float(ranges.usage[at])
        for column, value in enumerate(self.values):
            spans = [(size, start, stop) for size, start, stop in value.spans if start <= self.time]
            if not spans:
                continue
            own = sum(size for size, start, stop in spans if start <= at <= stop)
            reached = value.last_read
            times = assumed[value]
            needed, last = (min(times), max(times)) if times else (None, None)
            if at > self.time or own:
                kept[column] = own
                if not own and last is not None and reached < at <= last:
                    kept[column] = value.size
            if at == self.time and not own:
                kept[column] = value.size
            forward = max((read for read, _ in value.reads if read <= self.time), default=value.made)
            if value.is_cheap and at > self.time:
                recomputed[column] = value.size if at in times else 0
            elif needed is not None and last is not None and needed <= at <= max(last, reached):
                recomputed[column] = own or (value.size if at <= last else 0)
            elif at <= self.time:
                recomputed[column] = sum(
                    size for size, start, stop in spans if start <= at <= min(stop, max(forward, start))
                )
            is_held = value in self.free.needed or value in chosen or value in ranges.needed
            if is_held:
                rest -= recomputed[column] if value in chosen else kept[column]
            elif own:
                kept[column] = max(0.0, kept[column] - own)
                recomputed[column] = max(0.0, recomputed[column] - own)
        return kept, recomputed, rest

    def solve(self, rows: list[tuple[np.ndarray, np.ndarray, float]], limit: float) -> _Solution:
        count = len(self.values)
        costs = np.array([value.flops for value in self.values])
        scale = 1e4 / max(costs.sum(), 1.0)
        slack = 2 * count
        lower = np.zeros(2 * count + 1)
        upper = np.ones(2 * count + 1)
        upper[slack] = np.inf
        entries: list[Constraint] = []
        for column, value in enumerate(self.values):
            if value in self.free.needed:
                lower[column] = 1
            if not value.may_recompute:
                upper[count + column] = 0
                continue
            needed = [column, *(self.columns[operand] for operand in value.operands if operand in self.columns)]
            entries += (Constraint(np.array([count + column, other]), np.array([1.0, -1.0]), 0.0) for other in needed)
        unit = max(limit, 1.0)
        for kept, recomputed, rest in rows:
            weights = np.concatenate([kept, recomputed - kept, [-unit]]) / unit
            used = np.flatnonzero(weights)
            entries.append(Constraint(used, weights[used], (limit - rest) / unit))
        solved = minimize(np.concatenate([np.zeros(count), costs * scale, [1e6]]), lower, upper, entries, continuous=1)
        assert solved is not None, "to keep all is a choice, for the last column takes what it needs beyond the limit"
        columns, bound = solved
        chosen = {value for column, value in enumerate(self.values) if columns[count + column] > 0.5}
        return _Solution(chosen, bound / scale)
