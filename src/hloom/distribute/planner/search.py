"""The planner's search: solves a module's problems on a mesh, adds expert plans, and measures candidates."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from hloom.distribute.planner.budget_search import WORK
from hloom.distribute.planner.candidates import WHOLE_MESH, CandidatePlan, Measure, Measured, SearchResult, Task
from hloom.distribute.planner.constraints import (
    Constraints,
    Forbidden,
    constrain_module,
    constrain_problem,
    constrained_names,
)
from hloom.distribute.planner.cost_model import Rates
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.duplicates import Duplicate
from hloom.distribute.planner.experts import experts
from hloom.distribute.planner.plan import Plan, with_all_parameters
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.refinement import Refinement, candidate_of, plan_key
from hloom.distribute.planner.second_layouts import Build, with_second_layouts
from hloom.distribute.planner.solvers import PLANNERS, Assignment, Planner
from hloom.distribute.planner.solvers.ilp import complete, plan_roughly, plan_shared
from hloom.distribute.planner.solvers.overlap import LOW, plan_balanced, plan_overlapped
from hloom.ir import Module
from hloom.sharding import Mesh, Spec
from hloom.text import HloomError, tracked

HOPELESS = 1.05
"""A plan predicted to take this many times the best measured time is not measured."""
DOUBT = 1.1
"""A plan predicted to need this many times the budget is measured after those that need less."""
SHARES = 4
"""The number of weights of work in the objective to try if work and collectives run concurrently."""
LOPSIDED = 512.0
"""The maximum ratio of the two weights."""
FLAT_SHARE = 4
"""With a budget, the mesh as a single axis gets one part in this many of the simulations, and the original mesh the
rest.
"""
EXPERTS_SHARE = 8
"""The same for each of the plans that people write by hand, where these are completed."""
EXPERT = "expert"
"""The planner that completes the plans that people write by hand, and takes the best."""


def search_plans(
    module: Module,
    mesh: Mesh,
    *,
    rates: Rates | None = None,
    budget: float | None = None,
    measure: int = 0,
    measure_plan: Measure | None = None,
    seconds: float = math.inf,
    planner: str = "ilp",
    pins: Mapping[str, Spec | str] | None = None,
    forbidden: Iterable[Forbidden | str] = (),
    like: Plan | None = None,
    marks: bool = True,
) -> SearchResult:
    """Plan a module, and where `measure` is given measure so many of the planner's plans, and all experts'.

    Without `marks`, plans have only specs of values, and not those that dots require of operands instead.

    `pins` fix specs of parameters and instructions by name, `forbidden` are axes that values must not use, and `like`
    is a plan to follow for values of the same names. Raises HloomError for a module that cannot be planned and for
    demands that cannot be met.
    """
    task = Task(module, mesh, rates or Rates(), budget, seconds, Constraints.of(pins, forbidden, like), marks)
    search = _Search(SearchResult(task), planner, solver_of(planner))
    search.solve()
    if measure:
        if measure_plan is None:
            raise HloomError("measuring needs a function that measures plans")
        search.result.rank()
        unmeasured = search.result.best
        search.measure(measure, measure_plan)
        search.measure_also(unmeasured, measure_plan)
        if not task.demands:
            search.measure_experts(measure_plan)
    search.note_cut()
    search.result.rank()
    return search.result


def complete_plan(module: Module, plan: Plan, rates: Rates | None = None, seconds: float = math.inf) -> CandidatePlan:
    """Complete a plan in the cheapest way; parameters that it does not name are replicated."""
    task = Task(module, plan.mesh, rates or Rates(), None, seconds, Constraints(like=with_all_parameters(plan, module)))
    search = _Search(SearchResult(task), plan.name or "plan", plan_shared)
    search.solve()
    search.result.rank()
    return search.result.best


def predict_plan(module: Module, plan: Plan) -> CandidatePlan:
    """The predicted cost of any plan; whatever it does not name is completed in the cheapest way."""
    return replace(complete_plan(module, plan), plan=plan)


def solver_of(planner: str) -> Planner:
    """The solver of the planner with this name; raises HloomError if there is none."""
    if planner in (EXPERT, "ilp"):
        return plan_shared
    if planner not in PLANNERS:
        raise HloomError(f"there is no planner '{planner}'", hint=f"there are {', '.join((*PLANNERS, EXPERT))}")
    return PLANNERS[planner]


@dataclass(slots=True)
class _Search:
    result: SearchResult
    planner: str
    solver: Planner
    refinements: list[Refinement] = field(default_factory=list)
    measurements: dict[str, Measured] = field(default_factory=dict)
    is_cut: bool = False
    has_second_layouts: bool = False

    @property
    def task(self) -> Task:
        """What is planned."""
        return self.result.task

    def solve(self) -> None:
        """Solve the problems."""
        if self.task.rates.is_overlapped:
            self._balance(self.task.rates)
        else:
            self._solve(self.task.rates)
        if not self.result.candidates:
            raise HloomError(f"{self.task.module.name}: no plan that people write by hand fits")

    def solution(
        self, problem: Problem, *, seconds: float = math.inf, starts: Sequence[Mapping[int, int]] = ()
    ) -> Assignment:
        """Solve a problem; records whether the solver ran out of time."""
        choice = self.solver(problem, seconds=seconds, starts=starts)
        self.is_cut = self.is_cut or choice.is_cut
        return choice

    def rough_solution(
        self, problem: Problem, *, seconds: float = math.inf, starts: Sequence[Mapping[int, int]] = ()
    ) -> Assignment:
        """A good solution of a problem whose bound is not needed."""
        if self.solver is not plan_shared:
            return self.solution(problem, seconds=seconds, starts=starts)
        choice = plan_roughly(problem, seconds, starts=starts)
        self.is_cut = self.is_cut or choice.is_cut
        return choice

    def note_cut(self) -> None:
        """Note that the answer depends on the machine's speed, if so."""
        if self.is_cut or any(refinement.is_cut for refinement in self.refinements):
            self.result.notes.append(
                f"solutions were cut short after {self.task.seconds:g} s each: another run may give another plan or gap"
            )

    def measure(self, count: int, measure_plan: Measure) -> None:
        """Measure `count` solutions, each time the one predicted to be best, and learn from it."""
        for _ in tracked(range(count)):
            refinement = min(
                (refinement for refinement in self.refinements if refinement.waiting is not None),
                key=self._promise,
                default=None,
            )
            if refinement is None or self._is_hopeless(refinement):
                return
            candidate, refinement.waiting = refinement.waiting, None
            assert candidate is not None
            is_surprising = refinement.learn(candidate, self._measured(candidate, measure_plan))
            if is_surprising or not candidate.fits(self.task.budget):
                self._advance(refinement)

    def measure_also(self, candidate: CandidatePlan, measure_plan: Measure) -> None:
        """Measure the plan that would be chosen without measuring, so that measuring never gives a worse one."""
        if candidate.measured is None:
            self._measured(candidate, measure_plan)

    def measure_experts(self, measure_plan: Measure) -> None:
        """Measure the plans that people write by hand."""
        for plan in experts(self.task.module, self.task.mesh):
            if plan_key(plan) not in self.measurements:
                candidate = CandidatePlan(plan)
                self.result.candidates.append(candidate)
                self._measured(candidate, measure_plan)

    def _balance(self, rates: Rates) -> None:
        """Solve for sums of work and sending, the share of the longer one growing: each sum is a bound of the longer.

        For every share s between 0 and 1, max(work, sending) is at least s * work + (1 - s) * sending. With a budget
        the front of one sum is searched.
        """
        if self.task.budget is not None and self.planner != EXPERT:
            self._balance_within(rates)
            return
        low, high, bound = 1 / LOPSIDED, LOPSIDED, 0.0
        for _ in range(SHARES):
            odds = math.sqrt(low * high)
            summed = rates.weighted(odds / (1 + odds))
            bound = max(bound, self._solve(summed))
            best = min(self.result.candidates, key=lambda candidate: candidate.cost(summed)).expected
            is_working = best is not None and best.compute_seconds(rates) > best.comm_seconds(rates)
            low, high = (odds, high) if is_working else (low, odds)
        bound, is_shared = self._overlap(rates, bound)
        for candidate in self.result.candidates:
            candidate.prove(bound, rates, is_shared=candidate.is_shared or is_shared)

    def _balance_within(self, rates: Rates) -> None:
        """Solve within a budget for the sum of work and sending that bounds the longer one best."""
        with self._planning():
            low, high = (self._as_given(rates.weighted(share)) for share in (LOW, 1 - LOW))
            choice, share = plan_balanced(low, high, self.task.seconds)
            self.is_cut = self.is_cut or choice.is_cut
            balanced = candidate_of(self.task, low, choice, f"{self.planner}, balanced")
            balanced.predict_memory()
            self._offer(balanced)
        bound = self._solve(rates.weighted(share))
        for candidate in self.result.candidates:
            candidate.prove(bound, rates, is_shared=candidate.is_shared)

    def _overlap(self, rates: Rates, bound: float) -> tuple[float, bool]:
        """Solve for the longer one of work and sending itself; a bound, and whether layers share strategies in it.

        Where values have second layouts, it bounds no plan with these.
        """
        task = self.task
        if self.planner == EXPERT:
            return bound, False
        builds: list[tuple[str, Callable[[Rates], Problem]]] = [(f"{self.planner}, the longer", self._as_given)]
        if self._is_flattened():
            builds.append((f"{self.planner} on one axis, the longer", self._on_one_axis))
        bounds: list[float] = []
        with self._planning():
            for name, build in builds:
                low, high = (build(rates.weighted(share)) for share in (LOW, 1 - LOW))
                choice = plan_overlapped(low, high, task.seconds)
                self.is_cut = self.is_cut or choice.is_cut
                self._offer(candidate_of(task, low, choice, name))
                bounds.append(choice.bound)
        return (bound, False) if self.has_second_layouts or min(bounds) <= bound else (min(bounds), True)

    def _is_flattened(self) -> bool:
        """Whether the mesh is also planned as if it were one axis."""
        sizes = self.task.mesh.sizes
        return self.planner != EXPERT and not self.task.demands and sum(size > 1 for size in sizes) > 1

    def _on_one_axis(self, rates: Rates) -> Problem:
        """The problem of the mesh as if it were one axis."""
        mesh = self.task.mesh
        flat = Mesh((WHOLE_MESH,), (mesh.device_count,), mesh.devices)
        return build_problem(self.task.module, flat, rates)

    def _as_given(self, rates: Rates) -> Problem:
        """The problem of the mesh as it is, with what is demanded."""
        return constrain_module(self.task.module, self.task.mesh, rates, self.task.demands)[0]

    def _solve(self, rates: Rates) -> float:
        """Solve the problems at some rates; what none of their plans costs less than."""
        with self._planning():
            refinements = list(self._lines(rates))
        for refinement in refinements:
            self._advance(refinement)
        self.refinements += refinements
        widest = [refinement for refinement in refinements if refinement.problem is self.result.problem]
        with self._planning():
            for refinement in refinements if self.planner == EXPERT else widest:
                refinement.prove()
        if self.planner != EXPERT and widest:
            self.result.least_bytes = widest[-1].least_bytes
        for refinement in refinements:
            last = refinement if self.planner == EXPERT else widest[-1]
            if refinement.waiting is not None:
                refinement.waiting.prove(last.bound, rates, is_shared=last.is_shared)
                refinement.waiting.bound_with_memory = refinement.bound_with_memory
                self._offer(refinement.waiting)
        bounding = refinements if self.planner == EXPERT else widest[-1:]
        return min((refinement.bound for refinement in bounding), default=0.0)

    def _lines(self, rates: Rates) -> Iterator[Refinement]:
        """The mesh as one axis, which is quick and often best, and the mesh as it is; or each expert's plan."""
        task = self.task
        module, mesh = task.module, task.mesh
        is_flattened = self._is_flattened()
        if is_flattened:
            flat = Mesh((WHOLE_MESH,), (mesh.device_count,), mesh.devices)
            build = partial(build_problem, module, flat, rates)
            yield from self._solved(f"{self.planner} on one axis", build(), build, WORK // FLAT_SHARE)
        problem, notes = constrain_module(module, mesh, rates, task.demands)
        self.result.notes[:] = [
            *(f"{node.name} ({node.opcode}) has no rule: it is replicated" for node in problem.clusters.replicated),
            *(
                f"how often {node.name} runs is not known: it counts as one run"
                for node in problem.clusters.dataflow.unknown
            ),
            *_unusable_axes(problem),
            *notes,
        ]
        self.result.problem = problem
        if self.planner != EXPERT:
            work = WORK - WORK // FLAT_SHARE if is_flattened else WORK
            yield from self._solved(self.planner, problem, partial(self._constrained, rates), work)
            return
        for plan in experts(module, mesh):
            demands = replace(task.demands, like=with_all_parameters(plan, problem.module))
            completed, _ = constrain_problem(problem, demands)
            name = f"{plan.name}, completed"
            yield Refinement(task, completed, self.solution, name, demands, work=WORK // EXPERTS_SHARE)

    def _solved(self, name: str, base: Problem, build: Build, work: int) -> Iterator[Refinement]:
        """The problem with one layout per value, and with second ones where these pay; with a budget the last alone.

        To know what pays takes a solver that gives bounds.
        """
        task = self.task
        is_as_given = base.mesh is task.mesh
        solution = self.solution if is_as_given else self.rough_solution
        if task.demands.like is not None or self.solver is not plan_shared:
            yield Refinement(task, base, solution, name, work=work)
            return
        fixed = constrained_names(task.demands, base)
        space = with_second_layouts(
            base,
            build,
            solution,
            task.seconds,
            can_clone=task.has_marks,
            fixed=fixed,
            rough_solver=self.rough_solution,
        )
        self.has_second_layouts = self.has_second_layouts or space.problem is not base
        if is_as_given:
            self.result.space, self.result.problem = space, space.problem
        seeds = partial(self._experts, space.problem) if is_as_given and task.budget and not task.demands else tuple
        yield Refinement(task, space.problem, solution, name, work=work, seeds=seeds, first=space.solution)
        if space.problem is not base and task.budget is None:
            plain = f"{name}, one layout per value"
            yield Refinement(task, base, solution, plain, work=work, first=space.base_solution)

    def _constrained(
        self, rates: Rates, duplicates: Sequence[Duplicate] = (), apart: Sequence[Collection[str]] = ()
    ) -> Problem:
        """The problem of the mesh as it is, with what is demanded."""
        task = self.task
        demands = task.demands
        return constrain_module(task.module, task.mesh, rates, demands, duplicates=duplicates, apart=apart)[0]

    def _experts(self, problem: Problem) -> Iterator[dict[int, int]]:
        """The plans that people write by hand as choices of a problem, what they leave open completed cheaply."""
        for plan in experts(self.task.module, self.task.mesh):
            completed, _ = constrain_problem(problem, Constraints(like=with_all_parameters(plan, problem.module)))
            yield {
                number: problem.options[number].index(completed.options[number][strategy])
                for number, strategy in complete(completed).items()
            }

    def _advance(self, refinement: Refinement) -> None:
        """Let a line find its next plan."""
        with self._planning():
            rates = refinement.problem.rates
            others = [] if self.planner == EXPERT else self.result.candidates
            fitting = [candidate for candidate in others if candidate.fits(self.task.budget)]
            refinement.advance(min((candidate.cost(rates) for candidate in fitting), default=math.inf))
        if refinement.waiting is not None:
            self._offer(refinement.waiting)

    def _offer(self, candidate: CandidatePlan) -> None:
        """Add a candidate whose plan is not among the others'."""
        if all(plan_key(other.plan) != plan_key(candidate.plan) for other in self.result.candidates):
            self.result.candidates.append(candidate)

    def _promise(self, refinement: Refinement) -> tuple[bool, float]:
        """How good the plan of a line is expected to be: whether it is far too large, and its time."""
        assert refinement.waiting is not None
        budget = None if self.task.budget is None else self.task.budget * DOUBT
        return not refinement.waiting.fits(budget), refinement.waiting.step(self.task.rates)

    def _is_hopeless(self, refinement: Refinement) -> bool:
        known = [candidate.step(self.task.rates) for candidate in self.result.candidates if self._is_good(candidate)]
        return bool(known) and self._promise(refinement) > (False, HOPELESS * min(known))

    def _is_good(self, candidate: CandidatePlan) -> bool:
        return candidate.measured is not None and candidate.fits(self.task.budget)

    def _measured(self, candidate: CandidatePlan, measure_plan: Measure) -> Measured:
        start, key = time.perf_counter(), plan_key(candidate.plan)
        if key not in self.measurements:
            self.measurements[key] = measure_plan(candidate.plan)
        self.result.measuring_seconds += time.perf_counter() - start
        candidate.measured = self.measurements[key]
        return candidate.measured

    @contextmanager
    def _planning(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.result.planning_seconds += time.perf_counter() - start


def _unusable_axes(problem: Problem) -> Iterator[str]:
    """A note for each mesh axis that no strategy of any array uses."""
    used = {
        axis
        for node in set(problem.representative.values())
        for strategy in problem.options[node]
        for _, axes in (*strategy.before, *strategy.after)
        for axis in axes
    }
    for axis, size in zip(problem.mesh.names, problem.mesh.sizes, strict=True):
        if size > 1 and axis not in used:
            yield f"axis {axis} of {size:,} devices splits nothing: no dimension that may be split has that many parts"
