"""Searches for a choice that fits: each candidate is written into the program, and its buffers are simulated.

Limits follow what the choice before takes once it is written. Where that finds nothing, limits fall by the same factor
each, whatever the budget is, until the peak no longer falls: the least that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hloom.analysis import cost
from hloom.distribute.remat.choice import RecomputationChoice, choose
from hloom.distribute.remat.kernel_order import Wait, find_waits, write_waits
from hloom.distribute.remat.loop_residuals import find_loop_residuals
from hloom.distribute.remat.opaque_dependence import SELECT
from hloom.distribute.remat.recomputation import write_recomputation
from hloom.distribute.remat.residual_choice import ResidualChoice, choose_residuals
from hloom.distribute.remat.residual_writer import write_residuals
from hloom.distribute.remat.stored_values import StoredValues, find_stored_values
from hloom.ir import Module, verify
from hloom.passes import cse, dce
from hloom.targets.cpu import simulate_buffers

Measure = Callable[[Module], int]
"""Yields the bytes that a program takes at its peak."""
Propose = Callable[[float], "tuple[object, Callable[[], Rematerialization]] | None"]
"""Returns a choice that keeps at most this many bytes, and how to write it; None if there is none."""
MOST_SEARCHED = 5_000
"""Of programs of more instructions a compiler is asked as little as can be: each time takes many seconds."""
MOST_ORDERED = 20_000
"""In programs of more instructions no kernel is made to wait."""
MOST_TRIALS = 8
"""The maximum number of choices to write and simulate."""
RELAXATION = 0.98
"""A choice that takes less than this share of the budget is followed by one with a higher limit."""
LEAST_STEP = 0.87
"""Where nothing fits, a limit is followed by this share of it."""
MOST_LIMITS = 25
"""How many limits are tried so."""
WIDER = 1.1
"""Limits are skipped if, with arguments and outputs, they exceed this multiple of a peak that must be undercut."""
REFINEMENT = (0.955, 0.91, 1.05, 1.1)
"""About the limit of the least peak, of small programs: further limits, as shares of it."""
MOST_WORSE = 2
"""After so many in a row that take more than the least so far, no lower limit is tried; of small programs after
twice as many."""
MOST_HALVINGS = 6
"""How often the limit of what loops stack is halved, in the search for the least."""
MOST_ORDERS = 3
"""How often kernels of a program that does not fit are made to wait for others."""
ORDERED_SHARE = 0.97
"""In the search for the least, kernels wait that run while more than this share of the peak is in use."""


@dataclass(frozen=True, slots=True)
class Rematerialization:
    """A program that recomputes, and what it takes beside the program before.

    `peak` and `original_peak` are bytes by the model of XLA's CPU compiler, `flops` and `original_flops` the
    arithmetic of one run. `cost` is what recomputing takes, transcendental functions and bytes moved counted in; in
    the model no choice of the same kind that fits at the time of the original peak costs less than `cost_bound`.
    `recomputed` counts the values that are computed again: those of loops by the choice `residuals`, then of the
    `stored` ones by `choice`. `waits` are the kernels that then wait for others, one time after the other. `inside`
    names computations of loops and branches, with what was put in their place before all that, and `materialized` the
    values that were first of all made to be stored. `assigned` is what a compiler took when it was asked, None where it
    was not. `written` are the values that `module` itself stores, until its kernels are put in order.
    """

    module: Module
    peak: int
    original_peak: int
    flops: int
    original_flops: int
    cost: float
    cost_bound: float
    recomputed: int
    stored: StoredValues
    choice: RecomputationChoice | None = None
    residuals: ResidualChoice | None = None
    waits: tuple[tuple[Wait, ...], ...] = ()
    inside: tuple[tuple[str, Module], ...] = ()
    materialized: tuple[str, ...] = ()
    assigned: int | None = None
    written: StoredValues | None = None

    @property
    def is_changed(self) -> bool:
        """Whether it is another program than the one before."""
        return bool(self.recomputed or self.materialized)


class Search:
    """Choices with limits that follow what the one before takes once it is written; of those that fit the cheapest."""

    def __init__(self, original: Rematerialization, budget: int, mechanism: str, measure: Measure | None) -> None:
        self.original = original
        self.budget = budget
        self.mechanism = mechanism
        self.measure = measure
        self.best: Rematerialization | None = None
        self.least = original

    def run(self, program: Module, stored: StoredValues) -> None:
        """Try choices of what loops stack, of stored values, and where loops do not suffice of both."""
        self.residuals(program, stored)
        if self.best is None and self.least.residuals is not None:
            smaller = self.least
            self.values(smaller.module, find_stored_values(smaller.module), smaller)
        self.values(program, stored, self.original)

    def residuals(self, program: Module, stored: StoredValues) -> None:
        """Try choices of what loops stack."""
        residuals = find_loop_residuals(program)
        held = sum(pair.bytes for pair in residuals)
        if not held:
            return
        bound = float("inf")

        def propose(limit: float) -> tuple[object, Callable[[], Rematerialization]] | None:
            nonlocal bound
            choice = choose_residuals(residuals, limit)
            if choice is None:
                return None
            bound = min(bound, choice.bound)
            key = (*choice.kept.items(), *choice.computed.items())
            return key, lambda: replace(_with_residuals(program, self.original, choice), cost_bound=bound)

        self._try(propose, float(held + self.budget - stored.peak), float(held))

    def values(self, program: Module, stored: StoredValues, start: Rematerialization) -> None:
        """Try choices of stored values, after the choice of what loops stack that a program was written by."""
        bound = float("inf")

        def propose(limit: float) -> tuple[object, Callable[[], Rematerialization]]:
            nonlocal bound
            choice = choose(stored, limit)
            bound = min(bound, choice.bound)
            before = replace(start, stored=stored)
            return tuple(choice.recomputed), lambda: replace(
                _written(program, stored, before, choice, self.mechanism),
                cost=start.cost + choice.cost,
                cost_bound=bound,
            )

        held = float(stored.usage.max(initial=0))
        self._try(propose, float(self.budget - stored.fixed), held)

    def _measured(self, result: Rematerialization) -> Rematerialization:
        """With the peak as it is measured, where the model says that it fits."""
        if self.measure is None or result.peak > self.budget:
            return result
        return replace(result, peak=self.measure(result.module) or result.peak)

    def _take(self, result: Rematerialization) -> None:
        """Keep a result that takes less than all before, or that fits and costs less."""
        if result.peak < self.least.peak:
            self.least = result
        if result.peak <= self.budget and (self.best is None or result.flops < self.best.flops):
            self.best = result

    def _try(self, propose: Propose, limit: float, high: float) -> None:
        low, fits = 0.0, dict[object, bool]()
        for _ in range(MOST_TRIALS):
            proposed = propose(limit)
            key, write = proposed if proposed is not None else (None, None)
            if write is None or key in fits:
                low, high = (low, limit) if write is not None and not fits[key] else (limit, high)
                limit = _between(low, high)
                continue
            result = self._measured(_in_order(write(), self.budget, self.mechanism))
            self._take(result)
            fits[key] = result.peak <= self.budget
            if fits[key]:
                low = max(low, limit)
                if result.peak >= RELAXATION * self.budget:
                    break
            else:
                high = min(high, limit)
            limit += self.budget - result.peak
            if not low < limit < high:
                limit = _between(low, high)
            if high - low < (1 - RELAXATION) * self.budget:
                break


def find_least(
    original: Rematerialization, program: Module, stored: StoredValues, mechanism: str, below: int | None = None
) -> list[Rematerialization]:
    """Ways to run a program in as little memory as the search for the minimum finds, whatever the budget.

    The first is the program as it is. Of what loops stack, the least is kept. Where there is a way that takes `below`
    bytes, others are searched that take less.
    """
    ways = [original]
    residuals = find_loop_residuals(program)
    low, high = 0.0, float(sum(pair.bytes for pair in residuals))
    smallest = choose_residuals(residuals, low) if residuals else None
    for _ in range(MOST_HALVINGS if smallest is None and residuals else 0):
        limit = (low + high) / 2
        choice = choose_residuals(residuals, limit)
        smallest, low, high = (smallest, limit, high) if choice is None else (choice, low, limit)
    if smallest is not None:
        start = _with_residuals(program, original, smallest)
        ways.append(start)
        if start.peak < original.peak:
            ways += _descend(start, start.module, find_stored_values(start.module), mechanism, below)
            below = min(way.peak for way in ways)
    return ways + list(_descend(original, program, stored, mechanism, below))


def _descend(
    start: Rematerialization, program: Module, stored: StoredValues, mechanism: str, below: int | None
) -> Iterator[Rematerialization]:
    """Choices of stored values for limits that fall until the peak no longer does, then for some about the best one.

    Limits are left out that are too high for what takes less than `below`.
    """
    is_large = program.node_count > MOST_SEARCHED
    held = float(stored.usage.max(initial=0))
    least, best, worse = start.peak, LEAST_STEP * held, 0
    falling = [held * LEAST_STEP**step for step in range(1, MOST_LIMITS + 1)]
    if below is not None:
        least = min(least, below)
        falling = [limit for limit in falling if stored.fixed + limit <= WIDER * below]
    about = (best * factor for factor in (() if is_large else REFINEMENT))
    tried: set[tuple[object, ...]] = set()
    for limits in (falling, about):
        if limits is about and least == below:
            break
        for limit in limits:
            choice = choose(stored, limit)
            key = tuple(choice.recomputed)
            if key in tried:
                continue
            tried.add(key)
            way = _written(program, stored, replace(start, stored=stored), choice, mechanism)
            way = _in_order(way, None, mechanism)
            yield way
            worse = 0 if way.peak < least else worse + 1
            if way.peak < least:
                least, best = way.peak, limit
            if limits is falling and worse == (MOST_WORSE if is_large else 2 * MOST_WORSE):
                break


def write_choice(module: Module, choice: RecomputationChoice, stored: StoredValues, mechanism: str) -> int:
    """Write a choice into a prepared module; how many values are computed twice."""
    count = write_recomputation(module.entry, stored, choice.ranges, choice.recomputed, mechanism)
    cse(module)
    dce(module)
    return count


def _written(
    program: Module, stored: StoredValues, original: Rematerialization, choice: RecomputationChoice, mechanism: str
) -> Rematerialization:
    trial = program.clone()
    trial.index_users()
    count = write_choice(trial, choice, stored, mechanism)
    verify(trial)
    written = find_stored_values(trial)
    return replace(
        original,
        module=trial,
        peak=written.peak,
        flops=cost(trial).total.flops,
        written=written,
        cost=choice.cost,
        cost_bound=float(choice.bound),
        recomputed=original.recomputed + count,
        choice=choice,
    )


def _with_residuals(program: Module, original: Rematerialization, choice: ResidualChoice) -> Rematerialization:
    trial = program.clone()
    trial.index_users()
    write_residuals(trial, choice)
    verify(trial)
    return replace(
        original,
        module=trial,
        peak=simulate_buffers(trial.clone()).peak,
        flops=cost(trial).total.flops,
        cost=original.cost + choice.cost,
        cost_bound=choice.bound,
        recomputed=original.recomputed + choice.count,
        residuals=choice,
    )


def _in_order(result: Rematerialization, budget: int | None, mechanism: str) -> Rematerialization:
    """With kernels that wait for others, while it does not fit and takes less that way; without a budget, the least."""
    stored, result = result.written, replace(result, written=None)
    for _ in range(MOST_ORDERS):
        limit = int(ORDERED_SHARE * result.peak) if budget is None else budget
        if result.peak <= limit or mechanism != SELECT or result.module.node_count > MOST_ORDERED:
            break
        stored = stored or find_stored_values(result.module)
        waits = tuple(find_waits(stored, limit))
        if not waits:
            break
        trial = result.module.clone()
        trial.index_users()
        write_waits(trial.entry, stored, waits, mechanism)
        verify(trial)
        stored = find_stored_values(trial)
        if stored.peak >= result.peak:
            break
        flops = cost(trial).total.flops
        result = replace(result, module=trial, peak=stored.peak, flops=flops, waits=(*result.waits, waits))
    return result


def _between(low: float, high: float) -> float:
    """The next limit between one that fits, if any does, and one that does not."""
    return (low + high) / 2 if low else LEAST_STEP * high
