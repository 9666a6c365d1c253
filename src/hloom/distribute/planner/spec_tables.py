"""The specs of values under each strategy of their clusters, from which cost tables and constraints are built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.distribute.planner.clusters import ClassDims, Cluster, Clusters
from hloom.distribute.planner.strategies import ClassAxes, Strategy
from hloom.ir import AxisMap, Node
from hloom.sharding import Axes, Spec


@dataclass(frozen=True, slots=True, eq=False)
class StrategySpecs:
    """The distinct specs of a value under the strategies of a cluster, and per strategy the index of its spec."""

    index: np.ndarray
    specs: tuple[Spec, ...]


class SpecTables:
    """Dimension classes numbered within their clusters, and the specs that follow; isomorphic clusters share tables."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        classes = clusters.all_classes()
        self.numbers = {
            cluster.number: self._lead_first(cluster, classes.get(cluster.number, [])) for cluster in clusters
        }
        self._tables: dict[tuple, StrategySpecs] = {}

    def _lead_first(self, cluster: Cluster, classes: list[int]) -> dict[int, int]:
        """Number the classes of the lead first, in the order of its factors."""
        own = self.clusters.factor_classes.get(cluster.lead, ())
        first = dict.fromkeys(self.clusters.class_of(number) for number in own if number is not None)
        order = [number for number in first if number in classes] + [
            number for number in classes if number not in first
        ]
        return {number: local for local, number in enumerate(order)}

    def classes(self, cluster: Cluster) -> list[int]:
        """The classes of a cluster, in the order of their numbers."""
        return list(self.numbers[cluster.number])

    def local(self, cluster: Cluster, dims: ClassDims) -> ClassDims:
        """Classes by their numbers within a cluster."""
        numbers = self.numbers[cluster.number]
        return tuple(None if number is None else numbers.get(number) for number in dims)

    def result_spec(self, node: Node, strategy: Strategy) -> Spec:
        """The spec of a value under a strategy of its cluster."""
        cluster = self.clusters.of(node)
        assert cluster is not None
        return spec_of_classes(self.local(cluster, self.clusters.result_dims(node)), strategy.after)

    def strategy_specs(
        self, representative: int, options: Sequence[Strategy], dims: ClassDims, *, is_before: bool
    ) -> StrategySpecs:
        """The specs of dimensions under each strategy of a cluster, before or after its lead."""
        key = (representative, dims, is_before)
        if key not in self._tables:
            specs: dict[tuple[Axes, ...], int] = {}
            assignments = (strategy.before if is_before else strategy.after for strategy in options)
            index = [specs.setdefault(axes, len(specs)) for axes in _axes_of_dims(dims, assignments)]
            self._tables[key] = StrategySpecs(np.array(index), tuple(map(Spec, specs)))
        return self._tables[key]


def spec_of_classes(dims: ClassDims, class_axes: ClassAxes) -> Spec:
    """The spec of dimensions given by their classes; a class that occurs twice splits its first dimension."""
    return Spec(next(_axes_of_dims(dims, [class_axes])))


def spec_of_operand(axis_map: AxisMap, operand_index: int, spec: Spec) -> Spec:
    """The spec of an operand with which an instruction has its first result in a spec for nothing."""
    axes_of: dict[int, Axes] = {}
    for dimension, axes in zip(axis_map.results[0], spec.dims, strict=True):
        for factor in _first_factor(axis_map, dimension):
            axes_of[factor] = axes
    dims = axis_map.operands[operand_index]
    return Spec(tuple(next((axes_of.get(f, ()) for f in _first_factor(axis_map, d)), ()) for d in dims))


def _first_factor(axis_map: AxisMap, dimension: Sequence[int]) -> list[int]:
    return [factor for factor in dimension if axis_map.factors[factor].size != 1][:1]


def _axes_of_dims(dims: ClassDims, assignments: Iterable[ClassAxes]) -> Iterator[tuple[Axes, ...]]:
    once = [None if number in dims[:dim] else number for dim, number in enumerate(dims)]
    for class_axes in assignments:
        axes = dict(class_axes)
        yield tuple(axes.get(number, ()) if number is not None else () for number in once)
