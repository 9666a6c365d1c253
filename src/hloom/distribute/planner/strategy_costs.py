"""The cost of a strategy inside its cluster: combining partial results, and reshards between members."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hloom.analysis import products
from hloom.distribute.partitioner import (
    ShardedArray,
    TracedCollective,
    dot_collectives,
    dot_dimensions,
    reduction_collectives,
    reshard_collectives,
)
from hloom.distribute.planner.clusters import Cluster
from hloom.distribute.planner.cost_model import StepCost, itemsize_of
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.spec_tables import StrategySpecs, spec_of_classes
from hloom.distribute.planner.strategies import Strategy, partial_classes
from hloom.ir import Apply, AxisMap, Node, TensorType
from hloom.ops import PRODUCTS
from hloom.sharding import Axes


def strategy_costs(problem: Problem, cluster: Cluster) -> list[StepCost]:
    """The cost of each strategy inside its cluster: combining partial results, and reshards between members."""
    options = problem.options[cluster.number]
    costs = [StepCost() for _ in options]
    written = np.zeros(len(options))
    for node in cluster.members:
        _add_phi_reshards(problem, costs, cluster, node)
        if isinstance(node.type, TensorType):
            own = problem.shares(problem.produced_specs(cluster, node), node.type.dims)
            written += own * (math.prod(node.type.dims) * itemsize_of(node) * problem.times(node))
        if node not in problem.clusters.maps:
            continue
        if isinstance(node.type, TensorType):
            _add_partial_results(problem, costs, cluster, node)
        for operand in dict.fromkeys(node.operands):
            if problem.clusters.of(operand) is cluster:
                for read in (read for read in problem.reads.get(operand, ()) if read.reader is node):
                    source = problem.produced_specs(cluster, node.operands[read.operand_index])
                    _add_reshards(problem, costs, operand, source, problem.required_specs(cluster, read))
    for cost, own in zip(costs, written.tolist(), strict=True):
        cost.written_bytes = own
    return costs


def partial_result_collectives(
    problem: Problem, cluster: Cluster, strategy: Strategy, node: Node
) -> tuple[TracedCollective, ...]:
    """The collectives that combine a node's partial results."""
    clusters, mesh, spec_tables = problem.clusters, problem.mesh, problem.spec_tables
    class_axes = strategy.before if node is cluster.lead else strategy.after
    axes_of = dict(class_axes)
    numbers = spec_tables.numbers[cluster.number]
    local = sorted(numbers[number] for number in partial_classes(clusters, node))
    partial = [axes_of[number] for number in local if axes_of.get(number)]
    if not partial:
        return ()
    assert isinstance(node.type, TensorType)
    uncombined = spec_of_classes(spec_tables.local(cluster, clusters.result_dims(node)), class_axes)
    operands = [
        spec_of_classes(spec_tables.local(cluster, clusters.operand_dims(node, operand_index)), class_axes).dims
        for operand_index in range(len(node.operands))
    ]
    result = spec_tables.result_spec(node, strategy).dims
    if node.opcode in PRODUCTS:
        left, right, own = (
            ShardedArray(value.dims, 1, axes)
            for value, axes in zip((*node.operands, node), (*operands, result), strict=True)
        )
        return dot_collectives(dot_dimensions(clusters.maps[node]), left, right, own, mesh)[0]
    own = next((dims for dims in operands if all(axes in dims for axes in partial)), uncombined.dims)
    reduced = tuple(axes for axes in partial if axes in own)
    return reduction_collectives(node.type.dims, reduced, own, uncombined.dims, result, mesh)


def contraction_flops(problem: Problem, cluster: Cluster, node: Node, axes_of: dict[int, Axes]) -> float:
    """FLOPs of a dot or convolution on one device: twice the points of its iteration space, uneven parts padded.

    Of a convolution's windows, elements over padding and holes do not count; windows are not split.
    """
    points = local_points(problem, local_factors(problem, cluster, node), axes_of)
    return 2.0 * points * window_share(node, problem.clusters.maps[node])


LocalFactors = tuple[tuple[int, int | None], ...]
"""The size of each of an instruction's factors, and its class's number within the cluster; None if it is not split."""


def local_factors(problem: Problem, cluster: Cluster, node: Node) -> LocalFactors:
    """The factors of an instruction's iteration space."""
    clusters, numbers = problem.clusters, problem.spec_tables.numbers[cluster.number]
    pairs = zip(clusters.maps[node].factors, clusters.factor_classes[node], strict=True)
    return tuple(
        (factor.size, None if number is None else numbers[clusters.class_of(number)]) for factor, number in pairs
    )


def local_points(problem: Problem, factors: LocalFactors, axes_of: Mapping[int, Axes]) -> int:
    """The points of an iteration space that a device has where these axes split its classes, uneven parts padded."""
    return math.prod(
        math.ceil(size / problem.mesh.count(() if number is None else axes_of.get(number, ())))
        for size, number in factors
    )


def window_share(node: Node, axis_map: AxisMap) -> float:
    """The share of a convolution's iteration space in which a window meets an element."""
    if not isinstance(node, Apply) or node.opcode != "convolution":
        return 1.0
    points = math.prod(factor.size for factor in axis_map.factors)
    return products(node) / points if points else 1.0


def _add_partial_results(problem: Problem, costs: Sequence[StepCost], cluster: Cluster, node: Node) -> None:
    """Add the cost of combining a node's partial results."""
    if not partial_classes(problem.clusters, node):
        return
    for cost, strategy in zip(costs, problem.options[cluster.number], strict=True):
        collectives = partial_result_collectives(problem, cluster, strategy, node)
        cost.add_collectives(collectives, itemsize_of(node), problem.times(node), problem.collectives)


def _add_reshards(
    problem: Problem, costs: Sequence[StepCost], value: Node, source: StrategySpecs, target: StrategySpecs
) -> None:
    """Add the cost of resharding a value from its specs to those required."""
    if source is target:
        return
    dims, itemsize, times = value.dims, itemsize_of(value), problem.times(value)
    pairs, index = np.unique(np.stack([source.index, target.index]), axis=1, return_inverse=True)
    collectives = [
        reshard_collectives(dims, source.specs[a], target.specs[b], problem.mesh) for a, b in pairs.T.tolist()
    ]
    for cost, pair in zip(costs, np.ravel(index).tolist(), strict=True):
        cost.add_collectives(collectives[pair], itemsize, times, problem.collectives)


def _add_phi_reshards(problem: Problem, costs: Sequence[StepCost], cluster: Cluster, value: Node) -> None:
    """Add the cost of resharding a value passed to a phi of its own cluster."""
    for read in problem.reads.get(value, ()):
        if read.destination is not None and problem.clusters.of(read.destination) is cluster:
            source, target = problem.produced_specs(cluster, value), problem.produced_specs(cluster, read.destination)
            _add_reshards(problem, costs, value, source, target)
