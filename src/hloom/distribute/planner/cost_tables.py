"""The cost tables of a problem: built from the module, and corrected by forecasts and measurements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from hloom.distribute.planner.clusters import Cluster, Clusters
from hloom.distribute.planner.cost_model import Rates, itemsize_of
from hloom.distribute.planner.duplicates import Duplicate, put_duplicates
from hloom.distribute.planner.entry_results import aliases, output_at
from hloom.distribute.planner.isomorphism import representatives
from hloom.distribute.planner.problem import Problem, Read, SharedReshards
from hloom.distribute.planner.reshard_costs import ReshardCosts
from hloom.distribute.planner.spec_tables import SpecTables, StrategySpecs
from hloom.distribute.planner.strategies import strategies
from hloom.distribute.planner.strategy_costs import strategy_costs
from hloom.distribute.planner.work_tables import add_work
from hloom.ir import Module, Node, TensorType, paused_collection
from hloom.passes import canonicalize
from hloom.sharding import Mesh, Spec


@paused_collection()
def build_problem(
    module: Module,
    mesh: Mesh,
    rates: Rates | None = None,
    *,
    duplicates: Sequence[Duplicate] = (),
    apart: Sequence[Collection[str]] = (),
) -> Problem:
    """The problem of planning a module, which is canonicalized first, and gets the duplicates.

    Clones, and the instructions named in each element of `apart`, share no decision with other instructions. Raises
    HloomError if the module lacks an instruction that the duplicates name.
    """
    canonical = canonicalize(module)
    put_duplicates(canonical, duplicates)
    regions = [*([clone for _, clone in duplicate.clones] for duplicate in duplicates), *apart]
    clusters = Clusters(canonical, {name: number for number, names in enumerate(regions, 1) for name in names})
    spec_tables = SpecTables(clusters)
    rates = rates or Rates()
    reshard_costs, representative = ReshardCosts(mesh, rates), representatives(clusters, spec_tables)
    problem = Problem(
        canonical, mesh, rates, clusters, spec_tables, reshard_costs, representative, duplicates=tuple(duplicates)
    )
    for cluster in clusters:
        number = problem.representative[cluster.number]
        if number == cluster.number:
            problem.options[number] = strategies(clusters, cluster, spec_tables.classes(cluster), mesh)
        problem.options[cluster.number] = problem.options[number]
    problem.reads = _reads(problem)
    add_work(problem)
    inside: dict[int, np.ndarray] = {}
    for cluster in clusters:
        number = problem.representative[cluster.number]
        if number == cluster.number:
            inside[number] = np.array([cost.objective(problem.rates) for cost in strategy_costs(problem, cluster)])
        work = problem.work[cluster.number].sum(axis=0) * problem.rates.work_share
        problem.node_costs[cluster.number] = inside[number] + work
    rebuild_edge_costs(problem)
    return problem


def rebuild_edge_costs(problem: Problem) -> None:
    """Make the tables between clusters from the costs of reshards as they are now."""
    problem.edge_costs.clear()
    problem.shared_reshards.clear()
    for value, reads in problem.reads.items():
        _add_reshards(problem, value, reads)


def add_reshard_cost(problem: Problem, choice: Mapping[int, int], value: Node, read: Read, seconds: float) -> bool:
    """Add seconds to the reshard that a choice implies at a read, for all isomorphic reads; whether there is one."""
    own, cluster = problem.clusters.of(value), problem.reading_cluster(read)
    if own is None or cluster is None or own is cluster:
        return False
    source, target = problem.produced_specs(own, value), problem.required_specs(cluster, read)
    row, column = source.index[choice[own.number]], target.index[choice[cluster.number]]
    if source.specs[row] == target.specs[column]:
        return False
    for table, index in _equal_reshards(problem, own, value, source, target.specs[column]):
        table[row, index] += seconds
    return True


def add_strategy_cost(problem: Problem, choice: Mapping[int, int], node: Node, seconds: float) -> None:
    """Add seconds to the strategy that a choice gives to a node's cluster, for all isomorphic clusters."""
    cluster = problem.clusters.of(node)
    if cluster is not None:
        leader = problem.representative[cluster.number]
        for number, costs in problem.node_costs.items():
            if problem.representative[number] == leader:
                costs[choice[cluster.number]] += seconds


def _equal_reshards(
    problem: Problem, own: Cluster, value: Node, source: StrategySpecs, spec: Spec
) -> Iterator[tuple[np.ndarray, int]]:
    """The tables of all readers that may require a spec of a value, and its column: the reshard costs them the same."""
    seen: set[int] = set()
    for read in problem.reads[value]:
        cluster = problem.reading_cluster(read)
        assert cluster is not None
        target = problem.required_specs(cluster, read)
        if cluster is own or spec not in target.specs or id(target) in seen:
            continue
        seen.add(id(target))
        yield _reshard_table(problem, value, source, target), target.specs.index(spec)


def _reads(problem: Problem) -> dict[Node, list[Read]]:
    """Where each value is read; an output that takes a parameter's buffer requires the parameter's spec."""
    reads: dict[Node, list[Read]] = defaultdict(list)
    clusters, root = problem.clusters, problem.module.entry.output
    for node in clusters.dataflow.nodes:
        if clusters.of(node) is None or clusters.is_given(node) or node in clusters.dataflow.aliases:
            continue
        for operand_index, operand in enumerate(node.operands):
            if _is_planned(problem, operand):
                reads[operand].append(Read(node, operand_index))
    for source in clusters.dataflow.phi_inputs:
        if _is_planned(problem, source.value) and clusters.of(source.phi) is not None:
            reads[source.value].append(Read(source.reader, 0, destination=source.phi))
    if root is not None:
        parameters = {parameter.number: parameter for parameter in problem.module.entry.parameters}
        for alias in aliases(problem.module):
            value = output_at(root, alias.output_index)
            destination = parameters.get(alias.parameter)
            names_array = destination is not None and not alias.parameter_index
            if value is not None and names_array and _is_planned(problem, value):
                reads[value].append(Read(root, 0, destination=destination))
    return dict(reads)


def _is_planned(problem: Problem, value: Node) -> bool:
    return isinstance(value.type, TensorType) and bool(value.type.dims) and problem.clusters.of(value) is not None


def _add_reshards(problem: Problem, value: Node, reads: Sequence[Read]) -> None:
    """Put the costs of a value's reshards into the tables."""
    own = problem.clusters.of(value)
    assert own is not None
    source = problem.produced_specs(own, value)
    readers: dict[tuple[int, int], tuple[int, StrategySpecs]] = {}
    for read in reads:
        cluster = problem.reading_cluster(read)
        assert cluster is not None
        if cluster is not own:
            target = problem.required_specs(cluster, read)
            readers.setdefault((cluster.number, id(target)), (cluster.number, target))
    tables = [(number, target, _reshard_table(problem, value, source, target)) for number, target in readers.values()]
    tables = [(number, target, cost) for number, target, cost in tables if cost.any()]
    if len(tables) == 1:
        number, target, cost = tables[0]
        add_edge_costs(problem.edge_costs, own.number, number, cost[source.index][:, target.index])
    elif tables:
        reading = [(number, target) for number, target, _ in tables]
        shared = SharedReshards(value, own.number, source, reading, [cost for _, _, cost in tables])
        problem.shared_reshards.append(shared)


def _reshard_table(problem: Problem, value: Node, source: StrategySpecs, target: StrategySpecs) -> np.ndarray:
    """Seconds from each spec of a value to each that is required."""
    assert isinstance(value.type, TensorType)
    dims, itemsize = value.type.dims, itemsize_of(value)
    times = problem.times(value)
    key = (dims, itemsize, times, id(source), id(target))
    if key not in problem.reshard_tables:
        seconds = problem.reshard_costs.seconds(dims, itemsize, source.specs, target.specs)
        problem.reshard_tables[key] = times * seconds
    return problem.reshard_tables[key]


def add_edge_costs(edge_costs: dict[tuple[int, int], np.ndarray], a: int, b: int, table: np.ndarray) -> None:
    """Add a table between two clusters to those that are there, in either order."""
    if a > b:
        a, b, table = b, a, table.T
    edge_costs[a, b] = edge_costs[a, b] + table if (a, b) in edge_costs else table
