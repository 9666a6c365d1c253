"""Refinement: solves a problem repeatedly, correcting its tables with what its solutions are found to send.

The tables of a problem cover pairs of decisions. A forecast looks at every instruction with the specs of all its
operands, and XLA's partitioner, if it compiles a plan, is exact: both correct the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hloom.distribute.partitioner import TracedCollective
from hloom.distribute.planner.budget_search import WORK, memory_front
from hloom.distribute.planner.candidates import CandidatePlan, Measured, Solution, Task
from hloom.distribute.planner.constraints import Constraints, restore_constrained
from hloom.distribute.planner.cost_model import StepCost, itemsize_of
from hloom.distribute.planner.cost_tables import add_reshard_cost, add_strategy_cost, rebuild_edge_costs
from hloom.distribute.planner.forecast import forecast, operand_marks, predicted_collectives, seconds_by_origin
from hloom.distribute.planner.free_values import free_duplicates, scatter_marks
from hloom.distribute.planner.memory_bound import bound_within, least_held
from hloom.distribute.planner.memory_front import MemoryFront
from hloom.distribute.planner.memory_profile import Choice, MemoryProfiler, choice_key
from hloom.distribute.planner.plan import Plan, plan_of
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.reshard_placement import hoist_reshards
from hloom.distribute.planner.solvers import Assignment, Planner
from hloom.distribute.planner.solvers.ilp import plan as plan_apart
from hloom.distribute.planner.solvers.ilp import prove_apart
from hloom.ir import Node, TensorType
from hloom.sharding import Mesh, Spec

Key = TypeVar("Key")

GAIN = 0.003
"""A solution that promises less than this share over the best plan so far is not looked at."""
CLOSE = 0.002
"""If the best plan costs at most this share more than its tables say, the problem is not solved again."""
ROUNDS = 5
"""How often a problem is solved before the best plan so far is taken."""
SETTLED = 0.005
"""If less than this share of the step's time was not predicted, the tables are considered right."""
SOLVED = 0.01
"""A solution whose costs have not changed and that is proven to be so near to the best is not looked for again."""

NEARLY = 0.95
"""If the plan without a budget needs less than this share of it, no other is searched."""
NOISE = 0.002
"""Differences below this share of the time of all collectives teach nothing."""


@dataclass(slots=True)
class Refinement:
    """A problem, the name of its plans, and the best of the latest ones until it is measured.

    `scale` is the ratio of measured to predicted memory of the last measured plan, `bound` the lower bound on cost by
    the latest tables. `first` is the solution of the original problem, if known. With a budget, `work` is the number of
    instructions that may be simulated to find the memory of choices, `seeds` are more choices to examine,
    `bound_with_memory` is the lower bound on the cost of interpolated choices, and `least_bytes` is a proven lower
    bound on memory. The budget only selects among plans that are found regardless of it.
    """

    task: Task
    problem: Problem
    solver: Planner
    name: str
    demands: Constraints | None = None
    work: int = WORK
    seeds: Callable[[], Iterable[Choice]] = tuple
    first: Assignment | None = None
    scale: float = 1.0
    seen: set[str] = field(default_factory=set)
    waiting: CandidatePlan | None = None
    latest: Assignment | None = None
    bound: float = 0.0
    bound_with_memory: float = -math.inf
    least_bytes: float = 0.0
    is_shared: bool = True
    is_cut: bool = False
    _profiler: MemoryProfiler | None = None
    _solved: list[Choice] = field(default_factory=list)
    _candidates: dict[bytes, CandidatePlan] = field(default_factory=dict)
    _offered: set[str] = field(default_factory=set)
    _has_learned: bool = False
    _is_changed: bool = False

    def advance(self, known: float) -> None:
        """Solve the problem until its tables agree with the forecast of the solution, or promise nothing better.

        `known` is the cost of the best plan so far, at the rates of the problem.
        """
        budget = self._budget
        best = self.refine(known if budget is None else math.inf)
        if best is not None:
            best.predict_memory()
        if budget is not None and (best is None or not best.fits(NEARLY * budget)):
            best = self._within(budget, known, best)
        if best is not None:
            self._offered.add(plan_key(best.plan))
        self.waiting = best

    def refine(self, known: float) -> CandidatePlan | None:
        """The best plan of several solutions, ignoring memory, with tables corrected after each; `known` as above."""
        best: CandidatePlan | None = None
        for _ in range(ROUNDS):
            choice = self._solve()
            if choice.cost >= known * (1 - GAIN):
                break
            candidate = candidate_of(self.task, self.problem, choice, self.name, self.demands)
            if plan_key(candidate.plan) in self.seen:
                break
            self.seen.add(plan_key(candidate.plan))
            self._solved.append(choice.strategies)
            best = candidate if best is None else min(best, candidate, key=self._cost)
            known = min(known, self._cost(best))
            if not self._is_surprised(candidate) or self._cost(best) <= choice.cost * (1 + CLOSE):
                break
        return best

    def _within(self, budget: float, known: float, free: CandidatePlan | None) -> CandidatePlan | None:
        """The cheapest plan of the front within a budget, or the one with least memory; skips plans already offered.

        `free` is the plan without a budget, which is used if it fits and none is cheaper.
        """
        front = self._front()
        self.bound_with_memory = front.bound(budget)
        if free is not None and free.fits(budget):
            cheapest = min((point.cost for point in front.within(budget)), default=math.inf)
            if self._cost(free) <= cheapest:
                return free
        fitting = [(self._candidates[choice_key(point.choice)], point) for point in front.within(budget)]
        if self.task.rates.is_overlapped:
            fitting.sort(key=lambda entry: entry[0].cost(self.task.rates))
            known = math.inf
        smallest = self._candidates[choice_key(front.smallest.choice)], front.smallest
        for candidate, point in fitting or [smallest]:
            candidate.memory = point.bytes
            if not candidate.fits(budget):
                candidate.notes = (*candidate.notes, "no plan was found that holds less")
            elif self._cost(candidate) >= known:
                return None
            if plan_key(candidate.plan) not in self._offered:
                return candidate
        return None

    def _front(self) -> MemoryFront:
        """The cheapest plans that are found, each for the memory that it takes."""
        assert self.latest is not None
        seeds = [*self._solved]
        if self._profiler is None:
            self._profiler = MemoryProfiler(self.problem, self._specs)
            seeds += self.seeds()
        work = self.work - self._profiler.simulated
        front = memory_front(
            self.problem,
            self.latest.strategies,
            self._profiler,
            price=self._price,
            correct=self._correct_for,
            seeds=seeds,
            work=work,
        )
        self._solved = [point.choice for point in front.simulated]
        return front

    def _price(self, choice: Choice) -> float:
        """The forecast cost of a choice; once plans were measured, at least what the tables say."""
        cost = self._cost(self._candidate(choice))
        return max(cost, self.problem.cost(choice)) if self._has_learned else cost

    def _correct_for(self, choice: Choice) -> bool:
        """Correct the tables by the forecast of a choice, where they said less; whether that changes them."""
        candidate = self._candidate(choice)
        if self._has_learned or self._cost(candidate) <= self.problem.cost(choice) * (1 + CLOSE):
            return False
        return self._surprise(candidate) > 0

    def _candidate(self, choice: Choice) -> CandidatePlan:
        """The plan of a choice, made once."""
        assert self.latest is not None
        key = choice_key(choice)
        if key not in self._candidates:
            assignment = replace(self.latest, strategies=dict(choice), cost=self.problem.cost(choice))
            self._candidates[key] = candidate_of(self.task, self.problem, assignment, self.name, self.demands)
        return self._candidates[key]

    def prove(self) -> None:
        """Compute the bound of the tables as they are, also where isomorphic clusters choose independently.

        If that finds a better plan, it replaces the pending one.
        """
        if self.latest is None:
            return
        if self._is_changed or self.latest.gap > SOLVED:
            result = plan_apart(self.problem, self.task.seconds, starts=[self.latest.strategies])
        else:
            result = prove_apart(self.problem, self.latest, self.task.seconds)
        self.is_cut = self.is_cut or result.is_cut
        if self.waiting is not None and result.cost < self._cost(self.waiting) * (1 - GAIN):
            better = candidate_of(self.task, self.problem, result, self.name, self.demands)
            if self._cost(better) < self._cost(self.waiting):
                better.predict_memory()
                self.waiting = better if better.fits(self._budget) else self.waiting
        if not result.is_shared:
            self.bound, self.is_shared = result.bound, False
        if self._budget is not None:
            self._prove_within(self._budget, result.strategies)

    def _prove_within(self, budget: float, free: Choice) -> None:
        """Bound the memory of every choice, and raise the cost bound to that of choices within the budget if that is
        higher, unless the solution without a budget may fit.
        """
        times = least_held(self.problem)
        self.least_bytes = max(held.least for held in times)
        for held in times:
            if held.least <= budget < held.of(free):
                self.bound = bound_within(self.problem, held, budget, self.bound)

    def _cost(self, candidate: CandidatePlan) -> float:
        return candidate.cost(self.problem.rates)

    def _is_surprised(self, candidate: CandidatePlan) -> bool:
        """Put the forecast of a plan into the tables; whether that changes them much."""
        return self._surprise(candidate) > SETTLED * self._cost(candidate)

    def _surprise(self, candidate: CandidatePlan) -> float:
        """Correct the tables with the forecast of a plan; returns the seconds they did not predict."""
        solution = candidate.solution
        assert solution is not None
        predicted = seconds_by_origin(solution.forecast.collectives, self.problem.collectives)
        return self._correct(solution.choice.strategies, predicted)

    def _correct(self, choice: dict[int, int], seconds: Mapping[str, float]) -> float:
        """Put the seconds of collectives into the tables; the part of the objective that these did not predict."""
        surprise = correct_costs(self.problem, choice, seconds)
        self._is_changed = self._is_changed or surprise > 0
        return surprise

    def learn(self, candidate: CandidatePlan, measured: Measured) -> bool:
        """Correct the tables with the measurements of a plan; returns whether that changes them much."""
        assert candidate.solution is not None
        self._has_learned = True
        self.scale = measured.memory / candidate.memory if candidate.memory else 1.0
        seconds = measured.comm_seconds_by_origin(self.task.rates.device)
        surprise = self._correct(candidate.solution.choice.strategies, seconds)
        cost = measured.step_cost(self.task.rates.device, self.task.mesh)
        return surprise > SETTLED * cost.seconds(self.problem.rates)

    @property
    def _budget(self) -> float | None:
        """The bytes that are expected of a plan that will be measured to keep the budget."""
        return None if self.task.budget is None else self.task.budget / self.scale

    def _solve(self) -> Assignment:
        """The cheapest choice, ignoring memory."""
        starts = [] if self.latest is None else [self.latest.strategies]
        choice, self.first = self.first, None
        if choice is None:
            choice = self.solver(self.problem, seconds=self.task.seconds, starts=starts)
        self.latest, self._is_changed = choice, False
        self.bound, self.is_shared = choice.bound, choice.is_shared
        return choice

    def _specs(self, choice: dict[int, int]) -> Mapping[Node, Spec]:
        return specs_of(self.task.demands if self.demands is None else self.demands, self.problem, choice)


def specs_of(demands: Constraints, problem: Problem, choice: dict[int, int]) -> Mapping[Node, Spec]:
    """The specs of a choice, with reshards hoisted where the demands allow it."""
    specs = hoist_reshards(problem, choice)
    return restore_constrained(demands, problem, problem.specs(choice), specs) if demands else specs


def candidate_of(
    task: Task, problem: Problem, choice: Assignment, name: str, demands: Constraints | None = None
) -> CandidatePlan:
    """The plan of a choice with its predicted traffic; `demands` defaults to the task's."""
    specs = specs_of(task.demands if demands is None else demands, problem, choice.strategies)
    own = problem.specs(choice.strategies)
    forecasted = forecast(problem, choice.strategies, specs, is_marked=task.has_marks)
    marks = operand_marks(problem, choice.strategies, specs) | scatter_marks(problem, specs) if task.has_marks else {}
    work = problem.work_seconds(choice.strategies)
    price = StepCost(forecasted.flops, work, written_bytes=_touched(problem, own))
    collectives = task.rates.collectives(task.mesh)
    for collective in forecasted.collectives:
        step = _step_on(collective.step, problem.mesh, task.mesh)
        price.add_collectives([step], collective.width, collective.times, collectives)
    mesh_specs, marked = _on(specs, problem.mesh, task.mesh), _on(marks, problem.mesh, task.mesh)
    free = list(free_duplicates(problem, specs)) if task.has_marks else []
    free = [(duplicate, _on({0: spec}, problem.mesh, task.mesh)[0]) for duplicate, spec in free]
    plan = plan_of(problem, task.mesh, mesh_specs, task.module, name, marked, free)
    return CandidatePlan(plan, price, solution=Solution(problem, choice, specs, forecasted), notes=choice.notes)


def plan_key(plan: Plan) -> str:
    """A key that is equal for equivalent plans."""
    return str(plan.to_json())


def _touched(problem: Problem, specs: Mapping[Node, Spec]) -> float:
    """Bytes of all results on one device."""
    total = 0.0
    for node, spec in specs.items():
        if isinstance(node.type, TensorType):
            total += math.prod(problem.mesh.local_dims(node.type.dims, spec)) * itemsize_of(node) * problem.times(node)
    return total


def _on(specs: Mapping[Key, Spec], planned: Mesh, mesh: Mesh) -> Mapping[Key, Spec]:
    """Specs on the mesh itself, where all its axes were planned as one."""
    if planned is mesh:
        return specs
    every = tuple(name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1)
    return {key: Spec(tuple(every if axes else () for axes in spec.dims)) for key, spec in specs.items()}


def _step_on(step: TracedCollective, planned: Mesh, mesh: Mesh) -> TracedCollective:
    """A collective on the mesh itself, whose links it rides on."""
    if planned is mesh or not step.axes:
        return step
    return replace(step, axes=tuple(name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1))


def correct_costs(problem: Problem, choice: dict[int, int], measured: Mapping[str, float]) -> float:
    """Correct the tables by the measured seconds of each instruction's collectives; returns the part of the objective
    that was not predicted.

    The model of the partitioner is imperfect: mostly where a dot or gather reads an operand in another spec than it
    needs, and adapts instead of resharding. If an instruction sent for longer than predicted, the reshards before it
    (or its strategy, if there were none) cost that much more from now on, for all isomorphic clusters; the next
    solution then avoids them, or has the right cost.

    `measured` are seconds by the name of the instruction that caused them.
    """
    expected = seconds_by_origin(predicted_collectives(problem, choice), problem.collectives)
    share, surprise = problem.rates.comm_share, 0.0
    noise = NOISE * share * sum(measured.values())
    for name, seconds in measured.items():
        node = problem.clusters.dataflow.named(name)
        if node is None:
            continue
        passed_on = sum(max(expected.get(u.name, 0.0) - measured.get(u.name, 0.0), 0.0) for u in node.users)
        excess = share * (seconds - expected.get(name, 0.0) - passed_on)
        if excess > noise:
            surprise += excess
            _charge(problem, choice, node, excess)
    if surprise:
        rebuild_edge_costs(problem)
    return surprise


def _charge(problem: Problem, choice: dict[int, int], node: Node, seconds: float) -> None:
    """Add seconds to the cause of an instruction's traffic: the largest reshard among its operands, or its strategy."""
    changed = [
        read
        for operand in node.operands
        for read in problem.reads.get(operand, ())
        if read.reader is node and add_reshard_cost(problem, choice, operand, read, 0.0)
    ]
    if not changed:
        add_strategy_cost(problem, choice, node, seconds)
        return
    for read in changed:
        add_reshard_cost(problem, choice, node.operands[read.operand_index], read, seconds / len(changed))
