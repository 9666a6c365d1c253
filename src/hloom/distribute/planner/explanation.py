"""Explains a plan: the cause of each collective, what takes time and memory, and the alternatives.

To explain more, add a field to `Explanation` and fill it in `explain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.analysis import UNKNOWN, op_name_of, source_of
from hloom.distribute.planner.candidates import WHOLE_MESH, CandidatePlan, SearchResult, Solution
from hloom.distribute.planner.experts import describe
from hloom.distribute.planner.forecast import PredictedCollective
from hloom.distribute.planner.partitioned import axes_of
from hloom.distribute.planner.plan import Plan
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.refinement import candidate_of, plan_key
from hloom.distribute.planner.solvers.alternatives import alternatives
from hloom.distribute.planner.tensor_families import FamilyTable, families
from hloom.ir import Module, Node, TensorType
from hloom.sharding import Axes, Mesh, Spec
from hloom.text import Record

ALTERNATIVES = 5
"""The maximum number of alternative plans to show."""
DIFFERENCES = 4
"""The maximum number of differences of an alternative to name."""
TIGHT = 0.95
"""From which share of the budget on memory is said to bind."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A collective that is expected: the instruction that causes it, where that comes from, and why.

    `bytes` are those that it is about in one run, on one device; `sent` and `seconds` are of all runs together. Causes
    of one `family` are isomorphic, as those of repeated layers are.
    """

    instruction: str
    opcode: str
    scope: str
    source: str
    value: str
    collective: str
    group: int
    axes: Axes
    bytes: float
    times: float
    sent: float
    seconds: float
    why: str
    family: int

    @property
    def likeness(self) -> tuple:
        """What is the same for isomorphic causes."""
        return self.family, self.opcode, self.collective, self.group, self.axes, self.bytes, self.why


@dataclass(frozen=True, slots=True)
class Limit:
    """A share of a step's time: work, or the collectives over some axes."""

    name: str
    seconds: float
    share: float
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another plan: its step time, the bytes that a device sends and holds, and how it differs."""

    name: str
    seconds: float
    sent: float
    memory: float | None
    differences: tuple[str, ...]
    is_measured: bool = False


@dataclass(frozen=True, slots=True)
class Explanation(Record):
    """The explanation of the chosen plan: `does` names what it does, `binding` what limits it."""

    name: str
    does: str
    table: FamilyTable
    causes: Sequence[Cause]
    limits: Sequence[Limit]
    binding: str
    json_keys = "name does binding table=table.families collectives=causes limits"


def explain(result: SearchResult) -> Explanation:
    """Explain the best of some candidates; an expert's plan that propagation completes, by its parameters alone."""
    best = result.best
    solution = best.solution
    caused = solution.forecast.collectives if solution is not None else []
    limits = _limits(best, result)
    return Explanation(
        best.plan.name,
        describe(result.module, best.plan),
        _table(result, caused),
        [_cause(collective, solution, result) for collective in caused] if solution is not None else _measured(result),
        limits,
        _binding(best, result, limits),
    )


def other_plans(result: SearchResult) -> list[Alternative]:
    """The next best plans, fastest first, with their differences: other candidates, and solutions of the planner's
    problem.
    """
    best = result.best
    known = {plan_key(best.plan)}
    others: list[tuple[CandidatePlan, str]] = []
    for candidate, note in [
        *((candidate, candidate.plan.name) for candidate in result.candidates[1:]),
        *_others(result),
    ]:
        if plan_key(candidate.plan) not in known and candidate.price(result.rates) is not None:
            known.add(plan_key(candidate.plan))
            others.append((candidate, note))
    others.sort(key=lambda pair: pair[0].step(result.rates))
    return [_alternative(result, best, candidate, note) for candidate, note in others[:ALTERNATIVES]]


def _table(result: SearchResult, caused: Sequence[PredictedCollective]) -> FamilyTable:
    solution = result.best.solution
    problem = solution.problem if solution is not None else result.problem
    if problem is None:
        return FamilyTable(())
    specs = _specs(result.best.plan, problem, is_complete=solution is not None)
    return FamilyTable(tuple(families(problem, result.mesh, specs, caused)))


def _specs(plan: Plan, problem: Problem, *, is_complete: bool) -> dict[Node, Spec]:
    """The specs of the values that a plan names; parameters that it does not name are replicated."""
    by_node: dict[Node, Spec] = {}
    for parameter in problem.module.entry.parameters:
        if isinstance(parameter.type, TensorType):
            replicated = Spec.replicated(len(parameter.type.dims))
            by_node[parameter] = plan.parameters.get(parameter.number, replicated)
    named = problem.clusters.dataflow.named
    for specs in (plan.instructions, *plan.computations.values()) if is_complete else ():
        for name, value_spec in specs.items():
            node = named(name)
            if node is not None and isinstance(value_spec, Spec):
                by_node[node] = value_spec
    return by_node


def _cause(collective: PredictedCollective, solution: Solution, result: SearchResult) -> Cause:
    node, problem = collective.instruction, solution.problem
    cluster = problem.clusters.of(collective.value)
    step = collective.step
    return Cause(
        node.name,
        node.opcode,
        op_name_of(node),
        _source(node, problem.module),
        collective.value.name,
        step.opcode,
        step.group_size,
        _on_mesh(step.axes, result.mesh),
        step.elements * collective.width,
        collective.times,
        collective.sent,
        problem.collectives.seconds(step, collective.width) * collective.times,
        collective.why.replace(WHOLE_MESH, ".".join(_on_mesh((), result.mesh))),
        -1 if cluster is None else problem.representative[cluster.number],
    )


def _measured(result: SearchResult) -> list[Cause]:
    """The collectives of a plan that propagation completed, as they were measured."""
    best, problem = result.best, result.problem
    if best.measured is None or problem is None:
        return []
    causes: list[Cause] = []
    for collective in best.measured.collectives:
        node = problem.clusters.dataflow.named(collective.origin)
        causes.append(
            Cause(
                collective.origin,
                "" if node is None else node.opcode,
                "" if node is None else op_name_of(node),
                "" if node is None else _source(node, problem.module),
                collective.origin,
                collective.opcode,
                collective.group,
                axes_of(collective.members, result.mesh),
                collective.bytes,
                collective.times,
                collective.sent,
                collective.seconds(result.rates.device),
                "measured",
                -1,
            )
        )
    return causes


def _source(node: Node, module: Module) -> str:
    location = source_of(node, module.stack_tables)
    return "" if location == UNKNOWN else location


def _on_mesh(axes: Axes, mesh: Mesh) -> Axes:
    """Axes of the mesh; all of them for a collective whose axes are not known, or that knows the mesh as one axis."""
    every = tuple(name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1)
    return axes if axes and set(axes) <= set(every) else every


def _limits(best: CandidatePlan, result: SearchResult) -> list[Limit]:
    """The components of a step's time, longest first."""
    price, rates = best.price(result.rates), result.rates
    if price is None:
        return []
    step = price.seconds(rates) or 1.0
    weight = rates.work_share
    limits = [Limit(cause, own * weight, own * weight / step) for cause, own in price.work.items() if own]
    sent: dict[Axes, tuple[float, float]] = {}
    for axes, (size, seconds) in price.traffic.items():
        over = _on_mesh(axes, result.mesh)
        known = sent.get(over, (0.0, 0.0))
        sent[over] = known[0] + seconds * rates.comm_share, known[1] + size
    limits += [
        Limit(f"collectives over {','.join(over)}", seconds, seconds / step, size)
        for over, (seconds, size) in sent.items()
    ]
    return sorted(limits, key=lambda limit: -limit.seconds)


def _binding(best: CandidatePlan, result: SearchResult, limits: Sequence[Limit]) -> str:
    """What a better plan would have to reduce."""
    held = best.held()
    longest = limits[0].name if limits else ""
    if result.task.budget is not None and held is not None and held >= TIGHT * result.task.budget:
        return f"memory, then {longest}" if longest else "memory"
    return longest


def _others(result: SearchResult) -> list[tuple[CandidatePlan, str]]:
    """The cheapest choices of the best plan's problem that avoid one thing it does, with that thing."""
    solution = result.best.solution
    if solution is None:
        return []
    others = alternatives(solution.problem, solution.choice, ALTERNATIVES)
    every = ".".join(_on_mesh((), result.mesh))
    return [
        (candidate_of(result.task, solution.problem, choice, result.best.plan.name), note.replace(WHOLE_MESH, every))
        for choice in others
        for note in (", ".join(choice.notes),)
    ]


def _alternative(result: SearchResult, best: CandidatePlan, candidate: CandidatePlan, note: str) -> Alternative:
    price = candidate.price(result.rates)
    candidate.predict_memory()
    return Alternative(
        note,
        candidate.step(result.rates),
        0.0 if price is None else price.sent,
        candidate.held(),
        tuple(_differences(result, best.plan, candidate.plan)),
        candidate.measured is not None,
    )


def _differences(result: SearchResult, plan: Plan, other: Plan) -> list[str]:
    """The families of parameters that have other specs in another plan, largest first."""
    problem = result.problem
    if problem is None:
        return []
    theirs = _specs(other, problem, is_complete=False)
    counts: dict[tuple[str, Spec, Spec], int] = {}
    for family in families(problem, result.mesh, _specs(plan, problem, is_complete=False)):
        for node in family.members:
            if theirs[node] != family.spec:
                key = (family.name, family.spec, theirs[node])
                counts[key] = counts.get(key, 0) + 1
    refinements = [f"{name}: {spec}, not {own}" for name, own, spec in counts]
    if not refinements and plan.instructions != other.instructions:
        return ["the parameters have the same specs, what is made of them has not"]
    rest = len(refinements) - DIFFERENCES
    return refinements[:DIFFERENCES] + ([f"and {rest} more"] if rest > 0 else [])
