"""Candidate plans: what each is predicted to cost, what was measured, and which is best."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from hloom.analysis import Device, cost
from hloom.distribute.planner.constraints import Constraints
from hloom.distribute.planner.cost_model import WRITE_BANDWIDTH, Rates, StepCost
from hloom.distribute.planner.device_program import device_program
from hloom.distribute.planner.forecast import Forecast
from hloom.distribute.planner.memory_footprint import footprint
from hloom.distribute.planner.partitioned import COLLECTIVES, Comparison, MeasuredCollective, PartitionedProgram
from hloom.distribute.planner.plan import Plan
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.second_layouts import SecondLayouts
from hloom.distribute.planner.solvers import Assignment
from hloom.ir import Module, Node
from hloom.sharding import Mesh, Spec

EQUAL_TIMES = 1e-9
"""Relative difference below which two times are equal: sums of the same terms in another order."""
RUNS = ", runs"
"""What the name of a comparison ends with that is of numbers of runs."""
WHOLE_MESH = "everything"
"""The name of the single axis of a mesh whose axes were merged."""


class Measured(Protocol):
    """Measurements of a plan after partitioning, per device."""

    @property
    def comm_bytes(self) -> float: ...
    @property
    def comm_bytes_by_opcode(self) -> Mapping[str, float]: ...
    @property
    def flops(self) -> float: ...
    @property
    def memory(self) -> int: ...
    @property
    def collectives(self) -> Sequence[MeasuredCollective]: ...
    def step_cost(self, device: Device, mesh: Mesh) -> StepCost: ...
    def comm_seconds_by_origin(self, device: Device) -> Mapping[str, float]: ...


Measure = Callable[[Plan], Measured]


@dataclass(frozen=True, slots=True)
class Task:
    """The planning task: a module, a mesh, rates, a memory budget in bytes, and seconds for each solution.

    With marks, plans also constrain the specs of operands of dots; without, only those of values.
    """

    module: Module
    mesh: Mesh
    rates: Rates
    budget: float | None = None
    seconds: float = math.inf
    demands: Constraints = field(default_factory=Constraints)
    has_marks: bool = True


@dataclass(frozen=True, slots=True)
class Solution:
    """The problem that a plan solves, the choice, the spec of every value under it, and the forecast."""

    problem: Problem
    choice: Assignment
    specs: Mapping[Node, Spec]
    forecast: Forecast


@dataclass(slots=True)
class CandidatePlan:
    """A plan with its predicted cost (None for an expert's, which propagation completes) and its measurements.

    `bound` is a lower bound in seconds on every plan of its problem, `gap` how far the plan may be above it as a share
    of its own time, and `memory` the predicted bytes. `bound_with_memory` is the minimum time of the linear program
    over the changes whose memory was simulated. If it `is_shared`, the bound only covers plans that treat repeated
    layers alike.
    """

    plan: Plan
    expected: StepCost | None = None
    bound: float | None = None
    gap: float | None = None
    bound_with_memory: float = -math.inf
    memory: int | None = None
    measured: Measured | None = None
    is_shared: bool = False
    notes: tuple[str, ...] = ()
    solution: Solution | None = field(default=None, repr=False)
    _measured_cost: tuple[Measured, StepCost] | None = field(default=None, init=False, repr=False)

    def price(self, rates: Rates) -> StepCost | None:
        """The work and traffic of a device: as measured, else as predicted."""
        if self.measured is None:
            return self.expected
        if self._measured_cost is None or self._measured_cost[0] is not self.measured:
            self._measured_cost = self.measured, self.measured.step_cost(rates.device, self.plan.mesh)
        return self._measured_cost[1]

    def step(self, rates: Rates) -> float:
        """The time of a step in seconds: as measured, else as expected."""
        price = self.price(rates)
        return math.inf if price is None else price.seconds(rates)

    def cost(self, rates: Rates) -> float:
        """The planners' objective: the time, measured or predicted, with ties broken by the bytes of results."""
        price = self.price(rates)
        if price is None:
            return math.inf
        written_bytes = 0.0 if self.expected is None else self.expected.written_bytes
        return price.seconds(rates) + written_bytes / WRITE_BANDWIDTH

    def prove(self, bound: float, rates: Rates, *, is_shared: bool) -> None:
        """Note a bound of all plans, at some rates."""
        cost = self.cost(rates)
        self.bound, self.is_shared = bound, is_shared
        self.gap = max(0.0, 1 - bound / cost) if cost > 0 else 0.0

    def predict_memory(self) -> None:
        """Work out the bytes that are expected, which takes a while."""
        solution = self.solution
        if self.memory is None and solution is not None:
            self.memory = footprint(solution.problem, solution.choice.strategies, solution.specs)

    def device_flops(self) -> int | None:
        """The FLOPs of one device's program, as `hloom.cost` counts them; None where the plan's choices are not known.

        `expected.flops` are those of dots and convolutions alone: to be compared with other plans, not with `cost`.
        """
        if self.solution is None:
            return None
        problem, choice = self.solution.problem, self.solution.choice
        return cost(device_program(problem, choice.strategies, self.solution.specs).module).total.flops

    def runs_by_opcode(self) -> dict[str, float]:
        """How often collectives are predicted to run, by opcode; empty where the plan's choices are not known."""
        runs: dict[str, float] = defaultdict(float)
        for collective in self.solution.forecast.collectives if self.solution is not None else ():
            runs[collective.step.opcode] += collective.times
        return dict(runs)

    def held(self) -> float | None:
        """The peak bytes of a device: as measured, else as predicted."""
        return self.memory if self.measured is None else self.measured.memory

    def fits(self, budget: float | None) -> bool:
        """Whether it stays below a budget of bytes."""
        held = self.held()
        return budget is None or held is None or held <= budget


@dataclass(slots=True)
class SearchResult:
    """The candidates, best first: with `missing_bytes` none fits, and the first needs least memory.

    With a budget, `least_bytes` is a proven lower bound on the memory of every plan.

    `problem` is that of the original mesh, which describes the candidates, `space` what it was built from.
    """

    task: Task
    candidates: list[CandidatePlan] = field(default_factory=list)
    missing_bytes: float = 0.0
    least_bytes: float = 0.0
    planning_seconds: float = 0.0
    measuring_seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    problem: Problem | None = field(default=None, repr=False)
    space: SecondLayouts | None = field(default=None, repr=False)

    @property
    def module(self) -> Module:
        """What was planned."""
        return self.task.module

    @property
    def mesh(self) -> Mesh:
        """What it was planned for."""
        return self.task.mesh

    @property
    def rates(self) -> Rates:
        """The rates of work and collectives."""
        return self.task.rates

    @property
    def values_in_two_layouts(self) -> list[str]:
        """The names of the values that may have two layouts in plans covered by the bound."""
        problem = self.problem
        if problem is None:
            return []
        return list(dict.fromkeys(duplicate.clones[-1][0] for duplicate in problem.duplicates))

    @property
    def best(self) -> CandidatePlan:
        """The candidate to take."""
        return self.candidates[0]

    def rank(self) -> None:
        """Sort plans: the fastest that fits first; measured ones before others as soon as there are any.

        Among equally fast plans the one with least memory is first; if none fits, the one with least memory, and among
        those the fastest: no other plan dominates it in time and memory.
        """
        # not list.sort: the list is empty while that runs, and _rank would see no measured one
        self.candidates = sorted(self.candidates, key=self._rank)
        is_guessed, is_too_large, cost, *_ = self._rank(self.candidates[0])
        last = is_guessed, is_too_large, cost * (1 + EQUAL_TIMES)
        equals = [candidate for candidate in self.candidates if self._rank(candidate)[:3] <= last]
        for candidate in equals if len(equals) > 1 else ():
            candidate.predict_memory()
        best = min(equals, key=lambda candidate: (_or_infinite(candidate.held()), *self._rank(candidate)))
        self.candidates = [best, *(candidate for candidate in self.candidates if candidate is not best)]
        held = self.best.held()
        self.missing_bytes = 0.0 if self.task.budget is None or held is None else max(0.0, held - self.task.budget)

    def _rank(self, candidate: CandidatePlan) -> tuple[bool, bool, float, float, bool]:
        is_guessed = any(other.measured is not None for other in self.candidates) and candidate.measured is None
        fits = candidate.fits(self.task.budget)
        step = candidate.step(self.rates)
        cost = step if fits else _or_infinite(candidate.held())
        return is_guessed, not fits, cost, step, candidate.expected is None


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


def compare(measured: PartitionedProgram, candidate: CandidatePlan) -> tuple[Comparison, ...]:
    """Runs and bytes sent by opcode, bytes in all, FLOPs, and memory: as predicted for a candidate, and as measured."""
    expected = candidate.expected
    if expected is None:
        return ()
    sent, runs, known_runs = measured.comm_bytes_by_opcode, measured.runs_by_opcode, candidate.runs_by_opcode()
    rows = []
    for name in COLLECTIVES:
        if name in expected.comm_bytes or name in sent:
            rows.append(Comparison(name, expected.comm_bytes.get(name, 0.0), sent.get(name, 0.0)))
            rows.append(Comparison(f"{name}{RUNS}", known_runs.get(name, 0.0), runs.get(name, 0.0)))
    rows += [
        Comparison("sent", expected.sent, measured.comm_bytes),
        Comparison("FLOPs", expected.flops, measured.flops),
    ]
    if candidate.memory is not None:
        rows.append(Comparison("memory", candidate.memory, measured.memory))
    return tuple(rows)


def with_comparisons(measured: PartitionedProgram, candidate: CandidatePlan) -> PartitionedProgram:
    """The measurements together with the predictions for a candidate."""
    return replace(measured, comparisons=compare(measured, candidate))
