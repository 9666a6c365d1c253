"""From a module and a mesh to a plan: the planner's candidates, the experts' plans, and what measuring says of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from hloom.ir import Module, Node, TensorType
from hloom.sharding.clusters import Clusters
from hloom.sharding.feedback import learn
from hloom.sharding.footprint import footprint
from hloom.sharding.ledger import ledger
from hloom.sharding.mesh import Mesh
from hloom.sharding.plan import Plan, plan_of
from hloom.sharding.planners.expert import experts
from hloom.sharding.planners.ilp import plan as ilp
from hloom.sharding.pricing import Price, Rates
from hloom.sharding.problem import Problem, pose, unary
from hloom.sharding.sinking import sunk
from hloom.sharding.spec import Spec

SETTLED = 0.005
"""Where a measured plan sent less than this share more than expected, the tables are taken to be right."""


LEAN = (1e13, 3e12, 1e12)
"""Bytes of results a second at which memory is priced, one after the other, while nothing fits the budget."""


HOPELESS = 1.05
"""A plan that was measured to take so many times the best known ends the search of its problem."""


class Measured(Protocol):
    """What the partitioner made of a plan, per device."""

    @property
    def wire(self) -> float: ...
    @property
    def wire_by_kind(self) -> Mapping[str, float]: ...
    @property
    def wire_by_origin(self) -> Mapping[str, float]: ...
    @property
    def flops(self) -> float: ...
    @property
    def memory(self) -> int: ...


Measure = Callable[[Plan], Measured]


@dataclass(slots=True)
class Candidate:
    """A plan, what it is expected to cost (None for an expert's, which propagation completes), what was measured."""

    plan: Plan
    expected: Price | None = None
    bound: float | None = None
    measured: Measured | None = None
    seconds: float = 0.0
    memory: int | None = None

    def step(self, rates: Rates) -> float:
        """The time of a step in seconds: as measured, else as expected."""
        if self.measured is not None:
            return self.measured.flops / rates.flops + self.measured.wire / rates.wire
        return self.expected.seconds(rates) if self.expected is not None else math.inf

    def fits(self, budget: float | None) -> bool:
        """Whether it stays below a budget of bytes: as measured, else as expected."""
        held = self.measured.memory if self.measured is not None else self.memory
        return budget is None or held is None or held <= budget


@dataclass(slots=True)
class Chosen:
    """The best candidate and all that were looked at, best first."""

    best: Candidate
    candidates: list[Candidate]
    rates: Rates
    missing_bytes: float = 0.0
    planning_seconds: float = 0.0
    judging_seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


def choose(
    module: Module,
    mesh: Mesh,
    *,
    rates: Rates | None = None,
    budget: float | None = None,
    judge: int = 0,
    measure: Measure | None = None,
    seconds: float = 20.0,
    pins: Mapping[str, Spec] | None = None,
) -> Chosen:
    """Plan the entry of a module, and where `judge` is given measure so many of the planner's plans and the experts'.

    The planner's plans are solutions of the tables, corrected after each measurement by what the partitioner really
    sent. Raises HloomError for a module that cannot be planned.
    """
    paid = rates or Rates()
    found: list[Candidate] = []
    chosen = Chosen(Candidate(Plan(mesh)), [], paid)
    found += _all_solved(module, mesh, paid, judge, measure, seconds, pins or {}, chosen)
    for weight in LEAN if budget is not None else ():
        if any(each.fits(budget) for each in found):
            break
        lean = replace(paid, touched=weight)
        found += _all_solved(module, mesh, lean, judge, measure, seconds, pins or {}, chosen)
    if judge and measure is not None:
        known = {str(each.plan.to_json()) for each in found}
        for plan in experts(module, mesh, Clusters(module.entry)) if not pins else ():
            if str(plan.to_json()) not in known:
                found.append(_measured(Candidate(plan), measure, chosen))
    fitting = [each for each in found if each.fits(budget)]
    if fitting:
        fitting.sort(key=lambda each: (round(each.step(paid), 7), each.expected is None))
        rest = [each for each in found if not each.fits(budget)]
        chosen.best, chosen.candidates = fitting[0], [*fitting, *rest]
        return chosen
    found.sort(key=lambda each: each.measured.memory if each.measured is not None else math.inf)
    chosen.best, chosen.candidates = found[0], found
    if chosen.best.measured is not None and budget is not None:
        chosen.missing_bytes = chosen.best.measured.memory - budget
    return chosen


def _all_solved(
    module: Module,
    mesh: Mesh,
    rates: Rates,
    judge: int,
    measure: Measure | None,
    seconds: float,
    pins: Mapping[str, Spec],
    chosen: Chosen,
) -> list[Candidate]:
    found: list[Candidate] = []
    for problem in _problems(module, mesh, rates, pins, chosen):
        chosen.notes = [f"{each.name} ({each.opcode}) has no rule: it is replicated" for each in problem.clusters.whole]
        solved = _solved(problem, mesh, judge, measure, seconds, chosen)
        found += solved
        chosen.candidates += solved
    return found


def _problems(module: Module, mesh: Mesh, rates: Rates, pins: Mapping[str, Spec], chosen: Chosen) -> Iterator[Problem]:
    """The mesh as one axis, which is quick and often best, and the mesh as it is."""
    start = time.perf_counter()
    several = sum(size > 1 for size in mesh.sizes) > 1
    if several and not pins:
        flat = Mesh(("everything",), (mesh.device_count,))
        made = pose(module, flat, rates)
        chosen.planning_seconds += time.perf_counter() - start
        yield made
    start = time.perf_counter()
    made = pose(module, mesh, rates, pins)
    chosen.planning_seconds += time.perf_counter() - start
    yield made


def _solved(
    problem: Problem, mesh: Mesh, judge: int, measure: Measure | None, seconds: float, chosen: Chosen
) -> list[Candidate]:
    """Solutions of a problem, each after what was learned from measuring the one before."""
    found: list[Candidate] = []
    seen: set[str] = set()
    for _ in range(max(judge, 1)):
        start = time.perf_counter()
        choice = ilp(problem, seconds)
        specs = sunk(problem, choice.strategies)
        plan = plan_of(problem.module, mesh, _on(specs, problem.mesh, mesh), problem.clusters, _name(problem, mesh))
        candidate = Candidate(plan, expected(problem, choice.strategies), choice.bound)
        candidate.memory = footprint(problem, choice.strategies, specs)
        candidate.seconds = time.perf_counter() - start
        chosen.planning_seconds += candidate.seconds
        key = str(plan.to_json())
        if key in seen:
            break
        seen.add(key)
        found.append(candidate)
        if not judge or measure is None:
            break
        measured = _measured(candidate, measure, chosen).measured
        assert measured is not None
        known = min((each.step(chosen.rates) for each in (*chosen.candidates, *found[:-1])), default=math.inf)
        if candidate.step(chosen.rates) > HOPELESS * known:
            break
        surprise = learn(problem, choice.strategies, measured.wire_by_origin)
        if surprise <= SETTLED * measured.wire:
            break
    return found


def expected(problem: Problem, choice: dict[int, int]) -> Price:
    """What a choice is expected to cost."""
    price = Price()
    for cluster in problem.clusters:
        inner = unary(problem, cluster, problem.options[cluster.number][choice[cluster.number]])
        price.flops += inner.flops
        price.touched += inner.touched
    for each in ledger(problem, choice):
        price.send([each.step], each.width)
    return price


def _measured(candidate: Candidate, measure: Measure, chosen: Chosen) -> Candidate:
    start = time.perf_counter()
    candidate.measured = measure(candidate.plan)
    chosen.judging_seconds += time.perf_counter() - start
    return candidate


def _name(problem: Problem, mesh: Mesh) -> str:
    return "ilp" if problem.mesh is mesh else "ilp on one axis"


def _on(specs: dict[Node, Spec], planned: Mesh, mesh: Mesh) -> dict[Node, Spec]:
    """Specs on the mesh itself, where all its axes were planned as one."""
    if planned is mesh:
        return specs
    every = tuple(name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1)
    return {
        node: Spec(tuple(every if axes else () for axes in spec.dims))
        for node, spec in specs.items()
        if isinstance(node.type, TensorType)
    }
