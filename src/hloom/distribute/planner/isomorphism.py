"""Isomorphic clusters with isomorphic surroundings: repeated layers, and the parameters of one family.

Clusters get colours that are refined by those of their neighbours (Weisfeiler and Leman, "The reduction of a graph to
canonical form", 1968); those of one colour count as isomorphic.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from hloom.distribute.planner.clusters import Cluster, Clusters
from hloom.distribute.planner.spec_tables import SpecTables
from hloom.ir import Node, without_layout

RADIUS = 1
"""Rounds of refinement, so the distance up to which neighbours must be isomorphic; parameters get one more, so that
weights of one shape are distinguished."""


def representatives(clusters: Clusters, spec_tables: SpecTables, radius: int = RADIUS) -> dict[int, int]:
    """For each cluster, the first one isomorphic to it."""
    looks = {cluster.number: hash(_look(clusters, spec_tables, cluster)) for cluster in clusters}
    members = [node for cluster in clusters for node in cluster.members]
    shapes = {node: hash((node.opcode, str(node.type and without_layout(node.type)))) for node in members}
    near = _near(clusters, shapes)
    for _ in range(radius):
        looks = _finer(looks, near, set(looks))
    given = {cluster.number for cluster in clusters if clusters.is_given(cluster.lead)}
    for _ in range(2 if clusters.dataflow.phis else 1):
        looks = _finer(looks, near, given)
    first: dict[int, int] = {}
    return {number: first.setdefault(look, number) for number, look in looks.items()}


def _finer(looks: dict[int, int], near: dict[int, list[tuple[tuple, int]]], which: set[int]) -> dict[int, int]:
    """Looks that take the neighbours' looks in, for some clusters."""
    refined = dict(looks)
    for number in which:
        around = Counter((*key, looks[other]) for key, other in near[number])
        refined[number] = hash((looks[number], tuple(sorted(around.items()))))
    return refined


def _look(clusters: Clusters, spec_tables: SpecTables, cluster: Cluster) -> tuple:
    """What a cluster is by itself: its members' ops, types and classes, the lead apart; whether it is in a region."""
    members = Counter(_member(clusters, spec_tables, cluster, node) for node in cluster.members)
    lead = _member(clusters, spec_tables, cluster, cluster.lead)
    return lead, tuple(sorted(members.items(), key=str)), cluster.region > 0


def _member(clusters: Clusters, spec_tables: SpecTables, cluster: Cluster, node: Node) -> tuple:
    own = clusters.factor_classes.get(node, ())
    known = spec_tables.local(cluster, tuple(None if number is None else clusters.class_of(number) for number in own))
    times = clusters.dataflow.times[node.graph]
    return node.opcode, times, str(node.type and without_layout(node.type)), str(clusters.maps.get(node)), known


def _near(clusters: Clusters, shapes: dict[Node, int]) -> dict[int, list[tuple[tuple, int]]]:
    """The clusters that each one reads and is read by, with the values between them."""
    near: dict[int, list[tuple[tuple, int]]] = defaultdict(list)
    for cluster in clusters:
        for node in cluster.members:
            for operand_index, operand in enumerate(node.operands):
                other = clusters.of(operand)
                if other is None or other is cluster or node.opcode == "tuple":
                    continue
                key = (shapes[operand], shapes[node], operand_index)
                near[cluster.number].append((("reads", *key), other.number))
                near[other.number].append((("is read", *key), cluster.number))
    for source in clusters.dataflow.phi_inputs:
        giver, taker = clusters.of(source.value), clusters.of(source.phi)
        if giver is not None and taker is not None and giver is not taker:
            near[giver.number].append((("passes to", hash(str(source.value.type))), taker.number))
            near[taker.number].append((("is passed", hash(str(source.value.type))), giver.number))
    return near
