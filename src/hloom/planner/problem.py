"""The optimisation problem: per cluster its strategies and their costs, per pair of clusters the cost of resharding.

A value that several clusters read is resharded once for each spec that they require: `SharedReshards` charge a reshard
once however many readers require it; other reshards belong to one pair of clusters. Isomorphic clusters are tied: they
take the same strategy, which is how repeated layers share a decision.

The form follows Alpa's (Zheng et al., "Alpa: Automating inter- and intra-operator parallelism for distributed deep
learning", OSDI 2022, section 4): one strategy per node, node costs, and edge costs of resharding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hloom.ir import Module, Node, TensorType
from hloom.planner.canonicalize import canonicalize
from hloom.planner.clusters import Cluster, Clusters
from hloom.planner.cost_model import Rates, itemsize_of
from hloom.planner.entry_results import aliases, output_at
from hloom.planner.isomorphism import representatives
from hloom.planner.reshard_costs import ReshardCosts
from hloom.planner.spec_tables import SpecTables, StrategySpecs, made, required_specs
from hloom.planner.strategies import Strategy, strategies
from hloom.planner.strategy_costs import unary
from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Spec

if TYPE_CHECKING:
    from hloom.planner.solvers.factor_graph import FactorGraph


@dataclass(frozen=True, slots=True)
class Read:
    """One place where a value is read: the reader, its operand's number, or None where the spec of `like` is asked."""

    reader: Node
    place: int
    like: Node | None = None


@dataclass(slots=True)
class SharedReshards:
    """A value's changes of spec: per source spec and target spec the cost, paid once for all who ask for it."""

    value: Node
    cluster: int
    source: StrategySpecs
    readers: list[tuple[int, StrategySpecs]]
    costs: list[np.ndarray]


@dataclass(slots=True)
class Problem:
    """Clusters, their strategies, and tables of costs in seconds; `representative` maps clusters to isomorphic ones."""

    module: Module
    mesh: Mesh
    rates: Rates
    clusters: Clusters
    spec_tables: SpecTables
    reshard_costs: ReshardCosts
    representative: dict[int, int]
    options: dict[int, list[Strategy]] = field(default_factory=dict)
    unary: dict[int, np.ndarray] = field(default_factory=dict)
    pairs: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    shared: list[SharedReshards] = field(default_factory=list)
    _costs: dict[tuple, np.ndarray] = field(default_factory=dict)
    reads: dict[Node, list[Read]] = field(default_factory=dict)
    solved: FactorGraph | None = field(init=False, default=None)
    """What the tables were solved as last: where they change a little, a planner goes on from there."""

    def times(self, node: Node) -> float:
        """How often a node runs."""
        return self.clusters.flow.times[node.graph]

    def specs(self, choice: dict[int, int]) -> dict[Node, Spec]:
        """How every value lies under a choice of one strategy per cluster."""
        found: dict[Node, Spec] = {}
        for cluster in self.clusters:
            strategy = self.options[cluster.number][choice[cluster.number]]
            for node in cluster.members:
                if isinstance(node.type, TensorType):
                    found[node] = self.spec_tables.result(node, strategy)
        return found

    def cost(self, choice: dict[int, int]) -> float:
        """The objective of a choice, untied."""
        total = sum(self.unary[number][choice[number]] for number in self.options)
        total += sum(table[choice[a], choice[b]] for (a, b), table in self.pairs.items())
        for each in self.shared:
            source = each.source.of[choice[each.cluster]]
            asked: dict[Spec, float] = {}
            for (number, demand), cost in zip(each.readers, each.costs, strict=True):
                target = demand.of[choice[number]]
                asked[demand.specs[target]] = float(cost[source, target])
            total += sum(asked.values())
        return float(total)


def build_problem(module: Module, mesh: Mesh, rates: Rates | None = None) -> Problem:
    """The problem of planning a module, which is brought into normal form first."""
    form = canonicalize(module)
    clusters = Clusters(form)
    spec_tables = SpecTables(clusters)
    rates = rates or Rates()
    problem = Problem(
        form, mesh, rates, clusters, spec_tables, ReshardCosts(mesh, rates), representatives(clusters, spec_tables)
    )
    for cluster in clusters:
        like = problem.representative[cluster.number]
        if like == cluster.number:
            problem.options[like] = strategies(clusters, cluster, spec_tables.classes(cluster), mesh)
        problem.options[cluster.number] = problem.options[like]
    problem.reads = _reads(problem)
    for cluster in clusters:
        like = problem.representative[cluster.number]
        if like == cluster.number:
            problem.unary[like] = np.array([each.objective(problem.rates) for each in unary(problem, cluster)])
        problem.unary[cluster.number] = problem.unary[like]
    rebuild_edge_costs(problem)
    return problem


def rebuild_edge_costs(problem: Problem) -> None:
    """Make the tables between clusters from the costs as they are now."""
    problem.pairs.clear()
    problem.shared.clear()
    for value, reads in problem.reads.items():
        _tabulate(problem, value, reads)


def add_reshard_cost(problem: Problem, choice: dict[int, int], value: Node, read: Read, seconds: float) -> bool:
    """Make the change of spec that a choice implies at a read dearer; whether there is one."""
    own, cluster = problem.clusters.of(value), problem.clusters.of(read.like if read.like is not None else read.reader)
    if own is None or cluster is None or own is cluster:
        return False
    source, target = made(problem, own, value), required_specs(problem, cluster, read)
    row, column = source.of[choice[own.number]], target.of[choice[cluster.number]]
    if source.specs[row] == target.specs[column]:
        return False
    for table, place in _priced_alike(problem, own, value, source, target.specs[column]):
        table[row, place] += seconds
    return True


def _priced_alike(
    problem: Problem, own: Cluster, value: Node, source: StrategySpecs, spec: Spec
) -> Iterator[tuple[np.ndarray, int]]:
    """The tables of all who may ask a value for a spec, and its column: a change of spec costs them the same."""
    seen: set[int] = set()
    for read in problem.reads[value]:
        cluster = problem.clusters.of(read.like if read.like is not None else read.reader)
        assert cluster is not None
        target = required_specs(problem, cluster, read)
        if cluster is own or spec not in target.specs or id(target) in seen:
            continue
        seen.add(id(target))
        yield _costs_of(problem, value, source, target), target.specs.index(spec)


def add_strategy_cost(problem: Problem, choice: dict[int, int], node: Node, seconds: float) -> None:
    """Make the strategy that a choice gives to a node's cluster dearer."""
    cluster = problem.clusters.of(node)
    if cluster is not None:
        problem.unary[problem.representative[cluster.number]][choice[cluster.number]] += seconds


def _reads(problem: Problem) -> dict[Node, list[Read]]:
    """Where each value is read, outputs that alias a parameter being read in the parameter's spec."""
    found: dict[Node, list[Read]] = defaultdict(list)
    clusters, root = problem.clusters, problem.module.entry.output
    for node in clusters.flow.nodes:
        if clusters.of(node) is None or clusters.is_given(node) or node in clusters.flow.same:
            continue
        for place, operand in enumerate(node.inputs):
            if _counts(problem, operand):
                found[operand].append(Read(node, place))
    for each in clusters.flow.handed:
        if _counts(problem, each.value) and clusters.of(each.like) is not None:
            found[each.value].append(Read(each.reader, 0, like=each.like))
    if root is not None:
        parameters = {p.number: p for p in problem.module.entry.parameters}
        for alias in aliases(problem.module):
            value = output_at(root, alias.output_index)
            if value is not None and _counts(problem, value) and not alias.parameter_index:
                found[value].append(Read(root, 0, like=parameters[alias.parameter]))
    return dict(found)


def _counts(problem: Problem, value: Node) -> bool:
    return isinstance(value.type, TensorType) and bool(value.type.dims) and problem.clusters.of(value) is not None


def _tabulate(problem: Problem, value: Node, reads: Sequence[Read]) -> None:
    """Put the costs of a value's changes of spec into the tables."""
    own = problem.clusters.of(value)
    assert own is not None
    source = made(problem, own, value)
    readers: dict[tuple[int, int], tuple[int, StrategySpecs]] = {}
    for read in reads:
        cluster = problem.clusters.of(read.like if read.like is not None else read.reader)
        assert cluster is not None
        if cluster is not own:
            demand = required_specs(problem, cluster, read)
            readers.setdefault((cluster.number, id(demand)), (cluster.number, demand))
    found = [(number, demand, _costs_of(problem, value, source, demand)) for number, demand in readers.values()]
    found = [each for each in found if each[2].any()]
    if len(found) == 1:
        number, demand, cost = found[0]
        add_pair(problem.pairs, own.number, number, cost[source.of][:, demand.of])
    elif found:
        readers_of = [(number, demand) for number, demand, _ in found]
        problem.shared.append(SharedReshards(value, own.number, source, readers_of, [cost for _, _, cost in found]))


def _costs_of(problem: Problem, value: Node, source: StrategySpecs, target: StrategySpecs) -> np.ndarray:
    """Seconds from each spec of a value to each that is asked for."""
    assert isinstance(value.type, TensorType)
    dims, width = value.type.dims, itemsize_of(value)
    times = problem.times(value)
    key = (dims, width, times, id(source), id(target))
    if key not in problem._costs:
        problem._costs[key] = times * problem.reshard_costs.seconds(dims, width, source.specs, target.specs)
    return problem._costs[key]


def add_pair(pairs: dict[tuple[int, int], np.ndarray], a: int, b: int, table: np.ndarray) -> None:
    """Add a table between two clusters to those that are there, whichever way round."""
    if a > b:
        a, b, table = b, a, table.T
    pairs[a, b] = pairs[a, b] + table if (a, b) in pairs else table
