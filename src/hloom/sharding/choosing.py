"""From a module and a mesh to a plan: the planner's solutions, the experts' plans, and what measuring says of them.

The plans that are expected to be best are measured first. What the partitioner really sent goes back into the tables of
the problem, which is then solved again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from hloom.ir import Module, Node, TensorType
from hloom.sharding.budgets import solve_within
from hloom.sharding.candidates import WHOLE_MESH, Candidate, Chosen, Measure, Measured, Solution
from hloom.sharding.constraints import Constraints, Forbidden, constrained, settled
from hloom.sharding.feedback import learn
from hloom.sharding.footprint import footprint
from hloom.sharding.ledger import ledger
from hloom.sharding.mesh import Mesh
from hloom.sharding.plan import Plan, plan_of
from hloom.sharding.planners import PLANNERS, Choice, Planner
from hloom.sharding.planners.experts import experts
from hloom.sharding.pricing import Price, Rates
from hloom.sharding.problem import Problem, pose, unary
from hloom.sharding.rows import MemoryRow
from hloom.sharding.sinking import sunk
from hloom.sharding.spec import Spec
from hloom.text import HloomError

SETTLED = 0.005
"""Where a measured plan sent less than this share more than expected, the tables are taken to be right."""
HOPELESS = 1.05
"""A plan that is expected to take so many times the best that was measured is not measured any more."""
DOUBT = 1.1
"""A plan that is expected to hold so many times the budget is not measured before those that hold less."""
SHARES = 4
"""How many shares of work in the objective are tried where work and collectives run at the same time."""
LOPSIDED = 512.0
"""The most that one of the two counts beside the other then."""
EXPERT = "expert"
"""The planner that completes the plans that people write by hand, and takes the best."""


def choose(
    module: Module,
    mesh: Mesh,
    *,
    rates: Rates | None = None,
    budget: float | None = None,
    judge: int = 0,
    measure: Measure | None = None,
    seconds: float = 20.0,
    planner: str = "ilp",
    pins: Mapping[str, Spec | str] | None = None,
    forbidden: Iterable[Forbidden | str] = (),
    like: Plan | None = None,
) -> Chosen:
    """Plan a module, and where `judge` is given measure so many of the planner's plans, and all experts'.

    `pins` fix specs of parameters and instructions by name, `forbidden` are axes that values must not use, and what
    `like` says is kept where the module has values of the same names. Raises HloomError for a module that cannot be
    planned and for demands that cannot be met.
    """
    demands = Constraints.of(pins, forbidden, like)
    search = _Search(Chosen(module, mesh, rates or Rates(), budget), _solver(planner), planner, demands, seconds)
    search.solve()
    if judge:
        if measure is None:
            raise HloomError("judging needs something that measures plans")
        search.judge(judge, measure)
        if not demands:
            search.judge_experts(measure)
    search.chosen.rank()
    return search.chosen


def complete(module: Module, plan: Plan, rates: Rates | None = None, seconds: float = 20.0) -> Candidate:
    """A plan, what it does not name completed the cheapest way; parameters that it does not name are whole."""
    chosen = Chosen(module, plan.mesh, rates or Rates())
    demands = Constraints(like=_whole(plan, module))
    search = _Search(chosen, PLANNERS["ilp"], plan.name or "plan", demands, seconds)
    search.solve()
    chosen.rank()
    return chosen.best


def expected(problem: Problem, choice: dict[int, int]) -> Price:
    """What a choice is expected to cost."""
    price = Price()
    for cluster in problem.clusters:
        inner = unary(problem, cluster, problem.options[cluster.number][choice[cluster.number]])
        price.flops += inner.flops
        price.touched += inner.touched
    for each in ledger(problem, choice):
        price.send([each.step], each.width, each.times)
    return price


def _solver(planner: str) -> Planner:
    if planner == EXPERT:
        return PLANNERS["ilp"]
    if planner not in PLANNERS:
        raise HloomError(f"there is no planner '{planner}'", hint=f"there are {', '.join((*PLANNERS, EXPERT))}")
    return PLANNERS[planner]


@dataclass(slots=True)
class _Line:
    """A problem, what its plans are called, and the latest of them until it is measured.

    `scale` is the memory of the last plan that was measured beside what was expected, `rows` the moments at which plans
    held too much.
    """

    problem: Problem
    name: str
    scale: float = 1.0
    rows: list[MemoryRow] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    waiting: Candidate | None = None


@dataclass(slots=True)
class _Search:
    chosen: Chosen
    solver: Planner
    planner: str
    demands: Constraints
    seconds: float
    lines: list[_Line] = field(default_factory=list)
    measurements: dict[str, Measured] = field(default_factory=dict)

    def solve(self) -> None:
        """Solve the problems."""
        if self.chosen.rates.is_overlapped:
            self._balance(self.chosen.rates)
        else:
            self._solve(self.chosen.rates)

    def judge(self, count: int, measure: Measure) -> None:
        """Measure so many solutions, each time the one that is expected to be best, and learn from it."""
        for _ in range(count):
            line = min((each for each in self.lines if each.waiting is not None), key=self._promise, default=None)
            if line is None or self._is_hopeless(line):
                return
            candidate, line.waiting = line.waiting, None
            assert candidate is not None and candidate.solution is not None
            measured = self._measured(candidate, measure)
            line.scale = measured.memory / candidate.memory if candidate.memory else 1.0
            surprise = learn(line.problem, candidate.solution.choice, measured.wire_by_origin)
            if surprise > SETTLED * measured.wire or not candidate.fits(self.chosen.budget):
                self._advance(line)

    def judge_experts(self, measure: Measure) -> None:
        """Measure the plans that people write by hand."""
        for plan in experts(self.chosen.module, self.chosen.mesh):
            if _key(plan) not in self.measurements:
                candidate = Candidate(plan)
                self.chosen.candidates.append(candidate)
                self._measured(candidate, measure)

    def _balance(self, rates: Rates) -> None:
        """Solve for sums of work and sending, the share of the longer one growing: each sum is a bound of the longer.

        For every share s between 0 and 1, max(work, sending) is at least s * work + (1 - s) * sending.
        """
        low, high, bound = 1 / LOPSIDED, LOPSIDED, 0.0
        for _ in range(SHARES):
            odds = math.sqrt(low * high)
            found = self._solve(rates.weighted(odds / (1 + odds)))
            bound = max([bound, *(each.bound for each in found if each.bound is not None)])
            best = min(found, key=lambda each: each.step(rates)).expected
            is_working = best is not None and best.working(rates) > best.sending(rates)
            low, high = (odds, high) if is_working else (low, odds)
        for each in self.chosen.candidates:
            each.bound, each.gap = bound, max(0.0, 1 - bound / each.step(rates))

    def _solve(self, rates: Rates) -> list[Candidate]:
        """The solutions of the problems at some rates."""
        with self._planning():
            lines = list(self._lines(rates))
        for line in lines:
            self._advance(line)
        self.lines += lines
        return [line.waiting for line in lines if line.waiting is not None]

    def _lines(self, rates: Rates) -> Iterator[_Line]:
        """The mesh as one axis, which is quick and often best, and the mesh as it is; or each expert's plan."""
        module, mesh = self.chosen.module, self.chosen.mesh
        if self.planner != EXPERT and not self.demands and sum(size > 1 for size in mesh.sizes) > 1:
            flat = Mesh((WHOLE_MESH,), (mesh.device_count,), mesh.devices)
            yield _Line(pose(module, flat, rates.on_one_axis(WHOLE_MESH)), f"{self.planner} on one axis")
        problem, notes = constrained(pose(module, mesh, rates), self.demands)
        self.chosen.notes[:] = [
            *(f"{each.name} ({each.opcode}) has no rule: it is replicated" for each in problem.clusters.whole),
            *notes,
        ]
        self.chosen.problem = problem
        if self.planner != EXPERT:
            yield _Line(problem, self.planner)
            return
        for plan in experts(module, mesh):
            completed, _ = constrained(problem, Constraints(like=_whole(plan, problem.module)))
            yield _Line(completed, plan.name)

    def _advance(self, line: _Line) -> None:
        """Solve a problem as its tables are now; where that gives a plan that was there before, it is done."""
        problem, mesh = line.problem, self.chosen.mesh
        with self._planning():
            choice = self._solution(line)
            specs = sunk(problem, choice.strategies)
            if self.demands:
                specs = settled(self.demands, problem.specs(choice.strategies), specs)
            plan = plan_of(problem, mesh, _on(specs, problem.mesh, mesh), self.chosen.module, line.name)
            key = _key(plan)
            if key in line.seen:
                return
            line.seen.add(key)
            line.waiting = Candidate(
                plan,
                expected(problem, choice.strategies),
                choice.bound,
                choice.gap,
                footprint(problem, choice.strategies, specs),
                solution=Solution(problem, choice.strategies),
                is_tied=choice.is_tied,
                notes=choice.notes,
            )
        if all(_key(each.plan) != key for each in self.chosen.candidates):
            self.chosen.candidates.append(line.waiting)

    def _solution(self, line: _Line) -> Choice:
        """The cheapest choice, or with a budget the cheapest that is found to keep it, or what holds least."""
        if self.chosen.budget is None:
            return self.solver(line.problem, seconds=self.seconds)

        def solve(problem: Problem, rows: Sequence[MemoryRow], budget: float | None) -> Choice:
            return self.solver(problem, rows=rows, budget=budget, seconds=self.seconds)

        found = solve_within(line.problem, self.chosen.budget, solve, scale=line.scale, rows=line.rows)
        line.rows = found.rows
        return found.solution

    def _promise(self, line: _Line) -> tuple[bool, float]:
        """How good the plan of a line is expected to be: whether it is far too large, and its time."""
        assert line.waiting is not None
        budget = None if self.chosen.budget is None else self.chosen.budget * DOUBT
        return not line.waiting.fits(budget), line.waiting.step(self.chosen.rates)

    def _is_hopeless(self, line: _Line) -> bool:
        known = [each.step(self.chosen.rates) for each in self.chosen.candidates if self._is_good(each)]
        return bool(known) and self._promise(line) > (False, HOPELESS * min(known))

    def _is_good(self, candidate: Candidate) -> bool:
        return candidate.measured is not None and candidate.fits(self.chosen.budget)

    def _measured(self, candidate: Candidate, measure: Measure) -> Measured:
        start, key = time.perf_counter(), _key(candidate.plan)
        if key not in self.measurements:
            self.measurements[key] = measure(candidate.plan)
        self.chosen.judging_seconds += time.perf_counter() - start
        candidate.measured = self.measurements[key]
        return candidate.measured

    @contextmanager
    def _planning(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.chosen.planning_seconds += time.perf_counter() - start


def _key(plan: Plan) -> str:
    return str(plan.to_json())


def _whole(plan: Plan, module: Module) -> Plan:
    """The plan with the parameters that it does not name, which are whole."""
    ranks = {p.number: len(p.type.dims) for p in module.entry.parameters if isinstance(p.type, TensorType)}
    specs = {number: plan.parameters.get(number, Spec.replicated(rank)) for number, rank in ranks.items()}
    return replace(plan, parameters=specs)


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
