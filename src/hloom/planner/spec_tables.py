"""How values lie under the strategies of their clusters, looked up again and again while tables are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hloom.ir import Node
from hloom.planner.clusters import ClassDims, Cluster, Clusters
from hloom.planner.strategies import Strategy
from hloom.sharding.spec import Axes, Spec

if TYPE_CHECKING:
    from hloom.planner.problem import Problem, Read

Held = tuple[tuple[int, Axes], ...]


@dataclass(frozen=True, slots=True, eq=False)
class StrategySpecs:
    """What a cluster makes of a value or asks of one: per strategy the number of the spec, and those specs."""

    of: np.ndarray
    specs: tuple[Spec, ...]


class SpecTables:
    """Classes numbered within their clusters, and the specs that follow; alike clusters share what is worked out."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        known = clusters.all_classes()
        self.numbers = {each.number: self._lead_first(each, known.get(each.number, [])) for each in clusters}
        self._demands: dict[tuple, StrategySpecs] = {}

    def _lead_first(self, cluster: Cluster, known: list[int]) -> dict[int, int]:
        """Number the classes of the lead first, in the order of its factors."""
        own = self.clusters.factor_classes.get(cluster.lead, ())
        first = dict.fromkeys(self.clusters.class_of(each) for each in own if each is not None)
        order = [each for each in first if each in known] + [each for each in known if each not in first]
        return {each: place for place, each in enumerate(order)}

    def classes(self, cluster: Cluster) -> list[int]:
        """The classes of a cluster, in the order of their numbers."""
        return list(self.numbers[cluster.number])

    def local(self, cluster: Cluster, dims: ClassDims) -> ClassDims:
        """Classes by their numbers within a cluster."""
        known = self.numbers[cluster.number]
        return tuple(None if each is None else known.get(each) for each in dims)

    def result(self, node: Node, strategy: Strategy) -> Spec:
        """How a value lies under a strategy of its cluster."""
        cluster = self.clusters.of(node)
        assert cluster is not None
        return spec_of_classes(self.local(cluster, self.clusters.result_dims(node)), strategy.after)

    def demand(self, kind: int, options: list[Strategy], dims: ClassDims, *, is_before: bool) -> StrategySpecs:
        """The specs of dimensions under every strategy of a kind of cluster."""
        key = (kind, dims, is_before)
        if key not in self._demands:
            specs: dict[tuple[Axes, ...], int] = {}
            helds = (each.before if is_before else each.after for each in options)
            of = [specs.setdefault(axes, len(specs)) for axes in _axes_of_classes(dims, helds)]
            self._demands[key] = StrategySpecs(np.array(of), tuple(map(Spec, specs)))
        return self._demands[key]


def made(problem: Problem, cluster: Cluster, value: Node) -> StrategySpecs:
    """The specs of a value under each strategy of its cluster."""
    dims = problem.spec_tables.local(cluster, problem.clusters.result_dims(value))
    kind = problem.representative[cluster.number]
    return problem.spec_tables.demand(kind, problem.options[kind], dims, is_before=False)


def required_specs(problem: Problem, cluster: Cluster, read: Read) -> StrategySpecs:
    """The specs that a read asks for under each strategy of the reader's cluster."""
    if read.like is not None:
        return made(problem, cluster, read.like)
    dims = problem.spec_tables.local(cluster, problem.clusters.operand_dims(read.reader, read.place))
    kind, is_before = problem.representative[cluster.number], cluster.lead is read.reader
    return problem.spec_tables.demand(kind, problem.options[kind], dims, is_before=is_before)


def spec_of_classes(dims: ClassDims, held: Held) -> Spec:
    """The axes of each dimension; a class that stands twice splits its first dimension."""
    return Spec(next(_axes_of_classes(dims, [held])))


def _axes_of_classes(dims: ClassDims, helds: Iterable[Held]) -> Iterator[tuple[Axes, ...]]:
    once = [None if number in dims[:place] else number for place, number in enumerate(dims)]
    for held in helds:
        axes = dict(held)
        yield tuple(axes.get(number, ()) if number is not None else () for number in once)
