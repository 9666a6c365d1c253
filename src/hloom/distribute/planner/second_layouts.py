"""Second layouts: cheap instructions are recomputed where a value is needed in another sharding.

A problem has one layout per value, and readers that require another pay for a reshard. A mask made from a few indices
can be recomputed in any layout, for the reshard of the indices. Which values are worth it:

1. *Candidates* are large values that cheap instructions compute from much smaller ones, and that other clusters read.
2. The problem in which reading candidates is free bounds what any second layout can save. If it is hardly cheaper, the
problem is left as it is.
3. For each read that would have cost something there, a minimum cut determines from which values to recompute the
candidate: those that are cheapest to reshard. The instructions in between are cloned, each clone with its own strategy.
4. The problem with the clones is solved. Clones that get their originals' specs are dropped; then it starts again.

Clones that plans cannot express (see `has_marks`) leave the clusters of their readers instead, and may be replicated.
XLA also recomputes broadcasts, constants and iotas instead of communicating (`PropagateShardingFromUsers` in
xla/service/sharding_propagation.cc), and programs do so by hand with routing masks (Lepikhin et al., "GShard", ICLR
2021).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hloom.analysis import ELEMENTWISE
from hloom.distribute.planner.cost_model import itemsize_of
from hloom.distribute.planner.cost_tables import add_edge_costs, rebuild_edge_costs
from hloom.distribute.planner.duplicates import ENTRY, Duplicate, clone_name, needed_duplicates
from hloom.distribute.planner.min_cut import min_node_cut
from hloom.distribute.planner.problem import Problem, Read
from hloom.distribute.planner.solvers import Assignment, Planner
from hloom.distribute.planner.spec_tables import spec_of_operand
from hloom.distribute.planner.strategies import is_contraction
from hloom.ir import Apply, Node, TensorType
from hloom.sharding import Spec

CHEAP = ELEMENTWISE | {
    "broadcast",
    "reshape",
    "transpose",
    "slice",
    "concatenate",
    "reverse",
    "reduce",
    "reduce-window",
    "dot",
}
"""Opcodes that are computed again rather than sent, dots for their work: nothing that looks up, sorts, has effects."""
SMALLER = 4
"""The minimum ratio of a candidate's size to that of the values it is computed from."""
WORTH = 3e-3
"""The share of the cost that second layouts must save in all: as much as a further plan must promise."""
NOTICED = 1e-3
"""The smallest share of the cost worth moving a candidate for; before there is a cost, of the least work."""
HINT = 1e-3
"""The cost of reading candidates in the bounding problem, as a share of their real cost; breaks ties."""
MOST_CLONES = 200
"""The maximum number of instructions to examine behind a candidate."""
WORK = 64
"""The maximum bytes of clones, as a multiple of the candidate's."""
CAUTION = 0.1
"""The extra cost of starting from a value, as a share of the time to move it: its spec may change."""
ROUNDS = 2
"""How often candidates are looked for again in a problem with clones."""


class Build(Protocol):
    """Builds the problem with some duplicates, and with some instructions apart from other clusters."""

    def __call__(self, *, duplicates: Sequence[Duplicate], apart: Sequence[Collection[str]]) -> Problem: ...


@dataclass(frozen=True, slots=True)
class SecondLayouts:
    """A problem in which some values may have two layouts, with its solution, and what it was made from.

    `candidates` are the values examined, and `bound` is a lower bound on all plans by the original tables, whatever
    layouts these have. Without candidates nothing was solved.
    """

    problem: Problem
    base: Problem
    solution: Assignment | None = None
    base_solution: Assignment | None = None
    candidates: int = 0
    bound: float | None = None

    @property
    def most_saved(self) -> float | None:
        """An upper bound on what further layouts of the candidates may save, as a share of the solution's cost."""
        if self.solution is None or self.bound is None or self.solution.cost <= 0:
            return None
        return max(0.0, 1 - self.bound / self.solution.cost)


def with_second_layouts(
    base: Problem,
    build: Build,
    solver: Planner,
    seconds: float,
    *,
    can_clone: bool,
    fixed: Collection[str] = (),
    rough_solver: Planner | None = None,
) -> SecondLayouts:
    """The problem with second layouts for the values for which that pays; `fixed` are not computed again.

    The bounding problem is solved by the `rough_solver`. The saving must exceed the possible distance of the solution
    with one layout per value from its bound.
    """
    values = candidates(base, fixed)
    if not values:
        return SecondLayouts(base, base)
    base_solution = solver(base, seconds=seconds)
    best, solution = base, base_solution
    least, count = math.inf, len(values)
    worth = max(WORTH, 1 - solution.bound / solution.cost if solution.cost > 0 else 0.0)
    duplicates: list[Duplicate] = []
    apart: list[Collection[str]] = []
    for _ in range(ROUNDS):
        relaxed = _relaxed(best, values)
        ideal = (rough_solver or solver)(relaxed, seconds=seconds, starts=[solution.strategies])
        least = min(least, ideal.bound)
        if ideal.cost > solution.cost * (1 - worth):
            break
        wanted = list(_wanted(best, ideal, values, solution.cost))
        if not wanted:
            break
        if can_clone:
            names = {node.name for graph in best.module.graphs for node in graph.nodes}
            duplicates += [_duplicate(best, value, reads, cone, names) for value, reads, cone in wanted]
        else:
            apart += [[node.name for node in cone] for _, _, cone in wanted]
        extended = build(duplicates=duplicates, apart=apart)
        choice = solver(extended, seconds=seconds)
        if choice.cost > solution.cost * (1 - WORTH):
            break
        needed = needed_duplicates(extended.module, duplicates, extended.specs(choice.strategies))
        if needed != duplicates:
            duplicates = needed
            extended = build(duplicates=duplicates, apart=apart)
            choice = solver(extended, seconds=seconds)
        best, solution = extended, choice
        if solution.cost <= ideal.bound * (1 + WORTH):
            break
        values = candidates(best, fixed)
    return SecondLayouts(best, base, solution, base_solution, count, least)


def candidates(problem: Problem, fixed: Collection[str] = ()) -> dict[Node, list[Read]]:
    """Large values that cheap instructions make of much smaller ones, with their reads in other clusters."""
    clusters = problem.clusters
    smallest = NOTICED * _least_work(problem) * _bandwidth(problem)
    clones = {clone for duplicate in problem.duplicates for _, clone in duplicate.clones}
    moved_for_work = problem.mesh.device_count * _bandwidth(problem)
    needed: dict[Node, float] = {}
    values: dict[Node, list[Read]] = {}
    for node in clusters.dataflow.nodes:
        needed[node] = own = _bytes(node) if clusters.of(node) is not None else 0.0
        if not _is_cheap(problem, node) or node.name in fixed or node.name in clones:
            continue
        anew = sum(needed.get(operand, 0.0) for operand in set(node.operands))
        needed[node] = min(own, anew + _work(problem, node, problem.mesh.device_count) * moved_for_work)
        if own * problem.times(node) < smallest:
            continue
        reads = [read for read in problem.reads.get(node, ()) if _is_elsewhere(problem, node, read)]
        if reads and not _is_alone(problem, node) and SMALLER * needed[node] <= own:
            values[node] = reads
    return values


def _least_work(problem: Problem) -> float:
    """The seconds of work of any plan at least: those of each cluster's quickest strategy."""
    quickest = sum(float(table.sum(axis=0).min()) for table in problem.work.values())
    return problem.rates.work_share * quickest


def _work(problem: Problem, node: Node, parts: int) -> float:
    """The seconds that a contraction takes once where it is split into so many parts; none of other instructions."""
    return problem.rates.work_share * problem.contraction_seconds.get(node, 0.0) / parts


def _bandwidth(problem: Problem) -> float:
    """Bytes per second along the slowest axis, as the objective weighs them."""
    return problem.collectives.slowest_bandwidth / problem.rates.comm_share


def _is_elsewhere(problem: Problem, value: Node, read: Read) -> bool:
    """Whether a read is of another cluster, in the computation that makes the value, and passes it on to no phi."""
    is_inside = read.destination is None and read.reader.graph is value.graph
    return is_inside and problem.reading_cluster(read) is not problem.clusters.of(value)


def _is_alone(problem: Problem, value: Node) -> bool:
    """Whether a value is alone in its cluster, and read by one other: it has the layout that this one wants anyway."""
    cluster = problem.clusters.of(value)
    readers = {id(problem.reading_cluster(read)) for read in problem.reads.get(value, ())}
    return cluster is not None and cluster.members == [value] and len(readers) == 1


def _is_cheap(problem: Problem, node: Node) -> bool:
    return (
        isinstance(node, Apply)
        and node.opcode in CHEAP
        and isinstance(node.type, TensorType)
        and (node in problem.clusters.maps)
    )


def _relaxed(problem: Problem, values: Mapping[Node, Sequence[Read]]) -> Problem:
    """The problem in which reading candidates costs next to nothing: no plan with second layouts of them costs less."""
    others = {
        value: [read for read in reads if read not in values.get(value, ())] for value, reads in problem.reads.items()
    }
    hints = {key: HINT * table for key, table in problem.reshard_tables.items()}
    hint = replace(problem, reads=dict(values), edge_costs={}, shared_reshards=[], reshard_tables=hints)
    relaxed = replace(problem, reads=others, edge_costs={}, shared_reshards=[])
    rebuild_edge_costs(hint)
    rebuild_edge_costs(relaxed)
    for (a, b), table in hint.edge_costs.items():
        add_edge_costs(relaxed.edge_costs, a, b, table)
    relaxed.shared_reshards += hint.shared_reshards
    relaxed.reads, relaxed.solver_state = problem.reads, problem.solver_state
    return relaxed


def _wanted(
    problem: Problem, ideal: Assignment, values: Mapping[Node, Sequence[Read]], cost: float
) -> Iterator[tuple[Node, list[Read], list[Node]]]:
    """What is to be computed again under the ideal choice, with its reads in one spec and the instructions to clone."""
    choice = ideal.strategies
    for value, reads in values.items():
        by_spec: dict[Spec, list[Read]] = defaultdict(list)
        for read in reads:
            by_spec[problem.wanted_spec(read, choice)].append(read)
        for spec, wanting in by_spec.items():
            if _seconds(problem, value, problem.chosen_spec(value, choice), spec) < NOTICED * cost:
                continue
            cone = _cone(problem, choice, value, spec)
            if cone and sum(map(_bytes, cone)) <= WORK * _bytes(value):
                yield value, wanting, cone


def _cone(problem: Problem, choice: Mapping[int, int], value: Node, spec: Spec) -> list[Node]:
    """The instructions to clone so that a value has a spec, operands first; none where a reshard is cheaper.

    Iotas and broadcasts of scalars, which are free, are cloned as well: XLA reshards one that has users in two specs.
    """
    specs = {value: spec}
    operands: dict[Node, list[Node]] = {}
    pending = [value]
    for node in pending:
        if len(operands) >= MOST_CLONES or not _is_cheap(problem, node):
            continue
        counted = [operand for operand in dict.fromkeys(node.operands) if problem.clusters.of(operand) is not None]
        operands[node] = counted
        for operand in counted:
            wanted = spec_of_operand(problem.clusters.maps[node], node.operands.index(operand), specs[node])
            if operand not in specs:
                pending.append(operand)
            elif specs[operand] != wanted:
                wanted = Spec.replicated(wanted.rank)
            specs[operand] = wanted
    capacity = {node: _price(problem, choice, node, wanted) for node, wanted in specs.items()}
    work = {
        node: _work(problem, node, problem.mesh.count(specs[node].axes)) * problem.times(node)
        for node in operands
        if is_contraction(node)
    }
    cut = min_node_cut(capacity, operands, value, work)
    cone: dict[Node, None] = {}
    pending = [] if value in cut else [value]
    for node in pending:
        cone[node] = None
        cone |= dict.fromkeys(operand for operand in node.operands if _is_free_array(problem, operand))
        pending += [operand for operand in operands[node] if operand not in cut and operand not in cone]
    return sorted(cone, key=problem.clusters.dataflow.nodes.index)


def _is_free_array(problem: Problem, node: Node) -> bool:
    return isinstance(node, Apply) and node in problem.clusters.free and bool(node.dims)


def _price(problem: Problem, choice: Mapping[int, int], value: Node, spec: Spec) -> float:
    """The seconds that it takes to have a value in a spec; with some caution, as its own spec may become another."""
    dims = value.dims
    if not dims:
        return 0.0
    moved = _bytes(value) * problem.times(value) / problem.mesh.device_count / _bandwidth(problem)
    return _seconds(problem, value, problem.chosen_spec(value, choice), spec) + CAUTION * moved


def _seconds(problem: Problem, value: Node, have: Spec, want: Spec) -> float:
    table = problem.reshard_costs.seconds(value.dims, itemsize_of(value), [have], [want])
    return float(table[0, 0]) * problem.times(value)


def _bytes(node: Node) -> float:
    return float(node.type.byte_count) if isinstance(node.type, TensorType) else 0.0


def _duplicate(
    problem: Problem, value: Node, reads: Sequence[Read], cone: Sequence[Node], names: set[str]
) -> Duplicate:
    """The duplicate of the instructions behind a value, for its reads; their clones' names join the names."""
    clones = [(node.name, clone_name(node.name, names)) for node in cone]
    graph = value.graph
    where = ENTRY if graph is problem.module.entry else graph.name
    return Duplicate(where, tuple(clones), tuple((read.reader.name, read.operand_index) for read in reads))
