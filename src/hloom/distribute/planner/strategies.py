"""The ways to split a cluster's nodes: which mesh axes each class gets, before and after the lead.

A lead that contracts a class which is split holds partial results: they are combined either in full, by an all-reduce,
or into a further split of a dimension, by a reduce-scatter. What follows the lead sees the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hloom.distribute.planner.clusters import Cluster, Clusters
from hloom.ir import FactorKind, Node, Trait
from hloom.sharding import Axes, Mesh

UNEVEN_SHARE = 16
"""The minimum number of elements per part to split a dimension unevenly: XLA pads the last part."""
MOST_STRATEGIES = 600
"""The maximum number of strategies; beyond it, adjacent axes are used together: see `strategies`."""
IN_ANY_ORDER = 2
"""On meshes with at most this many axes, those of one class may be in any order; with more there are too many orders.
"""


ClassAxes = tuple[tuple[int, Axes], ...]
"""The axes that split each class, by its number within the cluster; classes that are not split are left out."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """The axes of each class for the lead's operands and work, and for its result and all that follows.

    Classes are numbered within the cluster, those of the lead first: isomorphic clusters share their strategies.
    """

    before: ClassAxes
    after: ClassAxes


def strategies(clusters: Clusters, cluster: Cluster, classes: Sequence[int], mesh: Mesh) -> list[Strategy]:
    """All strategies of a cluster, the replicated one first.

    Partial results are scattered into one dimension, or into none: what XLA makes of two is an all-reduce for each but
    one. On meshes of two axes those of one class stand in either order, so that what reads a result that was scattered
    into a dimension which is split already may keep the order that this gives. Where there are too many, those are left
    out in which neighbouring axes of the mesh are used apart the most often: of four axes, three groups of neighbours
    that are used equally may be left, or two.
    """
    axes = sum(size > 1 for size in mesh.sizes)
    spaces = [(axes, True)] if 1 < axes <= IN_ANY_ORDER else []
    for apart, any_order in [*spaces, *((apart, False) for apart in range(max(axes, 1), 0, -1))]:
        all_of_them = _strategies(clusters, cluster, classes, mesh, apart, any_order=any_order)
        options = list(itertools.islice(all_of_them, MOST_STRATEGIES + 1))
        if len(options) <= MOST_STRATEGIES:
            break
    return options


def _strategies(
    clusters: Clusters, cluster: Cluster, classes: Sequence[int], mesh: Mesh, apart: int, *, any_order: bool
) -> Iterator[Strategy]:
    """The strategies in which at most `apart` groups of adjacent axes are used separately."""
    local = {number: local for local, number in enumerate(classes)}
    partial = {local[number] for number in partial_classes(clusters, cluster.lead)}
    shown = {local[c] for c in clusters.result_dims(cluster.lead) if c is not None}
    for assignment in _assignments(clusters, classes, mesh, apart, any_order=any_order):
        combined = [axis for number, axes in assignment for axis in axes if number in partial]
        kept = {number: axes for number, axes in assignment if number not in partial}
        if not combined:
            yield Strategy(assignment, assignment)
            continue
        for target in (None, *sorted(shown)):
            after = dict(kept)
            if target is not None:
                after[target] = (*after.get(target, ()), *combined)
            if all(fits(clusters, classes[number], mesh.count(axes)) for number, axes in after.items()):
                yield Strategy(assignment, tuple(sorted(after.items())))


def partial_classes(clusters: Clusters, node: Node) -> set[int]:
    """The classes over which a node's result is partial when they are split."""
    axis_map = clusters.maps.get(node)
    if axis_map is None:
        return set()
    shown = {f for dimension in axis_map.results[0] for f in dimension}
    kinds = (FactorKind.CONTRACTED, FactorKind.REDUCED, FactorKind.INDEXED)
    own = clusters.factor_classes[node]
    return {
        clusters.class_of(number)
        for factor, number in enumerate(own)
        if number is not None and factor not in shown and axis_map.factors[factor].kind in kinds
    }


def fits(clusters: Clusters, number: int, count: int) -> bool:
    """Whether a class can be split into this many parts: evenly, or with parts large compared with the padding."""
    sizes = clusters.sizes(number)
    if all(size % count == 0 for size in sizes):
        return True
    return len(sizes) == 1 and min(sizes) >= UNEVEN_SHARE * count


def is_contraction(node: Node) -> bool:
    """Whether a node's work is counted in FLOPs."""
    return node.has_trait(Trait.CONTRACTS)


def _assignments(
    clusters: Clusters, classes: Sequence[int], mesh: Mesh, apart: int, *, any_order: bool
) -> Iterator[ClassAxes]:
    """Every way to give each axis to a class or to none, the axes of one class in the mesh's order or in any."""
    names = [name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1]
    for choice in _choices([None, *range(len(classes))], len(names), apart):
        groups: dict[int, list[str]] = {}
        for name, number in zip(names, choice, strict=True):
            if number is not None:
                groups.setdefault(number, []).append(name)
        if all(fits(clusters, classes[number], math.prod(map(mesh.size, axes))) for number, axes in groups.items()):
            numbers = sorted(groups)
            orders = [itertools.permutations(groups[number]) if any_order else [groups[number]] for number in numbers]
            for ordered in itertools.product(*orders):
                yield tuple(zip(numbers, map(tuple, ordered), strict=True))


def _choices(classes: Sequence[int | None], count: int, apart: int) -> Iterator[tuple[int | None, ...]]:
    """A class, or None, for each of so many axes; at most so many groups of neighbouring axes have different ones."""
    if apart >= count:
        yield from itertools.product(classes, repeat=count)
        return
    for groups in range(1, apart + 1):
        for cuts in itertools.combinations(range(1, count), groups - 1):
            lengths = [end - start for start, end in itertools.pairwise((0, *cuts, count))]
            for choice in itertools.product(classes, repeat=groups):
                if all(a != b for a, b in itertools.pairwise(choice)):
                    repeated = zip(choice, lengths, strict=True)
                    yield tuple(number for number, length in repeated for _ in range(length))
