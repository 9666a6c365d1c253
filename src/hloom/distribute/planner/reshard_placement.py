"""Moves reshards to where the partitioner emits only the reshard: to an elementwise op or a transpose rather than a
dot.

If an operand does not have the sharding a dot needs, the partitioner may all-gather the other operand instead. If all
readers of a value require the same other spec, the value itself gets it, and the reshard moves to its operands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from hloom.distribute.planner.problem import Problem
from hloom.ir import Node
from hloom.sharding import Spec


def hoist_reshards(problem: Problem, choice: dict[int, int]) -> dict[Node, Spec]:
    """The specs of a choice, with reshards moved to the instructions that make the values."""
    specs = problem.specs(choice)
    names = defaultdict(list)
    for name, value in problem.clusters.dataflow.aliases.items():
        names[value].append(name)
    for node in reversed(problem.clusters.dataflow.nodes):
        cluster = problem.clusters.of(node)
        if cluster is None or node is cluster.lead or node not in problem.clusters.maps or node not in specs:
            continue
        values = _names_of(node, names)
        wanted = _wanted(problem, choice, values)
        if wanted is not None and wanted != specs[node] and _is_plain(problem, node):
            specs |= {value: wanted for value in values if value in specs}
    return specs


def _names_of(node: Node, names: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """A value and all its further names."""
    values = [node]
    for value in values:
        values += names.get(value, ())
    return values


def _wanted(problem: Problem, choice: dict[int, int], values: Sequence[Node]) -> Spec | None:
    """The one spec that all readers of a value's names ask for; None where they differ."""
    specs: set[Spec] = set()
    for read in (read for value in values for read in problem.reads.get(value, ())):
        cluster = problem.reading_cluster(read)
        if cluster is None:
            return None
        specs.add(problem.wanted_spec(read, choice))
    return next(iter(specs)) if len(specs) == 1 else None


def _is_plain(problem: Problem, node: Node) -> bool:
    """Whether a change costs the same before the node: one operand of its size counts, the rest is free."""
    large = [
        operand for operand in node.operands if problem.clusters.of(operand) is not None and operand.element_count > 1
    ]
    return len(large) == 1 and large[0].element_count == node.element_count and not _is_reduction(problem, node)


def _is_reduction(problem: Problem, node: Node) -> bool:
    return node.opcode in ("reduce", "reduce-window", "slice", "pad", "concatenate", "dynamic-slice")
