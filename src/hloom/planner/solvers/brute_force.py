"""Exhaustive search: what the other planners must agree with wherever it can be afforded."""

from __future__ import annotations

import math

import numpy as np

from hloom.planner.solvers.cost_graph import CostGraph
from hloom.text import Unsupported

MOST = 1 << 22
"""How many choices are looked at."""


def brute_force(graph: CostGraph, budget: np.ndarray | float | None = None) -> tuple[int, ...] | None:
    """The fastest choice of strategies within a budget of bytes; None where there is none.

    Of equally fast choices the first. Raises Unsupported beyond some millions of choices.

    >>> from hloom.planner.solvers.cost_graph import cost_edge, cost_node
    >>> nodes = (cost_node("a", [3, 1], [1, 9]), cost_node("b", [0, 5], [2, 2]))
    >>> graph = CostGraph(nodes, (cost_edge(0, 1, [[0, 9], [1, 0]]),))
    >>> brute_force(graph), brute_force(graph, 5), brute_force(graph, 2)
    ((1, 0), (0, 0), None)
    """
    sizes = graph.sizes
    if math.prod(sizes) > MOST:
        raise Unsupported(f"{math.prod(sizes):,} choices are too many to look at each", hint="use `dp` or `ilp`")
    time = np.zeros(sizes)
    memory = np.zeros((*sizes, graph.peaks))
    rank = len(sizes)
    for number, node in enumerate(graph.nodes):
        time += node.time.reshape(_shape(sizes, number))
        memory += node.memory.reshape(*_shape(sizes, number), graph.peaks)
    for edge in graph.edges:
        shape = _shape(sizes, edge.source, edge.target)
        swap = edge.source > edge.target
        time += (edge.time.T if swap else edge.time).reshape(shape)
        if edge.memory is not None:
            memory += (edge.memory.swapaxes(0, 1) if swap else edge.memory).reshape(*shape, graph.peaks)
    if budget is not None:
        time = np.where((memory <= budget).all(axis=rank), time, np.inf)
    best = int(np.argmin(time))
    if not np.isfinite(time.flat[best]):
        return None
    return tuple(int(each) for each in np.unravel_index(best, sizes))


def _shape(sizes: tuple[int, ...], *axes: int) -> tuple[int, ...]:
    return tuple(size if axis in axes else 1 for axis, size in enumerate(sizes))
