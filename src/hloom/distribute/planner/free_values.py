"""Iotas and broadcasts of scalars that are read in several specs.

XLA's partitioner recomputes a broadcast of a scalar in each sharding it is needed in. It reshards an iota, so each
further spec gets its own iota. It partitions a scatter like its operand, so a broadcast that a scatter writes into is
annotated with the scatter's spec (PartitionedHlo::ReshardNoCache in spmd_partitioner.cc, PartitionScatter in
gather_scatter_handler.cc, xla/service/spmd/). Otherwise readers of a value that propagation has split for another
reader would pay for collectives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from hloom.distribute.planner.duplicates import ENTRY, Duplicate, clone_name
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.spec_tables import spec_of_operand
from hloom.ir import Node
from hloom.sharding import Spec


def free_duplicates(problem: Problem, specs: Mapping[Node, Spec]) -> Iterator[tuple[Duplicate, Spec]]:
    """A clone of an iota, and its spec, for each further spec in which it is read."""
    names = {node.name for graph in problem.module.graphs for node in graph.nodes}
    entry, clusters = problem.module.entry, problem.clusters
    for node in clusters.dataflow.nodes:
        if node not in clusters.free or node.opcode != "iota":
            continue
        by_spec = _reads(problem, specs, node)
        kept = max(by_spec, key=lambda spec: len(by_spec[spec]), default=None)
        where = ENTRY if node.graph is entry else node.graph.name
        for spec, reads in by_spec.items():
            if spec != kept:
                clone = ((node.name, clone_name(node.name, names)),)
                yield Duplicate(where, clone, tuple((reader.name, index) for reader, index in reads)), spec


def scatter_marks(problem: Problem, specs: Mapping[Node, Spec]) -> dict[tuple[Node, int], Spec]:
    """The broadcasts into which scatters write and that others read in other specs, with the scatters' specs."""
    marks: dict[tuple[Node, int], Spec] = {}
    for node in problem.clusters.dataflow.nodes:
        if node.opcode != "scatter" or node not in specs or node.operands[0].opcode != "broadcast":
            continue
        value = node.operands[0]
        by_spec = _reads(problem, specs, value) if value in problem.clusters.free else {}
        spec = next((spec for spec, reads in by_spec.items() if (node, 0) in reads), None)
        if len(by_spec) > 1 and spec is not None:
            marks[node, 0] = spec
    return marks


def spec_of_free(problem: Problem, specs: Mapping[Node, Spec], node: Node) -> Spec | None:
    """The spec that the first reader of a free value requires; None where none is known to."""
    return next(iter(_reads(problem, specs, node)), None)


def _reads(problem: Problem, specs: Mapping[Node, Spec], node: Node) -> dict[Spec, list[tuple[Node, int]]]:
    """The reads of a value in its computation, by the spec that is required."""
    maps = problem.clusters.maps
    by_spec: dict[Spec, list[tuple[Node, int]]] = defaultdict(list)
    for user in dict.fromkeys(node.users):
        if user in specs and user in maps and user.graph is node.graph:
            for operand_index, operand in enumerate(user.operands):
                if operand is node:
                    by_spec[spec_of_operand(maps[user], operand_index, specs[user])].append((user, operand_index))
    return dict(by_spec)
