"""What a strategy costs inside its cluster: work, combining partial results, and reads that do not agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hloom.analysis import products
from hloom.ir import Apply, AxisMap, Node, TensorType
from hloom.partitioner import (
    ShardedArray,
    TracedCollective,
    dot_collectives,
    dot_dimensions,
    reduction_collectives,
    reshard_collectives,
)
from hloom.planner.clusters import Cluster
from hloom.planner.cost_model import StepCost, dims_of, itemsize_of
from hloom.planner.spec_tables import StrategySpecs, made, required_specs, spec_of_classes
from hloom.planner.strategies import Strategy, is_contraction, partial_classes
from hloom.sharding.spec import Axes, Spec

if TYPE_CHECKING:
    from hloom.planner.problem import Problem, Read


def unary(problem: Problem, cluster: Cluster) -> list[StepCost]:
    """What each strategy costs inside its cluster: work, combining partial results, and reads that do not agree."""
    options = problem.options[cluster.number]
    prices = [StepCost() for _ in options]
    touched = np.zeros(len(options))
    for node in cluster.members:
        _charge_handed(problem, prices, cluster, node)
        if not isinstance(node.type, TensorType):
            continue
        touched += _touched(problem, made(problem, cluster, node), node)
        if node not in problem.clusters.maps:
            continue
        _charge_combined(problem, prices, cluster, node)
        if is_contraction(node):
            for price, strategy in zip(prices, options, strict=True):
                price.flops += work(problem, cluster, node, dict(strategy.before)) * problem.times(node)
        for operand in dict.fromkeys(node.inputs):
            if problem.clusters.of(operand) is cluster:
                for read in (each for each in problem.reads.get(operand, ()) if each.reader is node):
                    source = made(problem, cluster, node.inputs[read.place])
                    _charge(problem, prices, operand, source, required_specs(problem, cluster, read))
    for price, own in zip(prices, touched.tolist(), strict=True):
        price.touched = own
    return prices


def combined(problem: Problem, cluster: Cluster, strategy: Strategy, node: Node) -> tuple[TracedCollective, ...]:
    """The collectives that combine a node's partial results."""
    clusters, mesh = problem.clusters, problem.mesh
    held = strategy.before if node is cluster.lead else strategy.after
    before = dict(held)
    numbers = problem.spec_tables.numbers[cluster.number]
    places = sorted(numbers[number] for number in partial_classes(clusters, node))
    partial = [before[place] for place in places if before.get(place)]
    if not partial:
        return ()
    assert isinstance(node.type, TensorType)
    natural = spec_of_classes(problem.spec_tables.local(cluster, clusters.result_dims(node)), held)
    operands = [
        spec_of_classes(problem.spec_tables.local(cluster, clusters.operand_dims(node, place)), held).dims
        for place in range(len(node.inputs))
    ]
    result = problem.spec_tables.result(node, strategy).dims
    if node.opcode in ("dot", "convolution"):
        left, right, own = (
            ShardedArray(dims_of(each), 1, axes)
            for each, axes in zip((*node.inputs, node), (*operands, result), strict=True)
        )
        return dot_collectives(dot_dimensions(clusters.maps[node]), left, right, own, mesh)[0]
    own = next((each for each in operands if all(axes in each for axes in partial)), natural.dims)
    reduced = tuple(axes for axes in partial if axes in own)
    return reduction_collectives(node.type.dims, reduced, own, natural.dims, result, mesh)


def asked(problem: Problem, read: Read, strategy: Strategy) -> Spec:
    """The spec that a read asks for under a strategy of the reader's cluster."""
    if read.like is not None:
        return problem.spec_tables.result(read.like, strategy)
    cluster = problem.clusters.of(read.reader)
    assert cluster is not None
    held = strategy.before if cluster.lead is read.reader else strategy.after
    return spec_of_classes(
        problem.spec_tables.local(cluster, problem.clusters.operand_dims(read.reader, read.place)), held
    )


def work(problem: Problem, cluster: Cluster, node: Node, held: dict[int, Axes]) -> float:
    """FLOPs of a dot or convolution on one device: twice the points of its iteration space, uneven parts filled up.

    Of a convolution's windows, places over padding and holes do not count; windows are taken to be whole.
    """
    found, own = problem.clusters.maps[node], problem.clusters.factor_classes[node]
    numbers = problem.spec_tables.numbers[cluster.number]
    points = 1
    for factor, number in zip(found.factors, own, strict=True):
        axes = held.get(numbers[problem.clusters.class_of(number)], ()) if number is not None else ()
        points *= math.ceil(factor.size / problem.mesh.count(axes))
    return 2.0 * points * window_share(node, found)


def window_share(node: Node, axes: AxisMap) -> float:
    """The share of a convolution's iteration space in which a window meets an element."""
    if not isinstance(node, Apply) or node.opcode != "convolution":
        return 1.0
    return products(node) / math.prod(factor.size for factor in axes.factors)


def _touched(problem: Problem, demand: StrategySpecs, node: Node) -> np.ndarray:
    """Bytes of a result on one device, by strategy."""
    held = [math.prod(problem.mesh.local_dims(dims_of(node), spec)) for spec in demand.specs]
    return (np.array(held) * itemsize_of(node) * problem.times(node))[demand.of]


def _charge_combined(problem: Problem, prices: Sequence[StepCost], cluster: Cluster, node: Node) -> None:
    """What it costs to combine a node's partial results."""
    if not partial_classes(problem.clusters, node):
        return
    for price, strategy in zip(prices, problem.options[cluster.number], strict=True):
        price.send(combined(problem, cluster, strategy, node), itemsize_of(node), problem.times(node))


def _charge(
    problem: Problem, prices: Sequence[StepCost], value: Node, source: StrategySpecs, target: StrategySpecs
) -> None:
    """What it costs to change a value's spec from what it is to what is asked for."""
    if source is target:
        return
    dims, width, times = dims_of(value), itemsize_of(value), problem.times(value)
    changes, of = np.unique(np.stack([source.of, target.of]), axis=1, return_inverse=True)
    steps = [reshard_collectives(dims, source.specs[a], target.specs[b], problem.mesh) for a, b in changes.T.tolist()]
    for price, change in zip(prices, np.ravel(of).tolist(), strict=True):
        price.send(steps[change], width, times)


def _charge_handed(problem: Problem, prices: Sequence[StepCost], cluster: Cluster, value: Node) -> None:
    """What it costs to hand a value over where it must lie as another one of its cluster does."""
    for read in problem.reads.get(value, ()):
        if read.like is not None and problem.clusters.of(read.like) is cluster:
            source, target = made(problem, cluster, value), made(problem, cluster, read.like)
            _charge(problem, prices, value, source, target)
