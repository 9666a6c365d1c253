"""The seconds that each cluster's work takes on one device under each strategy, by the roofline of the whole program.

The kernels are those of `analysis/roofline.py`: what is fused costs nothing of its own. Each instruction computes, and
each value is read or written, in the share that a device has of it. The kernels of one cluster take the longer of
computing and moving bytes under each strategy; of one that several clusters have parts of, each adds what takes longer
on a single device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hloom.analysis import KernelWork, Matmul, Roofline, first_array, roofline
from hloom.distribute.planner.clusters import Cluster
from hloom.distribute.planner.cost_model import CAUSES
from hloom.distribute.planner.problem import Problem, Read
from hloom.distribute.planner.strategies import is_contraction
from hloom.distribute.planner.strategy_costs import local_factors, local_points
from hloom.ir import Apply, AxisMap, Node, TensorType

COMPUTE, MEMORY, LAUNCH = range(len(CAUSES))
ITERATIONS = -1
"""In place of an operand's index: the iterations of a contraction."""
Part = tuple[Node, int | None, float]
"""Seconds in proportion to a device's share of an instruction's operand with this index, or of its result if None."""


def add_work(problem: Problem) -> None:
    """Put into a problem the seconds of a device's work by cluster, cause and strategy, and those of contractions."""
    report = roofline(problem.module, problem.rates.device)
    tables = _Tables(problem, report)
    tables.add_constant(LAUNCH, report.device.start_seconds, None)
    for graph, times in problem.clusters.dataflow.times.items():
        for kernel in report.kernels(graph):
            tables.add(kernel, times)
            computed = ((node, seconds) for node, seconds in kernel.computed if is_contraction(node))
            problem.contraction_seconds.update(computed)
    problem.work = tables.tables


class _Tables:
    """Tables that kernels are added to."""

    def __init__(self, problem: Problem, report: Roofline) -> None:
        self.problem, self._report = problem, report
        self.tables = {number: np.zeros((len(CAUSES), len(own))) for number, own in problem.options.items()}
        self._iterations: dict[tuple, np.ndarray] = {}
        self._products: dict[tuple, np.ndarray] = {}

    def add(self, kernel: KernelWork, times: float) -> None:
        """Add a kernel that runs this many times."""
        timing = kernel.timing
        self.add_constant(LAUNCH, timing.launch * times, self.problem.clusters.of(timing.node))
        computed = [(node, _shared_operand(node), own * times) for node, own in kernel.computed if own]
        moved = [(part.node, part.operand_index, own * times) for part, own in kernel.moved if own]
        compute, memory = self._by_cluster(computed), self._by_cluster(moved)
        numbers = {number for number in (*compute, *memory) if number is not None}
        if len(numbers) > 1:
            cause, seconds = (COMPUTE, compute) if timing.compute >= timing.memory else (MEMORY, memory)
            for number, own in seconds.items():
                if number is None:
                    self.add_constant(cause, own, None)
                else:
                    self.tables[number][cause] += own
            return
        computing, moving = sum(compute.values()), sum(memory.values())
        for number in numbers:
            is_computing = np.greater_equal(computing, moving)
            self.tables[number][COMPUTE] += np.where(is_computing, computing, 0.0)
            self.tables[number][MEMORY] += np.where(is_computing, 0.0, moving)
        if not numbers:
            self.add_constant(COMPUTE if computing >= moving else MEMORY, max(computing, moving), None)

    def add_constant(self, cause: int, seconds: float, cluster: Cluster | None) -> None:
        """Add seconds that do not depend on strategies; to any cluster if none is given."""
        number = next(iter(self.tables), None) if cluster is None else cluster.number
        if seconds and number is not None:
            self.tables[number][cause] += seconds

    def _by_cluster(self, parts: Iterable[Part]) -> dict[int | None, Any]:
        """The sum of some parts under each strategy, by cluster; None for those of instructions without one."""
        seconds: dict[int | None, Any] = {}
        for node, operand_index, own in parts:
            cluster = self.problem.clusters.of(node)
            number = None if cluster is None else cluster.number
            share = 1.0 if cluster is None else self._share(cluster, node, operand_index)
            seconds[number] = seconds.get(number, 0.0) + own * share
        return seconds

    def _share(self, cluster: Cluster, node: Node, operand_index: int | None) -> np.ndarray | float:
        """The share of a value that a device has under each strategy; of a contraction's work, of its iterations."""
        problem = self.problem
        if operand_index == ITERATIONS and node in problem.clusters.maps:
            product = self._report.matmul(node) if isinstance(node, Apply) else None
            if product is None:
                return self._iteration_share(cluster, node)
            return self._product_share(cluster, node, product)
        value_type = node.type if operand_index is None else node.operands[operand_index].type
        array = first_array(value_type) if node in problem.clusters.maps else value_type
        if not isinstance(array, TensorType):
            return 1.0
        if operand_index is None:
            specs = problem.produced_specs(cluster, node, is_partial=node is cluster.lead)
        else:
            specs = problem.required_specs(cluster, Read(node, operand_index))
        return problem.shares(specs, array.dims)

    def _iteration_share(self, cluster: Cluster, node: Node) -> np.ndarray:
        problem, points = self.problem, self.problem.clusters.maps[node].points
        local = local_factors(problem, cluster, node)
        key = problem.representative[cluster.number], local
        if key not in self._iterations:
            options = problem.options[cluster.number]
            counts = [local_points(problem, local, dict(strategy.before)) for strategy in options]
            self._iterations[key] = np.array(counts, np.float64) / points
        return self._iterations[key]

    def _product_share(self, cluster: Cluster, node: Node, product: Matmul) -> np.ndarray:
        """The seconds of a device's part of a matrix product under each strategy, as a share of those of the whole."""
        problem, axis_map = self.problem, self.problem.clusters.maps[node]
        local = local_factors(problem, cluster, node)
        key = problem.representative[cluster.number], local, product
        if key not in self._products:
            roles = _roles(axis_map)
            wholes = [math.prod(axis_map.factors[number].size for number in role) for role in roles]
            dimensions = [tuple(local[number] for number in role) for role in roles]
            parts = list(zip(dimensions, wholes, strict=True))
            points = [
                [local_points(problem, factors, axes_of) / whole for factors, whole in parts]
                for axes_of in (dict(strategy.before) for strategy in problem.options[cluster.number])
            ]
            self._products[key] = product.shared_seconds(np.array(points, np.float64)) / product.seconds
        return self._products[key]


def _roles(axis_map: AxisMap) -> tuple[list[int], ...]:
    """The factors of a contraction that are the batch, the rows and the columns of the product, and what is summed."""
    left, right, made = (
        {number for dimension in leaf for number in dimension} for leaf in (*axis_map.operands[:2], axis_map.results[0])
    )
    roles: tuple[list[int], ...] = [], [], [], []
    for number in range(len(axis_map.factors)):
        if number not in made:
            roles[3].append(number)
        elif number in left:
            roles[0 if number in right else 1].append(number)
        else:
            roles[2].append(number)
    return roles


def _shared_operand(node: Node) -> int | None:
    """The operand whose share is that of an instruction's work; None for its result, ITERATIONS for both."""
    if is_contraction(node):
        return ITERATIONS
    return 0 if node.opcode == "reduce" else None
