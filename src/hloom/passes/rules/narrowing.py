"""Computations with fewer parameters: what is left of one when some of its operands go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hloom.ir import Graph, Node
from hloom.rewrite import Builder


def reach(outputs: Iterable[Node]) -> set[Node]:
    """All that the nodes of one graph are computed from, themselves included."""
    found: set[Node] = set()
    pending = list(outputs)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(node.inputs)
    return found


def narrowed(build: Builder, graph: Graph, parameters: Sequence[int], output: Node) -> Graph | None:
    """A new computation of some of the parameters, in order, that yields a node of the old one.

    None where that node needs others too. Taken out again by the builder where nothing calls it.
    """
    kept = [graph.parameters[number] for number in parameters]
    needed = reach([output])
    if any(parameter in needed and parameter not in kept for parameter in graph.parameters):
        return None
    module = graph.module
    fresh = module.add_graph(graph.name)
    module.graphs.remove(fresh)  # a computation stands before those that call it
    module.graphs.insert(module.graphs.index(build.graph), fresh)
    build.made_graphs.append(fresh)
    mapping: dict[Any, Any] = {}
    fresh.copy_nodes(kept, mapping)
    fresh.copy_nodes([node for node in graph.nodes if node in needed], mapping)
    fresh.set_output(mapping[output])
    return fresh
