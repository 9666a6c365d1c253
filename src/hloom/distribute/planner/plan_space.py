"""All plans of one module on one mesh as one problem: the cheapest, completions of given ones, those that fit a budget.

A given plan is completed in the original problem if its specs are consistent in the clusters; otherwise in one where
conflicting values have their own clusters, which is kept for later plans.

A plan's memory is known only after simulating its program, which takes longer than finding the plan. So plans within a
budget are searched with a price per byte on what the simulated plans hold at their peaks (Lagrangian relaxation of the
memory constraint): the price rises until a plan fits, and is then bisected.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.distribute.planner.candidates import CandidatePlan, Task
from hloom.distribute.planner.constraints import Constraints, constrain_problem, lost_values
from hloom.distribute.planner.cost_model import Rates, itemsize_of
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.duplicates import Duplicate
from hloom.distribute.planner.memory_footprint import Footprint, footprint_of
from hloom.distribute.planner.neighbourhood import held_at_peak
from hloom.distribute.planner.plan import Plan, with_all_parameters
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.refinement import Refinement, candidate_of, plan_key
from hloom.distribute.planner.second_layouts import with_second_layouts
from hloom.distribute.planner.solvers.assignment import Assignment
from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.dual_ascent import EVERY, ascend
from hloom.distribute.planner.solvers.factor_graph import FactorGraph, quotient_graph
from hloom.distribute.planner.solvers.ilp import plan_shared
from hloom.ir import Module, Node, TensorType
from hloom.sharding import Mesh, Spec

ATTEMPTS = 3
"""The maximum number of rounds of giving values their own clusters to follow a given plan."""
SIMULATIONS = 5
"""The maximum number of plans simulated to find those within a budget."""
PRICES = 12
"""The maximum number of prices per byte to try: several may give the same plan."""
FACTOR = 4.0
"""The factor by which the price per byte rises while nothing fits."""
CLOSE = 1.05
"""Prices within this ratio are considered equal."""


class PlanSpace:
    """The plans of a module on a mesh at some rates, from one problem.

    `within` simulates what plans hold, and `search` and `complete` do not.
    """

    def __init__(self, module: Module, mesh: Mesh, rates: Rates) -> None:
        self.task = Task(module, mesh, rates)
        self.problem = build_problem(module, mesh, rates)
        self._problems = [self.problem]
        self._alone: dict[str, None] = {}
        self._best: CandidatePlan | None = None

    def search(self, name: str = "ilp") -> CandidatePlan:
        """The cheapest plan found, whatever memory it needs, with values in two layouts if that pays off."""
        if self._best is None:
            space = with_second_layouts(self.problem, self._build_with, plan_shared, math.inf, can_clone=True)
            problems = [(space.problem, space.solution)]
            if space.problem is not self.problem:
                problems.append((self.problem, space.base_solution))
            made: list[CandidatePlan] = []
            for problem, solution in problems:
                refinement = Refinement(self.task, problem, plan_shared, name, first=solution)
                known = min((candidate.cost(self.task.rates) for candidate in made), default=math.inf)
                best = refinement.refine(known)
                made += [] if best is None else [best]
            self._best = min(made, key=lambda candidate: candidate.cost(self.task.rates))
        return self._best

    def complete(self, plan: Plan) -> CandidatePlan:
        """Complete a plan in the cheapest way; parameters that it does not name are replicated."""
        demands = Constraints(like=with_all_parameters(plan, self.problem.module))
        problem, _ = constrain_problem(self._keeping(demands), demands)
        return candidate_of(self.task, problem, plan_shared(problem), plan.name, demands)

    def within(self, budget: float) -> list[CandidatePlan]:
        """Plans within this many bytes, cheapest first; the one with least memory if none is found."""
        return _PricedSearch(self.task, self.search(), budget).run()

    def _build_with(self, *, duplicates: Sequence[Duplicate] = (), apart: Sequence[Collection[str]] = ()) -> Problem:
        task = self.task
        return build_problem(task.module, task.mesh, task.rates, duplicates=duplicates, apart=apart)

    def _keeping(self, demands: Constraints) -> Problem:
        """A problem in which the values of a plan have its specs, as far as any has."""
        for problem in self._problems:
            lost = lost_values(problem, demands)
            if not lost:
                return problem
        for _ in range(ATTEMPTS - 1):
            if self._alone.keys() >= lost.keys():
                break
            self._alone |= lost
            self._problems.append(self._build_with(apart=[[name] for name in self._alone]))
            lost = lost_values(self._problems[-1], demands)
        return self._problems[-1]


@dataclass(frozen=True, slots=True)
class _Simulated:
    """A choice at a price per byte, what it holds, and the bytes of each node's strategies near its peak."""

    candidate: CandidatePlan
    bytes: int
    rows: Mapping[int, np.ndarray]


class _PricedSearch:
    """Plans of a problem with a price on what is held, simulated one after the other."""

    def __init__(self, task: Task, free: CandidatePlan, budget: float) -> None:
        assert free.solution is not None
        self.task, self.free, self.problem, self.budget = task, free, free.solution.problem, budget
        self.graph = quotient_graph(self.problem)
        self.simulated: dict[str, _Simulated] = {}

    def run(self) -> list[CandidatePlan]:
        """Raise the price until a plan fits, then search between the last price and the one before."""
        last = self._simulated(self.free)
        if last.bytes > self.budget:
            self._raise_price(last)
        fitting = [made.candidate for made in self.simulated.values() if made.bytes <= self.budget]
        if not fitting:
            return [min(self.simulated.values(), key=lambda made: made.bytes).candidate]
        return sorted(fitting, key=lambda candidate: candidate.cost(self.task.rates))

    def _raise_price(self, last: _Simulated) -> None:
        low, high = 0.0, math.inf
        price = last.candidate.cost(self.task.rates) / max(self.budget, 1.0) / FACTOR
        for _ in range(PRICES):
            choice = self._solved(price, last)
            last = self._simulated(candidate_of(self.task, self.problem, choice, "ilp"))
            low, high = (low, price) if last.bytes <= self.budget else (price, high)
            if len(self.simulated) == SIMULATIONS or high <= low * CLOSE:
                return
            price = price * FACTOR if high == math.inf else math.sqrt(low * high) if low else price / FACTOR

    def _simulated(self, candidate: CandidatePlan) -> _Simulated:
        """What a plan holds; one that is known already is not simulated again."""
        key = plan_key(candidate.plan)
        if key not in self.simulated:
            assert candidate.solution is not None
            choice = candidate.solution.choice.strategies
            held = footprint_of(self.problem, choice, candidate.solution.specs)
            candidate.memory = held.bytes
            self.simulated[key] = _Simulated(candidate, held.bytes, self._rows(choice, held))
        return self.simulated[key]

    def _solved(self, price: float, before: _Simulated) -> Assignment:
        known = [made.rows for made in self.simulated.values()]
        unary = {
            node: costs + price * np.max([rows[node] for rows in known], axis=0)
            for node, costs in self.graph.unary.items()
        }
        priced = FactorGraph(unary, self.graph.factors, self.graph.kept)
        assert before.candidate.solution is not None
        start = self.graph.numbered(before.candidate.solution.choice.strategies)
        ascent = ascend(priced, Deadline(), [] if start is None else [start], sweeps=EVERY)
        strategies = ascent.graph.named(self.problem, ascent.choice)
        cost = self.problem.cost(strategies)
        return Assignment(strategies, cost, 0.0)

    def _rows(self, choice: Mapping[int, int], held: Footprint) -> dict[int, np.ndarray]:
        """By node the bytes near the peak of its strategies: of values that it makes, of copies that it reads.

        What a value holds beyond its own spec is the strategy's that it has.
        """
        problem = self.problem
        rows = {node: np.zeros_like(costs, float) for node, costs in self.graph.unary.items()}
        for origin, size in held_at_peak(problem, choice, held):
            own, read = origin.value, origin.read
            cluster = problem.clusters.of(own) if read is None else problem.reading_cluster(read)
            if cluster is None or not isinstance(own.type, TensorType):
                continue
            if read is None:
                specs = problem.produced_specs(cluster, own, is_partial=origin.is_partial)
            else:
                specs = problem.required_specs(cluster, read)
            local = np.array([self._local_bytes(own, spec) for spec in specs.specs])
            held_specs = local[specs.index]
            strategy = choice[cluster.number]
            row = rows[problem.representative[cluster.number]][0]
            row += held_specs * min(1.0, size / held_specs[strategy] if held_specs[strategy] else 1.0)
            row[strategy] += max(0.0, size - held_specs[strategy])
        return rows

    def _local_bytes(self, value: Node, spec: Spec) -> float:
        return math.prod(self.problem.mesh.local_dims(value.dims, spec)) * itemsize_of(value)
